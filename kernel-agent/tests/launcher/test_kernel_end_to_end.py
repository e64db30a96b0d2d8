"""A real kernel, started by the launcher, reports to a keeper's double that checks every line."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keeper_double import KeeperDouble
from kernel_process import KernelProcess


@pytest.fixture
def kernel(short_folder: Path, keeper: KeeperDouble) -> Iterator[KernelProcess]:
    env = {"TPULAB_AGENT_SOCKET": str(keeper.path), "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    with KernelProcess(short_folder, env=env) as process:
        yield process


DEFINE = """import jax, jax.numpy as jnp, tpulab

@jax.jit
def train_step(w, batch):
    return w - 0.1 * batch.mean(), (w * batch).sum()
"""
FIT = """w = jnp.float32(1.0)

def fit(sizes):
    global w
    for size in tpulab.steps(sizes, name='digits'):
        w, loss = train_step(w, jnp.ones((size, 4)))
        tpulab.metric(loss=loss)

fit([16, 16, 16, 7])
"""


def test_a_notebook_reports_devices_steps_and_compilations(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    [hello] = keeper.wait(lambda: keeper.of_type("hello"), "hello")
    assert hello["pid"] == kernel.process.pid
    assert hello["ipykernelVersion"].startswith("7.")

    kernel.run(DEFINE, "cell-define")
    assert (
        kernel.run("from jax._src import xla_bridge as b; print(b.backends_are_initialized())") == "False\n"
    )
    assert not keeper.of_type("devices"), "the agent must not initialise a backend"
    assert kernel.run(FIT, "cell-fit") == "", "with a bridge nothing is printed"

    [end] = keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert (end["name"], end["state"], end["totalSteps"]) == ("digits", "finished", 4)
    assert (end["location"]["cellId"], end["location"]["line"]) == ("cell-fit", 5)
    steps = keeper.steps(end["run"])
    assert [step["index"] for step in steps] == [0, 1, 2, 3]
    assert all("loss" in step["metrics"] for step in steps)
    assert [step["compileMs"] > 0 for step in steps] == [True, False, False, True]

    devices = keeper.wait(lambda: keeper.of_type("devices"), "the devices")[0]
    assert (devices["platform"], len(devices["devices"])) == ("cpu", 8)
    assert devices["devices"][0]["memoryUsedBytes"] is None

    first, second = keeper.compiled("train_step")
    assert not first["eager"]
    assert first["reason"]["verdict"] == "first"
    assert second["reason"] | {"advice": ""} == {
        "verdict": "shape",
        "argument": "batch",
        "before": "f32[16,4]",
        "after": "f32[7,4]",
        "advice": "",
    }
    for message in (first, second):
        assert message["run"] == end["run"]
        assert message["location"] == {
            "cellId": "cell-fit",
            "executionCount": 3,
            "line": 6,
            "file": None,
            "function": "fit",
        }


def test_a_function_of_another_cell_is_located_in_the_cell_that_holds_the_line(
    kernel: KernelProcess, keeper: KeeperDouble, short_folder: Path
) -> None:
    (short_folder / "training.py").write_text("def run(step, x):\n    return step(x)\n")
    kernel.run("import jax, numpy as np\n@jax.jit\ndef in_cell(x):\n    return x * 2\nx = np.ones(3)", "one")
    kernel.run("def call():\n    return in_cell(x)", "two")
    kernel.run("call()", "three")
    kernel.run("import training\n\ntraining.run(in_cell, np.ones(4))", "four")
    first, second = keeper.wait(lambda: keeper.compiled("in_cell")[1:] and keeper.compiled("in_cell"), "both")
    assert (first["location"]["cellId"], first["location"]["line"]) == ("two", 2)
    assert second["location"] == {
        "cellId": "four",
        "executionCount": 4,
        "line": 2,
        "file": "training.py",
        "function": "run",
    }


def test_a_cell_that_is_rerun_is_reported_to_have_redefined_its_function(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    for _ in range(2):
        kernel.run(DEFINE, "cell-define")
        kernel.run("train_step(1.0, jnp.ones(3))", "cell-call")
    _, second = keeper.wait(
        lambda: keeper.compiled("train_step")[1:] and keeper.compiled("train_step"), "both"
    )
    assert (second["reason"]["verdict"], second["variant"]) == ("redefined", 2)


def test_blocks_end_with_their_cell_and_fail_with_it(kernel: KernelProcess, keeper: KeeperDouble) -> None:
    kernel.run("import tpulab\nfor i in range(3):\n    with tpulab.step('good'): pass")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        kernel.run("with tpulab.step('bad'): pass\n1 / 0")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        kernel.run("loop = tpulab.steps(range(3), name='kept')\nfor i in loop: 1 / i")
    keeper.wait(lambda: len(keeper.ended_runs()) == 3, "the end of the runs")
    assert {run["name"]: run["state"] for run in keeper.ended_runs()} == {
        "good": "finished",
        "bad": "failed",
        "kept": "failed",
    }


def test_an_interrupted_loop_has_failed_and_the_kernel_continues(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    request = kernel.client.execute(
        "import tpulab, itertools\nfor _ in tpulab.steps(itertools.count(), name='endless'): pass"
    )
    keeper.wait(lambda: keeper.steps(), "the first steps")
    kernel.process.send_signal(signal.SIGINT)
    [end] = keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert end["state"] == "failed"
    # The run ends before its cell does, which still has a traceback to show.
    kernel.end_of(request)
    assert kernel.run("print('alive')") == "alive\n"


def test_a_flood_of_steps_is_batched_and_what_is_dropped_is_counted(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    before = time.monotonic()
    kernel.run("import tpulab\nfor _ in tpulab.steps(range(200_000), name='flood'): pass")
    [end] = keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    batches = keeper.of_type("steps")
    sent = keeper.steps(end["run"])
    assert len(sent) + sum(batch["dropped"] for batch in batches) == 200_000
    assert sum(batch["dropped"] for batch in batches) > 0
    assert sent[-1]["index"] == 199_999
    seconds = time.monotonic() - before
    assert len(batches) <= 10 * seconds + 2, "10 Hz at most"


def test_a_keeper_that_returns_receives_the_whole_state(kernel: KernelProcess, keeper: KeeperDouble) -> None:
    kernel.run(DEFINE + "jnp.ones(3)")
    keeper.wait(lambda: keeper.of_type("devices"), "the devices")
    keeper.close()
    kernel.run("for _ in tpulab.steps(range(5), name='meanwhile'): pass")
    keeper.messages.clear()
    keeper.listen()
    [end] = keeper.wait(lambda: keeper.ended_runs(), "the run during the outage")
    assert len(keeper.steps(end["run"])) == 5
    kinds = [message["type"] for message in keeper.messages]
    assert kinds[0] == "hello"
    assert kinds.count("hello") == 1
    assert "devices" in kinds


def test_the_last_measurements_are_sent_before_the_kernel_ends(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    kernel.run("import tpulab")
    kernel.finish("for _ in tpulab.steps(range(30), name='last'): pass")
    assert kernel.shut_down() == 0
    [end] = keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert len(keeper.steps(end["run"])) == 30


def test_a_program_started_from_a_cell_does_not_report_as_the_kernel(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    code = "import tpulab; print(sum(tpulab.steps(range(4))))"
    printed = kernel.run(
        f"import subprocess, sys; print(subprocess.getoutput([sys.executable + ' -c \"{code}\"']))"
    )
    assert "6" in printed
    assert "[tpulab]" in printed, "without a bridge of its own it prints text"
    keeper.wait(lambda: keeper.of_type("hello"), "hello")
    assert keeper.connections == 1


def test_widgets_work_as_without_the_launcher(kernel: KernelProcess) -> None:
    printed = kernel.run(
        "import ipywidgets as w\nslider = w.IntSlider(3)\nseen = []\n"
        "slider.observe(lambda change: seen.append(change['new']), 'value')\nslider.value = 5\nprint(seen)"
    )
    assert printed == "[5]\n"


def test_a_loop_of_two_jitted_functions_is_detected(kernel: KernelProcess, keeper: KeeperDouble) -> None:
    """N15: a training step, which compiles in the loop, and the metric beside it alternate. A step is an
    iteration of the loop."""
    kernel.run(
        "import time, jax, jax.numpy as jnp\n"
        "slope = jax.grad(lambda x: jax.nn.relu(x).sum())\n"
        "made = (lambda x: x - slope(x), lambda x: x.sum(), lambda x: x - 1)\n"
        "train_step, metric, rare = map(jax.jit, made)\n"
        "x = jnp.ones(8)\n"
        "for turn in range(40):\n"
        "    time.sleep(0.005)\n"
        "    x = train_step(x)\n"
        "    loss = metric(x)\n"
        "    if turn % 4 == 0: rare(x)",
        cell_id="loop",
    )
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert end["state"] == "finished"
    steps = keeper.steps(end["run"])
    assert 20 <= len(steps) < 40
    assert all(step["wallMs"] >= 5 for step in steps)


@pytest.mark.parametrize(
    "step",
    [
        "f = jax.jit(lambda x: (jax.debug.print('', ordered=True), x * 2)[1])",
        "f = jax.vmap(jax.jit(jnp.sin))",
    ],
    ids=["prints", "is transformed outside jit"],
)
def test_a_loop_is_detected_whose_step(kernel: KernelProcess, keeper: KeeperDouble, step: str) -> None:
    kernel.run(
        f"import time, jax, jax.numpy as jnp\n{step}\nx = jnp.ones(8)\n"
        "for _ in range(40):\n    time.sleep(0.005)\n    x = f(x)",
        cell_id="loop",
    )
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert 20 <= len(keeper.steps(end["run"])) < 40


def test_a_loop_without_annotation_is_detected_and_ends_with_its_cell(
    kernel: KernelProcess, keeper: KeeperDouble
) -> None:
    kernel.run(
        "import time, jax, jax.numpy as jnp\n"
        "@jax.jit\n"
        "def train_step(x):\n    return x * 2\n"
        "def train(turns):\n"
        "    x = jnp.ones(8)\n"
        "    for _ in range(turns):\n"
        "        time.sleep(0.005)\n"
        "        x = train_step(x)\n"
        "    return x"
    )
    kernel.run("train(40).block_until_ready();", cell_id="loop")
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert (end["name"], end["state"]) == ("train", "finished")
    steps = keeper.steps(end["run"])
    assert 20 <= len(steps) < 40
    assert all(step["wallMs"] >= 5 for step in steps)
    # Short loops, and calls that take no time, do not count.
    kernel.run("train(3)")
    kernel.run(
        # No time at all, whatever else the machine does meanwhile.
        "from tpulab.measure import auto_steps\n"
        "now_ns, auto_steps.now_ns = auto_steps.now_ns, lambda: 0\n"
        "x = jnp.ones(8)\nfor _ in range(300): x = train_step(x)\n"
        "auto_steps.now_ns = now_ns"
    )
    # One annotation makes it exact, and there is one run then.
    kernel.run("import tpulab\nfor _ in tpulab.steps(range(20), name='told'):\n    x = train_step(x)")
    keeper.wait(lambda: len(keeper.ended_runs()) == 2, "the annotated run")
    assert [run["name"] for run in keeper.ended_runs()] == ["train", "told"]
    # Between the epochs of an annotated training, and after a stop, a loop belongs to that training.
    kernel.run(
        "run = tpulab.run('epochs')\n"
        "for epoch in range(2):\n"
        "    for _ in run.steps(range(4)):\n"
        "        x = train_step(x)\n"
        "        if epoch: run.stop()\n"
        "    train(40)"
    )
    keeper.wait(lambda: len(keeper.ended_runs()) == 3, "the run with epochs")
    kernel.run("train(40)")
    keeper.wait(lambda: len(keeper.ended_runs()) == 4, "the loop in a separate cell")
    assert [run["name"] for run in keeper.ended_runs()] == ["train", "told", "epochs", "train"]
    # A detected run is over when a training with a name begins in its cell, and stays over after it.
    kernel.run("train(40)\nfor _ in tpulab.run('named').steps(range(4)):\n    x = train_step(x)\ntrain(40)")
    keeper.wait(lambda: len(keeper.ended_runs()) == 6, "the loop and the training of one cell")
    seen, named = keeper.ended_runs()[-2:]
    assert [seen["name"], named["name"]] == ["train", "named"]
    began = keeper.steps(named["run"])[0]["startTime"]
    assert all(step["startTime"] + step["wallMs"] <= began for step in keeper.steps(seen["run"]))
