"""The proof of the clock: a loop of known costs for each span, on eight devices of XLA:CPU.

Device time comes from a program whose every step on the host is a sleep of known length, so that no
result depends on the speed of the machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tpulab
from keeper_double import KeeperDouble
from tpulab.measure import watch_plan

STEPS = 12
COMPILING = 5
#: Long beside the delays of a busy machine: a few milliseconds.
INPUT_S, HOST_S, DEVICE_S, GAP_S, COMPILE_S = 0.1, 0.16, 0.24, 0.12, 0.6
SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")


class Costs:
    """The real duration of a span in each step: a sleep lasts as requested, plus the machine's delay."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {}

    def sleep(self, span: str, seconds: float) -> None:
        began = time.perf_counter()
        time.sleep(seconds)
        self.ms.setdefault(span, []).append((time.perf_counter() - began) * 1e3)


costs = Costs()


@pytest.fixture(autouse=True)
def _every_step_is_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(watch_plan, "MAX_SKIP", 0)
    monkeypatch.chdir(tmp_path)


def sleeps(value: np.ndarray) -> np.ndarray:
    costs.sleep("deviceMs", DEVICE_S)
    return np.asarray(value)


@pytest.mark.usefixtures("agent")
def test_each_span_is_what_the_loop_spent_on_it_and_they_add_up(keeper: KeeperDouble) -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    assert len(jax.devices()) == 8
    traced: list[int] = []

    @jax.jit
    def on_eight(x: jax.Array) -> jax.Array:
        if x.shape[0] == 16:
            traced.append(1)
            time.sleep(COMPILE_S)
        return (x * 2).sum()

    @jax.jit
    def program(total: jax.Array) -> jax.Array:
        return jax.pure_callback(sleeps, jax.ShapeDtypeStruct((), jnp.float32), total)

    small = jax.device_put(jnp.ones((8, 4)), sharding)
    large = jax.device_put(jnp.ones((16, 4)), sharding)
    program(on_eight(small)).block_until_ready()
    costs.ms.clear()

    def loader() -> Iterator[jax.Array]:
        for index in range(STEPS):
            costs.sleep("inputMs", INPUT_S)
            yield large if index == COMPILING else small

    run = tpulab.run("known", log=False)
    for batch in run.steps(loader(), total=STEPS):
        costs.sleep("hostMs", HOST_S)
        loss = program(on_eight(batch))
        loss.block_until_ready()
        costs.sleep("gapMs", GAP_S)
        run.log(loss=loss)
    run.finish()
    keeper.wait(lambda: len(keeper.steps()) == STEPS, "the steps")
    assert traced == [1]
    off: dict[str, list[float]] = {span: [] for span in costs.ms}
    for step, *spent in zip(keeper.steps(), *costs.ms.values(), strict=True):
        assert sum(step[span] for span in SPANS) == pytest.approx(step["wallMs"], rel=0.02)
        if step["index"] == COMPILING:
            assert step["compileMs"] >= 1e3 * COMPILE_S
            continue
        if step["index"] == 0:
            # The warm-up compiled: whether its programs still run is not known.
            assert not step["deviceKnown"]
            continue
        assert (step["deviceKnown"], step["compileMs"]) == (True, 0)
        for span, cost in zip(costs.ms, spent, strict=True):
            off[span].append(abs(step[span] - cost) / step["wallMs"])
    # The median: on a shared machine, a thread sometimes gets its turn late.
    assert {span: statistics.median(shares) for span, shares in off.items()} == {
        span: pytest.approx(0, abs=0.02) for span in costs.ms
    }
