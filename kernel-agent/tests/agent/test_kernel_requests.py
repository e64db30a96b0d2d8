"""Requests of a page to the kernel while its cell is busy: the owners of memory, a trace of the devices."""

from __future__ import annotations

from pathlib import Path

from keeper_double import KeeperDouble
from kernel_process import KernelProcess

LOOP = """
import threading, jax, jax.numpy as jnp
params = {"w": jnp.ones((256, 256))}
train_step = jax.jit(lambda w: jnp.tanh(w @ w).sum())
train_step(params["w"]).block_until_ready()
stop = threading.Event()
def loop():
    while not stop.is_set():
        train_step(params["w"]).block_until_ready()
thread = threading.Thread(target=loop)
thread.start()
"""
#: The first trace begins when the second has been refused, however late that request arrives.
HOLD = """
from tpulab.agent import kernel_requests
refused, capture = threading.Event(), kernel_requests.capture
kernel_requests.capture = lambda *given: refused.wait() and capture(*given)
"""


def test_memory_by_array_and_a_trace_are_served_during_a_running_loop(
    short_folder: Path, keeper: KeeperDouble
) -> None:
    environment = {"TPULAB_AGENT_SOCKET": str(keeper.path), "JAX_PLATFORMS": "cpu"}
    with KernelProcess(short_folder, env=environment) as kernel:
        kernel.run(LOOP)
        keeper.outcome(keeper.command("memory"), "applied")
        [memory] = keeper.wait(lambda: keeper.of_type("memory"), "who holds memory")
        held = {tuple(entry["shape"]): entry["names"] for entry in memory["arrays"]}
        assert held[256, 256] == ["params['w']"]
        assert memory["totalBytes"] >= 256 * 256 * 4

        kernel.run(HOLD)
        first = keeper.command("profile")
        second = keeper.command("profile")
        assert "already" in keeper.outcome(second, "refused")["reason"]
        kernel.run("refused.set()")
        keeper.outcome(first, "applied")
        [profile] = keeper.wait(lambda: keeper.of_type("profile"), "the trace")
        assert any(one["totalMs"] > 0 for one in profile["operations"])

        # A trace of another length stays beside the log of the newest run.
        kernel.run("import tpulab\nfor _ in tpulab.run('lm', log='kept').steps(range(2)): pass")
        keeper.outcome(keeper.command("profile", value=0.3), "applied")
        keeper.wait(lambda: len(keeper.of_type("profile")) == 2, "the second trace")
        folder = Path(keeper.of_type("profile")[-1]["folder"])
        assert folder.parent == short_folder / "kept" / "traces"
        assert list(folder.rglob("*.xplane.pb"))
        kernel.run("stop.set(); thread.join()")
