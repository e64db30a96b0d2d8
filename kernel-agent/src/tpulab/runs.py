"""A run: one loop over steps, with what has been measured of it so far."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpulab.clocks import now_ns, unix_now_ms
from tpulab.messages import BandKind, CodeLocation, RunControl, RunMessage, RunState
from tpulab.spans import StepSplit

if TYPE_CHECKING:
    from tpulab.pace import Pace

_numbers = itertools.count(1)
# Part of the id, so that runs of a restarted kernel (same kernel id, new process) are other runs.
_process_started = f"{time.time_ns() // 1_000_000:x}"


@dataclass(slots=True)
class RunTotals:
    """Sums over the recorded steps of a run, in nanoseconds."""

    steps: int = 0
    wall: int = 0
    input: int = 0
    host: int = 0
    compile: int = 0
    device: int = 0
    gap: int = 0
    #: steps whose device time is known
    known: int = 0
    known_wall: int = 0
    #: time of checkpoints, evaluations and the like, in steps or between them
    checkpoint: int = 0
    evaluate: int = 0
    sample: int = 0
    transfer: int = 0
    pause: int = 0
    #: the part of them that lies inside steps
    in_steps: int = 0

    def add_band(self, kind: BandKind, nanoseconds: int) -> None:
        setattr(self, kind, getattr(self, kind) + nanoseconds)

    def add(self, split: StepSplit, wall: int, known: bool) -> None:
        self.steps += 1
        self.wall += wall
        self.input += split.input
        self.host += split.host
        self.compile += split.compile
        self.device += split.device
        self.gap += split.gap
        self.known += known
        self.known_wall += wall if known else 0

    def minus(self, earlier: RunTotals) -> RunTotals:
        return RunTotals(*(getattr(self, name) - getattr(earlier, name) for name in RunTotals.__slots__))

    def copy(self) -> RunTotals:
        return RunTotals(*(getattr(self, name) for name in RunTotals.__slots__))


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
    compilations: int = 0
    compile_ms: float = 0.0
    #: nobody annotated the loop: it was seen by what it repeats
    noticed: bool = False
    #: how it can be steered; None for a loop that is only measured
    control: Callable[[], RunControl | None] | None = None
    #: called by the agent's thread with the steps done and the newest metrics
    on_progress: Callable[[int, dict[str, float]], None] | None = None
    #: called by the agent's thread with the message of the run's end, after its last step was recorded
    on_ended: Callable[[Run, RunMessage], None] | None = None
    #: what ended it, when it failed and that is known
    error: str | None = None
    #: rates and goodput, of a run made with `tpulab.run`
    pace: Pace | None = None
    #: steps handed to the recorder, which numbers them; those above `recorded` are still on their way
    closed: int = 0
    recorded: int = 0

    @property
    def ended(self) -> bool:
        return self.state != "running"

    def next_index(self) -> int:
        index = self.closed
        self.closed = index + 1
        return index

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
        control = self.control() if self.control is not None else None
        if control is not None:
            message["control"] = control
        return message
