"""Warns when outputs accumulate in memory because a kernel prints faster than its output is recorded.

An unbounded queue loses nothing and can take all the memory of a machine, so its owner is told: when a
threshold is passed, again at each doubling, and when it is over.
"""

from __future__ import annotations

from collections.abc import Callable

DEFAULT_ALARM_BYTES = 256 * 1024 * 1024
#: Bytes, as a plain number; 0: never.
ALARM_VARIABLE = "TPULAB_IOPUB_ALARM_BYTES"

_ADVICE = "Print less or less often, or interrupt the cell."
_CHOICE = " TPULAB_IOPUB_QUEUE=block (or Bridge.iopub_queue of the bridge) makes cells wait instead."


class QueueAlarm:
    """Not thread-safe: its ring calls it with the lock held. `tell` must neither wait nor send."""

    def __init__(self, limit_bytes: int, tell: Callable[[str], None], *, blocks: bool = False) -> None:
        self._limit = limit_bytes
        self._tell = tell
        self._advice = _ADVICE if blocks else _ADVICE + _CHOICE
        self._most = 0
        #: Told at this many bytes the next time.
        self.next_bytes: float = limit_bytes or float("inf")

    def grown(self, waiting_bytes: int) -> None:
        """Called when `next_bytes` are reached."""
        self._most = waiting_bytes
        while self.next_bytes <= waiting_bytes:
            self.next_bytes *= 2
        self._tell(
            f"tpulab: {_mib(waiting_bytes)} of this kernel's output are waiting in memory: it prints faster "
            f"than its output is read and recorded. {self._advice} The next warning comes at "
            f"{_mib(self.next_bytes)}.\n"
        )

    def shrunk(self, waiting_bytes: int) -> None:
        """Called when something was confirmed. Over is what has come below half of the threshold."""
        if self._most and waiting_bytes < self._limit / 2:
            self._tell(
                f"tpulab: output no longer accumulates in memory: {_mib(waiting_bytes)} are waiting, "
                f"down from more than {_mib(self._most)}.\n"
            )
            self._most = 0
            self.next_bytes = self._limit


def _mib(count: float) -> str:
    mib = count / (1024 * 1024)
    return f"{mib:.1f} MiB" if mib < 10 else f"{mib:.0f} MiB"
