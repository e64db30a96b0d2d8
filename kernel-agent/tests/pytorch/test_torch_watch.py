"""Steps and compilations of PyTorch without XLA, with the real package on the host CPU; a device that runs
behind the host is a double."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tpulab  # noqa: E402
from keeper_double import KeeperDouble  # noqa: E402
from tpulab.agent.agent import Agent  # noqa: E402
from tpulab.compile import torch_watch  # noqa: E402
from tpulab.compile.torch_guards import reason_of_guard  # noqa: E402
from tpulab.runtimes.torch_runtime import Mark, TorchRuntime  # noqa: E402

pytestmark = pytest.mark.usefixtures("agent")
SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")


@pytest.fixture(autouse=True)
def _fresh_dynamo(agent: Agent) -> Iterator[None]:  # noqa: ARG001 - the agent first, to get all reports
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def finished(keeper: KeeperDouble, number: int) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]] | None:
        messages = [one for one in keeper.of_type("compile") if one["phase"] in ("finished", "failed")]
        return messages if len(messages) >= number else None

    return keeper.wait(found, f"{number} compilations")


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(function, backend="aot_eager", dynamic=False, **options)


def test_a_new_shape_compiles_again_and_is_reported_with_cause_line_and_time(keeper: KeeperDouble) -> None:
    layer = torch.nn.Linear(3, 3)

    def forward(x: Any) -> Any:
        return layer(x).sum()

    program = compiled(forward)
    for rows in (4, 4, 6, 4):
        program(torch.ones(rows, 3))
    first, second = finished(keeper, 2)
    assert (first["function"], first["variant"], first["reason"]["verdict"]) == ("forward", 1, "first")
    assert (second["function"], second["variant"]) == ("forward", 2)
    reason = second["reason"]
    assert (reason["verdict"], reason["argument"]) == ("shape", "x")
    assert (reason["before"], reason["after"]) == ("[4]", "[6]")
    assert "one shape" in reason["advice"]
    assert first["compileMs"] > 0
    assert first["location"]["file"] == "test_torch_watch.py"
    started = [one["id"] for one in keeper.of_type("compile") if one["phase"] == "started"]
    assert started == [first["id"], second["id"]]


def test_a_backward_pass_is_a_separate_program(keeper: KeeperDouble) -> None:
    layer = torch.nn.Linear(3, 3)

    def forward(x: Any) -> Any:
        return layer(x).sum()

    compiled(forward)(torch.ones(2, 3)).backward()
    found = {one["function"] for one in finished(keeper, 2)}
    assert found == {"forward", "forward (backward)"}


def test_compilations_are_reported_after_everything_was_reset(keeper: KeeperDouble) -> None:
    def one(x: Any) -> Any:
        return x * 2

    compiled(one)(torch.ones(2))
    finished(keeper, 1)
    torch._dynamo.reset()
    compiled(one)(torch.ones(2))  # the reset has removed all callbacks
    compiled(one)(torch.ones(3))
    verdicts = [each["reason"]["verdict"] for each in finished(keeper, 3)]
    assert verdicts == ["first", "redefined", "shape"]


def test_a_python_number_in_a_program_is_named(keeper: KeeperDouble) -> None:
    def scaled(x: Any, rate: float) -> Any:
        return x * rate

    program = compiled(scaled)
    for rate in (1.0, 2.0):
        program(torch.ones(2), rate)
    reason = finished(keeper, 2)[-1]["reason"]
    assert (reason["verdict"], reason["argument"], reason["before"]) == ("static", "rate", "1.0")


def test_a_graph_break_is_reported_once_with_its_line(keeper: KeeperDouble) -> None:
    def step(x: Any) -> Any:
        y = x * 2
        float(y.sum())
        return y + 1

    program = compiled(step)
    for rows in (2, 3):
        program(torch.ones(rows))
    finished(keeper, 2)
    advice = keeper.wait(
        lambda: [one for one in keeper.of_type("advice") if one["kind"] == "graph-break"], "the advice"
    )
    line = step.__code__.co_firstlineno + 2
    assert [(one["location"]["line"], one["location"]["function"]) for one in advice] == [(line, "step")]


@pytest.mark.parametrize(
    ("guard", "verdict", "argument", "before", "after"),
    [
        ("0/0: tensor 'x' size mismatch at index 1. expected 4, actual 6", "shape", "x", "[?,4]", "[?,6]"),
        ("0/1: tensor 'x' rank mismatch. expected 2, actual 3", "shape", "x", "2 axes", "3 axes"),
        ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", "dtype", "x", "float", "double"),
        ("0/0: k == 1.0   # y=lin(x)*k  # file.py:30 in f", "static", "k", "1.0", None),
        ("0/0: L['self'].rate == 3  # x", "static", "self.rate", "3", None),
        ("0/0: len(xs) == 2  # x", "tree", "xs", "2 entries", None),
        ("0/0: GLOBAL_STATE changed: grad_mode", "config", "grad_mode", None, None),
        ("0/0: ___check_obj_id(self.training, 7), type=bool", "static", "self.training", None, None),
        ("0/0: ___check_obj_id(L['f'], 94)", "redefined", "f", None, None),
        ("0/0: something of a later torch", "other", None, None, None),
        ("", "other", None, None, None),
    ],
)
def test_a_guard_becomes_a_reason(
    guard: str, verdict: str, argument: str | None, before: str | None, after: str | None
) -> None:
    reason = reason_of_guard(guard, "f")
    found = (reason["verdict"], reason["argument"], reason["before"], reason["after"])
    assert found == (verdict, argument, before, after)
    assert (reason["advice"] is None) == (guard == "")


def train(steps: int, compile_it: bool = False) -> None:
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def update(x: Any) -> Any:
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    step = compiled(update) if compile_it else update
    for _ in tpulab.steps(range(steps), name="loop"):
        step(torch.ones(4, 8))


def steps_of(keeper: KeeperDouble, name: str) -> list[dict[str, Any]]:
    run = keeper.wait(
        lambda: next((run for run in keeper.ended_runs() if run["name"] == name), None), f"the end of {name}"
    )
    found = keeper.steps(run["run"])
    for step in found:
        assert sum(step[span] for span in SPANS) == pytest.approx(step["wallMs"], rel=0.02)
    return found


def test_on_a_host_cpu_device_time_is_unknown_and_part_of_host(keeper: KeeperDouble) -> None:
    train(6)
    found = steps_of(keeper, "loop")
    assert len(found) == 6
    assert {step["deviceKnown"] for step in found} == {False}
    assert {(step["deviceMs"], step["gapMs"]) for step in found} == {(0, 0)}
    [devices] = keeper.wait(lambda: keeper.of_type("devices"), "the devices")
    assert (devices["runtime"], devices["platform"]) == ("torch", "cpu")


class Queue:
    """A device that runs one program after another, each for so long, behind the host."""

    def __init__(self, lasts_s: float) -> None:
        self.lasts_s = lasts_s
        self._free_at = 0.0

    def mark(self, _device_type: str) -> Mark:
        self._free_at = ready = max(time.monotonic(), self._free_at) + self.lasts_s

        class Event:
            def query(self) -> bool:
                return time.monotonic() >= ready

            def synchronize(self) -> None:
                time.sleep(max(0.0, ready - time.monotonic()))

        return Mark(Event())


@pytest.mark.parametrize("compile_it", [False, True])
def test_what_a_device_runs_behind_the_host_is_device_time(
    keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch, compile_it: bool
) -> None:
    queue = Queue(0.02)
    monkeypatch.setattr(TorchRuntime, "mark", lambda _self, kind: queue.mark(kind))
    monkeypatch.setattr(torch_watch, "_device_of", lambda _module: "cuda")
    train(12, compile_it)
    found = steps_of(keeper, "loop")
    known = [step for step in found if step["deviceKnown"]]
    assert len(known) >= 6
    # The host queues a step in less time than the device takes for one.
    assert sum(step["deviceMs"] for step in known) > 0.5 * sum(step["wallMs"] for step in known[1:])


def test_a_device_that_is_ready_at_once_stays_unknown(
    keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(-1.0)
    monkeypatch.setattr(TorchRuntime, "mark", lambda _self, kind: queue.mark(kind))
    train(6)
    assert {step["deviceKnown"] for step in steps_of(keeper, "loop")} == {False}


def test_a_loader_that_is_slow_is_a_wait_for_input(keeper: KeeperDouble) -> None:
    class Slow(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            time.sleep(0.02)
            return torch.full((2,), float(index))

    loader = iter(torch.utils.data.DataLoader(Slow()))
    for _ in tpulab.steps(range(4), name="slow"):
        next(loader)
    found = steps_of(keeper, "slow")
    assert all(step["inputMs"] > 0.5 * step["wallMs"] for step in found)


def test_watching_makes_no_more_programs(agent: Agent) -> None:
    from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics

    def programs() -> int:
        torch._dynamo.reset()
        clear_compilation_metrics()
        train(4, compile_it=True)
        return len([one for one in get_compilation_metrics() if one.graph_op_count or not one.is_forward])

    with_agent = programs()
    assert agent.torch is not None
    agent.torch.detach()
    assert programs() == with_agent
    assert agent.torch.attach()


def test_the_operations_of_a_program_are_counted_with_its_backward_pass() -> None:
    layer, seen = torch.nn.Linear(8, 8, bias=False), []

    def backend(module: Any, inputs: Any) -> Any:  # noqa: ARG001
        seen.append(torch_watch._count(module, "cpu"))
        return module.forward

    torch.compile(lambda x: layer(x).sum(), backend=backend)(torch.ones(4, 8))
    [program] = seen
    # The product, and of the two gradients the required one.
    assert (program.flops, program.exact) == (2 * (2 * 4 * 8 * 8), True)


def test_missing_hooks_of_torch_are_reported(monkeypatch: pytest.MonkeyPatch, keeper: KeeperDouble) -> None:
    monkeypatch.setattr(torch_watch.TorchWatch, "attach", lambda _self: False)
    agent = Agent(str(keeper.path))
    agent._on_torch()
    assert agent.torch is None


def test_the_owners_of_device_memory_are_found_without_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    from tpulab.runtimes import torch_arrays

    weights = torch.zeros(1000, 3)
    view = weights[:10]
    assert all(one.tensor is not weights for one in torch_arrays.device_storages())
    monkeypatch.setattr(torch_arrays, "HOST", ("meta",))  # as if the host CPU were a device
    [mine] = [one for one in torch_arrays.device_storages() if one.tensor is weights]
    assert (mine.nbytes, any(one is view for one in mine.views)) == (12_000, True)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.tensor(1 + 2j), "Tensor (torch.complex64, shape ())"),
        (torch.tensor([1, 2]), "Tensor (torch.int64, shape (2,))"),
        (torch.ones(1, device="meta"), "Tensor (torch.float32, shape (1,))"),
    ],
)
def test_a_tensor_that_is_not_a_number_is_named(value: Any, kind: str, keeper: KeeperDouble) -> None:
    for _ in tpulab.steps(range(3)):
        tpulab.metric(odd=value)
    advice = keeper.wait(lambda: keeper.of_type("advice"), "a sentence")
    assert f"is left out: {kind} is no number" in advice[0]["message"]


def test_a_hyperparameter_that_was_first_read_in_inference_mode_enters_a_training_step() -> None:
    run = tpulab.run(hyperparameters={"rate": 0.5}, backend="torch")
    with torch.inference_mode():
        assert float(run.hyper.rate) == 0.5
    weight = torch.ones(3, requires_grad=True)
    (weight * run.hyper.rate).sum().backward()
    assert weight.grad is not None


def test_a_complex_tensor_is_refused_as_a_picture_and_brain_floats_are_shown() -> None:
    with pytest.raises(tpulab.MediaError, match="complex"):
        tpulab.image(torch.ones(4, 4, dtype=torch.cfloat))
    assert tpulab.image(torch.ones(4, 4, dtype=torch.bfloat16)).mime == "image/png"
