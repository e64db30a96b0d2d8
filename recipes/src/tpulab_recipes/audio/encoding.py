"""Sound with its text (`audio.sources`) to codes, once: `encoded_audio/NAME.pt`, Int16[frame, channel],
beside the texts."""

from __future__ import annotations

import numpy as np
import torch

from tpulab_recipes.audio import files
from tpulab_recipes.audio.codec import Codec
from tpulab_recipes.audio.sources import PROMPT, Skipped, Source, sources
from tpulab_recipes.common.errors import DataError, StorageError
from tpulab_recipes.common.progress import Progress, Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.runtime import Backend

#: Clips that are encoded at once.
_TOGETHER = 4


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
    if channels not in (codec.codebooks, 2 * codec.codebooks):
        raise DataError(
            f"{channels} channels are neither {codec.codebooks} codebooks of one side nor those of two."
        )
    skipped, progress, sides = Skipped(), progress or Silent(), channels // codec.codebooks
    codes, prompts = Folder(f"{output}/encoded_audio").make(), Folder(f"{output}/audio_prompts").make()
    there = set(codes.names(".pt", may_be_absent=True))
    todo = [each for each in sources(place, skipped) if f"{each.name}.pt" not in there]
    codec.to(backend.device())
    progress.start("encoding", len(todo))
    done = 0
    for first in range(0, len(todo), _TOGETHER):
        batch = todo[first : first + _TOGETHER]
        waves = np.zeros((_TOGETHER, sides, frames * codec.hop), np.float32)
        lengths: list[tuple[Source, int]] = []
        for each in batch:
            try:
                with each.open() as file:
                    wave = files.load(file, codec.sample_rate, channels=sides).reshape(sides, -1)
                length = codec.frames(wave.shape[1])
                if length > frames:
                    seconds, most = wave.shape[1] / codec.sample_rate, frames * codec.hop / codec.sample_rate
                    raise DataError(
                        f"it lasts {seconds:.1f} s, and {most:.1f} s fit the window (audio_length)"
                    )
                waves[len(lengths), :, : wave.shape[1]] = wave
                lengths.append((each, length))
            except (DataError, StorageError) as error:
                skipped.add(f"{each.name}: {error}")
        if lengths:
            with backend.step():
                found = codec.encode(backend.to_device(waves.reshape(_TOGETHER * sides, -1)))
            table = torch.as_tensor(backend.to_host(found)).reshape(_TOGETHER, channels, frames)
            for own, (each, length) in zip(table, lengths, strict=False):
                with prompts.write(each.name + PROMPT) as prompt:
                    prompt.write(each.text.encode())
                with codes.write(f"{each.name}.pt") as file:
                    torch.save(own[:, :length].T.to(torch.int16).contiguous(), file)
        done += len(lengths)
        progress.advance(len(batch))
    progress.finish()
    return done, skipped
