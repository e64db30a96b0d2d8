"""What the steps of a run have taken so far, added up."""

from __future__ import annotations

from dataclasses import dataclass

from tpulab.measure.spans import StepSplit
from tpulab.telemetry.messages import BandKind


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


@dataclass(frozen=True, slots=True)
class Figures:
    """Where a run stands."""

    #: its id
    run: str
    started_ns: int
    #: number of its steps, where that is known; and how many of them have been recorded
    total: int | None
    recorded: int
    totals: RunTotals
