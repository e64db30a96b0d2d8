"""The mesh of the diffusion recipe: that of the device seam, and the batch sizes that fit it."""

from __future__ import annotations

from jax.sharding import Mesh

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.runtime.jax_mesh import (
    BATCH_AXES,
    batch_sharding,
    gathered,
    make_mesh,
    put_batch,
    put_state,
    replicated,
    state_of_this_host,
    state_sharding,
    whole_state,
)

__all__ = [
    "BATCH_AXES",
    "batch_sharding",
    "check_batch",
    "gathered",
    "make_mesh",
    "put_batch",
    "put_state",
    "replicated",
    "state_of_this_host",
    "state_sharding",
    "whole_state",
]


def check_batch(batch_size: int, mesh: Mesh) -> None:
    """Each device gets as many images as the others."""
    per_host = mesh.shape["shard"]
    if batch_size % per_host:
        raise ConfigError(
            "train.batch_size", f"{batch_size} images do not divide among the {per_host} devices of a host."
        )
