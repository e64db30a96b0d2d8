"""The newest state, small enough to travel twice a second: what the widgets show without a bridge."""

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
#: Points of a metric; beyond that every second one is let go.
POINTS = 256
METRICS = 8
COMMANDS = 12
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


class SnapshotStore:
    """Listens to the recorder of an agent. `take` may be called on any thread."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self._run: dict[str, Any] | None = None
        #: the newest message of each run that has not ended
        self._live: dict[str, dict[str, Any]] = {}
        self._pace: dict[str, Any] | None = None
        self._steps: deque[list[float]] = deque(maxlen=STEPS)
        self._metrics: dict[str, MetricPoints] = {}
        #: grows with each message
        self.version = 0
        #: grows when a run has ended
        self.ended = 0
        run = agent.tracker.last_run
        if run is not None:
            self._run = dict(run.message())
            if not run.ended:
                self._live[run.id] = self._run
        agent.recorder.taps.append(self._tap)

    def close(self) -> None:
        if self._tap in self._agent.recorder.taps:
            self._agent.recorder.taps.remove(self._tap)

    def take(self) -> dict[str, Any]:
        """A snapshot as the front end reads it (`extension/src/widgets/snapshot.ts`)."""
        devices = self._agent.devices.last or _devices()
        with self._lock:
            run = self._run
            return {
                "v": 1,
                "time": unix_now_ms(),
                "kernelId": os.environ.get("TPULAB_KERNEL_ID"),
                "devices": devices,
                "run": run,
                "pace": self._pace,
                "steps": [list(row) for row in self._steps],
                "metrics": {
                    name: [list(points.steps), list(points.values)] for name, points in self._metrics.items()
                },
                "commands": [
                    command
                    for command in self._agent.desk.recent(COMMANDS)
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
        if kind == "steps" and self._run is not None and self._run["run"] not in self._live:
            # An inner loop has ended, and the one around it goes on.
            self._show(self._live.get(message["run"]))
        if self._run is None or message.get("run") != self._run["run"]:
            return
        if kind == "steps":
            for step in message["steps"]:
                self._steps.append([*(step[name] for name in _SPANS), int(step["deviceKnown"])])
                found = {**step.get("metrics", {}), **dict.fromkeys(step.get("nonFinite", {}))}
                for name, value in found.items():
                    if name in self._metrics or len(self._metrics) < METRICS:
                        self._metrics.setdefault(name, MetricPoints()).add(step["index"], value)
        elif kind == "pace":
            self._pace = message

    def _add_run(self, message: dict[str, Any]) -> None:
        """The run that is shown is the one that began last, as in a page (`run-history.ts`)."""
        run_id, ended = message["run"], message["state"] != "running"
        begins = not ended and run_id not in self._live
        if ended:
            self._live.pop(run_id, None)
            self.ended += 1
        else:
            self._live[run_id] = message
        shown = self._run
        if shown is None or shown["run"] == run_id:
            self._run = message
        elif begins and not (shown["run"] in self._live and "control" in shown and "control" not in message):
            # The end of the run before may be told after this beginning, and changes nothing then.
            self._show(message)

    def _show(self, run: dict[str, Any] | None) -> None:
        if run is None:
            return
        self._run = run
        self._pace = None
        self._steps.clear()
        self._metrics.clear()


def without_run(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The same before a run has begun."""
    return {**snapshot, "run": None, "pace": None, "steps": [], "metrics": {}, "commands": []}


def _devices() -> Any:
    try:
        return read_devices()
    except Exception:
        return None
