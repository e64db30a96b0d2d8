"""The agent's side of a run that can be steered, and the reports of its changes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tpulab.agent.agent import Agent
from tpulab.control.controller import Controller, ControlListener
from tpulab.measure.tracked_run import TrackedRun
from tpulab.telemetry.messages import ControlMessage, RunState
from tpulab.telemetry.text import write_line

if TYPE_CHECKING:
    from tpulab.control.run_log import RunLog


_NOT_HALTED = object()
#: How long the end of a run waits for the device time of its last steps.
SETTLE_S = 0.5


class SteeredRun(TrackedRun, ControlListener):
    """The measured side of a run that can be steered. Lives until its last step has been reported.

    As a listener it notifies the page, the log and, without a bridge, the reader of the text.
    """

    #: weak: it references optimizers, and a run without references cannot be steered
    controller: weakref.ref[Controller] = staticmethod(lambda: None)  # type: ignore[assignment]
    log: RunLog | None = None
    agent: Agent
    #: the cell in which a command ended it
    _halted_cell: object = _NOT_HALTED

    @property
    def halted(self) -> bool:
        """Ended by a command: no loop continues until the cell is over."""
        return self._halted_cell is not _NOT_HALTED and self._halted_cell is self.tracker.cells.running()

    def halt(self) -> None:
        """A stop was applied: no loop of this cell has a further step."""
        self._halted_cell = self.tracker.cells.running()
        self.end("finished")

    def leave_loop(self, state: RunState) -> None:
        """A loop was left: by `break`, and another one may follow, or by an exception, which ends the run."""
        if state == "failed":
            self.end(state)
        elif not self.run.ended:
            self.clock.discard()

    def changed(self) -> None:
        """State or hyperparameters have changed."""
        if not self.run.ended:
            self.tracker.report(self.run)
            self.tracker.wake()

    def reported(self, message: ControlMessage) -> None:
        self.agent.send_control(message)
        if self.log is not None and message["phase"] != "accepted":
            self.log.command(message)
        if self.tracker.text is not None and message["phase"] != "accepted":
            write_line(f"{self.run.name}: {command_text(message)}")

    def waits(self) -> None:
        if self.tracker.between_steps is not None:
            self.tracker.between_steps()

    def progressed(self, step: int, metrics: dict[str, float]) -> None:
        if self.log is not None:
            self.log.metrics(step, metrics)

    def begin_step(self) -> None:
        if self.run.ended and self.log is not None:
            self.log.goes_on()
        super().begin_step()

    def end(self, state: RunState) -> None:
        controller, ends = self.controller(), not self.run.ended
        if ends and controller is not None:
            event, why = ("fail", "The run failed") if state == "failed" else ("end", "The run ended")
            controller.finish(event, f"{why} before its next step.")  # type: ignore[arg-type]
        super().end(state)
        if ends and self.log is not None:
            # The log's end includes the figures of the last steps: they are computed first, if that is quick.
            self.tracker.settle(SETTLE_S)
            self.log.end(state, self.run.closed, self.run.metrics)


def command_text(message: ControlMessage) -> str:
    """One line about the result of a command."""
    what: str = message["action"]
    if message["action"] == "call":
        what = str(message["name"])
    if message["action"] == "set":
        what = f"{message['name']} = {message['value']!r}"
        if message["before"] is not None:
            what += f" (was {message['before']!r})"
    where = f" at step {message['step']}" if message["step"] is not None else ""
    why = f": {message['reason']}" if message["reason"] else ""
    return f"{what} {message['phase']}{where}{why}"
