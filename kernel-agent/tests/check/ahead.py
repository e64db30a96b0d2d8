"""A training step on eight CPU devices: `save FILE` compiles it ahead of time, `load FILE` runs it, and
`kernel FILE` runs it as a kernel does, which finds files by itself; with `AS_TPU=1` these devices count
as TPUs.

`load` prints the result, how many programs were compiled, and what was loaded and refused.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import compiler as jax_compiler

import tpulab
from tpulab.agent.process_agent import current_agent
from tpulab.check import saved
from tpulab.check.chips import machine_named
from tpulab.check.compiler import Compiler, module_bytes
from tpulab.launcher.__main__ import take_compiled_programs

RATE = float(os.environ.get("RATE", "0.1"))
mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@functools.partial(jax.jit, donate_argnums=0)
def step(weights: list, x: jax.Array) -> tuple:
    def loss(weights: list) -> jax.Array:
        h = x
        for weight in weights:
            h = jnp.tanh(h @ weight)
        return (h**2).mean()

    value, grads = jax.value_and_grad(loss)(weights)
    return [weight - RATE * grad for weight, grad in zip(weights, grads, strict=True)], value


def array(shape: tuple[int, ...], spec: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, "float32", sharding=jax.NamedSharding(mesh, spec))


class Cpu(Compiler):
    """The devices of this process in place of a description of TPUs."""

    devices = property(lambda _: jax.devices())  # type: ignore[assignment]


shapes = [array((256, 256), jax.P("data", "model"))] * 2, array((64, 256), jax.P("data"))
file = Path(sys.argv[2])
if sys.argv[1] == "save":
    module = module_bytes(step.trace(*shapes).lower())
    program = file.with_suffix(".program")
    answer = Cpu(machine_named("v5e-8")).answer(0, module, program)
    assert answer["compiles"], answer["note"]
    saved.write(file, [program])
else:
    compiled = []
    if sys.argv[1] == "kernel":
        if os.environ.get("AS_TPU") == "1":
            saved.LOADED_BY_KERNEL = frozenset({"cpu"})
        current_agent()
        take_compiled_programs()
    compile_program = jax_compiler.backend_compile_and_load
    jax_compiler.backend_compile_and_load = lambda *args: compiled.append(args) or compile_program(*args)
    weights, x = jax.tree.map(
        lambda shape: jax.make_array_from_callback(
            shape.shape, shape.sharding, lambda index: jnp.ones(shape.shape)[index] * 0.01
        ),
        shapes,
    )
    programs = tpulab.load_compiled(file) if sys.argv[1] == "load" else None
    compiled.clear()
    for _ in range(2):
        weights, value = step(weights, x)
    value.block_until_ready()
    result = {"compiled": len(compiled), "value": float(value)}
    if programs is not None:
        result |= {"loaded": programs.loaded, "refused": programs.refused}
    sys.stdout.write(json.dumps(result) + "\n")
