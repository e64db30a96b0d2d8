"""Sound and its text: a folder, here or in a bucket, or a dataset of Hugging Face.

A folder has `audio/NAME.wav` and `audio_prompts/NAME_prompt.txt`; a dataset has the columns `audio` and
`text`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from tpulab_recipes.common.errors import DataError, StorageError
from tpulab_recipes.common.inputs import decoded
from tpulab_recipes.common.preparation import Skipped
from tpulab_recipes.common.storage import Folder

PROMPT = "_prompt.txt"
SOUNDS = (".wav", ".flac", ".ogg", ".mp3")
#: Small files that are read at once: a bucket takes tens of milliseconds for each.
_TOGETHER = 16


@dataclass(frozen=True)
class Source:
    """A clip before it is encoded."""

    name: str
    text: str
    shown: str
    """Its sound file as the user knows it."""
    open: Callable[[], Any]
    """A context manager of the open sound file."""
    path: Path | None = None
    """Of the sound file, if it is local."""


def sources(place: str, skipped: Skipped) -> list[Source]:
    """The clips of a folder, or of a dataset of Hugging Face: `hf://NAME`, its split `train`, or a folder
    that `save_to_disk` wrote. Sound without text is left out. Raises `DataError` where there are none."""
    if place.startswith("hf://") or Folder(place).exists("dataset_info.json"):
        return _dataset_sources(place)
    audio, prompts = Folder(f"{place}/audio"), Folder(f"{place}/audio_prompts")
    texts = set(prompts.names(PROMPT, may_be_absent=True))
    files: dict[str, str] = {}
    for file in (each for each in audio.names() if each.lower().endswith(SOUNDS)):
        name = file.rsplit(".", 1)[0]
        if name in files:
            skipped.add(f"audio/{file} has the same name as audio/{files[name]}; rename one.")
        elif name + PROMPT not in texts:
            skipped.add(f"audio/{file} has no audio_prompts/{name}{PROMPT}.")
        else:
            files[name] = file
    for folder in (each for each in audio.names(kind="directory") if each.lower().endswith(SOUNDS)):
        skipped.add(f"audio/{folder} is a folder, not a sound file.")
    found = []
    for name, text in read_prompts(prompts, list(files), skipped):
        path = None if audio.remote else Path(audio.path(files[name]))
        shown = f"audio/{files[name]}"
        found.append(Source(name, text, shown, partial(audio.read, files[name]), path))
    if not found:
        raise DataError(f"{place} has no clips: put audio/NAME.wav beside audio_prompts/NAME{PROMPT}.")
    return found


def read_prompts(folder: Folder, names: list[str], skipped: Skipped) -> Iterator[tuple[str, str]]:
    """Name and text of each clip, without those whose text cannot be read."""

    def read(name: str) -> str | Exception:
        try:
            with folder.read(name + PROMPT) as file:
                return decoded(file.read(), f"audio_prompts/{name}{PROMPT}").strip()
        except (DataError, StorageError) as error:
            return error

    with ThreadPoolExecutor(_TOGETHER) as pool:
        for name, text in zip(names, pool.map(read, names), strict=True):
            if isinstance(text, Exception):
                skipped.add(str(text))
            else:
                yield name, text


def dataset_rows(place: str, *, text_needed: bool = False) -> list[tuple[str, Callable[[], IO[bytes]]]]:
    """Text and opener of the sound of each row of a dataset; without the column `text`, "". Raises
    `DataError`."""
    import datasets

    name = place.removeprefix("hf://")
    try:
        table = (
            datasets.load_dataset(name, split="train") if name != place else datasets.load_from_disk(place)
        )
        rows = table.cast_column("audio", datasets.Audio(decode=False))
        there = text_needed or "text" in rows.column_names
        texts = rows["text"] if there else [""] * len(rows)
    except (OSError, ValueError, KeyError) as error:
        columns = "the columns audio and text" if text_needed else "the column audio"
        raise DataError(f"{place} is no dataset with {columns}: {error}") from error

    def opened(number: int) -> IO[bytes]:
        sound = rows[number]["audio"]
        return io.BytesIO(sound["bytes"]) if sound["bytes"] else open(sound["path"], "rb")

    return [(text or "", partial(opened, number)) for number, text in enumerate(texts)]


def _dataset_sources(place: str) -> list[Source]:
    return [
        Source(f"clip_{number:06d}", text, f"row {number}", opened)
        for number, (text, opened) in enumerate(dataset_rows(place, text_needed=True))
    ]
