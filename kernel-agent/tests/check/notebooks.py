"""Notebooks with planted faults, and clean ones, as lists of cells."""

from __future__ import annotations

import json
from pathlib import Path

IMPORTS = """%matplotlib inline
!pip install nothing-at-all
import functools
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("data",))
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())"""

LOSS = """def loss(params, x):
    return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"]) ** 2)
params = jax.device_put({"up": jnp.ones((128, 256)), "down": jnp.ones((256, 8))}, whole)
x = jax.device_put(jnp.ones((64, 128)), rows)"""

FAULTS = [
    IMPORTS,
    LOSS,
    # Cell 3: line 6 runs a ragged batch, and line 1 donates.
    """@functools.partial(jax.jit, donate_argnames="params")
def ragged(params, x):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))
state = jax.tree.map(jnp.copy, params)
for n in (64, 64, 40):
    state = ragged(state, jax.device_put(jnp.ones((n, 128)), rows))""",
    # Cell 4: the state of line 3 is not donated.
    """# a comment
@jax.jit
def keeps_both(state, x):
    return jax.tree.map(lambda p, g: p - 0.1 * g, state, jax.grad(loss)(state, x))
state = jax.tree.map(jnp.copy, params)
for _ in range(3):
    state = keeps_both(state, x)""",
    # Cell 5: the counter is a Python number in the first call of line 6.
    """%%time
@jax.jit
def counts(number, x):
    return number + jnp.float32(1), x.sum()
number = 0.0
for _ in range(3): number, _s = counts(number, x)""",
    # Cell 6: line 3 prints from the device.
    """@jax.jit
def prints(x):
    jax.debug.print("mean {}", x.mean())
    return x.sum()
prints(x)""",
    # Cell 7: line 3 makes numbers of 64 bits.
    """@jax.jit
def wide(x):
    return x.astype(jnp.float64).sum()
with jax.enable_x64(True):
    wide(jnp.ones((8, 8), jnp.float32))""",
    # Cell 8: line 3 calls the host.
    """@jax.jit
def calls_back(x):
    return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
calls_back(jnp.ones(8))""",
]

#: Rule, cell and line of each planted fault.
PLANTED = {
    ("recompiles", "cell [3]:6"),
    ("not-donated", "cell [4]:2"),
    ("weak-type", "cell [5]:6"),
    ("host-callback", "cell [6]:3"),
    ("float64", "cell [7]:3"),
    ("host-callback", "cell [8]:3"),
}

