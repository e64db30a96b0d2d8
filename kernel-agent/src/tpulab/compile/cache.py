"""The effect of jax's persistent compilation cache on one compilation, and why it missed, in a sentence.

Uses only jax's public monitoring events and its public settings.
"""

from __future__ import annotations

import glob
import os
import sys
import time
import warnings
from pathlib import Path

from tpulab.runtimes.jax_internals import loaded_jax
from tpulab.telemetry.messages import CacheOutcome

REQUEST_EVENT = "/jax/compilation_cache/compile_requests_use_cache"
HIT_EVENT = "/jax/compilation_cache/cache_hits"
#: Despite its name, jax records this one when it is about to write a new entry.
WRITE_EVENT = "/jax/compilation_cache/cache_misses"
#: File systems store times coarsely.
CLOCK_SLACK_S = 2.0
#: A disk with less free space cannot store a program that takes seconds to compile.
MIN_ROOM_BYTES = 4 * 1024 * 1024

#: kernels only: the first failure is a line, instead of jax's two for each program
_line_is_due = False


def warn_once() -> None:
    """Replaces jax's warnings about its cache by one line that names the folder. Filters of the user win."""
    global _line_is_due
    text = "Error (reading|writing) persistent compilation cache entry"
    warnings.filterwarnings("ignore", text, UserWarning, append=True)
    _line_is_due = True


def outcome(events: set[str], compile_ms: float, name: str) -> CacheOutcome:
    """The meaning of the events during a compilation."""
    if HIT_EVENT in events:
        return {"result": "hit", "reason": None}
    if not _setting("jax_enable_compilation_cache", True):
        return {"result": "off", "reason": "The cache is off (jax_enable_compilation_cache)."}
    folder = _setting("jax_compilation_cache_dir", None)
    if not folder:
        return {
            "result": "off",
            "reason": "No cache folder is set: jax.config.update('jax_compilation_cache_dir', FOLDER).",
        }
    if REQUEST_EVENT not in events:
        return {
            "result": "off",
            "reason": "jax does not cache this program: its backend cannot store programs, or the folder was "
            "set after the first compilation.",
        }
    if WRITE_EVENT in events:
        missing = "This program was not in the cache for these shapes, devices and this jax"
        since = time.time() - compile_ms / 1e3 - CLOCK_SLACK_S
        if is_stored(str(folder), name, since):
            reason = f"{missing}; it is now."
        elif damaged := damaged_entry(str(folder), name, since):
            reason = f"Its entry in the cache is damaged, and jax does not replace it: delete {damaged}."
        else:
            unknown = f"another process stored it, or a damaged entry is in its place (then delete {folder})"
            reason = (
                f"{missing}, or its entry is damaged, and it could not be stored: "
                f"{_obstacle(str(folder)) or unknown}."
            )
        if not reason.endswith("it is now."):
            _print_line(reason)
        return {"result": "miss", "reason": reason}
    least = _setting("jax_persistent_cache_min_compile_time_secs", 0.0)
    if isinstance(least, (int, float)) and compile_ms < least * 1e3:
        return {
            "result": "miss",
            "reason": f"It took {compile_ms / 1e3:.2g} s: programs below {least:g} s are not stored "
            "(jax_persistent_cache_min_compile_time_secs).",
        }
    obstacle = _obstacle(str(folder))
    reason = (
        "It was not in the cache and was not stored: "
        f"{obstacle or 'it calls back into Python, or is too small'}."
    )
    if obstacle:
        _print_line(reason)
    return {"result": "miss", "reason": reason}


def _obstacle(folder: str) -> str | None:
    """Why nothing can be stored there; None: unknown."""
    if "://" in folder:
        return None
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    if not os.access(folder, os.W_OK):
        return f"{folder} is read-only"
    room = os.statvfs(folder)
    if room.f_blocks and room.f_bavail * room.f_frsize < MIN_ROOM_BYTES:
        return f"the disk of {folder} is full"
    return None


def _print_line(reason: str) -> None:
    global _line_is_due
    if _line_is_due:
        _line_is_due = False
        sys.stderr.write(f"tpulab: a compiled program is not stored. {reason}\n")


def is_stored(folder: str, name: str, since: float) -> bool:
    """Whether an entry of this program has been written since this time. True when in doubt.

    Where writing fails, jax warns, and keeps an entry that it cannot read.
    """
    try:
        if "://" in folder:
            return True
        room = os.statvfs(folder)
        found = any(path.stat().st_mtime >= since for path in _entries(folder, name))
        return found and (room.f_bavail > 0 or room.f_blocks == 0)
    except OSError:
        return False


def damaged_entry(folder: str, name: str, since: float) -> Path | None:
    """The older entry that jax has read since this time without success; None: not known.

    jax stores the time of a read beside an entry where its cache has a bound.
    """
    try:
        read = [
            path
            for path in _entries(folder, name)
            if path.with_name(path.name.removesuffix("-cache") + "-atime").stat().st_mtime >= since
        ]
    except OSError:
        return None
    return read[0] if len(read) == 1 else None


def _entries(folder: str, name: str) -> list[Path]:
    return list(Path(folder).glob(f"*{glob.escape(name)}-*-cache"))


def _setting(name: str, default: object) -> object:
    jax = loaded_jax()
    return getattr(getattr(jax, "config", None), name, default)
