"""What a step costs: counted by hand against the compiler's own figures."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from ddpm.tiny import shallow_config, tiny_config
from tpulab_recipes.ddpm.data.pipeline import ShapesSource
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import LAION512_LARGE, SMALL
from tpulab_recipes.ddpm.training.optimizer import default_hyperparameters
from tpulab_recipes.ddpm.training.step_cost import (
    batch_shapes,
    flops_per_image,
    plan_step_memory,
    refuse_too_large,
    speed,
)
from tpulab_recipes.ddpm.training.train_step import compile_step, diffusion_loss, state_shapes
from tpulab_recipes.ddpm.training.trainer import Trainer
from tpulab_recipes.runtime import DeviceRuntimeError, memory_plan
from tpulab_recipes.runtime.jax_mesh import make_mesh


def test_operations_are_those_that_xla_counts() -> None:
    """At 64 pixels: XLA leaves out products with the zeros of the padding, of which there are few."""
    config = replace(SMALL, in_dimensions=(64, 64, 8))
    network = Network(config)
    inputs = network.shapes, batch_shapes(config, 1), jax.eval_shape(lambda: jax.random.key(0))
    step = jax.jit(jax.value_and_grad(diffusion_loss(network)))
    assert flops_per_image(config) == pytest.approx(step.lower(*inputs).cost_analysis()["flops"], rel=0.1)


def test_the_share_of_the_peak_is_known_for_chips_only() -> None:
    class Chip:
        device_kind = "TPU v5 lite"

    config = tiny_config()
    needed = flops_per_image(config) or 0
    on_cpu = speed(config, jax.devices(), 1000.0)
    assert on_cpu == {"tflop_per_second": pytest.approx(1000 * needed / 1e12)}
    # Eight chips at a quarter of their peak.
    rate = 0.25 * 8 * 197e12 / needed
    assert speed(config, [Chip()] * 8, rate)["mfu_percent"] == pytest.approx(25)


def test_memory_is_counted_as_the_compiler_does() -> None:
    config, mesh = shallow_config(), make_mesh(jax.devices()[:8])
    network, plan = Network(config), plan_step_memory(config, 8)
    batch = batch_shapes(config, config.train.batch_size)
    hyper = {name: np.float32(value) for name, value in default_hyperparameters(config).items()}
    found = compile_step(network, mesh).lower(state_shapes(network), batch, hyper).compile().memory_analysis()
    copy = plan.gradients
    rows = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(batch)) // 8
    # The state in slices, the rows of a device, and some single numbers.
    assert plan.parameters - copy + plan.optimizer + rows == pytest.approx(
        found.argument_size_in_bytes, abs=256
    )
    assert found.temp_size_in_bytes < 2 * (copy + plan.gradients + plan.activations)


def test_what_does_not_fit_a_chip_is_refused_before_anything_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny_config()
    source = ShapesSource(config, count=16)
    needed = plan_step_memory(config, 8).total / 2**30
    monkeypatch.setattr(memory_plan, "_CHIP_OF", {"cpu": "v5e"})
    monkeypatch.setitem(memory_plan.CHIP_GIB, "v5e", 1.2 * needed)
    refuse_too_large(config, jax.devices())
    monkeypatch.setitem(memory_plan.CHIP_GIB, "v5e", needed)
    there = len(jax.live_arrays())
    with pytest.raises(
        DeviceRuntimeError, match=r"8 images on 8 chips .*weights .*activations .* v5e .*remat_levels=1"
    ):
        Trainer(config, source)
    assert len(jax.live_arrays()) == there
    monkeypatch.undo()
    refuse_too_large(LAION512_LARGE.but({"train.batch_size": 10**9}), jax.devices())
