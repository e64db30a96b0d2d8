"""Receives the reports of the loops and watches of a process: clocks, the recorder, and running runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.recorder import Recorder
from tpulab.measure.runs import Run
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.messages import RunState


class TextLines(Protocol):
    """Prints runs as text where no page shows them."""

    def on_step(self, run: Run) -> None: ...

    def on_end(self, run: Run, *, nested: bool) -> None: ...


class Tracker:
    """One per agent. Loops use it on their threads; any thread may wake it."""

    def __init__(
        self,
        *,
        wake: Callable[[], None],
        warn: Callable[..., None],
        on_run: Callable[[], None],
        is_shown: bool,
        write_line: Callable[[str], None] | None = None,
    ) -> None:
        #: wakes the agent's thread for a report
        self.wake = wake
        self.warn = warn
        #: completes the steps; waits at most so many seconds for incomplete ones
        self.settle: Callable[[float], None] = lambda _: None
        self._on_run = on_run
        #: a page shows the measurements; otherwise only requested ones are shown
        self.is_shown = is_shown
        self.cells = CellRegister()
        self.device = DeviceClock()
        self.recorder = Recorder(self.device)
        self.adviser = self.recorder.adviser = Adviser(self.recorder.events, wake, write_line)
        self.text: TextLines | None = None
        #: called before each step: passes on values of live widgets
        self.between_steps: Callable[[], None] | None = None
        #: the cell in which a loop of `tpulab.run` last started
        self.steered_in: object = None
        #: runs that have not ended, by id; and the last one that has started, for `status`
        self.runs: dict[str, Run] = {}
        self.last_run: Run | None = None

    def add_run(self, run: Run) -> None:
        self._on_run()
        self.runs[run.id] = run
        self.last_run = run
        self.report(run)
        self.wake()

    def report(self, run: Run) -> None:
        """The state of a run, with the next messages."""
        self.recorder.events.append((run, run.message()))

    def end_run(self, run: Run, state: RunState) -> None:
        """Ends a run. Reported before it is noted: an interrupt in between may report it twice, not never."""
        self.recorder.events.append((run, run.message(state)))
        run.state = state
        self.runs.pop(run.id, None)
        self.wake()
        if self.recorder.is_crowded:
            # Many short runs in a row: their steps would displace one another.
            self.settle(0.0)
