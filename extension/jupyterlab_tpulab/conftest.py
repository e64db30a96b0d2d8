"""A separate state folder for each test, the fake gateway, and the check that no process is left behind."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .state import is_alive
from .supervisor import BridgeSupervisor, SupervisorSettings

FAKE_GATEWAY = [sys.executable, str(Path(__file__).resolve().parent / "testing" / "fake_gateway.py")]
ORIGIN = "http://127.0.0.1:8888"
# For a machine that is busy with other tasks; no wait takes this long without a failure.
DEADLINE_S = 120.0


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition without blocking the event loop."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        await asyncio.sleep(0.01)


@dataclass
class Bridge:
    """One state folder, and the gateways that were started in it."""

    state_dir: Path
    root_dir: Path

    def supervisor(self, **changes: object) -> BridgeSupervisor:
        values: dict[str, object] = {
            "command": lambda: FAKE_GATEWAY,
            "state_dir": self.state_dir,
            "root_dir": self.root_dir,
            "origins": [ORIGIN],
            "environ": os.environ,
            "first_pause_s": 0.01,
            "watch_interval_s": 0.01,
            **changes,
        }
        return BridgeSupervisor(SupervisorSettings(**values), logging.getLogger("test"))  # type: ignore[arg-type]

    @property
    def starts(self) -> list[dict[str, object]]:
        log = self.state_dir / "started.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def pids(self) -> list[int]:
        return [int(str(start["pid"])) for start in self.starts]

    def add_kernel(self, name: str) -> Path:
        """The fake gateway lists each file of this folder as a kernel, and a shutdown removes it."""
        kernel = self.state_dir / "kernels" / name
        kernel.parent.mkdir(parents=True, exist_ok=True)
        kernel.touch()
        return kernel


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    bridge = Bridge(tmp_path / "state", tmp_path)
    yield bridge
    left = [pid for pid in bridge.pids if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == [], "a gateway was left behind"


def is_running(pid: int) -> bool:
    """Alive and not an unreaped zombie."""
    if not is_alive(pid):
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        # It has ended meanwhile (in the second case: after the file was opened), or there is no /proc.
        return is_alive(pid) and not Path("/proc/self").exists()


@pytest.fixture
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Excludes the machine's own Jupyter settings."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
