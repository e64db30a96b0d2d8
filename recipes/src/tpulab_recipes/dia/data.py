"""Clips of text and codes, in batches of one shape.

`encode` (`audio.encoding`) turns sound with its text once into `encoded_audio/NAME.pt`, Int16[frame,
channel]; training reads only those and the texts.

The model sees tables with the delay pattern: channel c of frame t stands in row t + delay[c], so that each
step of the decoder predicts nine codebooks of nine different frames. Training tables are transformers'
(`DiaProcessor`): a BOS frame, the codes, an EOS frame, delayed and long enough that no code is cut off. PAD
and BOS are no targets. One difference: shorter clips are padded on the right, where causal attention never
looks, so that the padded length changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.audio.encoding import encode as encode
from tpulab_recipes.audio.sources import read_prompts
from tpulab_recipes.common.errors import CheckpointError, DataError, StorageError
from tpulab_recipes.common.preparation import Skipped
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.dia.config import Config
from tpulab_recipes.torch_training.tensor_files import read_tensors

#: Positions with this label are not trained; torch's `ignore_index`.
IGNORED = -100


@dataclass(frozen=True)
class Layout:
    """Special ids and delays of a model."""

    delay: tuple[int, ...]
    eos: int
    pad: int
    bos: int

    #: `overhead` of all published checkpoints: the delays of mono and stereo end alike.
    published_overhead: ClassVar[int] = 16

    @staticmethod
    def of(config: Any) -> Layout:
        """That of a `DiaConfig`."""
        ids = config.decoder_config
        return Layout(tuple(config.delay_pattern), ids.eos_token_id, ids.pad_token_id, ids.bos_token_id)

    @property
    def overhead(self) -> int:
        """Rows of a table besides the rows of codes: the BOS frame and the longest delay."""
        return 1 + max(self.delay)


def delayed(codes: NDArray[Any], delay: Sequence[int], bos: int) -> NDArray[Any]:
    """Int[batch, row, channel]: row t has channel c of frame t - delay[c], BOS where there is none. Codes
    delayed past the end are lost: extend the codes by max(delay) first."""
    rows = np.arange(codes.shape[1])[:, None] - np.asarray(delay)
    moved = np.take_along_axis(codes, np.maximum(rows, 0)[None], axis=1)
    return np.where(rows < 0, bos, moved)


def reverted(table: NDArray[Any], delay: Sequence[int], pad: int) -> NDArray[Any]:
    """Int[batch, frame, channel]: frame t has channel c of row t + delay[c], PAD where there is none."""
    rows = np.arange(table.shape[1])[:, None] + np.asarray(delay)
    moved = np.take_along_axis(table, np.minimum(rows, table.shape[1] - 1)[None], axis=1)
    return np.where(rows >= table.shape[1], pad, moved)


def training_table(
    codes: NDArray[Any], layout: Layout, length: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Input and targets of the decoder, both Int32[length, channel], from Int[frame, channel].

    Raises `ValueError` when the clip does not fit: `length` rows hold `length - overhead` frames.
    """
    frames, channels = codes.shape
    if frames > length - layout.overhead:
        raise ValueError(f"{frames} frames do not fit {length} rows (at most {length - layout.overhead}).")
    table = np.full((1, length + 1, channels), layout.pad)
    table[0, 0] = layout.bos
    table[0, 1 : frames + 1] = codes
    table[0, frames + 1] = layout.eos
    table = delayed(table, layout.delay, layout.bos)[0].astype(np.int32)
    labels = table[1:].copy()
    labels[(labels == layout.pad) | (labels == layout.bos)] = IGNORED
    return table[:-1], labels


@dataclass(frozen=True)
class Clip:
    name: str
    text: NDArray[np.int32]
    """Int32[byte]: ids of the text."""
    codes: NDArray[np.int16]
    """Int16[frame, channel], not delayed."""


def read_clips(
    place: str, config: Config, layout: Layout, tokenize: Callable[[str], Sequence[int]]
) -> tuple[list[Clip], Skipped]:
    """The encoded clips of a folder in the order of their names. Those that do not fit the lengths are left
    out: half a text, or a clip without its end, would be learnt wrongly. Raises `DataError` without any."""
    skipped = Skipped()
    folder, prompts = Folder(f"{place}/encoded_audio"), Folder(f"{place}/audio_prompts")
    try:
        names = [name.removesuffix(".pt") for name in folder.names(".pt")]
    except StorageError as error:
        raise DataError(
            f"{place} holds no clips ({error}) Put audio/NAME.wav beside audio_prompts/NAME_prompt.txt "
            "there, then run encode or finetune."
        ) from error
    most = config.audio_length - layout.overhead

    def read(named: tuple[str, str]) -> Clip | str:
        name, written = named
        try:
            with folder.read(f"{name}.pt") as stored:
                codes = read_tensors(stored, f"{name}.pt").numpy().astype(np.int16)
        except (CheckpointError, StorageError, AttributeError) as error:
            return f"{name}.pt cannot be read as codes; encode it again ({error})"
        if codes.ndim != 2 or codes.shape[1] != len(layout.delay):
            raise DataError(
                f"{name}.pt has the shape {codes.shape}; the model has {len(layout.delay)} channels."
            )
        text = np.asarray(tokenize(written), np.int32)
        if not 0 < len(text) <= config.text_length:
            return f"{name}: a text of {len(text)} bytes (from 1 to {config.text_length} fit)."
        if len(codes) > most:
            return f"{name}: {len(codes)} frames (at most {most} fit)."
        return Clip(name, text, codes)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, read_prompts(prompts, names, skipped)))
    for reason in found:
        if isinstance(reason, str):
            skipped.add(reason)
    clips = [each for each in found if isinstance(each, Clip)]
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
    Int32[clip, audio_length, channel]. None is a padding row. `first`: the number of the first
    clip, for the text dropout; None: no dropout. An unconditional text is all zeros under the mask of the
    text that it replaces, as in the original."""
    count, channels = len(clips), len(layout.delay)
    text = np.zeros((count, config.text_length), np.int32)
    mask = np.zeros_like(text)
    inputs = np.full((count, config.audio_length, channels), layout.pad, np.int32)
    labels = np.full_like(inputs, IGNORED)
    for place, clip in enumerate(clips):
        if clip is None:
            mask[place, 0] = 1  # attention always has a key
            continue
        mask[place, : len(clip.text)] = 1
        if first is None or not is_unconditional(first + place, config):
            text[place, : len(clip.text)] = clip.text
        inputs[place], labels[place] = training_table(clip.codes, layout, config.audio_length)
    return {"input_ids": text, "attention_mask": mask, "decoder_input_ids": inputs, "labels": labels}


def steps_per_epoch(clips: Sequence[Clip], config: Config, held_out: int = 0) -> int:
    """Raises `DataError` when there is not one whole batch."""
    if len(clips) < config.batch_size:
        held = f" ({held_out} held out; --held-out 0 holds out none)" if held_out else ""
        raise DataError(
            f"{len(clips)} clips are less than one batch of {config.batch_size}{held}; add some, or make "
            "batch_size smaller."
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
    """Every clip once, with its text; the last batch is padded with rows that do not count."""
    size = config.batch_size
    for first in range(0, len(clips), size):
        chosen: list[Clip | None] = list(clips[first : first + size])
        yield rows(chosen + [None] * (size - len(chosen)), config, layout)
