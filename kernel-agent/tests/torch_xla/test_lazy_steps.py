"""Steps, compilations and control of torch_xla, with the real package."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch_xla.distributed import xla_multiprocessing
from torch_xla.distributed.parallel_loader import MpDeviceLoader

import torch_xla
import tpulab
from keeper_double import KeeperDouble
from tpulab.agent.agent import Agent
from tpulab.control.hyperparameters import Hyperparameters
from tpulab.measure.auto_steps import MIN_TURNS
from tpulab.measure.tracked_run import step_runs
from tpulab.runtimes.torch_xla_runtime import TorchXlaRuntime
from tpulab.telemetry.cells import Cell

pytestmark = pytest.mark.usefixtures("agent")
#: for a busy machine
PATIENCE_S = 60.0
MIN_STEPS = 4
SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")


class Model:
    """One product, trained by hand, so that the graph is the test's own."""

    def __init__(self) -> None:
        self.device = torch_xla.device()
        self.weight = torch.randn(256, 256, device=self.device, requires_grad=True)

    def step(self, batch: torch.Tensor, rate: Any) -> torch.Tensor:
        loss = (batch.to(self.device) @ self.weight).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            self.weight.sub_(self.weight.grad * rate)
        self.weight.grad = None
        torch_xla.sync()
        return loss.detach()


@pytest.fixture
def model(agent: Agent) -> Model:  # noqa: ARG001 - the agent first, so that it sees the launches
    made = Model()
    rate = torch.tensor(0.1).to(made.device)
    for _ in range(3):
        made.step(torch.ones(16, 256), rate).item()
    return made


def compiled(keeper: KeeperDouble) -> list[dict[str, Any]]:
    return [message for message in keeper.of_type("compile") if message["phase"] == "finished"]


def wait_for_end(keeper: KeeperDouble, name: str) -> list[dict[str, Any]]:
    run = keeper.wait(
        lambda: next((run for run in keeper.ended_runs() if run["name"] == name), None), f"the end of {name}"
    )
    steps = keeper.steps(run["run"])
    for step in steps:
        assert sum(step[span] for span in SPANS) == pytest.approx(step["wallMs"], rel=0.02)
        assert min(step[span] for span in SPANS) >= 0
    return steps


def test_the_patched_functions_exist() -> None:
    runtime = TorchXlaRuntime()
    marker = torch_xla._XLAC._xla_step_marker
    assert runtime.attach(lambda launch: launch(), lambda wait: wait())
    assert torch_xla._XLAC._xla_step_marker is not marker
    assert len(runtime._patched) == 2, "torch_xla has changed: adapt tpulab/runtimes/torch_xla_runtime.py"
    runtime.detach()
    assert torch_xla._XLAC._xla_step_marker is marker


def test_waits_and_sleeps_count_in_the_right_span_and_device_time_is_known(
    model: Model, keeper: KeeperDouble
) -> None:
    spent: dict[str, list[float]] = {"inputMs": [], "hostMs": [], "gapMs": []}

    def sleep(span: str, seconds: float) -> None:
        began = time.perf_counter()
        time.sleep(seconds)
        spent[span].append((time.perf_counter() - began) * 1e3)

    def loader() -> Iterator[torch.Tensor]:
        for _ in range(10):
            sleep("inputMs", 0.05)
            yield torch.ones(16, 256)

    run = tpulab.run("sleeps", hyperparameters={"rate": 0.1}, log=False)
    for batch in run.steps(loader(), total=10):
        sleep("hostMs", 0.06)
        loss = model.step(batch, run.hyper.rate)
        loss.item()
        sleep("gapMs", 0.05)
    run.finish()
    steps = wait_for_end(keeper, "sleeps")
    assert len(steps) == 10
    assert all(step["deviceKnown"] for step in steps)
    assert all(step["deviceMs"] > 0 for step in steps[1:])
    later = [step for step in steps if step["compileMs"] == 0]
    assert len(later) >= 8
    for span, cost in spent.items():
        # Tracing is host time too; the rest of a span is the sleep.
        room = [abs(step[span] - cost[step["index"]]) / step["wallMs"] for step in later]
        assert statistics.median(room) < (0.08 if span == "hostMs" else 0.02), span


