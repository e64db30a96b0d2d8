"""The extension with the real bridge and a real kernel: the processes that a stop ends, or leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
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
    """The bundled command and one kernelspec; after the test none of its kernels remain."""
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
    """Pids of all keepers and kernels ever started in this state folder."""
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


def wait_until_ended(pids: list[int]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "the processes did not end"
        time.sleep(0.05)


def test_stopping_the_server_ends_gateway_keepers_and_kernels(
    bridge: Bridge, environ: dict[str, str]
) -> None:
    with serving(bridge, environ=environ) as server:
        _, pids = start_kernel(server)
        gateway = int(json.loads((bridge.state_dir / "gateway.json").read_text())["pid"])
        server.end()
        wait_until_ended([*pids, gateway])


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
    wait_until_ended(pids)


def test_the_documented_lines_run_a_notebook_of_the_usual_kernel_name(
    bridge: Bridge, environ: dict[str, str], tmp_path: Path
) -> None:
    text = (REPOSITORY / "docs" / "local-runtime.md").read_text()
    [lines] = re.findall(r"```python\n(# run_on_server.py.*?)```", text, re.DOTALL)
    (tmp_path / "run_on_server.py").write_text(lines)
    for name, code in (("runs", "print(6 * 7)"), ("dies", "import os; os._exit(3)")):
        cell = {"cell_type": "code", "id": "c", "metadata": {}, "source": code}
        cells = [{**cell, "outputs": [], "execution_count": None}]
        kernelspec = {"name": "python3", "display_name": "Python 3"}
        notebook = {
            "cells": cells,
            "metadata": {"kernelspec": kernelspec},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook))

    def run(name: str, address: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        gateway = {"JUPYTER_GATEWAY_URL": address["url"], "JUPYTER_GATEWAY_AUTH_TOKEN": address["token"]}
        return subprocess.run(
            [sys.executable, "run_on_server.py", name],
            cwd=tmp_path,
            env={**os.environ, **gateway},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    with serving(bridge, environ=environ) as server:
        address = server.bridge("ready")
        assert run("runs.ipynb", address).returncode == 0
        written = json.loads((tmp_path / "runs.ipynb").read_text())
        assert "".join(written["cells"][0]["outputs"][0]["text"]) == "42\n"
        ended = run("dies.ipynb", address)
        assert ended.returncode == 1
        assert "exited with code 3" in ended.stderr
        server.end()
