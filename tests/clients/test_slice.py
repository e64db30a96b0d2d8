"""The bridge serves the kernel of a slice as any other: journaled, resumed, interrupted, restarted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ..kernel_environment import environment_python
from .bridge_process import BridgeProcess
from .kernel_connection import KernelConnection, printed

KERNEL = "tpulab-slice-pair"
CELL = """
import jax, pathlib, time
print(len(jax.devices()), "devices")
while not pathlib.Path({gate!r}).exists(): time.sleep(0.01)
for n in range(100): print("line", n, flush=True)
"""
EXPECTED = "4 devices\n" + "".join(f"line {n}\n" for n in range(100))


@pytest.fixture(autouse=True)
def offered_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernelspec is in the gateway's search path, written as a user writes it."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    subprocess.run(
        [environment_python(), "-m", "tpulab.slice", "add", "pair", "--local", "2"],
        env={**os.environ, "JUPYTER_DATA_DIR": str(tmp_path / "jupyter")},
        check=True,
        capture_output=True,
    )


async def test_the_bridge_serves_a_slice_as_any_kernel(bridge: BridgeProcess, tmp_path: Path) -> None:
    specs = (await bridge.rest("GET", "/api/kernelspecs")).body["kernelspecs"]
    assert specs[KERNEL]["spec"]["display_name"] == "JAX · pair (2 hosts)"
    kernel_id = await bridge.start_kernel(KERNEL)
    gate = tmp_path / "gate"

    async with KernelConnection(bridge, kernel_id) as client:
        requested = await client.request_execute(CELL.format(gate=str(gate)))
        await client.wait_for(lambda m: m.parent_id == requested and m.msg_type == "stream")
        await bridge.kill()
        await client.closed()
        gate.touch()
        await bridge.start()

    async with KernelConnection(bridge, kernel_id, client.session_id) as again:
        await again.wait_idle(requested)
        answers = client.answers(requested) + again.answers(requested)
        assert printed(answers) == EXPECTED
        folds = [m.content["data"]["text/plain"] for m in answers if m.msg_type.endswith("display_data")]
        assert folds[-1] == "host 1: same as host 0"

        # The agent of process 0 reports to the bridge, so no host prints the report.
        answers = await again.execute("import tpulab\nfor _ in tpulab.steps(range(3)): pass\nprint('done')")
        assert printed(answers) == "done\n"

        sleeping = await again.request_execute("print('asleep', flush=True)\nwhile True: time.sleep(0.1)")
        await again.wait_for(lambda m: m.parent_id == sleeping and m.msg_type == "stream")
        await bridge.rest("POST", f"/api/kernels/{kernel_id}/interrupt")
        reply = await again.wait_for(lambda m: m.parent_id == sleeping and m.msg_type == "execute_reply")
        assert reply.content["ename"] == "KeyboardInterrupt"

        assert (await bridge.rest("POST", f"/api/kernels/{kernel_id}/restart")).status == 200
        answers = await again.execute("print('CELL' in dir(), __import__('jax').process_count())")
        assert printed(answers) == "False 2\n"
