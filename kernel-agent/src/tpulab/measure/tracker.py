"""What the loops and watches of a process report to: clocks, the recorder, and the runs that go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.recorder import Recorder
from tpulab.measure.runs import Run
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.messages import RunState
from tpulab.telemetry.text import error_text


class TextLines(Protocol):
    """Tells of runs in words, where nobody shows them."""

    def on_step(self, run: Run) -> None: ...

    def on_end(self, run: Run, *, nested: bool) -> None: ...


class Tracker:
    """One per agent. Loops use it on their threads; any thread may wake."""

    def __init__(
        self,
        *,
        wake: Callable[[], None],
        warn: Callable[..., None],
        on_run: Callable[[], None],
        is_shown: bool,
        write_line: Callable[[str], None] | None = None,
    ) -> None:
        #: something is to be reported
        self.wake = wake
        self.warn = warn
        #: works out the steps that are complete; waits at most so many seconds for those that are not
        self.settle: Callable[[float], None] = lambda _: None
        self._on_run = on_run
        #: a page shows what is measured; otherwise only what was asked for is
        self.is_shown = is_shown
        self.cells = CellRegister()
        self.device = DeviceClock()
        self.recorder = Recorder(self.device)
        self.adviser = self.recorder.adviser = Adviser(self.recorder.events, wake, write_line)
        self.text: TextLines | None = None
        #: called before each step: values of live widgets are handed over
        self.between_steps: Callable[[], None] | None = None
        #: the cell in which a loop of `tpulab.run` last began
        self.steered_in: object = None
        #: runs that have not ended, by id; and the last one that has begun, for `status`
        self.runs: dict[str, Run] = {}
        self.last_run: Run | None = None
        self._failed: deque[Run] = deque(maxlen=64)

    def add_run(self, run: Run) -> None:
        self._on_run()
        self.runs[run.id] = run
        self.last_run = run
        self.recorder.events.append((run, run.message()))
        self.wake()

    def end_run(self, run: Run, state: RunState) -> None:
        """Ends a run. Told before it is noted: an interrupt in between may tell it twice, not never."""
        self.recorder.events.append((run, run.message(state)))
        run.state = state
        self.runs.pop(run.id, None)
        if state == "failed":
            self._failed.append(run)
        self.wake()
        if self.recorder.is_crowded:
            # Many short runs in a row: their steps would displace one another.
            self.settle(0.0)

    def explain_failures(self, error: BaseException) -> None:
        """What has ended the runs that failed of late, and ends those that go on with it."""
        text = error_text(error)
        for run in [*self._failed, *list(self.runs.values())]:
            run.error = text
        self._failed.clear()
