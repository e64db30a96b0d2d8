"""A jax with other private parts: figures from its public parts are still reported, and none is invented."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import tpulab
from keeper_double import KeeperDouble
from tpulab.agent.agent import Agent
from tpulab.compile import compilation
from tpulab.runtimes import jax_internals
from tpulab.runtimes.jax_internals import DispatchHookSlot

SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")


@pytest.fixture
def _other_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DispatchHookSlot, "find", lambda: None)
    monkeypatch.setattr(compilation, "find_jit_call", lambda *_: None)
    monkeypatch.setattr(jax_internals, "find_lowered", lambda _: None)
    monkeypatch.setattr(jax_internals, "phase_error", lambda _: None)


@pytest.mark.usefixtures("_other_jax", "agent")
def test_compilations_are_reported_without_an_argument_and_device_time_is_unknown(
    keeper: KeeperDouble,
) -> None:
    @jax.jit
    def bare(batch: jax.Array) -> jax.Array:
        return batch.sum()

    for size in tpulab.steps([16, 16, 7], name="bare loop"):
        bare(jnp.ones((size, 4))).block_until_ready()
    [run] = keeper.wait(keeper.ended_runs, "the end of the run")
    reported = keeper.wait(
        lambda: len(keeper.compiled("bare")) == 2 and keeper.compiled("bare"), "two of them"
    )
    assert [message["id"] for message in keeper.compiled("bare", "started")] == [m["id"] for m in reported]
    assert all(message["compileMs"] > 0 and message["reason"]["argument"] is None for message in reported)
    [advice] = keeper.of_type("advice")
    assert advice["kind"] == "missing-hook", "nobody knows which argument it was"
    assert advice["message"] == f"With jax {jax.__version__}, TPULab does not see: device time."
    steps = keeper.steps(run["run"])
    assert [step["index"] for step in steps] == [0, 1, 2]
    for step in steps:
        assert not step["deviceKnown"]
        assert (step["deviceMs"], step["gapMs"]) == (0, 0)
        assert sum(step[span] for span in SPANS) == pytest.approx(step["wallMs"], rel=0.02)
    assert steps[0]["compileMs"] > 0
    assert steps[2]["compileMs"] > 0


def test_a_jax_with_other_phase_names_is_reported_to_hide_compilations(
    monkeypatch: pytest.MonkeyPatch, keeper: KeeperDouble
) -> None:
    monkeypatch.setattr("jax._src.dispatch.BACKEND_COMPILE_EVENT", "/jax/other")
    agent = Agent(str(keeper.path))
    agent.start()
    [advice] = keeper.wait(lambda: keeper.of_type("advice"), "the advice")
    agent.close()
    assert "does not see: compilations." in advice["message"]
    assert "tpulab env create" in advice["remedy"]


def test_the_rest_is_sent_although_a_watch_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch, keeper: KeeperDouble, agent: Agent
) -> None:
    from jax import monitoring

    for _ in tpulab.steps(range(3), name="last words"):
        pass
    monkeypatch.delattr(monitoring, "unregister_scalar_listener")
    detach = agent.compiles.detach
    agent.close()
    monkeypatch.undo()
    agent.compiles._monitoring = monitoring
    detach()
    assert keeper.wait(keeper.ended_runs, "the end of the run")[0]["name"] == "last words"
