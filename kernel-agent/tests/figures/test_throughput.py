"""Throughput, MFU and goodput: counted operations against XLA's, and times that add up."""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import tpulab
from keeper_double import KeeperDouble
from tpulab.compile.flop_count import count_flops
from tpulab.compile.programs import Programs, call_key
from tpulab.figures.spans import StepSplit
from tpulab.figures.throughput import (
    PEAK_FLOPS,
    PEAK_VARIABLE,
    Effort,
    Program,
    Throughput,
    goodput,
    peak_flops,
)
from tpulab.figures.totals import Figures, RunTotals
from tpulab.measure import watch_plan
from tpulab.runtimes.jax_internals import JitCall
from tpulab.training.run import TrainingRun

CHIPS = Path(__file__).parents[3] / "machines" / "lib" / "chips" / "chip-data.js"


def counted(function: Any, *args: Any) -> float:
    count = count_flops(jax.make_jaxpr(function)(*args))
    assert count.exact
    return count.flops


def by_xla(function: Any, *args: Any) -> float:
    analysis = jax.jit(function).lower(*args).compile().cost_analysis()
    return float(analysis["flops"])


def test_matrix_products_and_convolutions_are_counted_as_xla_counts_them() -> None:
    a, b = jnp.ones((4, 32, 48)), jnp.ones((4, 48, 64))
    assert counted(jnp.matmul, a, b) == by_xla(jnp.matmul, a, b) == 2 * 4 * 32 * 48 * 64

    def convolve(x: jax.Array, k: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x, k = jnp.ones((2, 10, 10, 3)), jnp.ones((3, 3, 3, 8))
    assert counted(convolve, x, k) == by_xla(convolve, x, k) == 2 * 2 * 8 * 8 * 8 * 27


def test_a_scan_counts_as_often_as_it_runs_where_xla_counts_it_once() -> None:
    w, x = jnp.ones((64, 64)), jnp.ones((32, 64))

    def layers(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda carry, _: (carry @ w, None), x, None, length=10)[0]

    one = 2 * 32 * 64 * 64
    assert counted(layers, x, w) == 10 * one
    assert by_xla(layers, x, w) < 2 * one


def test_a_gradient_costs_its_products_and_a_branch_its_cheapest_arm() -> None:
    w, x = jnp.ones((64, 64)), jnp.ones((32, 64))
    one = 2 * 32 * 64 * 64
    gradient = counted(jax.grad(lambda w, x: ((x @ w) @ w).sum()), w, x)
    # Two forwards, two for the weights, one for the value between them.
    assert gradient == pytest.approx(5 * one, rel=0.01)
    same = counted(lambda x, w: jax.lax.cond(x.sum() > 0, lambda: x @ w, lambda: w.T[:32] @ w), x, w)
    assert same == pytest.approx(one, rel=0.02)
    # The executed arm is not known: nothing that may not have run is counted.
    branch = count_flops(
        jax.make_jaxpr(lambda x, w: jax.lax.cond(x.sum() > 0, lambda: x @ w, lambda: x))(x, w)
    )
    assert branch.flops == pytest.approx(x.size, rel=0.02)
    assert (branch.exact, branch.missing) == (False, {"cond"})


def test_recomputation_is_not_counted_as_work_of_the_model() -> None:
    """Case T12: MFU counts only the model's operations."""
    w, x = jnp.ones((64, 64)), jnp.ones((32, 64))

    def loss(w: jax.Array, x: jax.Array, layer: Any) -> jax.Array:
        for _ in range(3):
            x = layer(x, w)
        return x.sum()

    def layer(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w)

    kept = counted(jax.grad(lambda w: loss(w, x, layer)), w)
    assert counted(jax.grad(lambda w: loss(w, x, jax.checkpoint(layer))), w) == pytest.approx(kept, rel=0.03)

    def scanned(w: jax.Array, step: Any) -> jax.Array:
        return jax.lax.scan(lambda x, _: (step(x, w), None), x, None, length=5)[0].sum()

    kept = counted(jax.grad(lambda w: scanned(w, layer)), w)
    again = counted(jax.grad(lambda w: scanned(w, jax.checkpoint(layer))), w)
    assert again == pytest.approx(kept, rel=0.03)


def test_grouped_products_transforms_and_solvers_are_counted() -> None:
    x, w, groups = jnp.ones((48, 32)), jnp.ones((4, 32, 24)), jnp.array([12, 12, 12, 12])
    one = 2 * 48 * 32 * 24
    assert counted(jax.lax.ragged_dot, x, w, groups) == one
    gradient = counted(jax.grad(lambda x, w: jax.lax.ragged_dot(x, w, groups).sum(), argnums=(0, 1)), x, w)
    assert gradient == pytest.approx(3 * one, rel=0.03)
    signal = jnp.ones((8, 1024), "complex64")
    assert counted(jnp.fft.fft, signal) == 5 * 8 * 1024 * 10
    assert counted(jnp.fft.rfft, signal.real) == pytest.approx(2.5 * 8 * 1024 * 10, rel=0.01)
    a = jnp.eye(32)
    assert counted(jax.lax.linalg.cholesky, a) == pytest.approx(32**3 / 3, rel=0.2)
    solved = counted(lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True), a, jnp.ones((32, 8)))
    assert solved == pytest.approx(32 * 32 * 8, rel=0.2)


