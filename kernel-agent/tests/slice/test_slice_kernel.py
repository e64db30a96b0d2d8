"""Four hosts of two XLA:CPU devices each, as processes over gloo, behind one kernel that all tests share."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from keeper_double import PATIENCE_S, wait_until
from slice_process import SliceProcess
from tpulab.slice.hosts import parse_hosts

HOSTS = 4
#: A step of linear regression over all devices, each with a row of the batch; prints the learned values.
STEP = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("data",))
rows = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")
data = jax.make_array_from_callback(rows.shape, NamedSharding(mesh, P("data")), lambda at: rows[at])
@jax.jit
def step(weights, data):
    loss, slope = jax.value_and_grad(lambda w: jnp.mean((data @ w - 1.0) ** 2))(weights)
    return weights - 0.1 * slope, loss
weights = jax.device_put(jnp.zeros(5), NamedSharding(mesh, P()))
for _ in range(3):
    weights, loss = step(weights, data)
print(json.dumps([len(jax.devices()), np.asarray(weights.addressable_data(0)).tolist(), float(loss)]))
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[SliceProcess]:
    with tempfile.TemporaryDirectory(prefix="tl-") as folder, SliceProcess(Path(folder), HOSTS) as process:
        assert process.cell("import time, jax").reply["status"] == "ok", process.log_text()
        yield process


def test_a_sharded_step_equals_one_process_with_eight_devices(kernel: SliceProcess) -> None:
    answer = kernel.cell(STEP)
    devices, weights, loss = json.loads(answer.text())
    alone = subprocess.run(
        [sys.executable, "-c", STEP], env={**os.environ}, capture_output=True, text=True, check=True
    )
    expected = json.loads(alone.stdout)
    assert devices == expected[0] == 8
    assert weights == pytest.approx(expected[1], abs=1e-6)
    assert loss == pytest.approx(expected[2], abs=1e-6)
    assert answer.folds == ["hosts 1-3: same as host 0 (same on 3 hosts)"]


def test_other_hosts_are_folded_by_what_they_show(kernel: SliceProcess) -> None:
    answer = kernel.cell("print('all')\nprint(min(jax.process_index(), 2) * 10)\njax.process_index() > 0")
    assert answer.text() == "all\n0\n"
    (shown,) = answer.contents("execute_result")
    assert shown["data"]["text/plain"] == "False"
    assert shown["execution_count"] == answer.reply["execution_count"]
    (fold,) = answer.folds
    assert fold.splitlines() == [
        *("host 1: different output (2 lines, 1 display)", "  all", "  10", "  True"),
        *("hosts 2-3: different output (2 lines, 1 display), same on 2 hosts", "  all", "  20", "  True"),
    ]
    chosen = kernel.cell("%%host 1,3\nprint(jax.process_index())")
    assert chosen.text() == "1\n"
    assert chosen.folds == ["host 3: different output (1 line)\n  3"]
    assert "devices of all hosts" in kernel.cell("%%host 2\nlen(jax.devices())").text("stderr")
    assert "0-3" in kernel.cell("%%host 9\n1").reply["evalue"]


def test_all_hosts_use_the_value_of_the_first_one(kernel: SliceProcess) -> None:
    code = (
        "from tpulab.agent.process_group import process_group\n"
        "found = [process_group.agree([jax.process_index() + at]) for at in (5, 6)]\n"
        "print(found, process_group.is_first == (jax.process_index() == 0))"
    )
    answer = kernel.cell(code)
    assert answer.text() == "[[5], [6]] True\n"
    assert answer.folds == ["hosts 1-3: same as host 0 (same on 3 hosts)"]


def test_the_same_error_is_shown_once(kernel: SliceProcess) -> None:
    answer = kernel.cell("1 / 0")
    assert answer.reply["ename"] == "ZeroDivisionError"
    assert answer.traceback.startswith("hosts 0-3\n")
    assert answer.traceback.count("1 / 0") == 1
    answer = kernel.cell("if jax.process_index() > 1: raise ValueError(jax.process_index())")
    assert "host 2\n" in answer.traceback
    assert "host 3\n" in answer.traceback
    assert answer.reply["evalue"] == "2"


def test_a_flood_of_all_hosts_loses_and_reorders_nothing(kernel: SliceProcess) -> None:
    lines = 20_000
    answer = kernel.cell(f"for i in range({lines}): print(jax.process_index() // 2, i)")
    assert answer.text().splitlines() == [f"0 {i}" for i in range(lines)]
    fold = "\n".join(answer.folds)
    assert re.findall(r"^hosts? .*", fold, re.M)[:1] == ["host 1: same as host 0"]
    printed = re.findall(r"^  (.*)$", fold, re.M)
    # The parts of a fold are cut within lines.
    assert "".join(printed) == "".join(f"1 {i}" for i in range(lines))


def test_an_interrupt_reaches_all_hosts(kernel: SliceProcess) -> None:
    request = kernel.start("print('begun', flush=True)\ntime.sleep(600)")
    kernel.wait_for_text(request, "begun")
    kernel.process.send_signal(signal.SIGINT)
    answer = kernel.answer(request)
    assert answer.reply["ename"] == "KeyboardInterrupt"
    # Hosts that were not yet asleep are listed separately.
    interrupted = re.findall(r"^hosts? ([\d, -]+)$", answer.traceback, re.M)
    assert {host for one in interrupted for host in parse_hosts(one, HOSTS)} == set(range(HOSTS))
    assert kernel.cell("print('on')").text() == "on\n"


def test_different_programs_are_an_error_before_they_hang(kernel: SliceProcess) -> None:
    total = "jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, P()))"
    spread = "jax.make_array_from_callback((n,), NamedSharding(mesh, P('data')), lambda at: np.ones(n)[at])"
    answer = kernel.cell(f"n = 16 if jax.process_index() == 2 else 8\n{total}({spread})")
    assert answer.reply["ename"] == "ProgramMismatchError"
    assert "hosts 0-1, 3: jit" in answer.reply["evalue"]
    assert "host 2: jit" in answer.reply["evalue"]
    left_out = kernel.cell(f"n = 24\nif jax.process_index() != 1: {total}({spread})")
    assert "with host 1 already done with the cell" in left_out.reply["evalue"]
    alone = kernel.cell(f"%%host 3\nn = 32\n{total}({spread})")
    assert "with hosts 0-2 outside this cell" in alone.reply["evalue"]
    assert kernel.cell(f"n = 40\nprint(float({total}({spread})))").text() == "40.0\n"


def test_input_completion_inspection_and_a_widget_of_host_3(kernel: SliceProcess) -> None:
    request = kernel.start("name = input('who? ')\nprint(name)", stdin=True)
    requested = kernel.client.get_stdin_msg(timeout=PATIENCE_S)
    assert requested["content"]["prompt"] == "who? "
    kernel.client.input("Ada")
    answer = kernel.answer(request)
    assert answer.text() == "Ada\n"
    assert answer.folds == ["hosts 1-3: same as host 0 (same on 3 hosts)"]
    assert "process_index" in kernel.ask(kernel.client.complete("jax.process_in"))["matches"]
    assert kernel.ask(kernel.client.inspect("time.sleep"))["found"]

    shown = kernel.cell(
        "%%host 3\nimport ipywidgets\nslider = ipywidgets.IntSlider(1)\n"
        "slider.observe(lambda change: print('moved to', change.new), 'value')\nslider"
    )
    models = {
        one["data"]["state"]["_model_name"]: one["comm_id"]
        for one in shown.contents("comm_open")
        if "state" in one["data"]
    }
    moved = kernel.client.session.msg(
        "comm_msg",
        {
            "comm_id": models["IntSliderModel"],
            "data": {"method": "update", "state": {"value": 7}, "buffer_paths": []},
        },
    )
    kernel.client.shell_channel.send(moved)
    seen: list[str] = []
    while not any("moved to 7" in one for one in seen):
        message = kernel.client.get_iopub_msg(timeout=PATIENCE_S)
        if message["parent_header"].get("msg_id") == moved["header"]["msg_id"]:
            seen.append(message["content"].get("text", ""))
    assert kernel.cell("%%host 3\nprint(slider.value)").text() == "7\n"


@pytest.mark.parametrize(
    ("sent", "reason"), [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, "stopped (SIGSTOP)")]
)
def test_a_host_that_dies_or_freezes_is_named_and_the_cell_ends(
    short_folder: Path, sent: signal.Signals, reason: str
) -> None:
    with SliceProcess(short_folder, 2) as kernel:
        pids = kernel.host_pids()
        request = kernel.start("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)")
        kernel.wait_for_text(request, "begun")
        os.kill(pids[1], sent)
        answer = kernel.answer(request)
        assert answer.reply["ename"] == "HostLostError"
        assert answer.reply["evalue"].startswith("Host 1 is lost: ")
        assert reason in answer.reply["evalue"]
        assert "Restart the kernel" in kernel.cell("1").reply["evalue"]
        wait_until(lambda: not any(_lives(pid) for pid in pids), "the group to end")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
