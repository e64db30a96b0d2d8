"""The states of a run that can be steered: one table, equal to the protocol's."""

from __future__ import annotations

from typing import get_args

import pytest

from keeper_double import SCHEMA
from tpulab.control.state import (
    ENDED,
    TRANSITIONS,
    ControlEvent,
    ControlState,
    ControlTransitionError,
    after,
    is_allowed,
)

STATES: tuple[ControlState, ...] = get_args(ControlState)
EVENTS: tuple[ControlEvent, ...] = get_args(ControlEvent)


def test_the_table_has_every_state_and_leads_only_to_known_states() -> None:
    assert set(TRANSITIONS) == set(STATES)
    for table in TRANSITIONS.values():
        assert set(table) <= set(EVENTS)
        assert set(table.values()) <= set(STATES)


def test_the_protocol_has_the_same_states() -> None:
    run = next(kind for kind in SCHEMA["anyOf"] if kind["properties"]["type"]["const"] == "run")
    reported = run["properties"]["control"]["properties"]["state"]["anyOf"]
    assert {kind["const"] for kind in reported} == set(STATES)


def test_a_run_that_continues_can_end_and_fail_from_every_state() -> None:
    for state in STATES:
        if state not in ENDED:
            # Stopped means on request; a run that ends automatically is finished.
            ended = "stopped" if state == "stopping" else "finished"
            assert (after(state, "end"), after(state, "fail")) == (ended, "failed")


def test_a_stopping_run_can_only_end() -> None:
    assert {after("stopping", event) for event in TRANSITIONS["stopping"]} == {
        "stopping",
        "stopped",
        "failed",
    }


def test_an_impossible_transition_is_an_error_with_its_reason() -> None:
    assert not is_allowed("running", "resume")
    with pytest.raises(ControlTransitionError, match="running cannot resume") as caught:
        after("running", "resume")
    assert (caught.value.code, caught.value.state) == ("CONTROL_TRANSITION", "running")