def test_unknown_operations_make_a_lower_bound_that_names_them() -> None:
    count = count_flops(jax.make_jaxpr(lambda a: jnp.linalg.eigh(a)[0])(jnp.eye(16)))
    assert (count.exact, count.missing) == (False, {"eigh"})
    mapped = count_flops(jax.make_jaxpr(lambda x: jax.pure_callback(lambda v: v, x, x) @ x)(jnp.eye(16)))
    assert (mapped.exact, mapped.missing) == (False, {"pure_callback"})
    assert mapped.flops == 2 * 16**3


def test_a_usual_training_step_is_counted_completely() -> None:
    """The tables have all of its operations."""
    key = jax.random.key(0)

    def loss(params: Any, x: jax.Array) -> jax.Array:
        h = jax.nn.gelu(x @ params["w"])
        h = h * jax.random.bernoulli(key, 0.9, h.shape)
        h = (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
        logits = jnp.where(h > 0, h, 0.0) @ params["v"]
        one_hot = jax.nn.one_hot(jnp.argmax(x, -1) % 8, 8)
        return -(jax.nn.log_softmax(logits) * one_hot).sum(-1).mean() + jnp.clip(logits, -1, 1).mean()

    def step(params: Any, x: jax.Array) -> Any:
        grads = jax.grad(loss)(params, x)
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
        return jax.tree.map(lambda p, g: p - 0.1 * g / jnp.maximum(norm, 1.0), params, grads)

    params = {"w": jnp.ones((16, 32)), "v": jnp.ones((32, 8))}
    count = count_flops(jax.make_jaxpr(step)(params, jnp.ones((4, 16))))
    assert count.missing == frozenset()
    assert count.exact


def test_the_body_of_a_shard_map_counts_for_every_device() -> None:
    mesh = Mesh(np.array(jax.devices()), ("d",))
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
    mapped = jax.shard_map(jnp.matmul, mesh=mesh, in_specs=(PartitionSpec("d"), PartitionSpec()),
                           out_specs=PartitionSpec("d"))  # fmt: skip
    assert counted(mapped, x, w) == 2 * 64 * 32 * 16


def test_a_loop_of_unknown_length_makes_the_count_a_lower_bound() -> None:
    def until(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda v: v.sum() < 1e6, lambda v: v @ v, x)

    assert not count_flops(jax.make_jaxpr(until)(jnp.ones((8, 8)))).exact


# The folder decides, so that a table that was moved fails instead of being skipped.
@pytest.mark.skipif(not CHIPS.parents[1].exists(), reason="needs `npm run build`")
def test_peak_rates_match_the_bridge_for_each_device() -> None:
    script = f"import({json.dumps(CHIPS.as_uri())}).then(m => process.stdout.write(JSON.stringify(m.CHIPS)))"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    table = {
        kind: chip["tflops"]["bf16"] * 1e12 / chip["devices"]
        for chip in json.loads(done.stdout)
        for kind in chip["deviceKinds"]
    }
    assert table == PEAK_FLOPS


def test_the_bridges_own_table_of_chips_comes_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PEAK_VARIABLE, raising=False)
    assert (peak_flops("TPU v6 lite"), peak_flops("TPU next"), peak_flops(None)) == (918e12, None, None)
    monkeypatch.setenv(PEAK_VARIABLE, '{"TPU v6 lite": 9e14, "TPU next": 2.5e15, "TPU v4": null}')
    assert (peak_flops("TPU v6 lite"), peak_flops("TPU next")) == (9e14, 2.5e15)
    assert (peak_flops("TPU v4"), peak_flops("TPU v3")) == (None, 61.5e12)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"TPU v4": "fast"}', '{"TPU v4": -1}'])