def test_a_new_shape_is_named_and_a_new_learning_rate_compiles_nothing(
    model: Model, keeper: KeeperDouble
) -> None:
    run = tpulab.run("shapes", hyperparameters={"rate": 0.1}, log=False)
    rates = [0.1, 0.2, 0.0, 1.0, 0.3]
    _ = Hyperparameters({"nothing": 0.0}).nothing  # creating one is a program too
    for index, batch in enumerate(run.steps([torch.ones(16, 256)] * 5 + [torch.ones(8, 256)])):
        if index == 1:
            before = TorchXlaRuntime().compilations()
        if index < 5:
            model.step(batch, run.hyper.rate).item()
            run.set("rate", rates[index])
            continue
        assert TorchXlaRuntime().compilations() == before, "a learning rate was compiled into the graph"
        model.step(batch, run.hyper.rate).item()
    run.finish()
    wait_for_end(keeper, "shapes")
    message = compiled(keeper)[-1]
    reason = message["reason"]
    assert (reason["verdict"], reason["argument"]) == ("shape", "batch")
    assert (reason["before"], reason["after"]) == ("f32[16,256]", "f32[8,256]")
    assert (message["function"], message["location"]["function"]) == ("step", "step")
    assert message["compileMs"] > 0
    [advice] = keeper.wait(lambda: keeper.of_type("advice"), "the advice")
    assert (advice["kind"], advice["location"]["function"]) == ("ragged-batch", "step")
    assert "batch of 8 came after batches of 16: `step` was compiled for it" in advice["message"]
    assert "drop_last" in advice["remedy"]


def test_a_shape_that_changes_again_is_reported_with_the_sizes_to_pad_to(
    model: Model, keeper: KeeperDouble
) -> None:
    rate = torch.tensor(0.1).to(model.device)
    # Sizes that no other test has compiled: an existing program is no compilation.
    for size in (16, 20, 24):
        model.step(torch.ones(size, 256), rate).item()
    reason = keeper.wait(
        lambda: [m["reason"] for m in compiled(keeper) if m["reason"]["after"] == "f32[24,256]"],
        "the verdict",
    )[0]
    assert reason["argument"] == "batch"
    assert reason["advice"] == (
        "Axis 0 of `batch` has had 3 sizes, each a program of `step`: pad it up to the next of 16, 24."
    )


def test_a_python_number_in_the_graph_is_found_and_reported(keeper: KeeperDouble) -> None:
    device = torch_xla.device()
    weight = torch.ones(64, 64, device=device)

    def shrink(power: int) -> None:
        nonlocal weight
        # A power is part of the graph, as is a size or a branch.
        weight = weight.pow(power) / 2
        torch_xla.sync()

    for counter, power in enumerate([2, 2, 2, 3, 3, 4]):
        del counter
        shrink(power)
    reason = keeper.wait(
        lambda: [m["reason"] for m in compiled(keeper) if m["reason"]["after"] == "4"], "the verdict"
    )[0]
    assert (reason["verdict"], reason["argument"], reason["before"]) == ("static", "power", "3")
    [advice] = keeper.wait(lambda: keeper.of_type("advice"), "the advice")
    assert advice["kind"] == "constant-hyperparameter"


def test_a_loader_of_torch_xla_launches_the_step_and_only_its_wait_is_input(
    model: Model, keeper: KeeperDouble
) -> None:
    class Slow(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.5 if index == 0 else 0.03)
            return torch.full((16, 256), float(index))

    def loader() -> MpDeviceLoader:
        return MpDeviceLoader(torch.utils.data.DataLoader(Slow(), batch_size=None), model.device)

    # Compiles all programs, so that the loader is not ahead when it counts.
    for batch in loader():
        (batch @ model.weight.detach()).sum()
    run = tpulab.run("loader", log=False)
    seen, came_ms, began = [], [], time.perf_counter()
    for batch in run.steps(loader()):
        came_ms.append((time.perf_counter() - began) * 1e3)
        seen.append((batch @ model.weight.detach()).sum())
    run.finish()
    assert len(seen) == 8
    steps = wait_for_end(keeper, "loader")
    # The loader prefetches while the loop waits for the first item.
    assert 500 < steps[0]["inputMs"] <= came_ms[0]
    assert all(step["deviceKnown"] for step in steps[1:])


def test_metrics_are_read_when_the_device_is_done_and_never_by_another_thread(
    model: Model, keeper: KeeperDouble
) -> None:
    run = tpulab.run("metrics", hyperparameters={"rate": 0.01}, log=False)
    for _ in run.steps(range(30)):
        run.log(loss=model.step(torch.ones(16, 256), run.hyper.rate), plain=1.5)
        time.sleep(0.01)
    run.finish()
    steps = wait_for_end(keeper, "metrics")
    assert len(steps) == 30
    assert all(step.get("metrics", {})["plain"] == 1.5 for step in steps)
    losses = [step.get("metrics", {})["loss"] for step in steps if "loss" in step["metrics"]]
    assert losses
    assert all(isinstance(loss, float) and loss > 0 for loss in losses)


