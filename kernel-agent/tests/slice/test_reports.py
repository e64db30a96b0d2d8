"""The reports on the page of a slice, and commands that all hosts apply at the same step."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keeper_double import PATIENCE_S, KeeperDouble
from slice_process import SliceProcess
from tpulab.control.command import Command
from tpulab.control.controller import Controller, ControlListener
from tpulab.control.hyperparameters import Hyperparameters
from tpulab.slice.host_steps import HostSteps, straggler
from tpulab.slice.reports import GRACE_S, MAX_MESSAGES, MAX_RUNS, HostCompilations, HostRuns
from tpulab.slice.spec import SliceSpec

LOOP = """
import json, time, jax, jax.numpy as jnp, numpy as np, tpulab
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("data",))
total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, P()))
four = np.ones(4, "float32")
ones = jax.make_array_from_callback((4,), NamedSharding(mesh, P("data")), lambda at: four[at])
def batches():
    while True:
        time.sleep(0.04 if jax.process_index() == 1 else 0.002)
        yield ones
seen = []
run = tpulab.run("train", hyperparameters={"lr": 0.5})
out = None
for batch in run.steps(batches(), watch=lambda: out):
    out = total(batch)
    jax.block_until_ready(out)
    seen.append(run.hyper["lr"])
print(json.dumps(seen))
"""


def test_the_kernel_is_named_after_the_slice() -> None:
    assert SliceSpec("v5e", ("a", "b"), type="v5e-12").title == "JAX · v5e (v5e-12, 3 hosts)"
    assert SliceSpec("try", ("",)).title == "JAX · try (2 hosts)"


def sample(index: int, wall: float, device: float, **spans: float) -> dict[str, Any]:
    split = {"inputMs": 0.0, "hostMs": 0.0, "compileMs": 0.0, "gapMs": 0.0, **spans}
    return {"index": index, "wallMs": wall, "deviceMs": device, **split}


def test_the_host_that_the_others_wait_for_is_named_with_its_span() -> None:
    steps = HostSteps(3)
    for host in (0, 1):
        steps.add(host, [sample(at, 30, 25, inputMs=2, hostMs=3) for at in range(4)])
    assert steps.compared == 0
    steps.add(2, [sample(at, 30, 7, inputMs=20, hostMs=3) for at in range(3)])
    assert (steps.compared, steps.last) == (3, 2)
    splits = steps.splits()
    assert [one["lateMs"] for one in splits] == [0, 0, 18]
    found = straggler(splits)
    assert found == {"host": 2, "lateMs": 18, "cause": "input"}


def test_no_host_is_named_where_all_take_equally_long() -> None:
    steps = HostSteps(2)
    steps.add(0, [sample(0, 30, 25, inputMs=5)])
    steps.add(1, [sample(0, 30, 24, inputMs=6)])
    assert straggler(steps.splits()) is None


def test_the_state_after_a_week_of_evaluations_is_bounded() -> None:
    """F22: each evaluation is a run. The running training is never forgotten."""
    hosts = HostRuns(), HostRuns()

    def run(host: int, name: str, number: int, state: str = "finished") -> None:
        hosts[host].add({"run": f"{host}-{name}-{number}", "name": name, "state": state})

    for host in (0, 1):
        run(host, "training", 0, "running")
        for number in range(5 * MAX_RUNS):
            run(host, "evaluate", number, "running")
            run(host, "evaluate", number)
            run(host, f"trial {number}", number)
    for one in hosts:
        assert len(one.messages) == MAX_RUNS
        assert len(one._count) <= MAX_MESSAGES
    for name, number in (("training", 0), ("evaluate", 5 * MAX_RUNS - 1), ("trial 5119", 5119)):
        place = hosts[1].place_of(f"1-{name}-{number}")
        assert place is not None
        assert hosts[0].at(place) == f"0-{name}-{number}"
    assert hosts[1].place_of("1-evaluate-0") is None


def test_a_program_that_not_all_hosts_compiled_is_marked() -> None:
    reported: list[dict[str, Any]] = []
    compilations = HostCompilations(3, reported.append)

    def compiled(host: int, function: str) -> None:
        message = {"id": 7, "phase": "finished", "eager": False, "function": function, "variant": 1}
        compilations.add(host, message, 0.0)

    for host in range(3):
        compiled(host, "all")
    for host in (0, 2):
        compiled(host, "some")
    compiled(1, "own")
    compilations.settle(GRACE_S / 2)
    assert [(one["function"], one.get("hosts")) for one in reported] == [("all", None), ("some", None)]
    compilations.settle(GRACE_S + 1)
    assert [(one["function"], one["hosts"]) for one in reported[2:]] == [("some", [0, 2]), ("own", [1])]
    assert reported[2]["id"] == 7
    assert reported[3]["id"] != 7


def test_a_loop_waits_at_its_fence_for_the_command() -> None:
    controller = Controller("run", Hyperparameters({}), ControlListener())
    controller.start()
    controller.begin()
    assert controller.boundary(4)
    assert controller.fence() == 5
    reached: list[int] = []

    def loop() -> None:
        for step in range(5, 9):
            if not controller.boundary(step):
                return
            reached.append(step)

    thread = threading.Thread(target=loop)
    thread.start()
    # Another host named step 7, so this one continues until there.
    controller.submit(Command("stop", at=7))
    thread.join(PATIENCE_S)
    assert reached == [5, 6]


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[SliceProcess, KeeperDouble]]:
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        keeper = KeeperDouble(Path(folder) / "a.sock")
        try:
            with SliceProcess(Path(folder) / "k", 2, {"TPULAB_AGENT_SOCKET": str(keeper.path)}) as process:
                yield process, keeper
        finally:
            keeper.close()


def test_the_page_sees_all_hosts_and_steers_them_together(watched: tuple[SliceProcess, KeeperDouble]) -> None:
    process, keeper = watched
    request = process.start(LOOP)

    def slow_input() -> dict[str, Any] | None:
        # On a busy machine another host may be late for a while.
        reported = [one for one in keeper.of_type("hosts") if one["straggler"]]
        late = (
            one for one in reported if one["straggler"] | {"host": 1, "cause": "input"} == one["straggler"]
        )
        return next(late, None)

    late = keeper.wait(slow_input, "the host with the slow input")
    assert [one["name"] for one in late["hosts"]] == ["host 0", "host 1"]
    devices = keeper.of_type("devices")[-1]["devices"]
    assert [one["processIndex"] for one in devices] == [0, 0, 1, 1]

    changed = keeper.command("set", name="lr", value=0.25)
    keeper.wait(lambda: "applied" in keeper.outcomes(changed), "the change")
    paused = keeper.command("pause")
    keeper.wait(lambda: "applied" in keeper.outcomes(paused), "the pause")
    keeper.command("set", name="lr", value=0.125)
    resumed = keeper.command("resume")
    keeper.wait(lambda: "applied" in keeper.outcomes(resumed), "the end of the pause")
    stopped = keeper.command("stop")
    answer = process.answer(request)
    assert answer.reply["status"] == "ok", answer.traceback
    # Each host prints the rate of each of its steps.
    assert answer.folds == ["host 1: same as host 0"]
    assert sorted(set(json.loads(answer.text()))) == [0.125, 0.25, 0.5]
    # It comes on another connection than the reply.
    keeper.outcome(stopped, "applied")
    assert keeper.problems == []
