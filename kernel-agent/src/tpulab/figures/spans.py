"""Where the time of one step went: five disjoint spans that add up to its wall time.

Each moment of a step counts once, in the first category that matches:

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
from typing import NamedTuple

Span = tuple[int, int]


class StepTimes(NamedTuple):
    """Moments of one step, by `clocks.now_ns`."""

    start: int
    #: when the item was available and the body began; equal to `start` where there is no iterator
    body: int
    end: int
    compiles: Sequence[Span] = ()
    #: when the last dispatch of the step returned; None when the step started no observed program
    last_dispatch: int | None = None
    #: further waits for input, inside the body (a loader that is iterated without `tpulab.steps`)
    waits: Sequence[Span] = ()
    #: parts of the waits that do not count: a loader of torch_xla launches the traced graph before it waits
    launches: Sequence[Span] = ()
    #: evaluations, checkpoints and the like inside the step: listed separately, and part of no span
    excluded: Sequence[Span] = ()


class StepSplit(NamedTuple):
    """Nanoseconds of each span; their sum is exactly the time of the step without its excluded spans."""

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


def overlap(spans: Sequence[Span], low: int, high: int) -> int:
    """The length of [low, high] that disjoint spans cover."""
    covered = 0
    for begin, end in spans:
        if begin < high and end > low:
            covered += min(end, high) - max(begin, low)
    return covered


def split(times: StepTimes, busy: Sequence[Span] | None) -> StepSplit:
    """Attributes a step.

    Args:
        times: moments of the step.
        busy: when the device ran watched programs of any step, in disjoint spans; None when unknown.
    """
    if times.excluded:
        times, busy = without_excluded(times, busy)
    start, body, end, compiles, dispatch, waits, launches, _ = times
    if busy is None and not compiles and not waits and not launches:
        # Applies to most steps in a loop with short steps.
        return StepSplit(body - start, end - body, 0, 0, 0)
    running = busy if busy is not None else ()
    compiling = union(compiles, start, end) if compiles else []
    busy_spans = union([*compiling, *running], start, end) if compiling else running
    # Idle time of the body counts as host before `turn`, and as gap from there on.
    turn = end if busy is None or dispatch is None else min(max(dispatch, body), end)
    if launches and dispatch is not None and dispatch <= body:
        # The loader launched the previous step. The next part traces the next step; the device is not idle.
        turn = end
    if waits or launches:
        return _split_with_waits(times, busy_spans, turn, compiling)
    in_wait, in_host = overlap(busy_spans, start, body), overlap(busy_spans, body, turn)
    in_gap = overlap(busy_spans, turn, end)
    compile_ns = length(compiling)
    return StepSplit(
        input=body - start - in_wait,
        host=turn - body - in_host,
        compile=compile_ns,
        device=in_wait + in_host + in_gap - compile_ns,
        gap=end - turn - in_gap,
    )


def without_excluded(
    times: StepTimes, busy: Sequence[Span] | None
) -> tuple[StepTimes, Sequence[Span] | None]:
    """The step without its excluded spans: their content is removed, and later spans move up."""
    excluded = union(times.excluded, times.start, times.end)

    def moved(moment: int) -> int:
        return moment - overlap(excluded, times.start, moment)

    def cut(spans: Sequence[Span]) -> list[Span]:
        left = [(moved(begin), moved(end)) for begin, end in spans]
        return [span for span in left if span[1] > span[0]]

    dispatch = times.last_dispatch
    return StepTimes(
        times.start,
        moved(times.body),
        moved(times.end),
        cut(times.compiles),
        moved(dispatch) if dispatch is not None else None,
        cut(times.waits),
        cut(times.launches),
    ), (cut(busy) if busy is not None else None)


def _split_with_waits(
    times: StepTimes, busy_spans: Sequence[Span], turn: int, compiling: list[Span]
) -> StepSplit:
    """Like `split`, where the waits for input are not one stretch at the beginning."""
    start, end = times.start, times.end
    waiting = minus(union([(start, times.body), *times.waits], start, end), union(times.launches, start, end))
    covered = union([*busy_spans, *waiting], start, end)
    busy_ns, compile_ns = length(union(busy_spans, start, end)), length(compiling)
    return StepSplit(
        input=length(covered) - busy_ns,
        host=turn - start - overlap(covered, start, turn),
        compile=compile_ns,
        device=busy_ns - compile_ns,
        gap=end - turn - overlap(covered, turn, end),
    )


def minus(spans: Sequence[Span], excluded: Sequence[Span]) -> list[Span]:
    """Disjoint sorted spans minus disjoint sorted spans."""
    left: list[Span] = []
    for begin, end in spans:
        for low, high in excluded:
            if high <= begin or low >= end:
                continue
            if low > begin:
                left.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            left.append((begin, end))
    return left
