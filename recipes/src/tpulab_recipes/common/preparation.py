"""Shared parts of data preparation: clips that are left out, results that are recreated when their input has
changed, folders that must be local, and the held-out share."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tpulab_recipes.common.errors import ConfigError, DataError, StorageError
from tpulab_recipes.common.inputs import checked_share
from tpulab_recipes.common.storage import Folder

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Skipped:
    """Files that were left out, each with its reason, printed once."""

    reasons: list[str] = field(default_factory=list)

    def add(self, reason: str) -> None:
        reason = reason.replace("\r", "\\r").replace("\n", "\\n")  # of a name
        if reason not in self.reasons:
            self.reasons.append(reason)
            print(f"left out: {reason}", file=sys.stderr, flush=True)


def report_left_out(output: str | Path, reasons: Sequence[str]) -> None:
    """Prints the number of files left out for each reason, and lists every file in `left_out.txt`."""
    folder = Folder(output)
    if not reasons:
        folder.remove("left_out.txt")
        return
    folder.make().put("left_out.txt", "".join(f"{reason}\n" for reason in reasons))
    counts = Counter(_kind(reason) for reason in reasons)
    print(f"{len(reasons)} left out, each named in {folder.url.rstrip('/')}/left_out.txt:")
    for kind, count in counts.most_common():
        print(f"  {count:5}  {kind}", flush=True)


def _kind(reason: str) -> str:
    """The reason without the clip's name and numbers."""
    head, colon, rest = reason.partition(": ")
    kind = re.sub(r"\S*[/.]\w\S*", "…", rest if colon and " " not in head else reason)
    return re.sub(r"(?<![\w-])\d+(\.\d+)?", "N", kind).rstrip(".")


def computed_ahead(
    compute: Callable[[T], R], items: Iterable[T], threads: int = 0
) -> Iterator[tuple[T, Future[R]]]:
    """Each item in its order with `compute` of it, while threads (0: one for each core) compute the next
    ones. Only the caller's thread writes."""
    count = threads or min(16, os.cpu_count() or 1)
    waiting: deque[tuple[T, Future[R]]] = deque()
    pool = ThreadPoolExecutor(count)
    try:
        for item in items:
            waiting.append((item, pool.submit(compute, item)))
            if len(waiting) > count:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(cancel_futures=True)


class Ledger:
    """What each result in a folder was made of, in `made.jsonl`. An interrupted preparation resumes, and a
    corrected input is detected.

    Before a result is written: `begin`, which removes the old one, so that a fingerprint never stands beside
    a result of something else.
    """

    def __init__(self, folder: Folder, name: str = "made.jsonl") -> None:
        self._folder, self._name, self._rows = folder, name, {}  # type: tuple[Folder, str, dict[str, Any]]
        if folder.exists(name):
            with folder.read(name) as file:
                lines = file.read().decode("utf-8", "replace").splitlines()
            for line in lines:
                try:
                    row = json.loads(line)
                    self._rows[row["name"]] = row
                except (ValueError, KeyError, TypeError):
                    continue  # The last line of a process that was killed.

    def row(self, name: str) -> dict[str, Any] | None:
        return self._rows.get(name)

    def begin(self, name: str, files: Iterable[tuple[Folder, str]], **made_of: Any) -> None:
        """Removes the results `files` of a clip, and notes what new ones will be made of."""
        for folder, file in files:
            folder.remove(file)
        self._rows[name] = {"name": name, **made_of}
        self._folder.append_line(self._name, json.dumps(self._rows[name]))


def digest(*parts: Any) -> str:
    """A fingerprint of data: bytes, texts and arrays."""
    found = hashlib.sha256()
    for part in parts:
        found.update(
            part.encode() if isinstance(part, str) else part.tobytes() if hasattr(part, "tobytes") else part
        )
        found.update(b"\0")
    return found.hexdigest()[:24]


def same_file(row: Mapping[str, Any] | None, file: Path) -> bool:
    """Whether a local file is unchanged since its row was written, by `stamp` or by `sound` (`digest`)."""
    if row is None:
        return False
    return row.get("stamp") == stamp(file) or row.get("sound") == digest(file.read_bytes())


def stamp(file: Path) -> list[int]:
    """Size and time of a file: an unchanged file need not be read."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns]


def local_folder(setting: str, place: str | Path) -> Path:
    """`place`, which can be written to. Raises `ConfigError` for a bucket, before it becomes a local folder
    `gs:`, and `StorageError` where nothing can be written."""
    if "://" in str(place) or str(place).startswith("gs:"):
        raise ConfigError(
            setting,
            f"{place} is a bucket, and this command writes local folders only; mount it with gcsfuse.",
        )
    require_writable(place)
    return Path(place)


def require_writable(place: str | Path) -> None:
    """Raises `StorageError` where a folder, here or in a bucket, cannot be made or written to: before hours
    of work, not after. Makes no folder."""
    folder = Folder(place)
    if folder.remote:
        folder.put(".writable", b"")
        folder.remove(".writable")
        return
    nearest = Path(place).absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise StorageError(f"{place}: {nearest} is a file, not a folder; choose another output.")
    probe = Folder(nearest)
    probe.put(".writable", b"")
    probe.remove(".writable")


def require_output_file(file: Path) -> None:
    """`require_writable` for one file, whose folder is made."""
    if "://" in str(file) or str(file).startswith("gs:"):
        raise ConfigError("output", f"{file} is in a bucket, and this command writes local files only.")
    if file.is_dir():
        raise ConfigError("output", f"{file} is a folder; give the name of a file.")
    Folder(file.parent).make()
    require_writable(file.parent)


def split_by_name(
    items: Sequence[T], names: Sequence[str], share: float, setting: str = "held_out", seed: int = 0
) -> tuple[list[T], list[T]]:
    """Items to train on, and `share` of them held out, in their order: chosen by a hash of the name, so that
    neither the order nor a new clip moves the others. Raises `DataError` where none is left to train on."""
    kept = max(1, round(len(items) * checked_share(setting, share))) if share else 0
    if items and kept >= len(items):
        flag = setting.replace("_", "-")
        raise DataError(
            f"{setting}: of {len(items)} clip(s) none is left to train on, {kept} held out; add some, or "
            f"give --{flag} 0."
        )
    ranked = sorted(range(len(items)), key=lambda number: digest(str(seed), names[number]))
    held = set(ranked[:kept])
    parts: tuple[list[T], list[T]] = ([], [])
    for number, item in enumerate(items):
        parts[number in held].append(item)
    return parts
