"""Training steps whose best layout is known, with their arguments as shapes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

Shape = jax.ShapeDtypeStruct


def _descended(loss: Any) -> Any:
    @functools.partial(jax.jit, donate_argnames="params")
    def train(params: Any, x: jax.Array) -> tuple:
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return train


def mlp(rows: int, width: int = 1024, hidden: int = 4096) -> tuple:
    """With few rows the matrices are larger than the activations, and stay where they are."""

    def loss(params: Any, x: jax.Array) -> jax.Array:
        for layer in params:
            x = jnp.tanh(x @ layer["up"]) @ layer["down"]
        return (x**2).mean()

    layer = {"up": Shape((width, hidden), "float32"), "down": Shape((hidden, width), "float32")}
    return _descended(loss), [layer] * 2, Shape((rows, width), "float32")


def transformer(rows: int, length: int = 64, width: int = 512, heads: int = 8) -> tuple:
    """Queries, keys, values and `up` are divided by their columns, `out` and `down` by their rows."""

    def loss(params: Any, x: jax.Array) -> jax.Array:
        for layer in params:
            q, k, v = (
                (x @ layer[name]).reshape(*x.shape[:2], heads, width // heads) for name in ("q", "k", "v")
            )
            attended = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
            x = x + jnp.einsum("bhqk,bkhd->bqhd", attended, v).reshape(x.shape) @ layer["out"]
            x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
        return (x**2).mean()

    square, wide = Shape((width, width), "float32"), Shape((width, 4 * width), "float32")
    layer = dict.fromkeys(("q", "k", "v", "out"), square)
    layer |= {"up": wide, "down": Shape((4 * width, width), "float32")}
    return _descended(loss), [layer] * 2, Shape((rows, length, width), "float32")


def convolution(rows: int, size: int = 64, channels: int = 64) -> tuple:
    """The kernels are small beside the images."""

    def loss(params: Any, x: jax.Array) -> jax.Array:
        for kernel in params:
            shape = ("NHWC", "HWIO", "NHWC")
            x = jnp.tanh(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=shape))
        return (x**2).mean()

    kernels = [Shape((3, 3, channels, channels), "float32")] * 2
    return _descended(loss), kernels, Shape((rows, size, size, channels), "float32")


def embedding(rows: int, words: int = 262_144, width: int = 256) -> tuple:
    """A step reads few of the table's rows: gathering the table moves all of them."""

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return (jnp.tanh(params["table"][x].mean(1) @ params["head"]) ** 2).mean()

    params = {"table": Shape((words, width), "float32"), "head": Shape((width, width), "float32")}
    return _descended(loss), params, Shape((rows, 32), "int32")
