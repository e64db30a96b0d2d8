"""A working directory in which code reads the user's files, and cannot change them by accident."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

#: Functions that descend into folders, but not through links.
_WALK_EVENTS = ("shutil.rmtree", "os.walk", "os.fwalk", "pathlib.Path.rglob", "pathlib.Path.glob")
#: Python's audit events before a change, with the positions of the changed paths among their arguments.
_CHANGE_EVENTS = {
    **dict.fromkeys(("os.mkdir", "os.rmdir", "os.remove", *_WALK_EVENTS), (0,)),
    **dict.fromkeys(("os.truncate", "os.chmod", "os.utime", "sqlite3.connect"), (0,)),
    **dict.fromkeys(("os.link", "os.symlink"), (1,)),
    "os.rename": (0, 1),
}
#: Events that change a file itself; the others change the folder that has it.
_CONTENT_EVENTS = ("open", "os.truncate", "os.chmod", "os.utime", "sqlite3.connect")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Overlay:
    """All folders from `/` to the working directory, again below `root`, with links to their entries. Before
    Python changes a path below `root`, links on the way to it become folders of links, and a file a copy.

    The user's files are still reached by absolute paths, and by code that opens files without Python.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._lock = threading.RLock()
        self._is_releasing = False

    def of(self, path: Path) -> Path:
        """The counterpart of a path."""
        path = path.resolve()
        return self._root / path.relative_to(path.anchor)

    def enter(self, folder: Path) -> None:
        """Makes the counterpart of `folder` the working directory."""
        folder = folder.resolve()
        for each in (*reversed(folder.parents), folder):
            _replace_by_folder(self.of(each), each)
        os.chdir(self.of(folder))
        sys.addaudithook(self._on_audit_event)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        positions = _CHANGE_EVENTS.get(event, ())
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS:
            positions = (0,)
        if event == "pathlib.Path.glob" and "**" not in str(arguments[1]):
            positions = ()
        for position in positions:
            path = arguments[position]
            if isinstance(path, (str, bytes, os.PathLike)):
                with self._lock:
                    if not self._is_releasing:
                        self._is_releasing = True
                        try:
                            self._make_writable(Path(os.path.abspath(os.fsdecode(path))), event)
                        finally:
                            self._is_releasing = False

    def _make_writable(self, path: Path, event: str) -> None:
        if not path.is_relative_to(self._root):
            return
        at = self._root
        for part in path.parent.relative_to(self._root).parts:
            at /= part
            if at.is_symlink() and at.is_dir():
                _replace_by_folder(at, at.resolve())
        if event in _WALK_EVENTS:
            _expand(path)
        elif event in _CONTENT_EVENTS and path.is_symlink() and path.is_file():
            target = path.resolve()
            path.unlink()
            shutil.copy2(target, path)


def _expand(path: Path) -> None:
    """Replaces links at and below a folder, but not the user's own links."""
    if path.is_symlink() and not os.path.islink(original := os.readlink(path)) and path.is_dir():
        _replace_by_folder(path, Path(original))
    if path.is_dir() and not path.is_symlink():
        for inner in os.scandir(path):
            _expand(Path(inner.path))


def _replace_by_folder(at: Path, original: Path) -> None:
    """A folder with links to the entries of another, in place of a link."""
    if at.is_symlink():
        at.unlink()
    at.mkdir(exist_ok=True)
    # A folder that cannot be listed has no links.
    with contextlib.suppress(OSError):
        for entry in os.scandir(original):
            (at / entry.name).symlink_to(entry.path)
