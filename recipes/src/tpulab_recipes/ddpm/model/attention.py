"""Attention: in chunks, so that no matrix of all queries by all keys is kept, and the transformer block made
of it.

The chunks with a running maximum follow Rabe & Staats 2021 (arXiv 2112.05682).
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx

from tpulab_recipes.ddpm.model.layers import GroupNorm, LayerNorm, conv, linear, quick_gelu

Array: TypeAlias = jax.Array
QUERY_CHUNK = 1024
KEY_CHUNK = 512


def attend(
    query: Array, key: Array, value: Array, query_chunk: int = QUERY_CHUNK, key_chunk: int = KEY_CHUNK
) -> Array:
    """Softmax attention, Float[batch, query, head, width]. Any lengths; short ones are done in one piece."""
    queries, keys = query.shape[1], key.shape[1]
    if queries <= query_chunk and keys <= key_chunk:
        return _attend_whole(query, key, value)
    blocks = math.ceil(queries / query_chunk)
    padded = jnp.pad(query, ((0, 0), (0, blocks * query_chunk - queries), (0, 0), (0, 0)))
    pieces = jnp.stack(jnp.split(padded, blocks, axis=1))
    done = jax.lax.map(lambda piece: _attend_piece(piece, key, value, key_chunk), pieces)
    # [block, batch, chunk, ...] to [batch, block * chunk, ...]: along the queries, never along the batch.
    joined = jnp.moveaxis(done, 0, 1).reshape(padded.shape[:3] + value.shape[3:])
    return joined[:, :queries]


def _attend_whole(query: Array, key: Array, value: Array) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(value.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def _attend_piece(query: Array, key: Array, value: Array, chunk: int) -> Array:
    """One chunk of queries over all keys."""
    batch, queries, heads, width = query.shape
    keys = key.shape[1]
    blocks = math.ceil(keys / chunk)
    pad = ((0, 0), (0, blocks * chunk - keys), (0, 0), (0, 0))
    key_pieces = jnp.stack(jnp.split(jnp.pad(key, pad), blocks, axis=1))
    value_pieces = jnp.stack(jnp.split(jnp.pad(value, pad), blocks, axis=1))
    there = (jnp.arange(blocks * chunk) < keys).reshape(blocks, chunk)
    scaled = query * width**-0.5

    @jax.checkpoint
    def add(carry: tuple[Array, Array, Array], piece: tuple[Array, Array, Array]) -> Any:
        total, weight, highest = carry
        key_piece, value_piece, valid = piece
        scores = jnp.einsum("bqhd,bkhd->bqhk", scaled, key_piece).astype(jnp.float32)
        scores = jnp.where(valid, scores, -jnp.inf)
        new_highest = jnp.maximum(highest, scores.max(axis=-1))
        shrink = jnp.exp(highest - new_highest)
        shares = jnp.exp(scores - new_highest[..., None])
        total = total * shrink[..., None] + jnp.einsum(
            "bqhk,bkhd->bqhd", shares.astype(value.dtype), value_piece
        ).astype(jnp.float32)
        return (total, weight * shrink + shares.sum(axis=-1), new_highest), None

    start = (
        jnp.zeros((batch, queries, heads, value.shape[-1]), jnp.float32),
        jnp.zeros((batch, queries, heads), jnp.float32),
        jnp.full((batch, queries, heads), -jnp.inf, jnp.float32),
    )
    (total, weight, _), _ = jax.lax.scan(add, start, (key_pieces, value_pieces, there))
    return (total / weight[..., None]).astype(value.dtype)


class Attention(nnx.Module):
    """Several heads, over the sequence itself or over a context."""

    def __init__(self, channels: int, context: int, head_dim: int, *, dtype: Any, rngs: nnx.Rngs) -> None:
        self.to_q = linear(channels, channels, use_bias=False, dtype=dtype, rngs=rngs)
        self.to_kv = linear(context, 2 * channels, use_bias=False, dtype=dtype, rngs=rngs)
        self.to_out = linear(channels, channels, dtype=dtype, rngs=rngs)
        self.head_dim = head_dim

    def __call__(self, x: Array, context: Array) -> Array:
        key, value = jnp.split(self.to_kv(context), 2, axis=-1)
        done = attend(self._heads(self.to_q(x)), self._heads(key), self._heads(value))
        return self.to_out(done.reshape(x.shape))

    def _heads(self, x: Array) -> Array:
        return x.reshape(*x.shape[:2], -1, self.head_dim)


class FeedForward(nnx.Module):
    """Four times as wide inside; with `use_glu` half of it gates the other (Shazeer 2020, arXiv
    2002.05202)."""

    def __init__(self, channels: int, *, use_glu: bool, dtype: Any, rngs: nnx.Rngs) -> None:
        self.inner = linear(channels, (8 if use_glu else 4) * channels, dtype=dtype, rngs=rngs)
        self.outer = linear(4 * channels, channels, dtype=dtype, rngs=rngs)
        self.use_glu = use_glu

    def __call__(self, x: Array) -> Array:
        h = self.inner(x)
        if self.use_glu:
            values, gate = jnp.split(h, 2, axis=-1)
            return self.outer(values * quick_gelu(gate))
        return self.outer(quick_gelu(h))


class TransformerBlock(nnx.Module):
    """Attention of an image to itself (not at the outermost level) and to the context, then a feed-forward
    layer."""

    def __init__(
        self,
        channels: int,
        context: int,
        head_dim: int,
        *,
        groups: int,
        cross_only: bool,
        use_glu: bool,
        dtype: Any,
        rngs: nnx.Rngs,
    ) -> None:
        self.norm = GroupNorm(channels, groups, rngs=rngs)
        self.proj_in = conv(channels, channels, size=1, dtype=dtype, rngs=rngs)
        self.norm1 = None if cross_only else LayerNorm(channels, rngs=rngs)
        self.attn1 = None if cross_only else Attention(channels, channels, head_dim, dtype=dtype, rngs=rngs)
        self.norm2 = LayerNorm(channels, rngs=rngs)
        self.attn2 = Attention(channels, context, head_dim, dtype=dtype, rngs=rngs)
        self.norm3 = LayerNorm(channels, rngs=rngs)
        self.ff = FeedForward(channels, use_glu=use_glu, dtype=dtype, rngs=rngs)
        self.proj_out = conv(channels, channels, size=1, dtype=dtype, rngs=rngs)

    def __call__(self, x: Array, context: Array) -> Array:
        h = self.proj_in(self.norm(x)).reshape(x.shape[0], -1, x.shape[-1])
        if self.attn1 is not None and self.norm1 is not None:
            normed = self.norm1(h)
            h = h + self.attn1(normed, normed)
        h = h + self.attn2(self.norm2(h), context)
        h = h + self.ff(self.norm3(h))
        return x + self.proj_out(h.reshape(x.shape))
