"""A command to a run: checked once, where it arrives, and the reports about it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, get_args

from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import ControlAction, ControlMessage, ControlOrigin, ControlPhase, HyperValue

ACTIONS: tuple[ControlAction, ...] = get_args(ControlAction)
ID_LENGTH = 64


class ControlRefusedError(ValueError):
    """A command cannot be accepted; its text states why."""

    code = "CONTROL_REFUSED"


@dataclass(slots=True, eq=False)
class Command:
    action: ControlAction
    name: str | None = None
    value: HyperValue | None = None
    run: str | None = None
    origin: ControlOrigin = "code"
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    before: HyperValue | None = None
    #: not before this step: all hosts of a slice apply it at the same one
    at: int | None = None
    #: the step of the checkpoint at which a branch begins
    step: int | None = None

    def message(
        self,
        phase: ControlPhase,
        *,
        step: int | None = None,
        reason: str | None = None,
        duration_ms: float | None = None,
    ) -> ControlMessage:
        return {
            "type": "control",
            "time": unix_now_ms(),
            "id": self.id,
            "run": self.run,
            "action": self.action,
            "name": self.name,
            "value": self.value,
            "before": self.before,
            "origin": self.origin,
            "phase": phase,
            "step": step,
            "durationMs": duration_ms,
            "reason": reason,
        }


def failed_command(body: dict[str, Any], error: Exception) -> ControlMessage:
    """The answer to a command that raised an unexpected error: there is always an answer."""
    try:
        command = parse_command(body)
    except ControlRefusedError:
        command = Command("pause", origin="page", id=str(body.get("id"))[:ID_LENGTH] or "unknown")
    return command.message("failed", reason=f"It failed inside TPULab: {type(error).__name__}: {error}"[:500])


def parse_command(body: dict[str, Any]) -> Command:
    """A command as it comes over the socket. Raises `ControlRefusedError`."""
    given, action = body.get("id"), body.get("action")
    run, name, value = body.get("run"), body.get("name"), body.get("value")
    if not isinstance(given, str) or not 0 < len(given) <= ID_LENGTH:
        raise ControlRefusedError(f"A command has an id of 1 to {ID_LENGTH} characters.")
    if action not in ACTIONS:
        raise ControlRefusedError(f"{action!r} is not a command; commands are {', '.join(ACTIONS)}.")
    if run is not None and not isinstance(run, str):
        raise ControlRefusedError("`run` must be the id of a run.")
    named = {"set": "a hyperparameter", "call": "an action of the run"}.get(action)
    if named is not None and not isinstance(name, str):
        raise ControlRefusedError(f"`{action}` names {named}.")
    if not isinstance(value, (int, float, str)) or action not in ("set", "branch", "profile"):
        value = None
    at, step = body.get("at"), body.get("step")
    return Command(
        action,
        name if action in ("set", "call", "branch") and isinstance(name, str) else None,
        value,
        run,
        "page",
        given,
        at=at if isinstance(at, int) else None,
        step=step if isinstance(step, int) and step >= 0 else None,
    )
