"""Lines of text for people, printed where people look for them, and errors in a few words.

Lines go to stdout in a notebook (where stderr looks like an error), to stderr in a script (whose stdout may
be data).
"""

from __future__ import annotations

import contextlib
import sys
import traceback

from tpulab.telemetry.cells import notebook_shell

#: Length of an error's text: enough to identify it.
ERROR_LENGTH = 500


def write_line(line: str) -> None:
    """Prints one line of text where the people who run this look for it."""
    # A closed or broken stream must not end a training.
    with contextlib.suppress(Exception):
        stream = sys.stdout if in_notebook() else sys.stderr
        stream.write(f"[tpulab] {line}\n")
        stream.flush()


def in_notebook() -> bool:
    return getattr(notebook_shell(), "kernel", None) is not None


def error_text(error: BaseException) -> str:
    """In the form of the last line of a traceback."""
    return "".join(traceback.format_exception_only(error)).strip()[:ERROR_LENGTH]
