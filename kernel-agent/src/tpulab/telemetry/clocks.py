"""The one clock of the agent: `perf_counter_ns`, and its translation to Unix time.

Durations come from the monotonic clock alone, so that a clock that is set back never makes a negative span.
"""

from __future__ import annotations

import time

now_ns = time.perf_counter_ns


def unix_ms(moment_ns: int) -> float:
    """Unix milliseconds of a `now_ns` moment, by the wall clock as it stands now."""
    return time.time() * 1e3 - (now_ns() - moment_ns) / 1e6


def unix_now_ms() -> float:
    return time.time() * 1e3
