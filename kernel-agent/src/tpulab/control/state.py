"""The states of a run that can be steered, and the one table of transitions between them."""

from __future__ import annotations

from typing import Literal

ControlState = Literal[
    "idle", "starting", "running", "pausing", "paused", "stopping", "stopped", "finished", "failed"
]
#: `start`: a loop requests its first item; `begin`: it has it; `ask_…`: a command was accepted; `pause`,
#: `resume`: it was applied; `end`, `fail`: the run is over, `stopped` if a stop was requested.
ControlEvent = Literal["start", "begin", "ask_pause", "pause", "resume", "ask_stop", "end", "fail"]

#: Further events of a run without a requested stop.
_END_TRANSITIONS: dict[ControlEvent, ControlState] = {
    "ask_stop": "stopping",
    "end": "finished",
    "fail": "failed",
}
_RUN_TRANSITIONS: dict[ControlEvent, ControlState] = {"ask_pause": "pausing", **_END_TRANSITIONS}
TRANSITIONS: dict[ControlState, dict[ControlEvent, ControlState]] = {
    "idle": {"start": "starting", **_RUN_TRANSITIONS},
    "starting": {"start": "starting", "begin": "running", **_RUN_TRANSITIONS},
    "running": {"start": "running", "begin": "running", **_RUN_TRANSITIONS},
    "pausing": {
        "start": "pausing",
        "begin": "pausing",
        "pause": "paused",
        "resume": "running",
        **_END_TRANSITIONS,
    },
    "paused": {"resume": "running", **_END_TRANSITIONS},
    "stopping": {"start": "stopping", "begin": "stopping", "end": "stopped", "fail": "failed"},
    # A run continues when its cell runs again.
    "stopped": {"start": "starting"},
    "finished": {"start": "starting"},
    "failed": {"start": "starting"},
}

#: No step follows, unless a loop is started again.
ENDED: frozenset[ControlState] = frozenset({"stopped", "finished", "failed"})


class ControlTransitionError(RuntimeError):
    """An event of a run that is invalid in its state."""

    code = "CONTROL_TRANSITION"

    def __init__(self, state: ControlState, event: ControlEvent) -> None:
        super().__init__(f"A run that is {state} cannot {event.replace('_', ' for a ')}.")
        self.state = state
        self.event = event


def after(state: ControlState, event: ControlEvent) -> ControlState:
    """The next state. Raises `ControlTransitionError` where there is none."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise ControlTransitionError(state, event)
    return following


def is_allowed(state: ControlState, event: ControlEvent) -> bool:
    return event in TRANSITIONS[state]
