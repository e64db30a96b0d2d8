"""A branch requested by a page: the next run with the log of a run begins at one of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from tpulab.control.command import Command
from tpulab.telemetry.messages import ControlMessage, HyperValue


@dataclass(frozen=True, slots=True)
class PlannedBranch:
    """Where a run begins, and its changed value."""

    run: str
    step: int
    name: str | None
    value: HyperValue | None


#: The newest request; a run of another name ignores it.
_planned: list[PlannedBranch] = []


def plan(command: Command) -> ControlMessage:
    """Answers the command; `run.restore` claims the plan."""
    if command.run is None or command.step is None:
        return command.message("refused", reason="A branch names a run and the step of its checkpoint.")
    _planned[:] = [PlannedBranch(command.run, command.step, command.name, command.value)]
    # The other run may be over, and is not changed.
    command.run = None
    change = "" if command.name is None else f", with {command.name} = {command.value}"
    what = f"the next run begins at step {command.step}{change}"
    reason = f"Run its cell again: {what}, if it calls run.restore."
    return command.message("applied", step=command.step, reason=reason)


def planned() -> PlannedBranch | None:
    return _planned[0] if _planned else None


def forget() -> None:
    """A run has claimed the plan."""
    _planned.clear()
