"""Sound and its text: a folder, here or in a bucket, or a dataset of Hugging Face.

A folder has `audio/NAME.wav` and `audio_prompts/NAME_prompt.txt`; a dataset has the columns `audio` and
`text`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.storage import Folder

PROMPT = "_prompt.txt"
_SOUNDS = (".wav", ".flac", ".ogg", ".mp3")


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
    texts = set(prompts.names(PROMPT, may_be_absent=True))
    found = []
    for file in (each for each in audio.names() if each.lower().endswith(_SOUNDS)):
        name = file.rsplit(".", 1)[0]
        if name + PROMPT not in texts:
            skipped.add(f"audio/{file} has no audio_prompts/{name}{PROMPT}.")
            continue
        with prompts.read(name + PROMPT) as prompt:
            text = prompt.read().decode("utf-8", "replace").strip()
        found.append(Source(name, text, partial(audio.read, file)))
    if not found:
        raise DataError(f"{place} has no clips: put audio/NAME.wav beside audio_prompts/NAME{PROMPT}.")
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
