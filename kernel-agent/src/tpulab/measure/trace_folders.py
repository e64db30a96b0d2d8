"""Where traces lie: the newest one of a kernel stays until the kernel ends, all others are removed.

Their folders bear the number of the process, so that a kernel that was killed leaves nothing behind: the next
trace of any kernel of this user removes what belongs to no process any more.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "tpulab-profile-"
_mine: list[Path] = []


def new_folder() -> Path:
    """An empty folder for a trace, in place of the one before it."""
    if not _mine:
        atexit.register(remove_all)
    remove_all()
    _remove_orphans(Path(tempfile.gettempdir()))
    _mine.append(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")))
    return _mine[-1]


def remove_all() -> None:
    """Those of this process."""
    while _mine:
        shutil.rmtree(_mine.pop(), ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            # Those of other users cannot be removed, and are theirs.
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