def test_an_invalid_table_leaves_ours_in_use(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(PEAK_VARIABLE, text)
    assert peak_flops("TPU v4") == 275e12


def test_the_mfu_of_a_run_uses_the_peak_in_the_bridges_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PEAK_VARIABLE, '{"TPU next": 4e12}')
    ten_steps = RunTotals(steps=10, wall=10_000_000_000)
    throughput = Throughput(Effort(flops=1e12), Programs().find)
    throughput.device_kind, throughput.device_count = "TPU next", 2
    reported = throughput.message(Figures("r", started_ns=0, total=None, recorded=10, totals=ten_steps))
    assert reported is not None
    assert reported["mfu"] is not None
    assert (reported["mfu"]["value"], reported["mfu"]["peakFlopsPerSecond"]) == (1e12 / 8e12, 8e12)


def test_a_device_that_idles_is_not_productive() -> None:
    # Half of the time of the watched steps; the others are assumed to idle as much, whatever they show.
    totals = RunTotals()
    for _ in range(4):
        totals.add(StepSplit(10, 10, 0, 40, 40), True)
    for _ in range(6):
        totals.add(StepSplit(60, 40, 0, 0, 0), False)
    found = goodput(totals, 1_000, 0)
    assert found["badputMs"]["DEVICE_IDLE"] == pytest.approx(500 / 1e6)
    assert found["badputMs"]["DATA_LOADING_SYNC"] == pytest.approx(100 / 1e6)
    assert found["productiveMs"] == pytest.approx(400 / 1e6)
    assert found["productiveMs"] + sum(found["badputMs"].values()) == pytest.approx(found["totalMs"])


def test_goodput_and_its_losses_add_up_to_the_whole() -> None:
    totals = RunTotals()
    totals.add(StepSplit(100, 80, 300, 0, 0), False, first=True)
    totals.add(StepSplit(0, 0, 0, 250, 0), True)
    totals.add(StepSplit(0, 0, 0, 250, 0), True, in_bands=20)
    totals.add_band("checkpoint", 50)
    totals.add_band("pause", 70)
    found = goodput(totals, 2000, 150)
    assert found["productiveMs"] == pytest.approx(500 / 1e6)
    assert found["totalMs"] == pytest.approx(2000 / 1e6)
    assert sum(found["badputMs"].values()) + found["productiveMs"] == pytest.approx(found["totalMs"])
    assert set(found["badputMs"]) == {
        *("TRAINING_PREP", "PROGRAM_STARTUP", "DATA_LOADING_SYNC", "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME"),
        *("CUSTOM_BADPUT_EVENTS", "DEVICE_IDLE", "OTHER"),
    }


@pytest.fixture
def _watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(watch_plan, "MAX_SKIP", 0)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def product() -> Iterator[TrainingRun]:
    run = tpulab.run("product", total=12, samples_per_step=32, tokens_per_step=64, log=False, peak_flops=1e12)
    yield run
    run.finish()


@pytest.mark.usefixtures("agent", "_watched")
def test_a_run_reports_its_throughput_its_mfu_and_its_goodput(
    product: TrainingRun, keeper: KeeperDouble
) -> None:
    @jax.jit
    def multiply(x: jax.Array) -> jax.Array:
        return x @ x

    x = jnp.ones((64, 64))
    for index in product.steps(range(12)):
        time.sleep(0.002)
        product.log(total=multiply(x)[0, 0])
        if index == 5:
            with product.band("checkpoint"):
                time.sleep(0.01)
    throughput = keeper.wait(lambda: [m for m in keeper.of_type("pace") if m["step"] == 12], "the pace")[-1]
    rate = throughput["stepsPerSecond"]
    assert throughput["samplesPerSecond"] == pytest.approx(32 * rate)
    assert throughput["tokensPerSecond"] == pytest.approx(64 * rate)
    assert throughput["etaSeconds"] == 0
    mfu = throughput["mfu"]
    assert mfu["source"] == "counted"
    assert mfu["flopsPerStep"] == pytest.approx(2 * 64**3, rel=0.01)
    assert mfu["value"] == pytest.approx(mfu["flopsPerStep"] * rate / 1e12)
    kept = throughput["goodput"]
    assert kept["badputMs"]["UNPRODUCTIVE_CHECKPOINT_SAVE_TIME"] >= 10
    assert kept["productiveMs"] + sum(kept["badputMs"].values()) == pytest.approx(kept["totalMs"])
    [step] = [step for step in keeper.steps() if "bands" in step]
    assert (step["index"], step["bands"]["checkpoint"] >= 10) == (5, True)
    [band] = keeper.of_type("band")
    assert (band["kind"], band["step"], band["inStep"]) == ("checkpoint", 5, True)


