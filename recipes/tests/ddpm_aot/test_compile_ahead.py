"""The training step compiled for TPUs that are not attached. `npm run test:aot` has the environment for it,
and makes a table of the results in TPULAB_AOT_RESULTS."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TPU_SKIP_MDS_QUERY"] = "1"

import pytest

pytest.importorskip("libtpu", reason="`npm run test:aot` installs the TPU compiler")

from tpulab_recipes.common.progress import Silent
from tpulab_recipes.compile_ahead.tpu_compiler import MACHINES, compiler_for
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import PRESETS
from tpulab_recipes.ddpm.training.benchmark import compiled_rows, format_table
from tpulab_recipes.ddpm.training.step_cost import refuse_too_large
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.runtime.jax_mesh import make_mesh

RESULTS = Path(os.environ.get("TPULAB_AOT_RESULTS", os.devnull))


@pytest.mark.parametrize("chip", sorted(MACHINES))
@pytest.mark.parametrize("name", ["small", "cifar10", "laion256"])
def test_the_training_step_compiles_and_fits(name: str, chip: str) -> None:
    """At 8 images a device: memory and operations, not speed."""
    (row,) = compiled_rows([(name, PRESETS[name], 64)], [chip], Silent())
    sys.stdout.write("\n" + format_table([row]) + "\n")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("jax", "libtpu")]
    need = int(row.get("memory_gib_per_device", 0) * 2**30)
    line = {"step": f"ddpm, {name}", "program": "", "compiler": ", ".join(versions), "chip": chip}
    with RESULTS.open("a") as results:
        results.write(json.dumps(line | {"found": {"need": need, "note": row.get("note")}}) + "\n")
    assert "note" not in row
    assert row["kind"] == "compiled, not run"
    assert 0 < row["memory_gib_per_device"] < 16
    # A step is at least three times the forward pass, whose every weight is used once for an image.
    least = 3 * 2 * row["parameters_m"] * 1e6 * row["batch_size"] / 8 / 1e12
    assert row["tflop_per_step_and_device"] > 0.5 * least


def test_a_network_that_does_not_fit_is_reported() -> None:
    config = PRESETS["laion256"]
    heavy = replace(
        config,
        model=replace(config.model, args=replace(config.model.args, param_dtype="fp32")),
    )
    (row,) = compiled_rows([("laion256", heavy, 4096)], ["v5e"], Silent())
    assert row["note"].startswith("does not fit")
    assert "memory_gib_per_device" not in row


def test_a_training_is_refused_by_the_compiler_and_not_by_an_estimate() -> None:
    mesh = make_mesh(compiler_for("v5e").devices, hosts=1)
    refuse_too_large(Network(PRESETS["small"].but({"train.batch_size": 64})), mesh)
    with pytest.raises(DeviceRuntimeError, match=r"does not fit: .*\(125\.\d+G\).*15\.75G") as refused:
        refuse_too_large(Network(PRESETS["small"].but({"train.batch_size": 2**21})), mesh)
    assert refused.value.code == "too_large"
    assert "Use a smaller train.batch_size" in str(refused.value)
