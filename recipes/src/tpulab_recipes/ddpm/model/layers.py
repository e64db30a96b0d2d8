"""Layers, attention and the transformer block of the UNet. Images are Float[batch, height, width, channel].

Norms compute in fp32, everything else in the network's own type. Parameters keep their type: the training
step passes a bf16 copy of the fp32 masters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from tpulab_recipes.ddpm.config import UNetArgs

#: `Network.init` makes the real values. Tracing random initializers of hundreds of layers takes half a
#: minute.
_zeros = nnx.initializers.zeros_init()


def quick_gelu(x: Array) -> Array:
    """x sigmoid(1.702 x) (Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2)."""
    return x * jax.nn.sigmoid(1.702 * x)


def activation(args: UNetArgs) -> Callable[[Array], Array]:
    """Of the residual blocks and of both ends."""
    return quick_gelu if args.blocks == "transformer" else jax.nn.swish


def dropout(x: Array, rate: float, key: Array | None) -> Array:
    """Zeroes a share of the values, and scales the others up. No key: nothing happens."""
    if key is None or rate == 0.0:
        return x
    kept = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(kept, x / (1.0 - rate), jnp.zeros_like(x))


class _InFp32:
    """Computes in fp32, and returns the type of the input."""

    def __call__(self, x: Array) -> Array:
        result: Array = super().__call__(x.astype(jnp.float32))  # type: ignore[misc]
        return result.astype(x.dtype)


class GroupNorm(_InFp32, nnx.GroupNorm):
    def __init__(self, channels: int, groups: int, *, rngs: nnx.Rngs) -> None:
        super().__init__(channels, num_groups=groups, epsilon=1e-6, dtype=jnp.float32, rngs=rngs)


class LayerNorm(_InFp32, nnx.LayerNorm):
    def __init__(self, features: int, *, rngs: nnx.Rngs) -> None:
        super().__init__(features, epsilon=1e-5, dtype=jnp.float32, rngs=rngs)


#: Convolutions of 3 x 3 with XLA's padding SAME; matrices with a bias; tables of learned vectors.
conv = partial(nnx.Conv, kernel_size=(3, 3), kernel_init=_zeros)
linear = partial(nnx.Linear, dtype=jnp.float32, kernel_init=_zeros)
embedding = partial(nnx.Embed, embedding_init=_zeros)


def sinusoids(values: Array, width: int) -> Array:
    """Float[batch, width]: sines then cosines of 1000 * values, with wavelengths up to 10,000 (values in [0,
    1])."""
    half = width // 2
    rates = jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-math.log(10_000) / (half - 1)))
    angles = 1000.0 * values.astype(jnp.float32)[:, None] * rates
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def position_map(width: int, size: int) -> Array:
    """Float[1, size, size, width]: sines of the column in the first half of the channels, of the row in the
    second."""
    half = width // 2
    rates = jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-math.log(10_000) / (half - 1)))
    waves = jnp.sin(jnp.arange(size, dtype=jnp.float32)[:, None] * rates * (64 / size))
    columns = jnp.broadcast_to(waves[None, :, :], (size, size, half))
    rows = jnp.broadcast_to(waves[:, None, :], (size, size, half))
    return jnp.concatenate([columns, rows], axis=-1)[None]


def upsample(x: Array) -> Array:
    """Each pixel becomes 2 x 2."""
    return jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)


def downsample(x: Array) -> Array:
    """The mean of each 2 x 2."""
    return nnx.avg_pool(x, (2, 2), (2, 2))


class ResnetBlock(nnx.Module):
    """norm, act, conv, norm * (1 + scale) + shift, act, dropout, conv, and a shortcut; it may resample in
    between."""

    def __init__(
        self, inputs: int, outputs: int, args: UNetArgs, *, rngs: nnx.Rngs, resample: str | None = None
    ) -> None:
        dtype = args.dtype
        self.norm1 = GroupNorm(inputs, args.norm_groups, rngs=rngs)
        self.conv1 = conv(inputs, outputs, dtype=dtype, rngs=rngs)
        self.temb_proj = linear(args.emb_ch, 2 * outputs, dtype=dtype, rngs=rngs)
        self.norm2 = GroupNorm(outputs, args.norm_groups, rngs=rngs)
        self.conv2 = conv(outputs, outputs, dtype=dtype, rngs=rngs)
        self.shortcut = linear(inputs, outputs, dtype=dtype, rngs=rngs) if inputs != outputs else None
        self.rate, self.resample, self.act = args.dropout, resample, activation(args)

    def __call__(self, x: Array, emb: Array, key: Array | None = None) -> Array:
        h = self.act(self.norm1(x))
        if self.resample is not None:
            resample = upsample if self.resample == "up" else downsample
            h, x = resample(h), resample(x)
        h = self.conv1(h)
        scale, shift = jnp.split(self.temb_proj(self.act(emb))[:, None, None, :], 2, axis=-1)
        h = self.act(self.norm2(h) * (1 + scale) + shift)
        h = self.conv2(dropout(h, self.rate, key))
        return (x if self.shortcut is None else self.shortcut(x)) + h


class Attention(nnx.Module):
    """Several heads, over the sequence itself or over a context. Scores and their softmax are fp32 whatever
    the network computes in."""

    def __init__(
        self, channels: int, context: int, args: UNetArgs, *, rngs: nnx.Rngs, bias: bool = False
    ) -> None:
        dtype = args.dtype
        self.to_q = linear(channels, channels, use_bias=bias, dtype=dtype, rngs=rngs)
        self.to_kv = linear(context, 2 * channels, use_bias=bias, dtype=dtype, rngs=rngs)
        self.to_out = linear(channels, channels, dtype=dtype, rngs=rngs)
        self.head_dim = args.head_dim

    def __call__(self, x: Array, context: Array) -> Array:
        key, value = jnp.split(self.to_kv(context), 2, axis=-1)
        done = jax.nn.dot_product_attention(self._heads(self.to_q(x)), self._heads(key), self._heads(value))
        return self.to_out(done.reshape(x.shape))

    def _heads(self, x: Array) -> Array:
        return x.reshape(*x.shape[:2], -1, self.head_dim)


class FeedForward(nnx.Module):
    """Four times as wide inside; with `use_glu` half of it gates the other (Shazeer 2020, arXiv
    2002.05202)."""

    def __init__(self, channels: int, args: UNetArgs, *, rngs: nnx.Rngs) -> None:
        self.inner = linear(channels, (8 if args.use_glu else 4) * channels, dtype=args.dtype, rngs=rngs)
        self.outer = linear(4 * channels, channels, dtype=args.dtype, rngs=rngs)
        self.use_glu = args.use_glu

    def __call__(self, x: Array) -> Array:
        h = self.inner(x)
        if self.use_glu:
            values, gate = jnp.split(h, 2, axis=-1)
            return self.outer(values * quick_gelu(gate))
        return self.outer(quick_gelu(h))


class AttentionBlock(nnx.Module):
    """Attention of an image to itself, added to it."""

    def __init__(self, channels: int, args: UNetArgs, *, rngs: nnx.Rngs) -> None:
        self.norm = GroupNorm(channels, args.norm_groups, rngs=rngs)
        self.self_attention = Attention(channels, channels, args, rngs=rngs, bias=True)

    def __call__(self, x: Array, _: Array | None) -> Array:
        h = self.norm(x).reshape(x.shape[0], -1, x.shape[-1])
        return x + self.self_attention(h, h).reshape(x.shape)


class TransformerBlock(nnx.Module):
    """Attention of an image to itself (not at the outermost level) and to the context, then a feed-forward
    layer."""

    def __init__(self, channels: int, args: UNetArgs, *, cross_only: bool, rngs: nnx.Rngs) -> None:
        self.norm = GroupNorm(channels, args.norm_groups, rngs=rngs)
        self.proj_in = conv(channels, channels, kernel_size=(1, 1), dtype=args.dtype, rngs=rngs)
        self.norm1 = None if cross_only else LayerNorm(channels, rngs=rngs)
        self.attn1 = None if cross_only else Attention(channels, channels, args, rngs=rngs)
        self.norm2 = LayerNorm(channels, rngs=rngs)
        self.attn2 = Attention(channels, args.seq_width, args, rngs=rngs)
        self.norm3 = LayerNorm(channels, rngs=rngs)
        self.ff = FeedForward(channels, args, rngs=rngs)
        self.proj_out = conv(channels, channels, kernel_size=(1, 1), dtype=args.dtype, rngs=rngs)

    def __call__(self, x: Array, context: Array) -> Array:
        h = self.proj_in(self.norm(x)).reshape(x.shape[0], -1, x.shape[-1])
        if self.attn1 is not None and self.norm1 is not None:
            normed = self.norm1(h)
            h = h + self.attn1(normed, normed)
        h = h + self.attn2(self.norm2(h), context)
        h = h + self.ff(self.norm3(h))
        return x + self.proj_out(h.reshape(x.shape))