def mfu_of(keeper: KeeperDouble, name: str, batches: list[Any], step: Any) -> dict[str, Any]:
    """The reported operations of a run over `batches` when it has ended."""
    run = tpulab.run(name, log=False, peak_flops=1e12)
    for batch in run.steps(batches):
        run.log(loss=step(batch))
    run.finish()
    ended = keeper.wait(lambda: [m for m in keeper.ended_runs() if m["name"] == name], f"the end of {name}")
    mfu: dict[str, Any] = [m for m in keeper.of_type("pace") if m["run"] == ended[0]["run"]][-1]["mfu"]
    return mfu


def product_flops(rows: int) -> float:
    return 2.0 * rows * 64 * 64 + rows * 64


@pytest.mark.usefixtures("agent", "_watched")
def test_each_step_counts_with_the_program_of_its_own_shapes(keeper: KeeperDouble) -> None:
    w = jnp.ones((64, 64))

    @jax.jit
    def train(state: dict[str, jax.Array], batch: jax.Array) -> jax.Array:
        return (batch @ state["w"]).sum()

    full, ragged = jnp.ones((64, 64)), jnp.ones((4, 64))
    train({"w": w}, full)
    # The ragged batch compiles in its first step, which is therefore not watched.
    mfu = mfu_of(keeper, "ragged once", [full] * 6 + [ragged] + [full] * 6, lambda x: train({"w": w}, x))
    assert (mfu["flopsPerStep"], mfu["source"]) == (product_flops(64), "counted")
    mfu = mfu_of(keeper, "ragged twice", [full, full, ragged, full], lambda x: train({"w": w}, x))
    assert mfu["flopsPerStep"] == pytest.approx((3 * product_flops(64) + product_flops(4)) / 4)


@pytest.mark.usefixtures("agent", "_watched")
def test_functions_of_one_name_and_static_values_are_distinguished(keeper: KeeperDouble) -> None:
    def layers(times: int) -> Any:
        @functools.partial(jax.jit, static_argnames="repeat")
        def step(x: jax.Array, repeat: int) -> jax.Array:
            for _ in range(times * repeat):
                x = x @ x
            return x

        return step

    x, one, three = jnp.ones((16, 16)), layers(1), layers(3)
    for step, repeat in ((one, 1), (one, 5), (three, 1)):
        step(x, repeat=repeat)
    product = 2 * 16**3
    assert mfu_of(keeper, "one", [x] * 4, lambda x: one(x, repeat=1))["flopsPerStep"] == product
    assert mfu_of(keeper, "five", [x] * 4, lambda x: one(x, repeat=5))["flopsPerStep"] == 5 * product
    assert mfu_of(keeper, "three", [x] * 4, lambda x: three(x, repeat=1))["flopsPerStep"] == 3 * product


@pytest.mark.usefixtures("agent", "_watched")
def test_a_program_that_was_not_counted_makes_a_lower_bound(keeper: KeeperDouble) -> None:
    square = jax.jit(lambda x: x @ x)
    x = jnp.ones((16, 16))
    square(x)
    ahead = square.lower(x).compile()
    ahead(x)
    mfu = mfu_of(keeper, "ahead of time", [x] * 4, lambda x: ahead(square(x)))
    assert (mfu["flopsPerStep"], mfu["source"]) == (2 * 16**3, "lower-bound")
    # Done by the caller, so that only the nested loop's own calls count.
    for _ in tpulab.steps(range(1), name="epochs"):
        inner = mfu_of(keeper, "inside another loop", [x] * 4, square)
    assert (inner["flopsPerStep"], inner["source"]) == (2 * 16**3, "counted")


def test_only_the_arguments_that_differ_are_inspected() -> None:
    class Untouchable:
        @property
        def shape(self) -> Any:
            raise AssertionError("looked at")

    def step(state: Any, batch: Any) -> None: ...

    jitted: Any = SimpleNamespace(_fun=step)
    programs, state = Programs(), jnp.ones(3)
    programs.complete = True

    def key(rows: int) -> Any:
        return call_key(JitCall(step, None, (state, jnp.ones(rows)), {}, executes=True))

    programs.add(step, None, key(8), full := Program(8.0, True, 1))
    assert programs.find(jitted, (Untouchable(), Untouchable()), {}) is full
    programs.add(step, None, key(2), small := Program(2.0, True, 1))
    assert programs.find(jitted, (Untouchable(), jnp.ones(8)), {}) is full
    assert programs.find(jitted, (Untouchable(), jnp.ones(2)), {}) is small
    assert programs.find(jitted, (Untouchable(), jnp.ones(5)), {}) is None
    programs.complete = False
    assert programs.find(jitted, (jnp.ones(4), jnp.ones(2)), {}) is None
