"""Where the time of one step went: five disjoint spans that add up to its wall time.

Every instant of a step gets the first of these that applies:

=========  ============================================================================================
compile    the thread of the loop traces, lowers or compiles a program
device     a watched program is running on the device (whatever the host does meanwhile, waiting included)
input      the loop waits for its next item, inside `next()`
host       Python and dispatch, up to the last program that the step starts; the device is idle
gap        after the step's last program was started: the device is idle and has nothing to do
=========  ============================================================================================

When no output of the step was watched, device time is unknown: it is then part of `host` (and `gap` is 0).
Source of the model: the shared step model of the project, `docs/steps.md`. All times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Span = tuple[int, int]


class StepTimes(NamedTuple):
    """Moments of one step, by `clocks.now_ns`."""

    start: int
    #: when the item was there and the body began; equal to `start` where there is no iterator
    body: int
    end: int
    compiles: Sequence[Span] = ()
    #: when the last dispatch of the step returned; None when the step started no program that was seen
    last_dispatch: int | None = None


@dataclass(frozen=True, slots=True)
class StepSplit:
    """Nanoseconds of each span; their sum is `StepTimes.end - StepTimes.start` exactly."""

    input: int
    host: int
    compile: int
    device: int
    gap: int


def union(spans: Iterable[Span], low: int, high: int) -> list[Span]:
    """The spans clipped to [low, high], sorted, overlapping ones joined."""
    joined: list[Span] = []
    for begin, end in sorted((max(begin, low), min(end, high)) for begin, end in spans):
        if end <= begin:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def length(spans: Iterable[Span]) -> int:
    return sum(end - begin for begin, end in spans)


def split(times: StepTimes, busy: Iterable[Span] | None) -> StepSplit:
    """Attributes a step. `busy`: when the device ran watched programs, from any step; None when unknown."""
    start, body, end = times.start, times.body, times.end
    compiles = union(times.compiles, start, end)
    if busy is None and not compiles:
        return StepSplit(input=body - start, host=end - body, compile=0, device=0, gap=0)
    running = union(busy, start, end) if busy is not None else []
    taken = union([*compiles, *running], start, end)
    compile_ns = length(compiles)
    device = length(taken) - compile_ns
    input_ns = (body - start) - length(union(taken, start, body))
    rest = (end - body) - length(union(taken, body, end))
    if busy is None or times.last_dispatch is None:
        return StepSplit(input=input_ns, host=rest, compile=compile_ns, device=device, gap=0)
    turn = min(max(times.last_dispatch, body), end)
    gap = (end - turn) - length(union(taken, turn, end))
    return StepSplit(input=input_ns, host=rest - gap, compile=compile_ns, device=device, gap=gap)
