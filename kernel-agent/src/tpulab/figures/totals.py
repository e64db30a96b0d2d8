"""The total times of the steps of a run so far, and how they are shown.

Short steps are watched in part. For an unwatched step only the compile time is known: the rest is divided
like the time of the watched steps, as in the panel (`extension/src/steps/shown-split.ts`). Text lines,
`tpulab.status()` and goodput use `shown`, so that they match the panel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tpulab.figures.spans import StepSplit
from tpulab.telemetry.messages import BandKind

_NOTHING = StepSplit(0, 0, 0, 0, 0)


@dataclass(slots=True)
class RunTotals:
    """Sums over the recorded steps of a run, in nanoseconds. `wall` is without the bands inside steps."""

    steps: int = 0
    wall: int = 0
    #: of steps that are shown as measured, and of the others
    measured: StepSplit = _NOTHING
    unknown: StepSplit = _NOTHING
    #: of the steps that determine how the unknown ones are divided: watched, and without compiling
    watched: StepSplit = _NOTHING
    #: steps whose device time is known
    known: int = 0
    #: steps in which something was compiled
    compiled: int = 0
    #: time of checkpoints, evaluations and the like, in steps or between them
    bands: dict[str, int] = field(default_factory=dict)
    #: the part of that time inside steps
    in_steps: int = 0

    @property
    def compile(self) -> int:
        return self.measured.compile + self.unknown.compile

    @property
    def input(self) -> int:
        return self.measured.input + self.unknown.input

    def add_band(self, kind: BandKind, nanoseconds: int) -> None:
        self.bands[kind] = self.bands.get(kind, 0) + nanoseconds

    def add(self, split: StepSplit, known: bool, *, first: bool = False, in_bands: int = 0) -> None:
        """Adds a step. The first one waits for a loader that starts: it is no measure for others."""
        self.steps += 1
        self.wall += sum(split)
        self.in_steps += in_bands
        self.known += known
        self.compiled += split.compile > 0
        if known or (first and split.compile > 0):
            self.measured = _sum(self.measured, split)
        else:
            self.unknown = _sum(self.unknown, split)
        if known and split.compile == 0:
            self.watched = _sum(self.watched, split)

    def shown(self) -> StepSplit:
        """Where the time went: unwatched steps are divided like the watched ones."""
        whole = sum(self.watched)
        if not whole:
            return _sum(self.measured, self.unknown)
        rest = sum(self.unknown) - self.unknown.compile
        parts = [rest * part // whole for part in self.watched]
        # The remainder of rounding goes to the device, the largest part where it matters.
        parts[3] += rest - sum(parts)
        return _sum(self.measured, StepSplit(parts[0], parts[1], self.unknown.compile, parts[3], parts[4]))

    def minus(self, earlier: RunTotals) -> RunTotals:
        return RunTotals(
            self.steps - earlier.steps,
            self.wall - earlier.wall,
            _difference(self.measured, earlier.measured),
            _difference(self.unknown, earlier.unknown),
            _difference(self.watched, earlier.watched),
            self.known - earlier.known,
            self.compiled - earlier.compiled,
            {kind: lasted - earlier.bands.get(kind, 0) for kind, lasted in self.bands.items()},
            self.in_steps - earlier.in_steps,
        )

    def copy(self) -> RunTotals:
        return self.minus(RunTotals())


def _sum(one: StepSplit, other: StepSplit) -> StepSplit:
    return StepSplit(*(a + b for a, b in zip(one, other, strict=True)))


def _difference(one: StepSplit, other: StepSplit) -> StepSplit:
    return StepSplit(*(a - b for a, b in zip(one, other, strict=True)))


@dataclass(frozen=True, slots=True)
class Figures:
    """The state of a run."""

    #: its id
    run: str
    started_ns: int
    #: number of its steps, where known; and how many of them have been recorded
    total: int | None
    recorded: int
    totals: RunTotals
