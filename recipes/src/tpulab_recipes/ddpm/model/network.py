"""The UNet as a pure function of its parameters: a plain tree of arrays goes in and out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax import Array

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.model.unet import UNet

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
