"""How a run goes on: throughput, time to go, MFU, and what the whole run made of its time (goodput).

Everything is worked out here, on the agent's thread, from the steps that have been recorded. The words for
lost time are those of ml-goodput-measurement 0.2.3 (`BadputType`); its services are not used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpulab.clocks import now_ns, unix_now_ms
from tpulab.messages import Goodput, MfuFigures, PaceMessage
from tpulab.peak_flops import PEAK_TYPE, peak_flops

if TYPE_CHECKING:
    from tpulab.runs import Run, RunTotals

PERIOD_NS = 1_000_000_000
#: Rates are means over so much time.
WINDOW_NS = 10_000_000_000

Source = Literal["given", "counted", "lower-bound"]


@dataclass(frozen=True, slots=True)
class Effort:
    """What one step is, as the user says it; None where they do not."""

    flops: float | None = None
    tokens: float | None = None
    samples: float | None = None
    peak_flops: float | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program: its operations over all its devices, and how well they are known."""

    flops: float
    exact: bool
    devices: int


class Pace:
    """Of one run. `steps_recorded` and `message` are called by the agent's thread."""

    def __init__(self, run: Run, effort: Effort, programs: Mapping[str, Program]) -> None:
        self._run = run
        self._effort = effort
        self._made_ns = now_ns()
        self._window: deque[tuple[int, int]] = deque()
        self._next_ns = 0
        #: calls of jitted functions in the steps that were watched, by name, and the number of these steps
        self.calls: dict[str, int] = {}
        self.watched_steps = 0
        self._programs = programs
        self.device_kind: str | None = None
        self.device_count = 0
        #: when the run was made, which is before its first step
        self.prepared_ns: int | None = None

    def due(self, *, force: bool = False) -> bool:
        return force or now_ns() >= self._next_ns

    def message(self) -> PaceMessage | None:
        """The figures as of now. None before the first step."""
        run, moment = self._run, now_ns()
        self._next_ns = moment + PERIOD_NS
        if run.totals.steps == 0:
            return None
        self._window.append((moment, run.recorded))
        while len(self._window) > 2 and self._window[0][0] < moment - WINDOW_NS:
            self._window.popleft()
        rate = self._rate()
        left = None
        if rate and run.total is not None and run.total >= run.recorded:
            left = (run.total - run.recorded) / rate
        return {
            "type": "pace",
            "time": unix_now_ms(),
            "run": run.id,
            "step": run.recorded,
            "stepsPerSecond": rate,
            "tokensPerSecond": _times(rate, self._effort.tokens),
            "samplesPerSecond": _times(rate, self._effort.samples),
            "etaSeconds": left,
            "mfu": self._mfu(rate),
            "goodput": goodput(run.totals, moment - (self.prepared_ns or run.started_ns),
                               run.started_ns - (self.prepared_ns or run.started_ns)),
        }  # fmt: skip

    def _rate(self) -> float | None:
        """Steps a second of the window; of the whole run while there is only one look."""
        (first, before), (last, now) = self._window[0], self._window[-1]
        if now > before and last > first:
            return (now - before) / ((last - first) / 1e9)
        totals = self._run.totals
        return totals.steps / (totals.wall / 1e9) if totals.wall else None

    def _mfu(self, rate: float | None) -> MfuFigures | None:
        flops, source, devices = self._flops()
        if not flops or not rate:
            return None
        peak = self._effort.peak_flops or peak_flops(self.device_kind)
        total_peak = peak * max(devices, 1) if peak else None
        return {
            "value": flops * rate / total_peak if total_peak else None,
            "flopsPerStep": flops,
            "flopsPerSecond": flops * rate,
            "peakFlopsPerSecond": total_peak,
            "peakType": PEAK_TYPE if total_peak and not self._effort.peak_flops else None,
            "source": source,
        }

    def _flops(self) -> tuple[float, Source, int]:
        called = [
            (program, calls / max(self.watched_steps, 1))
            for name, calls in list(self.calls.items())
            if (program := self._programs.get(name)) is not None
        ]
        devices = max((program.devices for program, _ in called), default=self.device_count)
        if self._effort.flops is not None:
            return self._effort.flops, "given", devices
        # A function whose program is not known was compiled before anybody looked.
        exact = all(program.exact for program, _ in called) and len(called) == len(self.calls)
        return (
            sum(program.flops * calls for program, calls in called),
            ("counted" if exact else "lower-bound"),
            devices,
        )


def goodput(totals: RunTotals, total_ns: int, preparing_ns: int) -> Goodput:
    """Productive time and its losses by cause; they add up to the total."""
    known = {
        "TRAINING_PREP": max(preparing_ns, 0),
        "PROGRAM_STARTUP": totals.compile,
        "DATA_LOADING_SYNC": totals.input,
        "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME": totals.checkpoint,
        "CUSTOM_BADPUT_EVENTS": totals.evaluate + totals.sample + totals.pause,
    }
    productive = max(totals.wall - totals.input - totals.compile - totals.in_steps, 0)
    other = total_ns - productive - sum(known.values())
    if other < 0:
        # Bands inside one another count twice; the whole stays the whole.
        productive, other = max(productive + other, 0), 0
    bad = {cause: lost / 1e6 for cause, lost in {**known, "OTHER": other}.items() if lost > 0}
    return {
        "productiveMs": productive / 1e6,
        "totalMs": (productive / 1e6) + sum(bad.values()),
        "badputMs": bad,
    }


def _times(rate: float | None, number: float | None) -> float | None:
    return rate * number if rate is not None and number is not None else None
