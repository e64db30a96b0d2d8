"""The split of real steps on XLA:CPU, compared with costs that the test creates.

A sleep of n ms takes at least n ms, so lower bounds hold on any machine; upper bounds on time would not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import tpulab
from keeper_double import KeeperDouble
from tpulab.measure import watch_plan
from tpulab.measure.thread_state import thread_state

pytestmark = pytest.mark.usefixtures("agent")
SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")
STEPS = 8


@pytest.fixture(autouse=True)
def _every_step_is_watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes a wait expensive, and then only some steps are watched."""
    if "tiny" not in request.node.name:
        monkeypatch.setattr(watch_plan, "MAX_SKIP", 0)


@pytest.fixture(scope="module")
def heavy() -> Any:
    """A program of some milliseconds, compiled: `loss = heavy(x)`."""

    @jax.jit
    def heavy_program(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        for _ in range(6):
            x = x @ x / 600.0
        return x, x.sum()

    heavy_program(matrix())[1].block_until_ready()
    return heavy_program


def matrix() -> jax.Array:
    return jnp.ones((600, 600))


def usual(values: Iterable[float]) -> float:
    """The median: on a shared machine, a thread sometimes gets its turn late."""
    return statistics.median(values)


def usual_share(steps: list[dict[str, Any]], span: str) -> float:
    return usual(step[span] / step["wallMs"] for step in steps)


def measured(keeper: KeeperDouble, name: str) -> list[dict[str, Any]]:
    """Steps of a run that has ended; each adds up to its wall time within 2 %."""
    run = keeper.wait(
        lambda: next((r for r in keeper.ended_runs() if r["name"] == name), None), f"end of {name}"
    )
    steps = keeper.steps(run["run"])
    for step in steps:
        assert sum(step[span] for span in SPANS) == pytest.approx(step["wallMs"], rel=0.02)
        assert min(step[span] for span in SPANS) >= 0
    return steps


def test_sleeping_in_the_iterator_is_input(keeper: KeeperDouble, heavy: Any) -> None:
    x = matrix()

    def slow() -> Iterator[jax.Array]:
        for _ in range(STEPS):
            time.sleep(0.03)
            yield x

    for batch in tpulab.steps(slow(), name="slow input"):
        float(heavy(batch)[1])
    steps = measured(keeper, "slow input")
    assert len(steps) == STEPS
    # The programs before the first step may be unknown, and then so is its device time.
    assert all(step["deviceKnown"] for step in steps[1:])
    # The last microseconds of the device may reach into the wait when the watcher is late.
    assert usual(step["inputMs"] for step in steps) >= 0.9 * 30
    without = [number for number, step in enumerate(steps) if step["deviceKnown"] and step["deviceMs"] == 0]
    assert not without, [steps[number] for number in without]


def test_waiting_for_a_result_is_device_time(keeper: KeeperDouble, heavy: Any) -> None:
    x = matrix()
    for _ in tpulab.steps(range(STEPS), name="device bound"):
        float(heavy(x)[1])
    steps = measured(keeper, "device bound")
    assert usual_share(steps, "deviceMs") > 0.6


def test_a_loop_that_runs_ahead_gets_its_metrics_later(keeper: KeeperDouble, heavy: Any) -> None:
    x = matrix()
    for _ in tpulab.steps(range(STEPS), name="asynchronous"):
        x, loss = heavy(x)
        tpulab.metric(loss=loss)
    steps = measured(keeper, "asynchronous")
    assert len(steps) == STEPS
    assert steps[1]["deviceKnown"]
    assert all("loss" in step["metrics"] for step in steps)


def test_sleeping_before_the_dispatch_is_host_and_after_the_result_gap(
    keeper: KeeperDouble, heavy: Any
) -> None:
    x = matrix()
    for _ in tpulab.steps(range(STEPS), name="host and gap"):
        time.sleep(0.02)
        float(heavy(x)[1])
        time.sleep(0.04)
    steps = measured(keeper, "host and gap")
    assert usual(step["hostMs"] for step in steps) >= 0.9 * 20
    assert usual(step["gapMs"] for step in steps) >= 0.9 * 40
    assert usual(step["inputMs"] for step in steps) < usual(step["hostMs"] for step in steps)


def test_a_program_that_the_cpu_runs_in_the_call_is_device_time_where_jax_shows_the_call(
    keeper: KeeperDouble,
) -> None:
    """Programs with callbacks, and loops of small operations, run on the calling thread. jax calls those with
    effects through Python."""

    @jax.jit
    def with_effect(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda _: time.sleep(0.03), x.sum())
        return x * 2

    @jax.jit
    def without_effect(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 200_000, lambda _, total: total + jnp.sin(total), x[0, 0])

    # A program whose argument is not ready yet runs on another thread.
    x = matrix().block_until_ready()
    for program in (with_effect, without_effect):
        program(x).block_until_ready()
        for _ in tpulab.steps(range(STEPS), name=program.__name__):
            time.sleep(0.02)
            program(x)
    steps = measured(keeper, "with_effect")[1:]
    assert all(step["deviceKnown"] for step in steps)
    assert usual(step["deviceMs"] for step in steps) >= 0.9 * 30
    assert usual(step["hostMs"] for step in steps) >= 0.9 * 20
    assert not any(step["deviceKnown"] for step in measured(keeper, "without_effect"))


def test_compiling_in_a_step_is_compile_time_of_that_step(keeper: KeeperDouble) -> None:
    @jax.jit
    def compiled_in_step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x).sum()

    x = matrix()
    for number in tpulab.steps(range(4), name="compiles"):
        float(compiled_in_step(x if number < 3 else x[:-1]))
    steps = measured(keeper, "compiles")
    assert [step["compileMs"] > 0 for step in steps] == [True, False, False, True]
    # jax does not announce the dispatch of the call that compiles, which may still run in the next step.
    assert [steps[at]["deviceKnown"] for at in (0, 2, 3)] == [False, True, False]


