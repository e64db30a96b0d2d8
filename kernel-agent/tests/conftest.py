"""jax is configured before it is imported: eight CPU devices, whatever accelerator the machine has."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
os.environ.pop("TPULAB_AGENT_SOCKET", None)
os.environ.pop("TPULAB_AGENT_PID", None)

from keeper_double import KeeperDouble
from tpulab.agent import process_agent
from tpulab.agent.agent import Agent
from tpulab.measure.tracked_run import step_runs

# A shell starts background commands with SIGINT ignored; a loop that a test interrupts would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name (104 bytes in all on macOS)."""
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        yield Path(folder)


@pytest.fixture
def keeper(short_folder: Path) -> Iterator[KeeperDouble]:
    double = KeeperDouble(short_folder / "k.sock")
    yield double
    double.close()
    assert not double.problems, double.problems


@pytest.fixture
def agent(keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """This process's agent, connected to a keeper's double."""
    made = Agent(str(keeper.path))
    monkeypatch.setattr(process_agent, "_agent", made)
    made.start()
    yield made
    step_runs.end_all("finished", tracker=made.tracker)
    made.close()


@pytest.fixture
def text_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """This process's agent without a bridge."""
    made = Agent(None)
    monkeypatch.setattr(process_agent, "_agent", made)
    made.start()
    yield made
    made.close()
