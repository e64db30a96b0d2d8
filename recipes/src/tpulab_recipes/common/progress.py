"""Progress of long work on the terminal: a bar on a terminal, an occasional line in log files."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol


class Progress(Protocol):
    def start(self, what: str, total: int, note: str = "") -> None: ...
    def advance(self, count: int, note: str = "") -> None: ...
    def finish(self) -> None: ...


class Silent:
    """Prints nothing."""

    def start(self, what: str, total: int, note: str = "") -> None: ...
    def advance(self, count: int, note: str = "") -> None: ...
    def finish(self) -> None: ...


class Terminal:
    """One line that is rewritten on a terminal; elsewhere a line every ten seconds."""

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream or sys.stderr
        self._live = bool(self._stream.isatty())
        self._what, self._total, self._done, self._note = "", 0, 0, ""
        self._started = self._shown = 0.0

    def start(self, what: str, total: int, note: str = "") -> None:
        self._what, self._total, self._done, self._note = what, total, 0, note
        self._started, self._shown = time.monotonic(), 0.0
        self._show(force=True)

    def advance(self, count: int, note: str = "") -> None:
        self._done += count
        self._note = note or self._note
        self._show(force=False)

    def finish(self) -> None:
        self._show(force=True)
        if self._live:
            self._stream.write("\n")
        self._stream.flush()

    def _show(self, force: bool) -> None:
        now = time.monotonic()
        if not force and now - self._shown < (0.2 if self._live else 10.0):
            return
        self._shown = now
        elapsed = now - self._started
        share = self._done / self._total if self._total else 1.0
        rest = f", {(elapsed / share - elapsed):.0f} s left" if 0 < share < 1 else ""
        text = f"{self._what}: {self._done} of {self._total} ({share:.0%}{rest})"
        text += f"  {self._note}" if self._note else ""
        self._stream.write(f"\r{text}\x1b[K" if self._live else f"{text}\n")
        self._stream.flush()
