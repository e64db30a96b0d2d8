"""Clips of text and codes, in batches of one shape.

A folder, here or in a bucket, has `audio/NAME.wav` and `audio_prompts/NAME_prompt.txt`. `encode` writes the
codes of each clip once as `encoded_audio/NAME.pt`, Int16[frame, channel]; training reads only those and the
texts. A dataset of Hugging Face with the columns `audio` and `text` is encoded into such a folder.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.audio import files
from tpulab_recipes.audio.codec import Codec
from tpulab_recipes.common.errors import DataError, StorageError
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.delay import IGNORED, Layout, training_table
from tpulab_recipes.runtime import Backend

_SOUNDS = (".wav", ".flac", ".ogg", ".mp3")
_PROMPT = "_prompt.txt"
#: Clips that are encoded at once.
_TOGETHER = 4


@dataclass(frozen=True)
class Clip:
    name: str
    text: NDArray[np.int32]
    """Int32[byte]: ids of the text."""
    codes: NDArray[np.int16]
    """Int16[frame, channel], not delayed."""


@dataclass
class Skipped:
    """Files that were left out, each with its reason, printed once."""

    reasons: list[str] = field(default_factory=list)

    def add(self, reason: str) -> None:
        self.reasons.append(reason)
        print(f"left out: {reason}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Source:
    """A clip before it is encoded."""

    name: str
    text: str
    open: Callable[[], Any]
    """A context manager of the open sound file."""


def sources(place: str, skipped: Skipped) -> list[Source]:
    """The clips of a folder, or of a dataset of Hugging Face: `hf://NAME`, its split `train`, or a folder
    that `save_to_disk` wrote. Sound without text is left out. Raises `DataError` where there are none."""
    if place.startswith("hf://") or Folder(place).exists("dataset_info.json"):
        return _dataset_sources(place)
    audio, prompts = Folder(f"{place}/audio"), Folder(f"{place}/audio_prompts")
    texts = set(prompts.names(_PROMPT, may_be_absent=True))
    found = []
    for file in (each for each in audio.names() if each.lower().endswith(_SOUNDS)):
        name = file.rsplit(".", 1)[0]
        if name + _PROMPT not in texts:
            skipped.add(f"audio/{file} has no audio_prompts/{name}{_PROMPT}.")
            continue
        with prompts.read(name + _PROMPT) as prompt:
            text = prompt.read().decode("utf-8", "replace").strip()
        found.append(Source(name, text, partial(audio.read, file)))
    if not found:
        raise DataError(f"{place} has no clips: put audio/NAME.wav beside audio_prompts/NAME{_PROMPT}.")
    return found


def _dataset_sources(place: str) -> list[Source]:
    import datasets

    name = place.removeprefix("hf://")
    try:
        table = (
            datasets.load_dataset(name, split="train") if name != place else datasets.load_from_disk(place)
        )
        rows = table.cast_column("audio", datasets.Audio(decode=False))
        texts = rows["text"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{place} is no dataset with the columns audio and text: {error}") from error

    def opened(number: int) -> IO[bytes]:
        sound = rows[number]["audio"]
        return io.BytesIO(sound["bytes"]) if sound["bytes"] else open(sound["path"], "rb")

    return [Source(f"clip_{number:06d}", text, partial(opened, number)) for number, text in enumerate(texts)]


def encode(
    place: str,
    output: str,
    codec: Codec,
    backend: Backend,
    *,
    frames: int,
    channels: int = 9,
    progress: Progress | None = None,
) -> tuple[int, Skipped]:
    """Encodes what `output` does not have yet, and answers how many clips that were, and what was left out.

    Every batch has one shape: clips are followed by silence up to `frames`, which is cut off their codes.
    `channels` of twice the codec's codebooks: left and right, one after the other. Clips that are longer or
    cannot be read are left out; run again to go on after an interruption.
    """
    skipped, progress = Skipped(), progress or Silent()
    codes, prompts = Folder(f"{output}/encoded_audio").make(), Folder(f"{output}/audio_prompts").make()
    sides = _sides(codec, channels)
    there = set(codes.names(".pt", may_be_absent=True))
    todo = [each for each in sources(place, skipped) if f"{each.name}.pt" not in there]
    codec.to(backend.device())
    progress.start("encoding", len(todo))
    done = 0
    for first in range(0, len(todo), _TOGETHER):
        batch = todo[first : first + _TOGETHER]
        waves = []
        for each in batch:
            try:
                with each.open() as file:
                    wave = files.load(file, codec.sample_rate, channels=sides).reshape(sides, -1)
                if codec.frames(wave.shape[1]) > frames:
                    seconds, most = wave.shape[1] / codec.sample_rate, frames * codec.hop / codec.sample_rate
                    raise DataError(
                        f"it lasts {seconds:.1f} s, and {most:.1f} s fit the window (audio_length)"
                    )
                waves.append((each, wave))
            except (DataError, StorageError) as error:
                skipped.add(f"{each.name}: {error}")
        rows = np.zeros((_TOGETHER * sides, frames * codec.hop), np.float32)
        for place_in, (_, wave) in enumerate(waves):
            rows[place_in * sides : (place_in + 1) * sides, : wave.shape[1]] = wave
        if waves:
            with backend.step():
                found = codec.encode(backend.to_device(rows))
            table = np.asarray(backend.to_host(found)).reshape(_TOGETHER, channels, frames)
        for place_in, (each, wave) in enumerate(waves):
            own = table[place_in, :, : codec.frames(wave.shape[1])].T.astype(np.int16)
            with prompts.write(each.name + _PROMPT) as prompt:
                prompt.write(each.text.encode())
            with codes.write(f"{each.name}.pt") as file:
                torch.save(torch.from_numpy(own.copy()), file)
        done += len(waves)
        progress.advance(len(batch))
    progress.finish()
    return done, skipped


def _sides(codec: Codec, channels: int) -> int:
    if channels not in (codec.codebooks, 2 * codec.codebooks):
        raise DataError(
            f"{channels} channels are neither {codec.codebooks} codebooks of one side nor those of two."
        )
    return channels // codec.codebooks


def read_clips(
    place: str, config: Config, layout: Layout, tokenize: Callable[[str], Sequence[int]]
) -> tuple[list[Clip], Skipped]:
    """The encoded clips of a folder in the order of their names. Those that do not fit the lengths are left
    out: half a text, or a clip without its end, would be learnt wrongly. Raises `DataError` without any."""
    skipped, clips = Skipped(), []
    folder, prompts = Folder(f"{place}/encoded_audio"), Folder(f"{place}/audio_prompts")
    try:
        names = folder.names(".pt")
    except StorageError as error:
        raise DataError(f"{place} is not encoded yet ({error}) Run the command encode first.") from error
    most = config.audio_length - layout.overhead
    for file in names:
        name = file.removesuffix(".pt")
        try:
            with prompts.read(name + _PROMPT) as prompt:
                text = np.asarray(tokenize(prompt.read().decode("utf-8", "replace").strip()), np.int32)
            with folder.read(file) as stored:
                codes = torch.load(stored, map_location="cpu", weights_only=True).numpy().astype(np.int16)
        except StorageError as error:
            skipped.add(str(error))
            continue
        except Exception as error:  # torch.load has no common class for files that are torn.
            skipped.add(f"{file} cannot be read as codes ({type(error).__name__}); encode it again.")
            continue
        if codes.ndim != 2 or codes.shape[1] != len(layout.delay):
            raise DataError(
                f"{file} has the shape {codes.shape}; the model has {len(layout.delay)} channels."
            )
        if not 0 < len(text) <= config.text_length:
            skipped.add(f"{name}: a text of {len(text)} bytes (from 1 to {config.text_length} fit).")
        elif len(codes) > most:
            skipped.add(f"{name}: {len(codes)} frames (at most {most} fit).")
        else:
            clips.append(Clip(name, text, codes))
    if not clips:
        raise DataError(f"{place} has no clips to train on ({len(skipped.reasons)} were left out).")
    return clips, skipped


def is_unconditional(number: int, config: Config) -> bool:
    """Whether the clip of that number, counted from the start of training, is trained without its text. It
    depends on nothing else, so that replicas and resumed runs agree."""
    return (number * 997 + config.seed) % 10_000 / 1e4 < config.unconditional_frac


def rows(
    clips: Sequence[Clip | None], config: Config, layout: Layout, *, first: int | None = None
) -> dict[str, NDArray[Any]]:
    """A batch: `input_ids` and `attention_mask`, Int32[clip, text_length]; `decoder_input_ids` and `labels`,
    Int32[clip, audio_length, channel]. None is a row that only fills up. `first`: the number of the first
    clip, for the text dropout; None: no dropout. An unconditional text is all zeros under the mask of the
    text that it replaces, as in the original."""
    count, channels = len(clips), len(layout.delay)
    text = np.zeros((count, config.text_length), np.int32)
    mask = np.zeros_like(text)
    inputs = np.full((count, config.audio_length, channels), layout.pad, np.int32)
    labels = np.full_like(inputs, IGNORED)
    for place, clip in enumerate(clips):
        if clip is None:
            mask[place, 0] = 1  # attention always has a key to look at
            continue
        mask[place, : len(clip.text)] = 1
        if first is None or not is_unconditional(first + place, config):
            text[place, : len(clip.text)] = clip.text
        inputs[place], labels[place] = training_table(clip.codes, layout, config.audio_length)
    return {"input_ids": text, "attention_mask": mask, "decoder_input_ids": inputs, "labels": labels}


def steps_per_epoch(clips: Sequence[Clip], config: Config) -> int:
    """Raises `DataError` when there is not one whole batch."""
    if len(clips) < config.batch_size:
        raise DataError(
            f"{len(clips)} clips are less than one batch of {config.batch_size}; make it smaller."
        )
    return len(clips) // config.batch_size


def train_batches(
    clips: Sequence[Clip], config: Config, layout: Layout, start: int = 0
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """All batches from number `start` to the end of the last epoch, in an order of the seed and the epoch."""
    size, in_epoch = config.batch_size, steps_per_epoch(clips, config)
    for number in range(start, config.epochs * in_epoch):
        epoch, place = divmod(number, in_epoch)
        order = np.random.default_rng([config.seed, epoch]).permutation(len(clips))
        chosen = [clips[each] for each in order[place * size : (place + 1) * size]]
        yield rows(chosen, config, layout, first=number * size)


def eval_batches(
    clips: Sequence[Clip], config: Config, layout: Layout
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Every clip once, with its text; the last batch is filled up with rows that do not count."""
    size = config.batch_size
    for first in range(0, len(clips), size):
        chosen: list[Clip | None] = list(clips[first : first + size])
        yield rows(chosen + [None] * (size - len(chosen)), config, layout)