def test_a_loss_whose_step_the_loader_launches_is_read_without_a_separate_program(
    model: Model, keeper: KeeperDouble
) -> None:
    def launched_by_the_loader() -> Iterator[torch.Tensor]:
        """Like MpDeviceLoader: a request for a batch launches the previous step. Ends once a loss is read."""
        deadline = time.monotonic() + PATIENCE_S
        for index in itertools.count():
            if index >= MIN_STEPS and (has_loss() or time.monotonic() > deadline):
                return
            yield torch.ones(16, 256).to(model.device)
            torch_xla.sync()

    def has_loss() -> bool:
        return any("loss" in step.get("metrics", {}) for step in keeper.steps())

    runtime = TorchXlaRuntime()
    run = tpulab.run("loss of a loader", log=False)
    before = 0
    for index, batch in enumerate(run.steps(launched_by_the_loader())):
        if index == 2:
            before = runtime.compilations()
        run.log(loss=(batch @ model.weight.detach()).pow(2).mean())
    assert runtime.compilations() == before, "the agent compiled a program to read a loss"
    run.finish()
    losses = [step.get("metrics", {}).get("loss") for step in wait_for_end(keeper, "loss of a loader")]
    assert any(isinstance(loss, float) and loss > 0 for loss in losses)


def test_a_loss_that_was_never_launched_is_left_out(model: Model, keeper: KeeperDouble) -> None:
    runtime = TorchXlaRuntime()
    before = runtime.compilations()
    run = tpulab.run("never launched", log=False)
    for _ in run.steps(range(3)):
        run.log(loss=(model.weight.detach() * 3).pow(2).sum())
    run.finish()
    wait_for_end(keeper, "never launched")
    assert runtime.compilations() == before


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_an_optimizer_follows_without_a_new_graph(kind: Any, agent: Agent, keeper: KeeperDouble) -> None:
    del agent
    device = torch_xla.device()
    weight = torch.nn.Parameter(torch.ones(8, 8, device=device))
    optimizer = kind([weight], lr=0.5)
    run = tpulab.run("optimizer", hyperparameters={"learning_rate": 0.5}, log=False)
    run.apply_to(optimizer)
    _ = Hyperparameters({"nothing": 0.0}).nothing
    moved: list[float] = []
    counts: list[int] = []
    # SGD takes a number: torch_xla turns it into data too, except 0 and 1.
    last = 0.0 if kind is not torch.optim.SGD else 0.0625
    for rate in run.steps([0.5, 0.5, 0.5, 0.25, 0.125, last]):
        run.controller.set_now("learning_rate", rate, 0)
        before = weight.detach().clone()
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        torch_xla.sync()
        moved.append(float((weight.detach() - before).abs().mean()))
        counts.append(TorchXlaRuntime().compilations())
    run.finish()
    assert moved[3] / moved[2] == pytest.approx(0.5, rel=0.05)
    assert moved[4] / moved[2] == pytest.approx(0.25, rel=0.05)
    assert moved[5] / moved[2] == pytest.approx(last / 0.5, rel=0.05)
    assert counts[3:] == [counts[2]] * 3, "a learning rate was compiled into the graph"
    keeper.wait(keeper.ended_runs, "the end")


def test_tensors_that_are_no_number_do_not_end_the_loop(model: Model, keeper: KeeperDouble) -> None:
    rate = torch.tensor(0.1).to(model.device)
    run = tpulab.run("odd", log=False)
    for _ in run.steps(range(12)):
        run.log(
            loss=model.step(torch.ones(16, 256), rate),
            meta=torch.empty((), device="meta"),
            imaginary=torch.tensor(1j),
            on_device=torch.tensor(1j).to(model.device),
            nested=torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged),
        )
        time.sleep(0.02)
    run.finish()
    assert run.step_index == 12
    keeper.wait(keeper.ended_runs, "the end")
    # None of them was freed.
    assert not [one for one in keeper.of_type("advice") if one["kind"] == "freed-metric"]


def test_the_devices_are_reported_once_the_runtime_exists(model: Model, keeper: KeeperDouble) -> None:
    del model
    message = keeper.wait(lambda: keeper.of_type("devices"), "the devices")[-1]
    assert (message["runtime"], message["platform"]) == ("torch_xla", "cpu")
    assert len(message["devices"]) >= 1


def test_a_loop_without_annotation_is_detected_by_its_launches(
    model: Model, agent: Agent, keeper: KeeperDouble
) -> None:
    agent.cells._running[threading.get_ident()] = Cell("the-cell", 1)
    rate = torch.tensor(0.1).to(model.device)
    for _ in range(MIN_TURNS + 12):
        time.sleep(0.005)
        model.step(torch.ones(16, 256), rate).item()
    step_runs.end_all("finished", tracker=agent.tracker)
    [run] = keeper.wait(keeper.ended_runs, "the run that was found")
    steps = wait_for_end(keeper, run["name"])
    assert len(steps) >= 10
    assert all(step["wallMs"] > 1 for step in steps)
    assert any(step["deviceKnown"] and step["deviceMs"] > 0 for step in steps)


def test_the_ways_to_start_processes_are_all_watched(agent: Agent) -> None:
    assert agent.lazy is not None
    for found in (torch_xla.launch, xla_multiprocessing.spawn):
        assert hasattr(found, "_tpulab_warns"), "torch_xla has changed: adapt tpulab/agent/backend_advice.py"