def test_a_program_compiled_ahead_of_time_is_seen_from_its_second_call_or_when_its_output_is_watched(
    keeper: KeeperDouble, heavy: Any
) -> None:
    x = matrix()
    ahead = heavy.lower(x).compile()
    for _ in tpulab.steps(range(STEPS), name="ahead"):
        float(ahead(x)[1])
    with_watch = tpulab.steps(range(STEPS), name="ahead watched")
    for _ in with_watch:
        loss = ahead(x)[1]
        with_watch.watch(loss)
        float(loss)
    known = [step["deviceKnown"] for step in measured(keeper, "ahead")]
    assert (known[0], known[2:]) == (False, [True] * (STEPS - 2))
    watched = measured(keeper, "ahead watched")
    assert all(step["deviceKnown"] for step in watched)
    assert usual_share(watched, "deviceMs") > 0.5


def test_a_block_is_split_like_a_turn_of_a_loop(keeper: KeeperDouble, heavy: Any) -> None:
    x = matrix()
    for _ in range(STEPS):
        with tpulab.step("blocks"):
            float(heavy(x)[1])
            time.sleep(0.02)
    from tpulab.measure.tracked_run import on_cell_end

    on_cell_end(True)
    steps = measured(keeper, "blocks")
    assert sum(step["inputMs"] for step in steps) == 0
    assert usual(step["gapMs"] for step in steps) >= 0.9 * 20


def test_donated_states_are_measured_and_stay_usable(keeper: KeeperDouble) -> None:
    def update(state: dict[str, jax.Array], x: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        return {"w": state["w"] + x @ x / 600.0, "count": state["count"] + 1}, (x @ x).sum()

    train = jax.jit(update, donate_argnums=0)
    state, x = {"w": matrix(), "count": jnp.zeros((), jnp.int32)}, matrix()
    for _ in tpulab.steps(range(STEPS), name="donated"):
        state, loss = train(state, x)
        float(loss)
    assert int(state["count"]) == STEPS
    assert all(step["deviceKnown"] for step in measured(keeper, "donated")[2:])


def test_tiny_steps_are_watched_only_occasionally(keeper: KeeperDouble) -> None:
    tiny = jax.jit(lambda x: x + 1)
    x = tiny(jnp.zeros(()))
    for _ in tpulab.steps(range(400), name="tiny"):
        x = tiny(x)
    known = [step["deviceKnown"] for step in measured(keeper, "tiny")]
    assert 0 < sum(known) < len(known) / 2


def test_inner_and_outer_loops_both_see_the_device(keeper: KeeperDouble, heavy: Any) -> None:
    x = matrix()
    for _ in tpulab.steps(range(5), name="outer"):
        for _ in tpulab.steps(range(3), name="inner"):
            float(heavy(x)[1])
    outer = measured(keeper, "outer")
    assert len(outer) == 5
    assert all(step["deviceKnown"] for step in outer[1:])
    assert usual_share(outer, "deviceMs") > 0.5


def test_the_check_for_nan_works_inside_a_measured_loop() -> None:
    divide = jax.jit(lambda x: x / x)
    divide(jnp.ones(3))

    def fit() -> None:
        for value in tpulab.steps([1.0, 0.0], name="nan"):
            divide(jnp.full(3, value))

    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        fit()


def test_the_hook_is_removed_when_no_loop_is_measured(heavy: Any) -> None:
    from jax._src import api

    x = matrix()
    for _ in tpulab.steps(range(2)):
        heavy(x)
        assert callable(api._post_hook_state.get_local())
    assert not callable(api._post_hook_state.get_local())
    assert thread_state().hook is None
