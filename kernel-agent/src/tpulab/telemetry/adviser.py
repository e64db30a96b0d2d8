"""Reports once what costs time or will fail, and the remedy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import AdviceKind, AdviceMessage, CodeLocation


class Adviser:
    """Stores which advice was given. Usable on any thread."""

    def __init__(
        self, events: deque[Any], wake: Callable[[], None], text: Callable[[str], None] | None = None
    ) -> None:
        self._events = events
        self._wake = wake
        self._text = text
        self._reported: set[str] = set()

    def has_reported(self, kind: AdviceKind, about: str = "") -> bool:
        return f"{kind} {about}" in self._reported

    def report(
        self,
        kind: AdviceKind,
        message: str,
        remedy: str,
        *,
        about: str = "",
        location: CodeLocation | None = None,
        run: str | None = None,
    ) -> None:
        """Once for each `kind` and `about`."""
        identity = f"{kind} {about}"
        if identity in self._reported:
            return
        self._reported.add(identity)
        advice: AdviceMessage = {
            "type": "advice",
            "time": unix_now_ms(),
            "id": identity.strip(),
            "kind": kind,
            "message": message,
            "remedy": remedy,
            "location": location,
            "run": run,
        }
        self._events.append(advice)
        self._wake()
        if self._text is not None:
            self._text(f"{message} {remedy}")
