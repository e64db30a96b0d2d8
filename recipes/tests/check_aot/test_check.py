"""`tpulab check` with the real compiler. `npm run test:aot` has the environment for it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libtpu", reason="`npm run test:aot` installs the TPU compiler")
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TPULAB_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
from check_aot import steps
from jax._src import compiler
from tpulab_recipes.compile_ahead.tpu_compiler import MACHINES

from tpulab.check import checking, chips
from tpulab.check.cell import preflight
from tpulab.check.compiler import Compiler
from tpulab.check.findings import Budget
from tpulab.check.saved import load_compiled

# All layouts are compiled, on a busy machine too.
checking.PROPOSE_LIMIT = 3000.0
#: For the table that `npm run test:aot` makes.
RESULTS = Path(os.environ.get("TPULAB_AOT_RESULTS", os.devnull))

DATA_PARALLEL = """import functools, jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P, AxisType
mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
params = jax.device_put([jnp.ones((512, 512)) * 0.01 for _ in range(3)], whole)
x = jax.device_put(jnp.ones((1024, 512)), rows)
def network(ps, x):
    for w in ps:
        x = jnp.tanh(x @ w)
    return x
@functools.partial(jax.jit, donate_argnums=0)
def good(ps, x):
    value, g = jax.value_and_grad(lambda p: (network(p, x) ** 2).mean())(ps)
    return [p - 0.1 * q for p, q in zip(ps, g)], value
@functools.partial(jax.jit, donate_argnums=0)
def contrastive(ps, x):
    def loss(p):
        h = network(p, x)
        return (h @ h.T).mean()
    value, g = jax.value_and_grad(loss)(ps)
    return [p - 0.1 * q for p, q in zip(ps, g)], value
for _ in range(2):
    params, value = good(params, x)
for _ in range(2):
    params, value = contrastive(params, x)
