"""Processes for the devices, started from a cell: reported once, with the remedy; the call is unchanged."""

from __future__ import annotations

import sys
import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from tpulab.agent.backend_advice import warn_of_spawn
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import Cell, CellRegister

MODULES = {"torch_xla.distributed.xla_multiprocessing": "spawn", "torch_xla": "launch"}


class Spawning:
    """Stand-ins for the two functions of torch_xla, watched."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.message: deque[Any] = deque()
        self.cells = CellRegister()
        self.modules: dict[str, Any] = {}
        for module, name in MODULES.items():
            self.modules[name] = SimpleNamespace(**{name: self._spawn})
            patch.setitem(sys.modules, module, self.modules[name])
        adviser = Adviser(self.message, lambda: None)
        # torch_xla may be imported again; a function is still wrapped only once.
        warn_of_spawn(adviser, self.cells)
        warn_of_spawn(adviser, self.cells)

    def in_a_cell(self) -> None:
        self.cells._running[threading.get_ident()] = Cell("the-cell", 1)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.modules[name], name)(*args, **kwargs)

    def _spawn(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "result"


@pytest.fixture
def spawning(monkeypatch: pytest.MonkeyPatch) -> Spawning:
    return Spawning(monkeypatch)


@pytest.mark.parametrize("name", MODULES.values())
def test_in_a_cell_it_is_reported_once_and_the_cell_continues(spawning: Spawning, name: str) -> None:
    spawning.in_a_cell()
    for _ in range(2):
        assert spawning.call(name, print, args=(1,)) == "result"
    [advice] = spawning.message
    assert (advice["kind"], f".{name} starts a process" in advice["message"]) == ("spawn-in-cell", True)
    assert "nprocs=1" in advice["remedy"]
    assert spawning.calls == [((print,), {"args": (1,)})] * 2


@pytest.mark.parametrize("requested", [{"nprocs": 1}, {"debug_single_process": True}])
def test_one_process_in_a_cell_gets_no_advice(spawning: Spawning, requested: dict[str, Any]) -> None:
    spawning.in_a_cell()
    assert spawning.call("spawn", print, **requested) == "result"
    assert not spawning.message


def test_processes_started_outside_a_cell_get_no_advice(spawning: Spawning) -> None:
    assert spawning.call("launch", print) == "result"
    assert not spawning.message
