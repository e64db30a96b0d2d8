"""Sound with its text (`audio.sources`) to codes, once: `encoded_audio/NAME.pt`, Int16[frame, channel],
beside the texts. The inputs are never changed."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import numpy as np
import torch

from tpulab_recipes.audio import files
from tpulab_recipes.audio.codec import Codec
from tpulab_recipes.audio.sources import PROMPT, Source, sources
from tpulab_recipes.common.errors import CheckpointError, DataError, StorageError
from tpulab_recipes.common.preparation import Ledger, Skipped, digest, same_file, stamp
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training.tensor_files import read_tensors

#: Clips that are encoded at once.
_TOGETHER = 4
#: Of a clip.
_MIN_SECONDS = 0.05
KNOWN_TAG = re.compile(r"\[S[12]\]")


def encode(
    place: str,
    output: str,
    codec: Codec,
    backend: Backend,
    *,
    frames: int,
    channels: int = 9,
    text_length: int = 0,
    progress: Progress | None = None,
) -> tuple[int, Skipped]:
    """Encodes what `output` does not have yet, and returns how many clips that were, and what was left out.

    Every batch has one shape: clips are followed by silence up to `frames`, which is cut off their codes.
    `channels` of twice the codec's codebooks: left and right, one after the other. Clips that are longer,
    cannot be read, or have no text or one of more than `text_length` bytes (0: any) are left out. A clip is
    encoded again if its sound, the codec or the channels have changed, or if its file of codes is damaged.
    """
    if channels not in (codec.codebooks, 2 * codec.codebooks):
        raise DataError(
            f"{channels} channels are neither {codec.codebooks} codebooks of one side nor those of two."
        )
    skipped, progress, sides = Skipped(), progress or Silent(), channels // codec.codebooks
    codes = Folder(f"{output}/encoded_audio").make()
    found = [each for each in sources(place, skipped) if _usable(each, text_length, skipped)]
    ledger, there = Ledger(codes), set(codes.names(".pt", may_be_absent=True))
    made_by = digest(codec.fingerprint(), str(channels))
    if not Folder(place).same_as(output):
        _copy_texts(found, Folder(f"{output}/audio_prompts").make())
    todo = [each for each in found if _is_missing(each, codes, there, ledger.row(each.name), made_by)]
    codec.to(backend.device())
    progress.start("encoding", len(todo))
    done = 0
    for first in range(0, len(todo), _TOGETHER):
        batch = todo[first : first + _TOGETHER]
        waves = np.zeros((_TOGETHER, sides, frames * codec.hop), np.float32)
        read: list[tuple[Source, int, dict[str, Any]]] = []
        for each in batch:
            try:
                with each.open() as file:
                    data = file.read()
                made_of: dict[str, Any] = {"sound": digest(data), "by": made_by}
                if each.path is not None:
                    made_of["stamp"] = stamp(each.path)
                wave = files.load(io.BytesIO(data), codec.sample_rate, channels=sides, shown=each.shown)
                wave = wave.reshape(sides, -1)
                if wave.shape[1] < _MIN_SECONDS * codec.sample_rate:
                    raise DataError(
                        f"it lasts {wave.shape[1] / codec.sample_rate:.4f} s, too short to say it"
                    )
                length = codec.frames(wave.shape[1])
                if length > frames:
                    seconds, most = wave.shape[1] / codec.sample_rate, frames * codec.hop / codec.sample_rate
                    raise DataError(
                        f"it lasts {seconds:.1f} s, and {most:.1f} s fit the window (audio_length)"
                    )
                waves[len(read), :, : wave.shape[1]] = wave
                read.append((each, length, made_of))
            except (DataError, StorageError) as error:
                skipped.add(f"{each.name}: {error}")
                codes.remove(f"{each.name}.pt")
        if read:
            with backend.step():
                encoded = codec.encode(backend.to_device(waves.reshape(_TOGETHER * sides, -1)))
            table = torch.as_tensor(backend.to_host(encoded)).reshape(_TOGETHER, channels, frames)
            for own, (each, length, made_of) in zip(table, read, strict=False):
                name = f"{each.name}.pt"
                ledger.begin(each.name, [(codes, name)], **made_of)
                with codes.write(name) as file:
                    torch.save(own[:, :length].T.to(torch.int16).contiguous(), file)
        done += len(read)
        progress.advance(len(batch))
    progress.finish()
    return done, skipped


def _usable(each: Source, text_length: int, skipped: Skipped) -> bool:
    """Whether the text can be trained on; prints anything unusual about it."""
    size = len(KNOWN_TAG.sub("-", each.text).encode())
    if not size or (text_length and size > text_length):
        most = f"from 1 to {text_length} fit" if text_length else "at least 1 is needed"
        skipped.add(f"{each.name}: a text of {size} bytes ({most}).")
        return False
    odd = re.findall(r"\[[sS]\d+\]|<pad>", KNOWN_TAG.sub("", each.text))
    if not any(map(str.isalnum, KNOWN_TAG.sub("", each.text))):
        skipped.add(f"{each.name}: its text has no letter or digit to say.")
        return False
    if "\0" in each.text:  # of a dataset
        skipped.add(f"{each.name}: its text has a NUL character.")
        return False
    if odd:
        print(
            f"note: {each.name}: {odd[0]} is read as plain letters; speakers are [S1] and [S2].",
            file=sys.stderr,
        )
    if not KNOWN_TAG.match(each.text):
        print(f"note: {each.name}: its text does not begin with a speaker, [S1] or [S2].", file=sys.stderr)
    return True


def _is_missing(
    each: Source, codes: Folder, there: set[str], row: dict[str, Any] | None, made_by: str
) -> bool:
    """Whether a clip must be encoded. Codes without a row come from another program and stay unchanged."""
    name = f"{each.name}.pt"
    if name not in there:
        return True
    try:
        with codes.read(name) as file:
            read_tensors(file, name)
    except (CheckpointError, StorageError) as error:
        print(f"encoding again: {error}", file=sys.stderr, flush=True)
        return True
    if row is None:
        return False
    changed = row["by"] != made_by or (each.path is not None and not same_file(row, each.path))
    if changed:
        print(f"encoding again: {each.name} or the codec has changed.", file=sys.stderr, flush=True)
    return changed


def _copy_texts(found: list[Source], prompts: Folder) -> None:
    for each in found:
        name, text = each.name + PROMPT, each.text.encode()
        if prompts.exists(name):
            with prompts.read(name) as file:
                if file.read() == text:
                    continue
        prompts.put(name, text)
