"""What a step costs: counted by hand against the compiler's own figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from ddpm.tiny import shallow_config, tiny_config
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import SMALL
from tpulab_recipes.ddpm.training.step_cost import batch_shapes, compile_ahead, flops_per_image, speed
from tpulab_recipes.ddpm.training.train_step import (
    compile_step,
    default_hyperparameters,
    diffusion_loss,
    make_initial_state,
)
from tpulab_recipes.runtime.jax_mesh import make_mesh, put_batch


def test_operations_equal_xlas_count() -> None:
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


def test_a_step_that_the_compiler_has_accepted_is_not_compiled_again() -> None:
    config, mesh, compiled = shallow_config(), make_mesh(), []
    network = Network(config)
    step = compile_step(network, mesh)
    state = make_initial_state(network, mesh, 0)
    rows = {
        name: np.zeros(row.shape, row.dtype)
        for name, row in batch_shapes(config, config.train.batch_size).items()
    }
    batch = put_batch(rows, mesh)

    def listen(event: str, _seconds: float, **about: Any) -> None:
        if event.endswith("backend_compile_duration") and "step" in str(about.get("fun_name")):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        compile_ahead(network, mesh, step)
        assert len(compiled) == 1
        step(state, batch, default_hyperparameters(config))
        assert len(compiled) == 1
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
