"""`tpulab.steps` and `tpulab.step` on loops of every kind: they measure, and change nothing."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tpulab
from keeper_double import KeeperDouble, wait_until
from tpulab.agent.agent import Agent
from tpulab.measure.thread_state import thread_state

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture(autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    yield
    gc.collect()
    assert not [clock.run.name for clock in thread_state().clocks if clock.is_open]


def ended(keeper: KeeperDouble, name: str) -> dict[str, object]:
    """The end of the run of that name, with all earlier messages."""
    return keeper.wait(
        lambda: next((run for run in keeper.ended_runs() if run["name"] == name), None), f"the end of {name}"
    )


def test_a_loop_gets_its_items_unchanged_and_each_turn_is_a_step(keeper: KeeperDouble) -> None:
    assert list(tpulab.steps("abc", name="plain")) == ["a", "b", "c"]
    run = ended(keeper, "plain")
    assert run["state"] == "finished"
    assert run["totalSteps"] == 3
    steps = keeper.steps(run["run"])
    assert [step["index"] for step in steps] == [0, 1, 2]
    assert not any(step["deviceKnown"] for step in steps)


def test_the_end_of_a_run_is_reported_after_its_last_step(keeper: KeeperDouble) -> None:
    for _ in tpulab.steps(range(50), name="order"):
        pass
    run = ended(keeper, "order")
    about = [message for message in keeper.messages if message.get("run") == run["run"]]
    assert about[0]["state"] == "running"
    assert about[-1]["state"] == "finished"
    assert len(keeper.steps(run["run"])) == 50


def test_a_loop_left_by_break_is_finished_without_its_open_step(keeper: KeeperDouble) -> None:
    for item in tpulab.steps(range(10), name="break"):
        if item == 2:
            break
    run = ended(keeper, "break")
    assert run["state"] == "finished"
    assert len(keeper.steps(run["run"])) == 2


def test_a_loop_left_by_return_is_finished(keeper: KeeperDouble) -> None:
    def first() -> int:
        for item in tpulab.steps(range(10), name="return"):
            return item
        return -1

    assert first() == 0
    assert ended(keeper, "return")["state"] == "finished"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_loop_whose_body_raises_has_failed_and_the_error_continues(
    keeper: KeeperDouble, error: BaseException
) -> None:
    name = f"raises {type(error).__name__}"

    def fit() -> None:
        for item in tpulab.steps(range(10), name=name):
            if item == 1:
                raise error

    with pytest.raises(type(error)):
        fit()
    assert ended(keeper, name)["state"] == "failed"


def test_an_error_that_is_caught_around_the_loop_in_the_same_function_has_failed_it(
    keeper: KeeperDouble,
) -> None:
    try:
        for _ in tpulab.steps(range(3), name="caught outside"):
            raise ValueError
    except ValueError:
        pass
    assert ended(keeper, "caught outside")["state"] == "failed"


@pytest.mark.parametrize(
    "body",
    [
        "int('x')",
        "item.nope",
        "[][item]",
        "1 / 0",
        "undefined",
        "a, b = 1,",
        "assert False",
        "(1).x = 3",
        "del {}[1]",
    ],
)
def test_whatever_instruction_raises_the_loop_has_failed(keeper: KeeperDouble, body: str) -> None:
    source = f"def fit():\n    for item in tpulab.steps(range(3), name={body!r}):\n        {body}\n"
    namespace: dict[str, Any] = {"tpulab": tpulab}
    exec(source, namespace)
    with pytest.raises(
        (ValueError, AttributeError, LookupError, ZeroDivisionError, NameError, AssertionError)
    ):
        namespace["fit"]()
    assert ended(keeper, body)["state"] == "failed"


@pytest.mark.parametrize(
    "body",
    ["break", "return", "return item", "x = item; break", "\n    try: return 5\n    finally: pass"],
)
def test_however_a_loop_is_left_on_purpose_it_is_finished(keeper: KeeperDouble, body: str) -> None:
    body = body.replace("\n", "\n    ")
    source = f"def fit():\n    for item in tpulab.steps(range(3), name={body!r}):\n        {body}\n"
    namespace: dict[str, Any] = {"tpulab": tpulab}
    exec(source, namespace)
    namespace["fit"]()
    assert ended(keeper, body)["state"] == "finished"


def test_a_comprehension_that_raises_has_failed(keeper: KeeperDouble) -> None:
    with pytest.raises(ZeroDivisionError):
        [1 / 0 for _ in tpulab.steps(range(3), name="comprehension")]
    assert ended(keeper, "comprehension")["state"] == "failed"


def test_an_error_that_is_caught_inside_the_body_changes_nothing(keeper: KeeperDouble) -> None:
    for _ in tpulab.steps(range(3), name="caught inside"):
        try:
            raise ValueError
        except ValueError:
            continue
    run = ended(keeper, "caught inside")
    assert run["state"] == "finished"
    assert len(keeper.steps(run["run"])) == 3


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_an_iterable_that_raises_fails_the_run_and_the_error_continues(
    keeper: KeeperDouble, error: BaseException
) -> None:
    name = f"iterable raises {type(error).__name__}"

    def batches() -> Iterator[int]:
        yield 1
        raise error

    with pytest.raises(type(error)):
        list(tpulab.steps(batches(), name=name))
    run = ended(keeper, name)
    assert run["state"] == "failed"
    assert len(keeper.steps(run["run"])) == 1


def test_what_is_not_iterable_raises_as_a_plain_loop_would(keeper: KeeperDouble) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(tpulab.steps(5, name="not iterable"))  # type: ignore[arg-type]
    assert ended(keeper, "not iterable")["state"] == "failed"


def test_an_iterable_with_an_odd_length_is_only_of_unknown_length(keeper: KeeperDouble) -> None:
    class Odd:
        def __len__(self) -> int:
            raise RuntimeError("streaming data set")

        def __iter__(self) -> Iterator[int]:
            return iter([1, 2])

    assert list(tpulab.steps(Odd(), name="odd")) == [1, 2]
    assert ended(keeper, "odd")["totalSteps"] is None


def test_wrapping_and_being_wrapped_work(keeper: KeeperDouble) -> None:
    assert list(enumerate(tpulab.steps(range(2), name="inside enumerate"))) == [(0, 0), (1, 1)]
    assert list(tpulab.steps(zip([1], [2], strict=True), name="around zip")) == [(1, 2)]
    assert len(tpulab.steps([1, 2, 3])) == 3
    assert ended(keeper, "inside enumerate")["state"] == ended(keeper, "around zip")["state"] == "finished"


def test_nested_loops_are_separate_runs(keeper: KeeperDouble) -> None:
    for _ in tpulab.steps(range(2), name="epochs"):
        for _ in tpulab.steps(range(3), name="batches"):
            pass
    outer = ended(keeper, "epochs")
    inner = keeper.wait(
        lambda: [run for run in keeper.ended_runs() if run["name"] == "batches"][1:], "two inner runs"
    )
    assert len(keeper.steps(outer["run"])) == 2
    assert len(keeper.steps(inner[0]["run"])) == 3


def test_a_second_loop_over_the_same_object_is_a_second_run(keeper: KeeperDouble) -> None:
    loop = tpulab.steps([1, 2], name="epoch")
    assert list(loop) + list(loop) == [1, 2, 1, 2]
    runs = keeper.wait(lambda: [run for run in keeper.ended_runs() if run["name"] == "epoch"][1:], "two runs")
    assert runs[0]["run"] != keeper.of_type("run")[0]["run"]


def test_a_generator_that_measures_itself_can_be_left_half_way(keeper: KeeperDouble) -> None:
    def batches() -> Iterator[int]:
        yield from tpulab.steps(range(10), name="generator")

    for item in batches():
        if item == 3:
            break
    assert ended(keeper, "generator")["state"] == "finished"


def test_loops_that_take_turns_in_one_thread_do_not_disturb_each_other(keeper: KeeperDouble) -> None:
    async def fit(name: str) -> None:
        for _ in tpulab.steps(range(20), name=name):
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(fit("left"), fit("right"))

    asyncio.run(both())
    assert len(keeper.steps(ended(keeper, "left")["run"])) == 20
    assert len(keeper.steps(ended(keeper, "right")["run"])) == 20


def test_blocks_of_one_place_make_one_run(keeper: KeeperDouble, agent: Agent) -> None:
    for number in range(4):
        with tpulab.step("blocks") as step:
            step.metric(loss=1 / (number + 1))
    agent.close()
    run = ended(keeper, "blocks")
    assert [step["metrics"]["loss"] for step in keeper.steps(run["run"])] == [1.0, 0.5, 1 / 3, 0.25]


def test_a_block_that_raises_fails_its_run_and_the_next_one_begins_another(
    keeper: KeeperDouble, agent: Agent
) -> None:
    for fails in (False, True, False):
        try:
            with tpulab.step("may fail"):
                if fails:
                    raise ValueError
        except ValueError:
            pass
    agent.close()
    runs = keeper.wait(lambda: keeper.ended_runs()[1:] and keeper.ended_runs(), "the end of both runs")
    assert [run["state"] for run in runs] == ["failed", "finished"]


def test_a_block_inside_itself_is_one_step(keeper: KeeperDouble, agent: Agent) -> None:
    def descend(depth: int) -> None:
        with tpulab.step("recursive"):
            if depth:
                descend(depth - 1)

    descend(5)
    agent.close()
    assert len(keeper.steps(ended(keeper, "recursive")["run"])) == 1


def test_metrics_are_numbers_of_any_kind_and_other_values_are_left_out(keeper: KeeperDouble) -> None:
    for _ in tpulab.steps([0], name="metrics"):
        tpulab.metric(python=1.5, numpy=np.float32(2.5), integer=3, text="x")
        tpulab.metric(array=np.ones((2, 2)))
    [step] = keeper.steps(ended(keeper, "metrics")["run"])
    assert step["metrics"] == {"python": 1.5, "numpy": 2.5, "integer": 3.0}
    assert "nonFinite" not in step


def test_a_metric_that_is_nan_or_infinite_is_reported_with_each_step_and_advised_on_once(
    keeper: KeeperDouble,
) -> None:
    losses = [1.0, math.nan, np.float32(np.inf), 2.0, math.nan]
    for loss in tpulab.steps(losses, name="diverges"):
        tpulab.metric(loss=loss, norm=-math.inf if loss == np.inf else 1.0)
    run = ended(keeper, "diverges")["run"]
    assert [(step.get("metrics"), step.get("nonFinite")) for step in keeper.steps(run)] == [
        ({"loss": 1.0, "norm": 1.0}, None),
        ({"norm": 1.0}, {"loss": "NaN"}),
        (None, {"loss": "Infinity", "norm": "-Infinity"}),
        ({"loss": 2.0, "norm": 1.0}, None),
        ({"norm": 1.0}, {"loss": "NaN"}),
    ]
    found = keeper.wait(lambda: [m for m in keeper.of_type("advice") if len(m["run"])][1:], "both notes")
    reported = [m for m in keeper.of_type("advice") if m["kind"] == "non-finite-metric"]
    assert found
    assert [(m["message"], m["run"]) for m in reported] == [
        ("At step 1, `loss` became NaN.", run),
        ("At step 2, `norm` became -Infinity.", run),
    ]


def test_metric_and_watch_outside_a_step_do_nothing() -> None:
    tpulab.metric(loss=1.0)
    tpulab.watch(np.ones(3))


def test_a_watch_that_fails_is_reported_once_and_the_loop_continues(
    keeper: KeeperDouble, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def watch() -> object:
        calls.append(1)
        raise NameError("loss")

    assert list(tpulab.steps(range(5), name="bad watch", watch=watch)) == [0, 1, 2, 3, 4]
    assert ended(keeper, "bad watch")["state"] == "finished"
    assert len(calls) == 1
    assert "not called again" in caplog.text


def test_a_run_is_named_after_the_function_that_its_loop_is_in(keeper: KeeperDouble) -> None:
    def fine_tune() -> None:
        for _ in tpulab.steps([1]):
            pass

    fine_tune()
    run = ended(keeper, "fine_tune")
    assert run["location"]["file"] == "test_loops.py"
    assert run["location"]["function"] == "fine_tune"
    assert run["location"]["line"] > 1


def test_a_loop_kept_by_a_variable_and_left_by_break_ends_when_it_is_closed(keeper: KeeperDouble) -> None:
    loop = tpulab.steps(range(10), name="kept")
    for _ in loop:
        break
    assert not [run for run in keeper.ended_runs() if run["name"] == "kept"]
    loop.close()
    assert ended(keeper, "kept")["state"] == "finished"


def test_items_are_not_kept_alive() -> None:
    class Batch:
        alive = 0

        def __init__(self) -> None:
            Batch.alive += 1

        def __del__(self) -> None:
            Batch.alive -= 1

    for _ in tpulab.steps(Batch() for _ in range(100)):
        assert Batch.alive <= 2
    del _
    wait_until(lambda: Batch.alive == 0, "all batches to be freed")


def test_a_run_that_has_ended_leaves_no_finalizer_that_could_swallow_an_interrupt(
    keeper: KeeperDouble,
) -> None:
    loop = tpulab.steps([1], name="no finalizer")
    iterator = iter(loop)
    next(iterator)
    assert loop._guard is not None
    assert list(iterator) == []
    assert loop._guard is None
    assert ended(keeper, "no finalizer")["state"] == "finished"
    assert len([run for run in keeper.ended_runs() if run["name"] == "no finalizer"]) == 1
