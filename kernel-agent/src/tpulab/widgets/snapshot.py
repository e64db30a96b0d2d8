"""The newest state, small enough to travel twice a second: the widgets' data without a bridge."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from tpulab.agent.agent import Agent
from tpulab.runtimes.devices import read_devices
from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import Message

#: Steps whose spans are in a snapshot.
STEPS = 128
#: Points of a metric; beyond that every second one is dropped.
POINTS = 256
METRICS = 8
COMMANDS = 12
#: Runs that are remembered after another run has replaced them, until they have ended and that was shown.
MAX_REPLACED_RUNS = 8
_SPANS = ("index", "startTime", "wallMs", "inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")


class MetricPoints:
    """One metric of the whole run, thinned so that it stays within `POINTS`."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        #: None: NaN or infinite
        self.values: list[float | None] = []
        self._stride = 1
        self._seen = 0

    def add(self, step: int, value: float | None) -> None:
        if self._seen % self._stride == 0:
            self.steps.append(step)
            self.values.append(value)
            if len(self.steps) > POINTS:
                self.steps, self.values = self.steps[::2], self.values[::2]
                self._stride *= 2
        self._seen += 1


class RunFigures:
    """The data of one run in a snapshot."""

    def __init__(self, run: dict[str, Any] | None) -> None:
        #: the newest message of the run; None: no run has started
        self.run = run
        self.throughput: dict[str, Any] | None = None
        self.steps: deque[list[float]] = deque(maxlen=STEPS)
        self.metrics: dict[str, MetricPoints] = {}


class SnapshotStore:
    """Receives the messages of an agent's recorder. `take` may be called on any thread."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self._shown = RunFigures(None)
        #: the newest message of each run that has not ended
        self._live: dict[str, dict[str, Any]] = {}
        #: by run: its shown state before another run replaced it
        self._left: dict[str, RunFigures] = {}
        #: grows with each message
        self.version = 0
        #: grows with each ended run
        self.ended = 0
        run = agent.tracker.last_run
        if run is not None:
            message = dict(run.message())
            self._shown = RunFigures(message)
            if not run.ended:
                self._live[run.id] = message
        agent.recorder.taps.append(self._tap)

    def close(self) -> None:
        if self._tap in self._agent.recorder.taps:
            self._agent.recorder.taps.remove(self._tap)

    def take(self) -> dict[str, Any]:
        """A snapshot in the form that the front end reads (`extension/src/widgets/snapshot.ts`)."""
        devices = self._agent.devices.last or _devices()
        with self._lock:
            return self._snapshot(self._shown, devices)

    def take_ended(self) -> list[dict[str, Any]]:
        """The last snapshots of ended runs that another run has replaced, each once."""
        with self._lock:
            ended = [run_id for run_id in self._left if run_id not in self._live]
            return [self._snapshot(self._left.pop(run_id), self._agent.devices.last) for run_id in ended]

    def _snapshot(self, shown: RunFigures, devices: Any) -> dict[str, Any]:
        run = shown.run
        return {
            "v": 1,
            "time": unix_now_ms(),
            "kernelId": os.environ.get("TPULAB_KERNEL_ID"),
            "devices": devices,
            "run": run,
            "throughput": shown.throughput,
            "steps": [list(row) for row in shown.steps],
            "metrics": {
                name: [list(points.steps), list(points.values)] for name, points in shown.metrics.items()
            },
            "commands": [
                command
                for command in self._agent.commands.recent(COMMANDS)
                if run is not None and command["run"] == run["run"]
            ],
        }

    def _tap(self, messages: list[Message]) -> None:
        if not messages:
            return
        with self._lock:
            for message in messages:
                self._add(message)
            self.version += 1

    def _add(self, message: Any) -> None:
        kind = message["type"]
        if kind == "run":
            self._add_run(message)
            return
        shown = self._shown
        if kind == "steps" and shown.run is not None and shown.run["run"] not in self._live:
            # The inner loop has ended, and the outer one continues.
            self._show(self._live.get(message["run"]))
            shown = self._shown
        if shown.run is None or message.get("run") != shown.run["run"]:
            return
        if kind == "steps":
            for step in message["steps"]:
                shown.steps.append([*(step[name] for name in _SPANS), int(step["deviceKnown"])])
                found = {**step.get("metrics", {}), **dict.fromkeys(step.get("nonFinite", {}))}
                for name, value in found.items():
                    if name in shown.metrics or len(shown.metrics) < METRICS:
                        shown.metrics.setdefault(name, MetricPoints()).add(step["index"], value)
        elif kind == "pace":
            shown.throughput = message

    def _add_run(self, message: dict[str, Any]) -> None:
        """The shown run is the run that started last, as in a page (`run-history.ts`)."""
        run_id, ended = message["run"], message["state"] != "running"
        begins = not ended and run_id not in self._live
        if ended:
            self._live.pop(run_id, None)
            self.ended += 1
            if run_id in self._left:
                self._left[run_id].run = message
        else:
            self._live[run_id] = message
        shown = self._shown.run
        if shown is None or shown["run"] == run_id:
            self._shown.run = message
        elif begins and not (shown["run"] in self._live and "control" in shown and "control" not in message):
            # The end of the previous run may be reported after this beginning, and changes nothing then.
            self._show(message)

    def _show(self, run: dict[str, Any] | None) -> None:
        if run is None:
            return
        self._left.pop(run["run"], None)
        if self._shown.run is not None:
            self._left[self._shown.run["run"]] = self._shown
            if len(self._left) > MAX_REPLACED_RUNS:
                del self._left[next(iter(self._left))]
        self._shown = RunFigures(run)


def without_run(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The same before a run has started."""
    return {**snapshot, "run": None, "throughput": None, "steps": [], "metrics": {}, "commands": []}


def _devices() -> Any:
    try:
        return read_devices()
    except Exception:
        return None
