"""Finds the running line of the user's code: the innermost frame that is neither ours nor a library's."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.messages import CodeLocation


def _package_folder() -> str:
    """The folder of `tpulab`: all of its code is ours, in whatever subpackage it is."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths}
    found.add(_package_folder())
    found |= {os.path.realpath(path) for path in found}
    return tuple(path + os.sep for path in sorted(found))


_LIBRARIES = _library_folders()
_known: dict[str, bool] = {}


def is_user_frame(frame: FrameType) -> bool:
    """Whether a frame runs the user's code: a cell, a script or the user's module."""
    file = frame.f_code.co_filename
    if file.startswith("<"):
        # Code without a file: a prompt or `python -c` is the user's, generated code of libraries is not.
        return frame.f_globals.get("__name__") == "__main__"
    known = _known.get(file)
    if known is None:
        jax = jax_folder()
        library = file.startswith(_LIBRARIES) or f"{os.sep}site-packages{os.sep}" in file
        known = _known[file] = not library and not (jax is not None and file.startswith(jax))
    return known


def jax_folder() -> str | None:
    """Folder of the jax package, with a separator at its end."""
    module = sys.modules.get("jax")
    file = getattr(module, "__file__", None)
    return os.path.dirname(file) + os.sep if isinstance(file, str) else None


def find_location(cells: CellRegister, frame: FrameType | None = None) -> CodeLocation | None:
    """The innermost user frame at or above `frame` (default: the caller), with the cell that led there."""
    if frame is None:
        frame = sys._getframe(1)
    user: FrameType | None = None
    while frame is not None:
        if is_user_frame(frame):
            user = user or frame
            cell = cells.of_file(frame.f_code.co_filename)
            if cell is not None:
                return _describe(user, cell.cell_id, cell.execution_count, in_cell=frame is user)
        frame = frame.f_back
    return _describe(user, None, None, in_cell=False) if user is not None else None


def locate_error(cells: CellRegister, error: BaseException) -> CodeLocation | None:
    """The innermost line of the user's code in a traceback."""
    trace = error.__traceback__
    found: FrameType | None = None
    while trace is not None:
        if is_user_frame(trace.tb_frame):
            found = trace.tb_frame
        trace = trace.tb_next
    return find_location(cells, found) if found is not None else None


def _describe(frame: FrameType, cell_id: str | None, count: int | None, *, in_cell: bool) -> CodeLocation:
    name = frame.f_code.co_name
    return {
        "cellId": cell_id,
        "executionCount": count,
        "line": max(frame.f_lineno or 1, 1),
        "file": None if in_cell else os.path.basename(frame.f_code.co_filename),
        "function": None if name.startswith("<") else name,
    }
