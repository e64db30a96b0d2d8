"""The memory of a step of JAX, counted beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from tpulab_recipes.runtime.memory_plan import plan_jax_memory

jax = pytest.importorskip("jax")


def test_memory_is_counted_before_anything_is_allocated() -> None:
    """By hand: two layers of 4096 x 4096 without biases, a batch of 8, in fp32."""
    layer = jax.ShapeDtypeStruct((4096, 4096), np.float32)
    params, batch = [layer, layer], jax.ShapeDtypeStruct((8, 4096), np.float32)

    def loss_of(params: list, x: jax.Array) -> jax.Array:
        return (x @ params[0] @ params[1]).sum()

    def plan(chips: int, shard: bool):
        return plan_jax_memory(
            loss_of, params, {"mean": params, "square": params}, batch, chips=chips, shard=shard
        )

    weights, rows = 2 * 4096 * 4096 * 4, 8 * 4096 * 4
    whole = plan(8, shard=False)
    assert (whole.parameters, whole.gradients, whole.optimizer) == (weights, weights, 2 * weights)
    # The inputs of both layers.
    assert whole.activations == 2 * rows
    divided = plan(8, shard=True)
    assert (divided.parameters, divided.optimizer) == (weights // 8, 2 * weights // 8)
    assert divided.activations == whole.activations