"""
ONE_DEVICE = "jax.jit(lambda a: a * 2)(jax.device_put(jnp.ones(8), jax.devices()[0]))\n"


@pytest.mark.parametrize("kind", chips.KINDS)
def test_the_compiler_knows_each_machine_type(kind: str) -> None:
    sizes = chips.sizes_of(chips.KINDS[kind])
    assert [len(Compiler(machine).devices) for machine in sizes] == [machine.devices for machine in sizes]


def test_a_machine_that_the_compiler_does_not_accept_is_named() -> None:
    impossible = dataclasses.replace(chips.KINDS["v5e"], external="v5z")
    with pytest.raises(chips.PreflightError, match="does not accept v5z-8") as raised:
        Compiler(chips.Machine("v5z-8", impossible, 8)).devices  # noqa: B018
    assert raised.value.code == "compiler_refused"


def step(weights: list, x: jax.Array) -> tuple:
    def loss(weights: list) -> jax.Array:
        h = x
        for weight in weights:
            h = jnp.tanh(h @ weight)
        return (h**2).mean()

    value, grads = jax.value_and_grad(loss)(weights)
    return [weight - 0.1 * grad for weight, grad in zip(weights, grads, strict=True)], value


def test_an_unrequested_all_gather_has_its_line(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text(DATA_PARALLEL)
    request = checking.Request(source, chips.machines_named("v5e-8, v6e-8"))
    found = checking.check(request, chips.read_prices(), Budget())
    assert [(each["rule"], each["where"]) for each in found["findings"]] == [
        ("unexpected-collective", "train.py:19")
    ]
    good, _ = found["programs"]
    kinds = {each["kind"] for each in good["results"]["v5e-8"]["collectives"]}
    assert kinds == {"all-reduce"}


@pytest.mark.parametrize("chip", ["v5e-8", "v5p-16", "7x-8"])
def test_a_program_compiled_ahead_is_what_the_machine_compiles(chip: str, tmp_path: Path) -> None:
    """jax lowers it for the chips themselves here. Only the last step fails, which gives it to the chips."""
    source, file = tmp_path / "train.py", tmp_path / "train.compiled"
    source.write_text(DATA_PARALLEL + ONE_DEVICE)
    (machine,) = chips.machines_named(chip)
    request = checking.Request(source, [machine], save_compiled=file)
    checking.check(request, chips.read_prices(), Budget())
    devices = Compiler(machine).devices
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,), devices=devices)
    places = [jax.NamedSharding(mesh, spec) for spec in (jax.P(), jax.P("data"))]
    weights, x = (
        jax.ShapeDtypeStruct(shape, "float32", sharding=place)
        for shape, place in zip(((512, 512), (1024, 512)), places, strict=True)
    )
    names: dict[str, Any] = {"__name__": "lesson"}
    exec(DATA_PARALLEL.partition("\nfor _ in")[0], names)
    one = jax.ShapeDtypeStruct((8,), "float32", sharding=jax.sharding.SingleDeviceSharding(devices[0]))
    compiling = compiler.compile_or_get_cached
    try:
        found = load_compiled(file)
        with pytest.warns(UserWarning, match="must be constructed with a Client"):
            names["good"].trace([weights] * 3, x).lower().compile()
        with pytest.warns(UserWarning, match="must be constructed with a Client"):
            jax.jit(lambda a: a * 2).trace(one).lower().compile()
        with pytest.warns(UserWarning, match="have changed"):
            jax.jit(lambda a: a * 3).trace(one).lower().compile()
    finally:
        compiler.compile_or_get_cached = compiling
    assert found.loaded == []


@pytest.mark.parametrize("chip", ["v4-8", "v5e-8", "v5p-8", "v6e-8", "7x-8"])
def test_the_memory_that_is_reported_reaches_the_limit_at_the_largest_batch(chip: str) -> None:
    """The compiler refuses the next batch, and what it says of the last one is within 2% of its limit."""
    shape = jax.ShapeDtypeStruct
    weights = [shape((2048, 2048), "float32")] * 4
    jitted = jax.jit(step, donate_argnums=0)
    first = preflight(jitted, weights, shape((131072, 2048), "float32"), chips=chip, largest_batch=True)
    batch = first.report["totals"][chip]["batch"]
    usable = first.report["machines"][0]["usableBytes"]
    for rows, verdicts in ((batch["fits"], ("fits", "tight")), (batch["next"], ("no",))):
        found = preflight(jitted, weights, shape((rows, 2048), "float32"), chips=chip)
        result = found.report["programs"][0]["results"][chip]
        assert result["fits"] in verdicts
        assert (result["need"] <= usable) == (rows == batch["fits"])


def test_a_second_check_compiles_nothing_and_reports_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPULAB_COMPILATION_CACHE", str(tmp_path))
    shape = jax.ShapeDtypeStruct
    arguments = [shape((256, 256), "float32")] * 2, shape((64, 256), "float32")
    found = []
    # At one line: lines are part of a program, which names its buffers by them.
    for _ in range(2):
        found.append(preflight(jax.jit(step, donate_argnums=0), *arguments, chips="v5e-8"))
        (stored,) = (tmp_path / "check").iterdir()
        # Its seconds show where the second answer comes from.
        stored.write_text(json.dumps(json.loads(stored.read_text()) | {"seconds": 1234.5}))
    first, again = found
    assert again.report["totals"]["v5e-8"]["compileSeconds"] == 1234.5
    results = [each.report["programs"][0]["results"]["v5e-8"] for each in (first, again)]
    for result in results:
        result.pop("compileSeconds")
    assert results[0] == results[1]


def proposed(made: tuple, chip: str = "v5e-8") -> dict:
    found = preflight(*made, chips=chip, propose=True)
    answer: dict = found.report["totals"][chip]["proposals"]
    fsdp = next(each for each in answer["rows"] if each["name"] == "FSDP")
    best = answer["rows"][0]
    # Never worse than plain FSDP, and every number that was compared is equal.
    assert best["fits"] >= fsdp["fits"]
    assert not fsdp["fits"] or best["seconds"] <= fsdp["seconds"] * 1.01
    assert {each["equal"] for each in answer["rows"]} <= {True, None}
    assert all(each["difference"] <= 1e-5 for each in answer["rows"] if each["difference"] is not None)
    return answer


def test_an_mlp_with_few_rows_moves_activations_and_not_its_matrices() -> None:
    best = proposed(steps.mlp(64))["rows"][0]
    matrices = 2 * 2 * 1024 * 4096 * 4
    assert best["equal"]
    assert best["collectiveBytes"] < matrices / 20
    assert best["need"] < 1.5 * matrices / 8


def test_an_mlp_with_many_rows_divides_the_rows() -> None:
    best = proposed(steps.mlp(16384))["rows"][0]
    assert best["mesh"] == {"data": 8, "model": 1}


def test_a_transformer_with_few_rows_has_columns_and_then_rows_of_its_matrices() -> None:
    best = proposed(steps.transformer(8))["rows"][0]
    assert best["equal"]
    assert best["mesh"]["model"] > 1
    axes = {name.partition("[")[0]: place.index("model") for name, place in best["places"].items()}
    assert (axes["up"], axes["down"]) == (1, 0)
    assert {axes[name] for name in ("q", "k", "v")} == {1}


def test_a_convolution_divides_the_images() -> None:
    best = proposed(steps.convolution(32))["rows"][0]
    assert best["mesh"] == {"data": 8, "model": 1}


def test_an_embedding_stays_divided_and_its_rows_travel() -> None:
    best = proposed(steps.embedding(64))["rows"][0]
    table = 262_144 * 256 * 4
    assert best["collectiveBytes"] < table / 50
    assert best["need"] < 0.2 * table


def test_a_step_that_does_not_fit_one_chip_fits_in_another_layout() -> None:
    answer = proposed(steps.mlp(8192, width=8192, hidden=131072))
    assert not answer["written"]["fits"]
    assert answer["rows"][0]["fits"]
    assert answer["pruned"] > 0
    assert "make_mesh" in answer["code"][0]


@pytest.mark.parametrize("name", ["00-getting-started", "02-multi-core-jax", "03-profiling-jax"])
def test_the_programs_of_a_notebook_fit_every_chip(name: str) -> None:
    """Of the notebooks in JAX, with the settings of the lesson; the table shows the largest program."""
    source = Path(__file__).parents[3] / "notebooks" / f"{name}.ipynb"
    request = checking.Request(source, chips.machines_named(", ".join(MACHINES.values())), limit=300)
    found = checking.check(request, chips.read_prices(), Budget())
    assert [each["message"] for each in found["findings"] if each["level"] == "error"] == []
    compiler_name = f"jax {found['jax']}, libtpu {found['libtpu']}"
    for chip, machine in MACHINES.items():
        results = [each["results"][machine] for each in found["programs"]]
        assert {each["fits"] for each in results} == {"fits"}
        line = {"step": f"notebook {name}", "program": "", "compiler": compiler_name, "chip": chip}
        with RESULTS.open("a") as file:
            file.write(json.dumps(line | {"found": {"need": max(each["need"] for each in results)}}) + "\n")
