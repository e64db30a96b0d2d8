"""The progress of a run: throughput, time left, MFU, and the share of productive time (goodput).

Everything is computed here, on the agent's thread, from the recorded steps. The names for
lost time are from ml-goodput-measurement 0.2.3 (`BadputType`); its services are not used.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from tpulab.figures.totals import Figures, RunTotals
from tpulab.runtimes.jax_internals import is_of_jax
from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.messages import CompileMessage, Goodput, MfuFigures, ThroughputMessage

PEAK_TYPE = "bf16"
PEAK_FLOPS: dict[str, float] = {
    "TPU v2": 23e12,
    "TPU v3": 61.5e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v5p": 459e12,
    "TPU v6 lite": 918e12,
    "TPU v6e": 918e12,
    "TPU7x": 1153.5e12,
    "TPU 7x": 1153.5e12,
    # torch_tpu's name for it.
    "TPU v7": 1153.5e12,
}

#: JSON: operations a second by kind; null removes a rate.
PEAK_VARIABLE = "TPULAB_PEAK_FLOPS"


def peak_flops(device_kind: str | None) -> float | None:
    """For one device; None where neither the user's table nor ours has the kind."""
    if device_kind is None:
        return None
    own = _own_rates(os.environ.get(PEAK_VARIABLE, ""))
    return own[device_kind] if device_kind in own else PEAK_FLOPS.get(device_kind)


@cache
def _own_rates(text: str) -> Mapping[str, float | None]:
    """An invalid table counts as no table: a figure shown beside a run must not end the run."""
    try:
        table = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(table, dict):
        return {}
    return {
        kind: float(rate) if rate is not None else None
        for kind, rate in table.items()
        if rate is None or (isinstance(rate, (int, float)) and rate > 0)
    }


PERIOD_NS = 1_000_000_000
#: Period over which rates are averaged.
WINDOW_NS = 10_000_000_000

#: Steps without a compilation before the time left is reported.
STEADY_STEPS = 10

Source = Literal["given", "counted", "lower-bound"]


@dataclass(frozen=True, slots=True)
class Effort:
    """The size of one step, as specified by the user; None without a specification."""

    flops: float | None = None
    tokens: float | None = None
    samples: float | None = None
    peak_flops: float | None = None
    updates: float | None = None


@dataclass(slots=True, eq=False)
class Program:
    """A compiled program: its operations over all its devices, and whether they are exact."""

    flops: float
    #: False: a lower bound
    exact: bool
    devices: int
    #: the reason, by the names of jax's primitives
    missing: frozenset[str] = frozenset()
    #: the reports of its compilation
    reported: CompileMessage | None = None


#: The program that a call of a jitted function runs; None where it is not known.
Find = Callable[[Any, tuple[Any, ...], dict[str, Any]], Program | None]


class _Inspection(NamedTuple):
    """The state of a run at a moment."""

    moment: int
    steps: int
    #: nanoseconds so far of pauses, evaluations and the like, outside steps; and of compiling
    bands: int
    compile: int
    #: steps that compiled
    compiled: int
    #: of the watched steps: their number, the operations counted in them, and the calls that were
    #: not counted, or not in full
    watched: int
    flops: float
    uncounted: int


