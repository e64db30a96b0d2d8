"""Attention, and the transformer block made of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from tpulab_recipes.ddpm.config import UNetArgs
from tpulab_recipes.ddpm.model.layers import GroupNorm, LayerNorm, conv, linear, quick_gelu


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
