"""The UNet: down, middle and up, with every level's outputs handed across (Nichol & Dhariwal 2021, arXiv
2102.09672); and `Network`, the same as a pure function of its parameters, a plain tree of arrays.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.model.context import ContextSequence
from tpulab_recipes.ddpm.model.layers import (
    AttentionBlock,
    GroupNorm,
    ResnetBlock,
    TransformerBlock,
    activation,
    conv,
    linear,
    position_map,
    sinusoids,
    upsample,
)

Attends: TypeAlias = TransformerBlock | AttentionBlock


class Stage(nnx.Module):
    """A residual block, with attention after it where the resolution has some."""

    def __init__(self, resnet: ResnetBlock, attention: Attends | None, remat: bool) -> None:
        self.resnet, self.attention, self.remat = resnet, attention, remat

    def __call__(self, x: Array, emb: Array, context: Array | None, key: Array | None) -> Array:
        run = nnx.remat(_run_stage) if self.remat else _run_stage
        return run(self, x, emb, context, key)


def _run_stage(stage: Stage, x: Array, emb: Array, context: Array | None, key: Array | None) -> Array:
    h = stage.resnet(x, emb, key)
    return h if stage.attention is None else stage.attention(h, context)


class UNet(nnx.Module):
    """z, log-SNR and context to a prediction of the same shape as z, in fp32."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        args, conditioning = config.model.args, config.model.conditioning
        size, _, channels = config.in_dimensions
        dtype = args.dtype
        self.args, self.act = args, activation(args)
        plain = args.blocks == "plain"
        self.inpainting = conditioning.inpainting
        ch, emb = args.ch, args.emb_ch
        inputs = 2 * channels + 1 if conditioning.inpainting else channels

        def resnet(a: int, b: int, resample: str | None = None) -> ResnetBlock:
            return ResnetBlock(a, b, args, rngs=rngs, resample=resample)

        def attention(width: int, level: int) -> Attends:
            if plain:
                return AttentionBlock(width, args, rngs=rngs)
            return TransformerBlock(width, args, cross_only=level == 0, rngs=rngs)

        def stage(a: int, b: int, level: int) -> Stage:
            attends = size // 2**level in args.attn_resolutions
            return Stage(resnet(a, b), attention(b, level) if attends else None, level <= args.remat_levels)

        self.context = None if plain else ContextSequence(conditioning, args, rngs=rngs)
        self.time0 = linear(ch if plain else emb, emb, rngs=rngs)
        self.time1 = linear(emb, emb, rngs=rngs)
        self.conv_in = conv(inputs, ch, dtype=jnp.float32, rngs=rngs)
        levels, widths = len(args.ch_mult), [ch * mult for mult in args.ch_mult]
        handed, now = [ch], ch
        downs: list[Any] = []
        for level, width in enumerate(widths):
            for _ in range(args.num_res_blocks):
                downs.append(stage(now, width, level))
                now = width
                handed.append(now)
            if level != levels - 1:
                downs.append(
                    resnet(now, now, "down")
                    if args.resblock_resample
                    else conv(now, now, strides=2, dtype=dtype, rngs=rngs)
                )
                handed.append(now)
        self.downs = nnx.List(downs)
        self.middle1 = resnet(now, now)
        # Attention of the middle to itself, however few levels there are.
        self.middle_attention = attention(now, max(levels - 1, 1))
        self.middle2 = resnet(now, now)
        ups: list[Any] = []
        for level in reversed(range(levels)):
            for _ in range(args.num_res_blocks + 1):
                ups.append(stage(now + handed.pop(), widths[level], level))
                now = widths[level]
            if level != 0:
                ups.append(
                    resnet(now, now, "up")
                    if args.resblock_resample
                    else conv(now, now, dtype=dtype, rngs=rngs)
                )
        self.ups = nnx.List(ups)
        self.norm_out = GroupNorm(now, args.norm_groups, rngs=rngs)
        # A multiple of 8 channels divides among the eight devices of a host; those beyond out_ch are dropped.
        out = args.out_ch if plain else 8 * math.ceil(args.out_ch / 8)
        self.conv_out = conv(now, out, dtype=jnp.float32, rngs=rngs)

    def __call__(
        self, z: Array, logsnr: Array, context: Mapping[str, Array], key: Array | None = None
    ) -> Array:
        """Float[batch, height, width, out_ch]. `key` switches dropout on."""
        emb = self.embed_noise_level(logsnr).astype(self.args.dtype)
        tokens = None
        if self.context is not None:
            tokens = self.context(context, z.shape[0]).astype(self.args.dtype)
        if self.inpainting:
            mask = context["mask"]
            z = jnp.concatenate([z, context["known"] * (1 - mask), mask], axis=-1)
        h = self.conv_in(z)
        if self.args.use_pos_enc:
            h = h + position_map(self.args.ch, z.shape[1])
        h = h.astype(self.args.dtype)
        keys = iter(jax.random.split(key, len(self.downs) + len(self.ups) + 2)) if key is not None else None

        def next_key() -> Array | None:
            return None if keys is None else next(keys)

        handed = [h]
        for block in self.downs:
            if isinstance(block, Stage):
                h = block(h, emb, tokens, next_key())
            else:
                h = block(h, emb, next_key()) if isinstance(block, ResnetBlock) else block(h)
            handed.append(h)
        h = self.middle1(h, emb, next_key())
        h = self.middle_attention(h, tokens)
        h = self.middle2(h, emb, next_key())
        for block in self.ups:
            if isinstance(block, Stage):
                h = block(jnp.concatenate([h, handed.pop()], axis=-1), emb, tokens, next_key())
            else:
                h = block(h, emb, next_key()) if isinstance(block, ResnetBlock) else block(upsample(h))
        h = self.act(self.norm_out(h.astype(jnp.float32)))
        return self.conv_out(h)[..., : self.args.out_ch]

    def embed_noise_level(self, logsnr: Array) -> Array:
        """Float[batch, emb_ch]."""
        if self.args.logsnr_input == "inv_cos":
            level = jnp.arctan(jnp.exp(-0.5 * jnp.clip(logsnr, -20.0, 20.0))) / (0.5 * math.pi)
        else:
            low, high = self.args.logsnr_scale_range
            level = (logsnr - low) / (high - low)
        waves = sinusoids(level, self.time0.in_features)
        return self.time1(self.act(self.time0(waves)))


