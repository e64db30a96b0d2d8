"""The UNet as a pure function of its parameters: a plain tree of arrays goes in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.model.layers import shapes_only
from tpulab_recipes.ddpm.model.unet import UNet

Array = jax.Array
Params = Any

#: Parameters that compute in fp32 whatever the rest does.
_FP32_PARTS = ("context", "time0", "time1", "conv_in", "norm_out", "conv_out")


class Network:
    """`apply(params, z, logsnr, context)` and `init(key)`. Making one allocates nothing."""

    def __init__(self, config: Config) -> None:
        self.config = config
        with shapes_only():
            abstract = nnx.eval_shape(lambda: UNet(config, rngs=nnx.Rngs(params=0)))
        self._graph, state = nnx.split(abstract)
        self.shapes: Params = nnx.to_pure_dict(state)
        self._state = state
        self._compute_dtype = jnp.bfloat16 if config.model.args.param_dtype == "bf16" else jnp.float32

    def init(self, key: Array) -> Params:
        """Fresh parameters in fp32."""
        return nnx.to_pure_dict(nnx.state(UNet(self.config, rngs=nnx.Rngs(params=key))))

    def apply(
        self, params: Params, z: Array, logsnr: Array, context: Mapping[str, Array], key: Array | None = None
    ) -> Array:
        """What the network says. `key` switches dropout on."""
        state = jax.tree.map(lambda leaf: leaf, self._state)
        nnx.replace_by_pure_dict(state, params)
        output: Array = nnx.merge(self._graph, state)(z, logsnr, context, key)
        return output

    def compute_copy(self, params: Params) -> Params:
        """The parameters in the type that the network computes in; those of norms and of both ends stay fp32."""

        def cast(path: tuple[Any, ...], leaf: Array) -> Array:
            names = [str(getattr(part, "key", part)) for part in path]
            if names[0] in _FP32_PARTS or any(name.startswith("norm") for name in names):
                return leaf
            return leaf.astype(self._compute_dtype)

        return jax.tree_util.tree_map_with_path(cast, params)


def count_parameters(params: Params) -> int:
    """Number of parameters, of arrays or of shapes."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
