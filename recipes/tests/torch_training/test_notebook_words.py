"""What a notebook shows: sources, and words where a widget cannot be drawn."""

from __future__ import annotations

import sys

import pytest
from tpulab_recipes.notebook import show_devices, show_source


def test_where_the_agent_is_missing_the_devices_are_named_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tpulab", None)
    assert "*Devices* section" in show_devices().data


class Network:
    def forward(self, x: int) -> int:
        return x + 1


def test_source_is_shown_from_its_margin_with_highlighting() -> None:
    shown = show_source(Network.forward, test_source_is_shown_from_its_margin_with_highlighting)
    assert shown.data.startswith("def forward(self, x: int) -> int:\n    return x + 1\n\ndef test_source_is")
    assert "<span" in shown._repr_html_()