CLEAN = [
    IMPORTS,
    LOSS,
    # A step that donates, called many times.
    """@functools.partial(jax.jit, donate_argnums=0)
def train(state, x):
    value, grads = jax.value_and_grad(loss)(state, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, state, grads), value
state = jax.tree.map(jnp.copy, params)
for _ in range(4):
    state, value = train(state, x)""",
    # An evaluation with another batch at another line, and the step again after it.
    """evaluate = jax.jit(loss)
first = evaluate(state, x)
other = evaluate(state, jax.device_put(jnp.ones((16, 128)), rows))
state, value = train(state, x)""",
    # A result of the argument's shape that does not replace it.
    """@jax.jit
def normalise(x):
    return (x - x.mean()) / (x.std() + 1e-6)
for _ in range(3):
    y = normalise(x)""",
    # A small sum that is carried on.
    """@jax.jit
def add(total, value):
    return total + value
total = jnp.float32(0)
for _ in range(3):
    total = add(total, jnp.float32(1))""",
    # Static arguments at separate lines; a scan; random numbers; a loop in the program.
    """@functools.partial(jax.jit, static_argnames="power")
def powers(x, power):
    return jax.lax.scan(lambda c, row: (c + row.sum() ** power, row * 2), 0.0, x)
square = jnp.ones((8, 8))
powers(square, power=2)
powers(square, power=3)
@jax.jit
def sample(key):
    key, use = jax.random.split(key)
    return key, jax.random.normal(use, (8,))
key = jax.random.key(0)
for _ in range(3):
    key, drawn = sample(key)
jax.jit(lambda x: jax.lax.while_loop(lambda c: c.sum() < 1e6, lambda c: c * 2, x))(x)""",
    # Requested by name.
    """gathered = jax.jit(jax.shard_map(lambda a: jax.lax.all_gather(a, "data", tiled=True), mesh=mesh,
    in_specs=P("data"), out_specs=P(), check_vma=False))(x)
summed = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "data"), mesh=mesh, in_specs=P("data"),
    out_specs=P()))(x)
jax.jit(loss).lower(params, jax.ShapeDtypeStruct((256, 128), jnp.float32, sharding=rows)).compile()
vmapped = jax.jit(jax.vmap(lambda a: a @ a.T))(jnp.ones((4, 8, 8)))""",
    # Two states that are donated, parts of a batch in a scan, layers computed again, bfloat16.
    """@functools.partial(jax.jit, donate_argnames=("params", "moments"))
def momentum(params, moments, pieces):
    def part(grads, piece):
        lowered = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        again = jax.checkpoint(lambda p: loss(p, piece.astype(jnp.bfloat16)).astype(jnp.float32))
        return jax.tree.map(lambda g, new: g + new.astype(g.dtype), grads, jax.grad(again)(lowered)), None
    grads, _ = jax.lax.scan(part, jax.tree.map(jnp.zeros_like, params), pieces)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments
state, moments = jax.tree.map(jnp.copy, params), jax.tree.map(jnp.zeros_like, params)
pieces = jax.device_put(jnp.ones((2, 32, 128)), NamedSharding(mesh, P(None, "data")))
for _ in range(3):
    state, moments = momentum(state, moments, pieces)""",
    # Tokens, pictures, a mask, a sort, a rule of differentiation, a linear solve.
    """tokens = jnp.arange(64, dtype=jnp.int32).reshape(8, 8)
gathered = jax.jit(lambda table, tokens: table[tokens].mean(1))(jnp.ones((64, 16)), tokens)
pictures, kernel = jnp.ones((8, 16, 16, 3)), jnp.ones((3, 3, 3, 8))
convolved = jax.jit(lambda a, k: jax.lax.conv_general_dilated(a, k, (1, 1), "SAME",
    dimension_numbers=("NHWC", "HWIO", "NHWC")))(pictures, kernel)
masked = jax.jit(lambda t: jnp.where(jnp.tril(jnp.ones((8, 8), bool)), t, -1))(tokens)
likeliest = jax.jit(lambda a: jax.lax.top_k(a, 3)[1])(jnp.ones((8, 32)))
@jax.custom_vjp
def clipped(a):
    return a
clipped.defvjp(lambda a: (a, None), lambda _, g: (jnp.clip(g, -1, 1),))
clip_grads = jax.jit(jax.grad(lambda a: clipped(a * 3).sum()))(jnp.ones((8, 8)))
solved = jax.jit(lambda a, b: jnp.linalg.solve(a, b))(jnp.eye(8), jnp.ones((8, 2)))""",
]


#: A kernel of a TPU, which a CPU has no code for, and an error without a message.
KERNEL = """from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
def doubled(x_ref, o_ref, scratch):
    scratch[...] = x_ref[...] * 2
    o_ref[...] = scratch[...]
block = pl.BlockSpec((64, 256), lambda i: (i, 0))
@jax.jit
def twice(x):
    return pl.pallas_call(doubled, out_shape=x, grid=(4,), in_specs=[block], out_specs=block,
        scratch_shapes=[pltpu.VMEM((64, 256), jnp.float32)])(x)
assert float(twice(jnp.ones((256, 256))).sum()) == 2 * 65536
raise StopIteration"""


def write(cells: list[str], file: Path, tags: dict[int, str] | None = None) -> Path:
    """`tags` by the cell's position, from 0. The sources alternate between text and a list of lines, both of
    which notebooks have."""
    made = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {"tags": [tags[number]]} if tags and number in tags else {},
            "execution_count": None,
            "outputs": [],
            "source": source if number % 2 else source.splitlines(keepends=True),
        }
        for number, source in enumerate(cells)
    ]
    made.insert(1, {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "# Words"})
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}, indent=1))
    return file
