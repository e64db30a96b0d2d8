"""Summary of a captured profile: how many steps, how long, and which operations took the time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tpulab_recipes.resnet_profiling.capture import STEP_NAME
from tpulab_recipes.resnet_profiling.xplane import Event, Plane, TraceError
from tpulab_recipes.runtime import INPUT_NAME

#: Events that wrap or wait for others, or mark the end of one; they are no operations of the program.
_NOT_OPERATIONS = re.compile(
    r"^(end: |Thunk|Threadpool|Pjrt|PjRt|\$|Wait for|H2D|D2H|[A-Z]\w*::)|\(wait|^call(\.\d+)?$"
)
_NUMBER = re.compile(r"[.\d]+(\.clone)?$|\.clone$")


@dataclass(frozen=True)
class Operation:
    """All events of one kind of operation. Times in ms; `share` of the time of all operations."""

    name: str
    count: int
    total_ms: float
    share: float


@dataclass(frozen=True)
class ProfileSummary:
    """`step_ms`: what each step took on the host's clock, in order. `between_ms`: the time from the end of
    each step to the start of the next, in which the loop waited for its input or did something else.

    Input, compile and execute may overlap: a device can still compute while the loop waits. All together
    cover the window without the gap.
    """

    step_ms: tuple[float, ...]
    between_ms: tuple[float, ...]
    input_ms: float
    """Time of the window in which the loop waited for a batch of `Backend.batches`."""
    compile_ms: float
    """Time of the window in which something was compiled."""
    execute_ms: float
    """Time in which at least one operation ran."""
    window_ms: float
    """From the start of the first step to the end of the last operation or step."""
    gap_ms: float
    """Time of the window in which no operation ran, nothing was compiled, and the loop did not wait for
    input."""
    operations: tuple[Operation, ...]

    def as_text(self, top: int = 10) -> str:
        """For reading: the sums, then the `top` operations."""
        steps, shown = len(self.step_ms), self.operations[:top]
        mean = sum(self.step_ms) / steps
        lines = [
            f"{steps} steps of {mean:.1f} ms on average; window {self.window_ms:.0f} ms",
            *(
                f"  {name:<8} {value:9.1f} ms  {value / self.window_ms:6.1%}"
                for name, value in (
                    ("input", self.input_ms),
                    ("compile", self.compile_ms),
                    ("execute", self.execute_ms),
                    ("gap", self.gap_ms),
                    ("(between", sum(self.between_ms)),
                )
            ),
            *([f"  {'operation':<44}{'count':>7}{'ms':>10}{'share':>8}"] if shown else []),
            *(f"  {o.name[:43]:<44}{o.count:>7}{o.total_ms:>10.1f}{o.share:>8.1%}" for o in shown),
        ]
        return "\n".join(lines).replace("(between", "between ")


def summarize(planes: Iterable[Plane]) -> ProfileSummary:
    """Reads the planes of one host.

    On a TPU the operations are on the device's plane; on the host CPU they are on the threads of XLA's own
    pools.

    Raises:
        TraceError: no step is in the trace.
    """
    planes = list(planes)
    host = [
        event
        for plane in planes
        if plane.name.startswith("/host")
        for line in plane.lines
        for event in line.events
    ]
    steps = sorted((event for event in host if event.name == STEP_NAME), key=lambda event: event.start_ns)
    if not steps:
        raise TraceError(f'There is no step in this trace: no event is named "{STEP_NAME}".')
    begin, end = steps[0].start_ns, max(event.end_ns for event in steps)
    operations = [event for event in _operations(planes) if event.start_ns >= begin]
    compiles = [
        event
        for event in host
        if re.search(r"XlaCompile|::Compile$|backend_compile|PjRt.*Compile", event.name)
    ]
    end = max([end, *(event.end_ns for event in operations)])
    # The capture begins before the first step, and what is compiled then is no part of the steps.
    compiles = _within(compiles, begin, end)
    waits = _within([event for event in host if event.name == INPUT_NAME], begin, end)
    window = end - begin
    return ProfileSummary(
        step_ms=tuple(event.duration_ns / 1e6 for event in steps),
        between_ms=tuple(max(0.0, after.start_ns - before.end_ns) / 1e6 for before, after in pairwise(steps)),
        input_ms=_covered_ns(waits) / 1e6,
        compile_ms=_covered_ns(compiles) / 1e6,
        execute_ms=_covered_ns(operations) / 1e6,
        window_ms=window / 1e6,
        gap_ms=(window - _covered_ns([*waits, *compiles, *operations])) / 1e6,
        operations=_grouped(operations),
    )


def _within(events: list[Event], begin_ns: float, end_ns: float) -> list[Event]:
    """The parts of events between two times; events outside are omitted."""
    parts = []
    for event in events:
        start, end = max(event.start_ns, begin_ns), min(event.end_ns, end_ns)
        if start < end:
            parts.append(Event(event.name, start, end - start))
    return parts


def _operations(planes: list[Plane]) -> list[Event]:
    devices = [plane for plane in planes if plane.name.startswith("/device:TPU")]
    if devices:
        lines = [line for plane in devices for line in plane.lines if line.name == "XLA Ops"]
    else:
        lines = [
            line for plane in planes for line in plane.lines if re.match(r"tf_XLA(Eigen|PjRt)", line.name)
        ]
    return [
        event
        for line in lines
        for event in line.events
        if event.duration_ns > 0 and not _NOT_OPERATIONS.search(event.name)
    ]


def _grouped(operations: list[Event]) -> tuple[Operation, ...]:
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, float] = defaultdict(float)
    for event in operations:
        name = _NUMBER.sub("", event.name) or event.name
        counts[name] += 1
        times[name] += event.duration_ns / 1e6
    whole = sum(times.values()) or 1.0
    return tuple(
        Operation(name, counts[name], times[name], times[name] / whole)
        for name in sorted(times, key=lambda name: (-times[name], name))
    )


def _covered_ns(events: list[Event]) -> float:
    """Length of the union of the events' times."""
    covered, reached = 0.0, float("-inf")
    for event in sorted(events, key=lambda event: event.start_ns):
        covered += max(0.0, event.end_ns - max(event.start_ns, reached))
        reached = max(reached, event.end_ns)
    return covered
