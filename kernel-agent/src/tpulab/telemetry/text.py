"""Lines of text for people: written where they look for them, and errors in a few words.

Lines go to stdout in a notebook (where stderr looks like an error), to stderr in a script (whose stdout may
be data).
"""

from __future__ import annotations

import contextlib
import sys
import traceback

from tpulab.telemetry.cells import notebook_shell

#: Of an error's text: enough to say what it was.
ERROR_LENGTH = 500


def write_line(line: str) -> None:
    """One line of text, where people who run this look for it."""
    # A closed or broken stream must not end a training.
    with contextlib.suppress(Exception):
        stream = sys.stdout if in_notebook() else sys.stderr
        stream.write(f"[tpulab] {line}\n")
        stream.flush()


def in_notebook() -> bool:
    return getattr(notebook_shell(), "kernel", None) is not None


def error_text(error: BaseException) -> str:
    """As the last line of a traceback has it."""
    return "".join(traceback.format_exception_only(error)).strip()[:ERROR_LENGTH]
