"""Turns closed steps and events into messages, in order, and keeps what does not fit within bounds.

Loops and listeners only append to two deques, which never blocks. `collect` runs on the agent's thread at 10
Hz at most. Steps that do not fit are dropped oldest first and counted (their numbers leave a hole); runs,
devices and compilations have a deque of their own, so that no flood of steps ever displaces them.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.runs import Run
from tpulab.measure.spans import split
from tpulab.measure.step_clock import UNSURE_SHARE, ClosedStep
from tpulab.runtimes.device_value import as_number, is_freed, is_running
from tpulab.runtimes.jax_internals import loaded_jax
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.clocks import now_ns, unix_ms, unix_now_ms
from tpulab.telemetry.messages import (
    Message,
    NonFinite,
    PaceMessage,
    RunMessage,
    StepSample,
    StepsMessage,
    Told,
)

KEPT_STEPS = 2048
KEPT_EVENTS = 4096
#: Steps of one batch: at 10 Hz more than 2,500 a second, each about 5 us of the agent's thread.
STEPS_A_BATCH = 256
#: How long a step may wait for the device clock before it is reported with what is known.
PATIENCE_NS = 60_000_000_000
#: A loop that an exception leaves has ended before anybody can see the exception.
ERROR_PATIENCE_NS = 5_000_000_000


class Recorder:
    """Owner of everything that waits to be sent."""

    def __init__(self, device: DeviceClock) -> None:
        self._device = device
        self.closed: deque[ClosedStep] = deque(maxlen=KEPT_STEPS)
        self.events: deque[Told | tuple[Run, RunMessage]] = deque(maxlen=KEPT_EVENTS)
        self._waiting: deque[ClosedStep] = deque(maxlen=KEPT_STEPS)
        self._announced: set[str] = set()
        self._moved: dict[str, Run] = {}
        self._endings: list[tuple[Run, RunMessage]] = []
        #: ends that were told, whose `on_ended` is still to be called, until when at the latest
        self._ended: list[tuple[Run, RunMessage, int]] = []
        self.adviser: Adviser | None = None
        #: also told of what was collected, on the thread that collects; must be quick and never raise
        self.taps: list[Callable[[list[Message]], None]] = []

    @property
    def pending(self) -> bool:
        return bool(self.closed or self.events or self._waiting or self._endings or self._ended)

    def collect(self, *, force: bool = False) -> list[Message]:
        """Messages that are complete by now. `force`: report every step with what is known; do not wait."""
        messages: list[Message] = []
        self._device.tidy()
        while self.events:
            event = self.events.popleft()
            if isinstance(event, dict):
                messages.append(event)
            elif event[1]["state"] != "running":
                self._endings.append(event)
            else:
                self._announced.add(event[0].id)
                messages.append(event[1])
        # After the events: when the end of a run has been seen, all of its steps are here too.
        while self.closed:
            self._waiting.append(self.closed.popleft())
        messages += self._steps(force)
        messages += self._paces()
        messages += self._ended_runs()
        self._tell_ended(force)
        # Advice on what was just collected: at the end of the process nobody collects again.
        while force and self.events and isinstance(event := self.events[0], dict):
            messages.append(event)
            self.events.popleft()
        for tap in self.taps:
            tap(messages)
        return messages

    def has_announced(self, run: Run) -> bool:
        return run.id in self._announced

    def _paces(self) -> list[PaceMessage]:
        """How the runs of which steps were just recorded go on."""
        found = []
        for run in self._moved.values():
            if run.on_progress is not None:
                run.on_progress(run.recorded, run.metrics)
            ends = any(ending[0] is run for ending in self._endings)
            if run.pace is not None and run.pace.due(force=ends):
                message = run.pace.message(run.figures())
                if message is not None:
                    found.append(message)
        self._moved.clear()
        return found

    def _steps(self, force: bool) -> list[StepsMessage]:
        batches: dict[str, StepsMessage] = {}
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
            self._moved[step.run.id] = step.run
            batch["steps"].append(self._sample(step, unix_zero_ms))
        return list(batches.values())

    def _complete(self, step: ClosedStep) -> bool:
        if step.run.id not in self._announced:
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
        step.run.totals.add(spans, wall, known)
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
            sample["bands"] = {kind: lasted / 1e6 for kind, lasted in step.bands.items()}
        return sample

    def _add_metrics(self, step: ClosedStep, values: dict[str, Any], sample: StepSample) -> None:
        numbers = {name: number for name, value in values.items() if (number := as_number(value)) is not None}
        for name, value in values.items():
            if name not in numbers and is_freed(value):
                step.run.freed[name] = step.run.freed.get(name, 0) + 1
        step.run.metrics.update(numbers)
        metrics = {name: number for name, number in numbers.items() if math.isfinite(number)}
        if metrics:
            sample["metrics"] = metrics
        if len(metrics) < len(numbers):
            # By name, as JSON has no such numbers.
            sample["nonFinite"] = {
                name: non_finite_name(number) for name, number in numbers.items() if name not in metrics
            }
            self._advise_on(step, sample["nonFinite"])

    def _advise_on(self, step: ClosedStep, found: dict[str, NonFinite]) -> None:
        """Once for each metric of a run; those of one step together, as one makes the others so."""
        run = step.run
        new = {name: text for name, text in found.items() if name not in run.non_finite}
        run.non_finite.update(new)
        if not new or self.adviser is None:
            return
        what = " and ".join(f"`{name}` {text}" for name, text in list(new.items())[:3])
        more = f" and {len(new) - 3} more" if len(new) > 3 else ""
        remedy = "Check the data of this step, lower the learning rate, or clip the gradients."
        if loaded_jax() is not None:
            remedy += ' `jax.config.update("jax_debug_nans", True)` raises at the operation that makes a NaN.'
        self.adviser.say(
            "non-finite-metric",
            f"At step {step.index}, {what.replace('` ', '` became ', 1)}{more}.",
            remedy,
            about=f"{run.id} {next(iter(new))}",
            location=run.location,
            run=run.id,
        )

    def _advise_on_freed(self, run: Run) -> None:
        """A value that was gone before it could be read is no value of another step, and not 0."""
        if not run.freed or self.adviser is None:
            return
        name, count = max(run.freed.items(), key=lambda item: item[1])
        others = f" (and {len(run.freed) - 1} more)" if len(run.freed) > 1 else ""
        self.adviser.say(
            "freed-metric",
            f"`{name}`{others} was donated or deleted before it could be read in {count} of "
            f"{run.recorded} steps of {run.name}.",
            f"Log a copy to see it: `run.log({name}={name} + 0)`.",
            about=run.id,
            location=run.location,
            run=run.id,
        )

    def _ended_runs(self) -> list[RunMessage]:
        """The end of a run is told after its last step."""
        # Not by counting: an interrupt may have lost a step between its number and its place in the queue.
        unfinished = {step.run.id for step in self._waiting}
        done = [ending for ending in self._endings if ending[0].id not in unfinished]
        self._endings = [ending for ending in self._endings if ending[0].id in unfinished]
        for run, _ in done:
            self._advise_on_freed(run)
        self._ended += [(run, message, now_ns() + ERROR_PATIENCE_NS) for run, message in done]
        return [message for _, message in done]

    def _tell_ended(self, force: bool) -> None:
        waiting, self._ended = self._ended, []
        for run, message, until in waiting:
            if run.on_ended is None:
                continue
            if message["state"] == "failed" and run.error is None and not force and now_ns() < until:
                self._ended.append((run, message, until))
            else:
                run.on_ended(run, message)


def non_finite_name(number: float) -> NonFinite:
    """`NaN`, `Infinity` or `-Infinity`, which JavaScript and Python both read."""
    return cast("NonFinite", json.dumps(number))
