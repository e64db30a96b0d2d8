"""JAX's parameters, gradients and optimizer state in slices: the update of one device, whole checkpoints, and
memory counted beforehand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tpulab_recipes.runtime.memory_plan import plan_jax_memory

jax = pytest.importorskip("jax")

#: The number of devices is chosen once in a process, hence one of its own.
PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from tpulab_recipes import runtime
folder, how = sys.argv[1:]
backend = runtime.use("jax", platform="cpu")

def initial():
    draw = np.random.default_rng(0).standard_normal
    params = {"in": draw((16, 256)) / 4, "out": draw((256, 24)) / 16, "bias": np.zeros(24)}
    zeros = jax.tree.map(np.zeros_like, params)
    return {"params": params, "mean": zeros, "square": zeros, "step": np.zeros((), np.int32)}

def loss_of(params, x):
    hidden = jax.nn.gelu(x @ params["in"])
    return jnp.square(hidden @ params["out"] + params["bias"] - x[:, :1]).mean()

def update(state, batch):
    params = state["params"]
    with backend.precision("float32"):
        loss, gradient = jax.value_and_grad(lambda p: loss_of(backend.gathered(p), batch["x"]))(params)
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["square"], gradient)
    scale = 0.01 * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-4), params, mean, square)
    return {"params": params, "mean": mean, "square": square, "step": step}, {"loss": loss}

def batches(first):
    for number in range(first, first + 3):
        yield {"x": np.random.default_rng(number).standard_normal((32, 16)).astype(np.float32)}

def train(state, first):
    step, losses = backend.compile(update, state=state), []
    before = backend.compilations().count
    for batch in backend.batches(batches(first)):
        state, figures = step(state, batch)
        losses.append(figures["loss"])
    return state, [float(loss) for loss in losses], backend.compilations().count - before

state, losses, compiled = train(backend.prepare(initial(), shard=how == "sharded"), 0)
checkpoint = backend.to_host(state)
np.savez(f"{folder}/{how}.npz", **checkpoint["params"])
held = {n: [list(piece.shape) for piece in backend.shards(state[k]["in"])] for n, k in
        (("parameters", "params"), ("moments", "mean"))}
state, later, _ = train(state, 3)
# The checkpoint of slices goes on whole, and the other way round.
_, resumed, _ = train(backend.prepare(checkpoint, shard=how != "sharded"), 3)
_, again, _ = train(backend.prepare(checkpoint, shard=how == "sharded"), 3)
print(json.dumps({"losses": losses, "later": later, "resumed": resumed, "again": again, "held": held,
                  "compiled": compiled, "devices": len(jax.devices())}))
"""


def _run(folder: Path, how: str, devices: int) -> dict:
    environment = {
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), how],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_training_in_slices_is_the_training_of_one_device(tmp_path: Path) -> None:
    sharded, whole = _run(tmp_path, "sharded", 8), _run(tmp_path, "whole", 1)
    assert (sharded["devices"], whole["devices"]) == (8, 1)
    np.testing.assert_allclose(sharded["losses"], whole["losses"], rtol=1e-5)
    with np.load(tmp_path / "sharded.npz") as ours, np.load(tmp_path / "whole.npz") as theirs:
        for name in theirs.files:
            np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5, err_msg=name)
    assert sharded["held"] == {"parameters": [[16, 32]] * 8, "moments": [[16, 32]] * 8}
    assert sharded["compiled"] == 1
    # What is loaded goes on: in the same places bit for bit, in others as closely as one device does.
    assert sharded["again"] == sharded["later"]
    np.testing.assert_allclose(sharded["resumed"], sharded["later"], rtol=1e-5)
    np.testing.assert_allclose(whole["resumed"], sharded["later"], rtol=1e-5)


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
