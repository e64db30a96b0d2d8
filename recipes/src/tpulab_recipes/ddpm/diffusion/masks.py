"""Masks for learning to inpaint: 1 where something is to be made, 0 where the image is given."""

from __future__ import annotations

from typing import TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = jax.Array


def draw_masks(key: Array, batch: int, size: int, whole: float = 0.75) -> Array:
    """Float[batch, size, size, 1]: for a share `whole` of the images everything, else a rectangle."""
    keys = jax.random.split(key, 3)
    corners = jax.random.uniform(keys[0], (2, batch, 2))
    low, high = jnp.sort(corners, axis=0) * size
    # At least two pixels wide, so that there is something to learn.
    high = jnp.maximum(high, low + 2)
    pixels = jnp.arange(size) + 0.5
    inside = (pixels >= low[:, :, None]) & (pixels < high[:, :, None])  # [batch, 2, size]
    rectangle = inside[:, 0, :, None] & inside[:, 1, None, :]
    everything = jax.random.bernoulli(keys[1], whole, (batch, 1, 1))
    return (everything | rectangle)[..., None].astype(jnp.float32)
