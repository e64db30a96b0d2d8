"""The network's conditions, as one sequence: a learned token, text states, an image embedding, scalars, a
class.

Dropped conditioning is all zeros (a class: the number of classes), which is also what guidance calls
unconditional.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from tpulab_recipes.ddpm.config import TEXT_STATES, Conditioning, UNetArgs, context_shapes
from tpulab_recipes.ddpm.model.layers import embedding, linear, sinusoids

#: Heights and widths are divided by this, so that usual sizes lie in [0, 1].
SIDE_SCALE = 1024.0


def unconditional(context: Mapping[str, Array], conditioning: Conditioning) -> dict[str, Array]:
    """The same batch without conditions. A mask and the pixels outside it stay: they are the task."""
    shapes = context_shapes(conditioning)
    return {
        name: value
        if name not in shapes
        else jnp.full_like(value, conditioning.num_classes)
        if name == "class"
        else jnp.zeros_like(value)
        for name, value in context.items()
    }


def drop_conditioning(
    context: Mapping[str, Array], conditioning: Conditioning, key: Array
) -> dict[str, Array]:
    """Leaves out each kind of conditioning for a share of the images.

    Text states of all encoders and the image embedding share one draw, as in jax-ddpm: the image conditions
    those at the border of the text's share, to half of them beside the text and half of them alone. So
    text alone, image alone and nothing at all are each common enough to be learned; with independent draws
    an image would hardly ever come alone.
    """
    nothing = unconditional(context, conditioning)
    shapes = context_shapes(conditioning)
    kept: dict[str, Array] = {}
    for name, value in context.items():
        if name not in shapes:
            kept[name] = value
            continue
        draw, low, high = _share(name, conditioning)
        drawn = jax.random.uniform(jax.random.fold_in(key, draw), value.shape[:1])
        keep = (low <= drawn) & (drawn < high)
        kept[name] = jnp.where(keep.reshape((-1,) + (1,) * (value.ndim - 1)), value, nothing[name])
    return kept


def _share(name: str, conditioning: Conditioning) -> tuple[int, float, float]:
    """Number of the draw, and between which of its values this kind is kept."""
    if name in TEXT_STATES:
        return 0, 0.0, conditioning.keep_text
    if name == "clip_image_emb":
        share = conditioning.keep_image
        low = min(max(conditioning.keep_text - share / 2, 0.0), 1.0 - share)
        return 0, low, low + share
    if name == "class":
        return 2, 0.0, conditioning.keep_class
    return 3 + conditioning.scalars.index(name), 0.0, conditioning.keep_scalars


def draw_masks(key: Array, batch: int, size: int, whole: float = 0.75) -> Array:
    """Masks for learning to inpaint, Float[batch, size, size, 1]: 1 where something is to be generated, which
    is the whole image for a share `whole` of the images, else a rectangle."""
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


class ContextSequence(nnx.Module):
    """Float[batch, token, width] from the parts of the context; each part has its own linear map."""

    def __init__(self, conditioning: Conditioning, args: UNetArgs, *, rngs: nnx.Rngs) -> None:
        width = args.seq_width
        parts = {
            name: shape[-1] for name, shape in context_shapes(conditioning).items() if shape
        } | dict.fromkeys(conditioning.scalars, width)
        self.null_token = embedding(1, width, rngs=rngs)
        self.maps = nnx.data({name: linear(inputs, width, rngs=rngs) for name, inputs in parts.items()})
        classes = conditioning.num_classes
        self.classes = embedding(classes + 1, width, rngs=rngs) if classes else None
        self.t5_mult, self.aesth_score_range = args.t5_mult, args.aesth_score_range

    def __call__(self, context: Mapping[str, Array], batch: int) -> Array:
        pieces = [self.null_token(jnp.zeros((batch, 1), jnp.int32))]
        # Sorted, as trees of arrays are: the order must not depend on how the module was made.
        for name in sorted(self.maps):
            into, value = self.maps[name], context[name]
            if name in TEXT_STATES:
                pieces.append(into(value * self.t5_mult if name == "t5_emb" else value))
            elif name == "clip_image_emb":
                pieces.append(into(value)[:, None])
            else:
                given = (value != 0)[:, None, None]
                waves = sinusoids(self.scaled(name, value), self.null_token.features)
                pieces.append(jnp.where(given, into(waves)[:, None], 0.0))
        if self.classes is not None:
            pieces.append(self.classes(context["class"].astype(jnp.int32))[:, None])
        return jnp.concatenate(pieces, axis=1)

    def scaled(self, name: str, value: Array) -> Array:
        """The scalar in [0, 1]: scaled first, then clipped, so that scores above 1 remain different."""
        if name == "aesth_score":
            low, high = self.aesth_score_range
            return jnp.clip((value - low) / (high - low), 0.0, 1.0)
        return jnp.clip(value / SIDE_SCALE, 0.0, 1.0)
