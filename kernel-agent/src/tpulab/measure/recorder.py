"""Turns closed steps and events into messages, in order, and bounds the queues.

Loops and listeners only append to two deques, which never blocks. `collect` runs on the agent's thread at 10
Hz at most. Steps that do not fit are dropped oldest first and counted (their numbers leave a hole); runs,
devices and compilations have a separate deque, so that no flood of steps ever displaces them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from tpulab.figures.alerts import Rule
from tpulab.figures.spans import split
from tpulab.measure.advice import (
    advise_on_alert,
    advise_on_freed,
    advise_on_non_finite,
    advise_on_run,
    advise_on_slower,
    advise_on_unusable,
)
from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.media import MediaError, Medium
from tpulab.measure.runs import Run
from tpulab.measure.step_clock import UNSURE_SHARE, ClosedStep
from tpulab.runtimes.device_value import as_number, described, is_freed, is_running
from tpulab.runtimes.lazy_metrics import LazyMetric, NotANumber
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.clocks import now_ns, unix_ms, unix_now_ms
from tpulab.telemetry.messages import (
    FiguresMessage,
    MediaMessage,
    Message,
    NonFinite,
    Reported,
    RunMessage,
    StepSample,
    StepsMessage,
)
from tpulab.telemetry.plain import refusal_of_name

MAX_STEPS = 2048
MAX_EVENTS = 4096
#: Steps of one batch: at 10 Hz more than 2,500 a second, each about 5 us of the agent's thread.
STEPS_A_BATCH = 256
#: Names of metrics of one run; the page and the stored run have room for as many (`MAX_METRICS`).
MAX_METRICS = 128
#: How long a step may wait for the device clock before it is reported without it.
PATIENCE_NS = 60_000_000_000
ANNOUNCE_PATIENCE_NS = 1_000_000_000


class Recorder:
    """Owner of everything that waits to be sent."""

    def __init__(self, device: DeviceClock) -> None:
        self._device = device
        self.closed: deque[ClosedStep] = deque(maxlen=MAX_STEPS)
        self.events: deque[Reported | tuple[Run, RunMessage]] = deque(maxlen=MAX_EVENTS)
        #: numbers that were logged after their step: the run, the step and the values
        self.figures: deque[tuple[Run, int, dict[str, Any]]] = deque(maxlen=MAX_EVENTS)
        self._waiting: deque[ClosedStep] = deque(maxlen=MAX_STEPS)
        #: the run whose first step waits for its announcement, and since when
        self._unannounced = ("", 0)
        self._progressed: dict[str, Run] = {}
        self._media: list[Message] = []
        self._media_ids = itertools.count(1)
        self._endings: list[tuple[Run, RunMessage]] = []
        self.adviser: Adviser | None = None
        #: by their text; created by the threads of the user
        self.rules: dict[str, Rule] = {}
        #: also receives the collected messages, on the collecting thread; must be quick and never raise
        self.taps: list[Callable[[list[Message]], None]] = []

    @property
    def pending(self) -> bool:
        return bool(self.closed or self.events or self._waiting or self._endings or self.figures)

    @property
    def is_crowded(self) -> bool:
        """Whether steps or ends of runs will be dropped soon."""
        return len(self.closed) + len(self._waiting) > MAX_STEPS // 4 or len(self.events) > MAX_EVENTS // 4

    def collect(self, *, force: bool = False) -> list[Message]:
        """Messages that are complete by now. `force`: report every step as known so far; do not wait."""
        messages: list[Message] = []
        self._device.tidy()
        while self.events:
            event = self.events.popleft()
            if isinstance(event, dict):
                messages.append(event)
            elif event[1]["state"] != "running":
                self._endings.append(event)
            else:
                event[0].announced = True
                messages.append(event[1])
        # After the events: when the end of a run has been seen, all of its steps are here too.
        while self.closed:
            self._waiting.append(self.closed.popleft())
        messages += self._steps(force)
        messages += self._late_metrics(force)
        messages += self._media
        self._media = []
        done = self._complete_endings()
        messages += self._unrecorded(done)
        messages += self._progress_messages(done)
        messages += self._ended_runs(done)
        # Advice on the collected messages: at the end of the process there is no later collection.
        while force and self.events and isinstance(event := self.events[0], dict):
            messages.append(event)
            self.events.popleft()
        for tap in self.taps:
            tap(messages)
        return messages

    def _progress_messages(self, done: list[tuple[Run, RunMessage]]) -> list[Message]:
        """The progress of the runs whose steps were just recorded; and their programs."""
        found: list[Message] = []
        ending = {run.id for run, _ in done}
        for run in {**self._progressed, **{run.id: run for run, _ in done}}.values():
            if run.on_progress is not None:
                run.on_progress(run.recorded, run.metrics)
            slower = run.slower.check(
                run.totals, run.throughput.flops_per_step if run.throughput is not None else 0.0
            )
            if slower is not None and self.adviser is not None:
                advise_on_slower(self.adviser, run, slower)
            if run.throughput is not None:
                found += run.throughput.reused(run.id)
            if run.throughput is not None and run.throughput.due(force=run.id in ending):
                message = run.throughput.message(run.figures())
                if message is not None:
                    found.append(message)
        self._progressed.clear()
        return found

    def _steps(self, force: bool) -> list[Message]:
        batches: dict[str, StepsMessage] = {}
        unannounced: list[Message] = []
        count = 0
        if not self._waiting:
            return []
        # Once for all of them: reading the wall clock takes longer than adding to it.
        unix_zero_ms = unix_ms(0)
        while self._waiting and (force or count < STEPS_A_BATCH):
            step = self._waiting[0]
            if not force and not self._complete(step):
                break
            self._waiting.popleft()
            count += 1
            if not step.run.announced:
                # A flood of runs has displaced its announcement.
                step.run.announced = True
                unannounced.append(step.run.message("running"))
            batch = batches.get(step.run.id)
            if batch is None:
                batch = batches[step.run.id] = {
                    "type": "steps",
                    "time": unix_now_ms(),
                    "run": step.run.id,
                    "steps": [],
                    "dropped": 0,
                }
            batch["dropped"] += step.index - step.run.recorded
            step.run.recorded = step.index + 1
            self._progressed[step.run.id] = step.run
            batch["steps"].append(self._sample(step, unix_zero_ms))
        return [*unannounced, *batches.values()]

    def _complete(self, step: ClosedStep) -> bool:
        if not step.run.announced:
            if self._unannounced[0] != step.run.id:
                self._unannounced = (step.run.id, now_ns())
            if now_ns() - self._unannounced[1] < ANNOUNCE_PATIENCE_NS:
                return False
        settled = not step.watched or self._device.is_settled(step.post)
        ready = not step.metrics or not any(map(is_running, step.metrics.values()))
        return (settled and ready) or now_ns() - step.times.end > PATIENCE_NS

    def _sample(self, step: ClosedStep, unix_zero_ms: float) -> StepSample:
        times = step.times
        start, end = times.start, times.end
        known = (
            step.watched
            and self._device.is_settled(step.post)
            and self._device.is_known(start, end, UNSURE_SHARE)
        )
        spans = split(times, self._device.busy(start, end) if known else None)
        wall = end - start
        if not step.run.totals.steps and step.run.throughput is not None:
            step.run.throughput.began_ns = start
        step.run.totals.add(spans, known, first=step.index == 0, in_bands=wall - sum(spans))
        sample: StepSample = {
            "index": step.index,
            "startTime": round(unix_zero_ms + start / 1e6, 3),
            "wallMs": wall / 1e6,
            "inputMs": spans.input / 1e6,
            "hostMs": spans.host / 1e6,
            "compileMs": spans.compile / 1e6,
            "deviceMs": spans.device / 1e6,
            "gapMs": spans.gap / 1e6,
            "deviceKnown": known,
        }
        if step.metrics:
            self._add_metrics(step, step.metrics, sample)
        if step.bands:
            sample["bands"] = _band_ms(step.bands)
        return sample

    def _add_metrics(self, step: ClosedStep, values: dict[str, Any], sample: StepSample) -> None:
        metrics, non_finite = self._read(step.run, step.index, values)
        if metrics:
            sample["metrics"] = metrics
        if non_finite:
            sample["nonFinite"] = non_finite

    def _read(
        self, run: Run, step: int, values: dict[str, Any]
    ) -> tuple[dict[str, float], dict[str, NonFinite]]:
        """The metrics of a step that are numbers, and the non-finite ones."""
        numbers = {name: number for name, value in values.items() if (number := as_number(value)) is not None}
        if len(numbers) < len(values):
            for name in values.keys() - numbers.keys():
                self._no_number(run, step, name, values[name])
        if not numbers.keys() <= run.metrics.keys():
            numbers = {name: number for name, number in numbers.items() if self._accepts(run, name)}
        run.metrics.update(numbers)
        if self.rules and self.adviser is not None:
            for rule in list(self.rules.values()):
                advise_on_alert(self.adviser, run, step, numbers, rule)
        metrics = {name: number for name, number in numbers.items() if math.isfinite(number)}
        if len(metrics) == len(numbers):
            return metrics, {}
        # By name, as JSON has no such numbers.
        non_finite = {
            name: non_finite_name(number) for name, number in numbers.items() if name not in metrics
        }
        if self.adviser is not None:
            advise_on_non_finite(self.adviser, run, step, non_finite)
        return metrics, non_finite

    def _no_number(self, run: Run, step: int, name: str, value: Any) -> None:
        if isinstance(value, Medium):
            message: MediaMessage = {
                "type": "media",
                "time": unix_now_ms(),
                "run": run.id,
                "id": next(self._media_ids),
                "step": step,
                "name": name[:120],
                "mime": value.mime,
                "data": value.data,
            }
            self._media.append(message)
        elif is_freed(value):
            run.freed[name] = run.freed.get(name, 0) + 1
        elif self.adviser is not None and not is_running(value) and not isinstance(value, LazyMetric):
            kind = value if isinstance(value, NotANumber) else described(value)
            why = str(value) if isinstance(value, MediaError) else f"{kind} is no number"
            advise_on_unusable(self.adviser, run, name, why)

    def _accepts(self, run: Run, name: str) -> bool:
        if name in run.metrics:
            return True
        if (why := refusal_of_name(name)) is not None:
            if self.adviser is not None:
                advise_on_unusable(self.adviser, run, name, why, "Choose another name.")
            return False
        if len(run.metrics) < MAX_METRICS:
            run.metrics[name] = 0.0
            return True
        if self.adviser is not None:
            advise_on_run(
                self.adviser,
                run,
                "too-many-metrics",
                f"{run.name} logs more than {MAX_METRICS} names; `{name[:60]}` and others are left out.",
                "Log the same names in each step: a new name for each step or sample is no curve.",
            )
        return False

    def _late_metrics(self, force: bool) -> list[Message]:
        """Numbers of recorded steps, in separate messages."""
        found: list[Message] = []
        later: list[tuple[Run, int, dict[str, Any]]] = []
        while self.figures:
            run, step, values = self.figures.popleft()
            waits = step >= run.recorded and any(waiting.run is run for waiting in self._waiting)
            if not force and (waits or any(map(is_running, values.values()))):
                later.append((run, step, values))
                continue
            metrics, non_finite = self._read(run, step, values)
            if metrics or non_finite:
                message: FiguresMessage = {
                    "type": "figures",
                    "time": unix_now_ms(),
                    "run": run.id,
                    "step": step,
                    "metrics": metrics,
                }
                if non_finite:
                    message["nonFinite"] = non_finite
                found.append(message)
                self._progressed[run.id] = run
        self.figures.extendleft(reversed(later))
        return found

    def _complete_endings(self) -> list[tuple[Run, RunMessage]]:
        """The end of a run is reported after its last step, and after the figures known by then."""
        # Not by counting: an interrupt may drop a step after it was numbered and before it was queued.
        unfinished = {step.run.id for step in self._waiting} | {run.id for run, _, _ in self.figures}
        done = [ending for ending in self._endings if ending[0].id not in unfinished]
        self._endings = [ending for ending in self._endings if ending[0].id in unfinished]
        return done

    def _unrecorded(self, done: list[tuple[Run, RunMessage]]) -> list[StepsMessage]:
        """The last steps of a run were dropped: no later step follows whose number would show the hole."""
        found: list[StepsMessage] = []
        for run, _ in done:
            missing, run.recorded = run.closed - run.recorded, run.closed
            if missing > 0:
                found.append(
                    {"type": "steps", "time": unix_now_ms(), "run": run.id, "steps": [], "dropped": missing}
                )
        return found

    def _ended_runs(self, done: list[tuple[Run, RunMessage]]) -> list[RunMessage]:
        for run, _ in done:
            if self.adviser is not None:
                advise_on_freed(self.adviser, run)
        return [message for _, message in done]


def _band_ms(bands: list[tuple[str, int, int]]) -> dict[str, float]:
    """By kind; the outer of nested bands counts the time, so that the bands add up."""
    found: dict[str, float] = {}
    reached = 0
    for kind, begin, end in sorted(bands, key=lambda band: (band[1], -band[2])):
        if kind == "transfer":
            found[kind] = found.get(kind, 0.0) + (end - begin) / 1e6
            continue
        found[kind] = found.get(kind, 0.0) + max(end - max(begin, reached), 0) / 1e6
        reached = max(reached, end)
    return found


def non_finite_name(number: float) -> NonFinite:
    """`NaN`, `Infinity` or `-Infinity`, which JavaScript and Python both read."""
    return cast("NonFinite", json.dumps(number))
