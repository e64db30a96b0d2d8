"""The extension with the real bridge and a real kernel: what a stop ends, and what it leaves on request."""

from __future__ import annotations

import json
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .command import BUNDLED
from .conftest import DEADLINE_S, Bridge, is_running
from .test_server import Server, serving

REPOSITORY = Path(__file__).resolve().parents[2]
BRIDGE = REPOSITORY / "kernel-bridge"
KERNEL_PYTHON = REPOSITORY / ".tpulab" / "envs" / "jax" / "bin" / "python"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node"),
    pytest.mark.skipif(not (BRIDGE / "lib" / "cli" / "main.js").exists(), reason="the bridge is not built"),
    pytest.mark.skipif(not KERNEL_PYTHON.exists(), reason="needs an environment with ipykernel"),
    pytest.mark.usefixtures("config_home"),
]


@pytest.fixture
def environ(bridge: Bridge) -> Iterator[dict[str, str]]:
    """The bundled command, one kernelspec, and after the test no kernel of it."""
    assert BUNDLED[-1] == BRIDGE / "bin" / "tpulab.js"
    spec = bridge.root_dir / "jupyter" / "kernels" / "plain"
    spec.mkdir(parents=True)
    argv = [str(KERNEL_PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    text = {"argv": argv, "display_name": "Plain", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(text))
    yield {"JUPYTER_PATH": str(spec.parents[1]), "TPULAB_BRIDGE_COMMAND": ""}
    left = [pid for pid in processes_of(bridge) if is_running(pid)]
    assert left == [], "keepers or kernels were left behind"


def processes_of(bridge: Bridge) -> list[int]:
    """Pids of all keepers and kernels that were ever started in this state folder."""
    pids: list[int] = []
    for file in bridge.state_dir.glob("kernels/*/keeper.json"):
        record = json.loads(file.read_text())
        pids += [record[name] for name in ("pid", "kernelPid") if isinstance(record.get(name), int)]
    return pids


def ask(address: dict[str, Any], method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        address["url"] + path,
        method=method,
        headers={"Authorization": f"token {address['token']}", "Content-Type": "application/json"},
        data=None if body is None else json.dumps(body).encode(),
    )
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return json.load(answer) if answer.status != 204 else None


def start_kernel(server: Server) -> tuple[str, list[int]]:
    address = server.bridge("ready")
    kernel = ask(address, "POST", "api/kernels", {"name": "plain"})
    record = Path(next(iter(server.state_dir.glob(f"kernels/{kernel['id']}/keeper.json"))))
    pids = [json.loads(record.read_text())[name] for name in ("pid", "kernelPid")]
    assert all(is_running(pid) for pid in pids)
    return str(kernel["id"]), pids


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "the processes did not end"
        time.sleep(0.05)


def test_the_end_of_the_server_is_the_end_of_gateway_keepers_and_kernels(
    bridge: Bridge, environ: dict[str, str]
) -> None:
    with serving(bridge, environ=environ) as server:
        _, pids = start_kernel(server)
        gateway = int(json.loads((bridge.state_dir / "gateway.json").read_text())["pid"])
        server.end()
        wait_until_gone([*pids, gateway])


def test_kept_kernels_and_those_of_a_killed_server_are_found_by_the_next_one(
    bridge: Bridge, environ: dict[str, str]
) -> None:
    with serving(bridge, arguments=["--TPULab.keep_kernels=True"], environ=environ) as first:
        kernel, pids = start_kernel(first)
    assert all(is_running(pid) for pid in pids)
    with serving(bridge, environ=environ) as second:
        assert [item["id"] for item in ask(second.bridge("ready"), "GET", "api/kernels")] == [kernel]
        second.end(signal.SIGKILL)
    with serving(bridge, environ=environ) as third:
        assert [item["id"] for item in ask(third.bridge("ready"), "GET", "api/kernels")] == [kernel]
    wait_until_gone(pids)
