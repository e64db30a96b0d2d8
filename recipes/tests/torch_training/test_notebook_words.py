"""What a notebook says of a training that was stopped early, or not, and where a widget cannot be shown."""

from __future__ import annotations

import sys

import pytest
from tpulab_recipes.notebook import in_words, show_devices


def test_a_training_may_have_been_stopped_before_its_first_or_its_second_step() -> None:
    assert in_words([], None) == "no step was made"
    assert in_words([2.5], None).startswith("1 step, loss 2.500 to 2.500; stopped before step 2")
    assert in_words([2.5, 1.25], 0) == "2 steps, loss 2.500 to 1.250; compiled since step 2: 0"


def test_where_the_agent_is_missing_the_devices_are_named_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tpulab", None)
    assert "*Devices* section" in show_devices().data