class Throughput:
    """For one run. `due` and `message` are called by the agent's thread."""

    def __init__(self, effort: Effort, find: Find) -> None:
        self._effort = effort
        self._made_ns = now_ns()
        self._window: deque[_Inspection] = deque()
        #: by kind: their number, the steps done at the last one, and their total nanoseconds
        self._bands: dict[str, tuple[int, int, int]] = {}
        self._next_ns = 0
        self._find = find
        #: running evaluations and the like: their operations are no part of the step
        self.bands_open = 0
        #: programs of the open step
        self._called: list[Program | None] = []
        #: programs that the run has called, by address; and the unreported ones
        self._known: dict[int, Program] = {}
        self._new: list[Program] = []
        self._watched = 0
        self._flops_counted = 0.0
        self._uncounted = 0
        #: uncounted primitives, for people
        self._missing: set[str] = set()
        self._program_devices = 0
        self.device_kind: str | None = None
        self.device_count = 0
        #: when the run was created, which is before its first step
        self.prepared_ns: int | None = None
        #: when the first step began
        self.began_ns: int | None = None

    def step_begins(self) -> None:
        self._called.clear()

    def called(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A program was started in a watched step."""
        # Single operations outside jit are no programs of the step.
        if not self.bands_open and not is_of_jax(jitted):
            self._called.append(self._find(jitted, args, kwargs))

    def ran(self, program: Program | None) -> None:
        """Like `called`, for a known program. None: its operations are unknown."""
        if not self.bands_open:
            self._called.append(program)

    def step_was_watched(self) -> None:
        """The open step is over, and all programs that it started were seen."""
        self._watched += 1
        for program in self._called:
            if program is not None:
                if id(program) not in self._known:
                    self._known[id(program)] = program
                    self._new.append(program)
                self._flops_counted += program.flops
                self._program_devices = max(self._program_devices, program.devices)
                self._missing |= program.missing
            self._uncounted += program is None or not program.exact

    def reused(self, run: str) -> list[CompileMessage]:
        """The programs that the run calls and that were compiled before it."""
        new, self._new = self._new, []
        return [
            {**reported, "run": run, "reused": True}
            for reported in (program.reported for program in new)
            if reported is not None and reported["run"] != run
        ]

    @property
    def flops_per_step(self) -> float:
        """The recent value; 0 where unknown."""
        return self._flops()[0] if self._window else 0.0

    def due(self, *, force: bool = False) -> bool:
        return force or now_ns() >= self._next_ns

    def message(self, run: Figures) -> ThroughputMessage | None:
        """The current progress of the run. None before the first step."""
        moment = now_ns()
        self._next_ns = moment + PERIOD_NS
        if run.totals.steps == 0:
            return None
        totals = run.totals
        bands = sum(lasted for kind, lasted in totals.bands.items() if kind != "transfer")
        self._window.append(
            _Inspection(
                moment,
                run.recorded,
                bands,
                totals.compile,
                totals.compiled,
                self._watched,
                self._flops_counted,
                self._uncounted,
            )
        )
        while len(self._window) > 2 and self._window[0].moment < moment - WINDOW_NS:
            self._window.popleft()
        rate = self._rate(totals)
        left = None
        # The first steps do not show how long the others take.
        is_steady = totals.steps - totals.compiled >= STEADY_STEPS or self._compiles_always(totals)
        if rate and is_steady and run.total is not None and run.total >= run.recorded:
            left = (run.total - run.recorded) / rate + self._remaining_band_s(run.total)
        prepared = self.prepared_ns or run.started_ns
        message: ThroughputMessage = {
            "type": "pace",
            "time": unix_now_ms(),
            "run": run.run,
            "step": run.recorded,
            "stepsPerSecond": rate,
            "tokensPerSecond": _times(rate, self._effort.tokens),
            "samplesPerSecond": _times(rate, self._effort.samples),
            "etaSeconds": left,
            "mfu": self._mfu(rate),
            "goodput": goodput(run.totals, moment - prepared, (self.began_ns or run.started_ns) - prepared),
        }
        if rate is not None and self._effort.updates is not None:
            message["updatesPerSecond"] = rate * self._effort.updates
        return message

    def band(self, kind: str, step: int, lasted: int) -> None:
        """A pause, an evaluation or the like is over. On the thread of the loop."""
        if kind in ("evaluate", "checkpoint", "sample"):
            count, _, whole = self._bands.get(kind, (0, 0, 0))
            self._bands[kind] = (count + 1, step, whole + lasted)

    def _remaining_band_s(self, total: int) -> float:
        """Seconds of the remaining evaluations and checkpoints at their rate so far."""
        seconds = 0.0
        for count, step, whole in list(self._bands.values()):
            if count >= 2 and step > 0:
                seconds += (total - step) // max(step / count, 1) * (whole / count / 1e9)
        return seconds

    def _compiles_always(self, totals: RunTotals) -> bool:
        """Compilation is a regular cost: it belongs in every rate."""
        return totals.steps >= 2 * STEADY_STEPS and totals.compiled * 4 > totals.steps

    def _rate(self, totals: RunTotals) -> float | None:
        """Steps a second of the time in which steps run: without pauses, evaluations and compiling.

        Of the window; of the whole run while there is only one sample.
        """
        first, last = self._window[0], self._window[-1]
        always = self._compiles_always(totals)
        if last.steps > first.steps and last.moment > first.moment:
            apart = last.bands - first.bands + (0 if always else last.compile - first.compile)
            elapsed = last.moment - first.moment - apart
            if elapsed > 0:
                return (last.steps - first.steps) / (elapsed / 1e9)
        steady = totals.wall - (0 if always else totals.compile)
        return totals.steps / (steady / 1e9) if steady > 0 else None

    def _mfu(self, rate: float | None) -> MfuFigures | None:
        flops, source, devices = self._flops()
        if not flops or not rate:
            return None
        peak = self._effort.peak_flops or peak_flops(self.device_kind)
        total_peak = peak * max(devices, 1) if peak else None
        figures: MfuFigures = {
            "value": flops * rate / total_peak if total_peak else None,
            "flopsPerStep": flops,
            "flopsPerSecond": flops * rate,
            "peakFlopsPerSecond": total_peak,
            "peakType": PEAK_TYPE if total_peak and not self._effort.peak_flops else None,
            "source": source,
        }
        if source == "lower-bound" and self._missing:
            figures["missing"] = sorted(self._missing)[:8]
        return figures

    def _flops(self) -> tuple[float, Source, int]:
        """For the steps of the window, like the rate; for the whole run where none of those was watched."""
        devices = self._program_devices or self.device_count
        if self._effort.flops is not None:
            return self._effort.flops, "given", devices
        first, last = self._window[0], self._window[-1]
        if last.watched == first.watched:
            first = _Inspection(0, 0, 0, 0, 0, 0, 0.0, 0)
        flops = (last.flops - first.flops) / max(last.watched - first.watched, 1)
        return flops, "counted" if last.uncounted == first.uncounted else "lower-bound", devices


def goodput(totals: RunTotals, total_ns: int, preparing_ns: int) -> Goodput:
    """Productive time and its losses by cause; they add up to the total.

    Productive is the device's working time. Where the device is unknown, the loop's working time counts.
    """
    shown, bands = totals.shown(), totals.bands
    is_known = bool(totals.known)
    known = {
        "TRAINING_PREP": max(preparing_ns, 0),
        "PROGRAM_STARTUP": shown.compile,
        "DATA_LOADING_SYNC": shown.input,
        "DEVICE_IDLE": shown.gap + shown.host if is_known else 0,
        "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME": bands.get("checkpoint", 0),
        "CUSTOM_BADPUT_EVENTS": sum(bands.get(kind, 0) for kind in ("evaluate", "sample", "call", "pause")),
    }
    productive = shown.device if is_known else shown.host + shown.device + shown.gap
    other = total_ns - productive - sum(known.values())
    if other < 0:
        # Nested bands count twice; the total stays the total.
        productive, other = max(productive + other, 0), 0
    bad = {cause: lost / 1e6 for cause, lost in {**known, "OTHER": other}.items() if lost > 0}
    return {
        "productiveMs": productive / 1e6,
        "totalMs": (productive / 1e6) + sum(bad.values()),
        "badputMs": bad,
    }


def _times(rate: float | None, number: float | None) -> float | None:
    return rate * number if rate is not None and number is not None else None