Params = Any

#: Layers that start at zero, so that a fresh residual block (and the network as a whole) changes nothing.
_ZERO_KERNELS = ("conv2", "conv_out", "self_attention.to_out")
#: Parameters that compute in fp32 whatever the rest does.
_FP32_PARTS = ("context", "time0", "time1", "conv_in", "norm_out", "conv_out")


class _NoKeys:
    """For layers whose initializers draw nothing. The time to trace flax's keys grows with the square of
    their number: it was nine tenths of making a large network."""

    def params(self) -> None:
        return


class Network:
    """`apply(params, z, logsnr, context)` and `init(seed)`. Making one allocates nothing."""

    def __init__(self, config: Config) -> None:
        self.config = config
        abstract = nnx.eval_shape(lambda: UNet(config, rngs=_NoKeys()))
        self._graph, state = nnx.split(abstract)
        self.shapes: Params = nnx.to_pure_dict(state)
        self._state = state

    def init(self, seed: int) -> Params:
        """Fresh parameters in fp32, made by the host: the same whatever the devices, and nothing is
        compiled."""

        def make(path: tuple[Any, ...], leaf: Any) -> np.ndarray:
            names = [str(getattr(part, "key", part)) for part in path]
            rng = np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])
            return _initial(names, leaf.shape, rng)

        return jax.tree_util.tree_map_with_path(make, self.shapes)

    def apply(
        self, params: Params, z: Array, logsnr: Array, context: Mapping[str, Array], key: Array | None = None
    ) -> Array:
        """The prediction of the network. `key` switches dropout on."""
        state = jax.tree.map(lambda leaf: leaf, self._state)
        nnx.replace_by_pure_dict(state, params)
        output: Array = nnx.merge(self._graph, state)(z, logsnr, context, key)
        return output

    def compute_copy(self, params: Params) -> Params:
        """The parameters in the type that the network computes in; those of norms and of both ends stay
        fp32."""

        def cast(path: tuple[Any, ...], leaf: Array) -> Array:
            names = [str(getattr(part, "key", part)) for part in path]
            if names[0] in _FP32_PARTS or any(name.startswith("norm") for name in names):
                return leaf
            return leaf.astype(self.config.model.args.dtype)

        return jax.tree_util.tree_map_with_path(cast, params)


def _initial(names: list[str], shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    kind, owner, layer = names[-1], names[-2], ".".join(names[-3:-1])
    if kind == "scale":
        return np.ones(shape, np.float32)
    if kind == "bias" or owner in _ZERO_KERNELS or layer in _ZERO_KERNELS:
        return np.zeros(shape, np.float32)
    # LeCun et al. 1998: variance 1 / inputs. Embeddings count as having as many inputs as they are wide.
    inputs = shape[-1] if kind == "embedding" else int(np.prod(shape[:-1]))
    return rng.standard_normal(shape, np.float32) * np.float32(inputs**-0.5)


def count_parameters(params: Params) -> int:
    """Number of parameters, of arrays or of shapes."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
