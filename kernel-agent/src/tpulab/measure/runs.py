"""A run: one loop over steps, with its measurements so far."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tpulab.figures.slower import SlowerWatch
from tpulab.figures.throughput import Throughput
from tpulab.figures.totals import Figures, RunTotals
from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.messages import CodeLocation, RunControl, RunMessage, RunState

_numbers = itertools.count(1)
# Part of the id, so that runs of a restarted kernel (same kernel id, new process) have other ids.
_process_started = f"{time.time_ns() // 1_000_000:x}"


@dataclass(slots=True, eq=False)
class Run:
    name: str
    total: int | None
    location: CodeLocation | None
    id: str = field(default_factory=lambda: f"{_process_started}-{next(_numbers)}")
    state: RunState = "running"
    started_ns: int = field(default_factory=now_ns)
    totals: RunTotals = field(default_factory=RunTotals)
    metrics: dict[str, float] = field(default_factory=dict)
    #: metrics that have been NaN or infinite
    non_finite: set[str] = field(default_factory=set)
    #: metrics whose array was freed before it could be read, and in how many steps
    freed: dict[str, int] = field(default_factory=dict)
    #: rules of `tpulab.alert` that hold, and since which step; below 0: reported
    alerts: dict[str, int] = field(default_factory=dict)
    slower: SlowerWatch = field(default_factory=SlowerWatch)
    compilations: int = 0
    compile_ms: float = 0.0
    #: the loop has no annotation: it was detected by its repeated calls
    detected: bool = False
    #: the total is that of its loops so far, and there were several
    open_ended: bool = False
    #: when the open evaluation or the like began; and whether that was reported
    in_band_ns: int | None = None
    in_band: bool = False
    #: its start has been reported
    announced: bool = False
    #: how it can be steered; None for a loop that is only measured
    control: Callable[[], RunControl | None] | None = None
    #: called by the agent's thread with the steps done and the newest metrics
    on_progress: Callable[[int, dict[str, float]], None] | None = None
    #: rates and goodput, for a run created with `tpulab.run`
    throughput: Throughput | None = None
    #: steps handed to the recorder, which numbers them; steps above `recorded` are still on their way
    closed: int = 0
    recorded: int = 0

    @property
    def ended(self) -> bool:
        return self.state != "running"

    def next_index(self) -> int:
        index = self.closed
        self.closed = index + 1
        return index

    def figures(self) -> Figures:
        """The current state of the run."""
        return Figures(self.id, self.started_ns, self.total, self.recorded, self.totals)

    def message(self, state: RunState | None = None) -> RunMessage:
        """The message about this run, in its own state or another."""
        message: RunMessage = {
            "type": "run",
            "time": unix_now_ms(),
            "run": self.id,
            "name": self.name,
            "state": state or self.state,
            "totalSteps": self.total,
            "location": self.location,
        }
        if self.open_ended:
            message["openEnded"] = True
        if self.in_band:
            message["inBand"] = True
        control = self.control() if self.control is not None else None
        if control is not None:
            message["control"] = control
        return message
