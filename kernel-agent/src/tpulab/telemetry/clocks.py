"""The one clock of the agent: `perf_counter_ns`, and its translation to Unix time.

Durations come from the monotonic clock alone, so that a clock that is set back never makes a negative span.
The clocks are looked up once: a test of the user's may replace those of `time`.
"""

from __future__ import annotations

from time import perf_counter_ns, time_ns

now_ns = perf_counter_ns

#: Two readings in a row take less than a microsecond, unless the thread loses its core between them.
_TOGETHER_NS = 100_000
_READINGS = 5


def unix_ahead_ns() -> int:
    """The current difference between Unix time and `now_ns`."""
    readings = []
    for _ in range(_READINGS):
        before = now_ns()
        unix = time_ns()
        readings.append((now_ns() - before, unix - before))
        if readings[-1][0] < _TOGETHER_NS:
            break
    return min(readings)[1]


def unix_ms(moment_ns: int) -> float:
    """Unix milliseconds of a `now_ns` moment."""
    return (moment_ns + unix_ahead_ns()) / 1e6


def unix_now_ms() -> float:
    return time_ns() / 1e6
