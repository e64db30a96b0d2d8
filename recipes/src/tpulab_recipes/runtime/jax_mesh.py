"""Where arrays of JAX lie: batches over all devices, the state of a training in slices over the devices of a
host, copies to compute with everywhere.

The mesh has two axes: `host` (one entry for each process) and `shard` (its devices). State is sliced along
`shard` only, as in ZeRO stage 1 (Rajbhandari et al. 2019, arXiv 1910.02054), so that gathering it never
leaves the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BATCH_AXES = ("host", "shard")
#: Leaves with fewer elements are kept whole: slicing them would cost more than it saves.
MIN_SLICED_SIZE = 1024


def make_mesh(devices: Sequence[Any] | None = None, hosts: int | None = None) -> Mesh:
    """A mesh over `devices` (default: all of the slice), one row for each process."""
    devices = list(jax.devices() if devices is None else devices)
    hosts = hosts or len({device.process_index for device in devices})
    devices.sort(key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(devices).reshape(hosts, -1), BATCH_AXES)


def mesh_of(tree: Any) -> Mesh:
    """The mesh that the arrays of a tree lie on; for those that lie on none, the devices of this host."""
    sharding = getattr(jax.tree.leaves(tree)[0], "sharding", None)
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        return sharding.mesh
    return make_mesh(jax.local_devices())


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def state_sharding(mesh: Mesh, shapes: Any) -> Any:
    """For each leaf of a tree of shapes: sliced along its last axis that divides evenly, or kept whole."""
    parts = mesh.shape["shard"]

    def of(leaf: Any) -> NamedSharding:
        if parts > 1 and np.prod(leaf.shape) >= MIN_SLICED_SIZE:
            for axis in reversed(range(len(leaf.shape))):
                if leaf.shape[axis] % parts == 0:
                    spec = [None] * len(leaf.shape)
                    return NamedSharding(mesh, PartitionSpec(*spec[:axis], "shard"))
        return replicated(mesh)

    return jax.tree.map(of, shapes)


def placed_shapes(shapes: Any, where: Mesh | NamedSharding) -> Any:
    """A tree of shapes with their places: one for all, or on a mesh those of `state_sharding`."""
    places = (
        state_sharding(where, shapes) if isinstance(where, Mesh) else jax.tree.map(lambda _: where, shapes)
    )
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes, places
    )


def gathered(copy: Any, mesh: Mesh) -> Any:
    """Within a program: sliced arrays, whole on every device. They are pinned as slices first; otherwise the
    compiler gathers fp32 masters and casts them to bf16 afterwards: twice the bytes travel."""
    sliced = jax.lax.with_sharding_constraint(copy, state_sharding(mesh, copy))
    return jax.lax.with_sharding_constraint(sliced, replicated(mesh))


def put_state(tree: Any, shardings: Any) -> Any:
    """Whole arrays, the same on every host, in slices over the mesh; what lies there already stays."""
    if jax.process_count() == 1:
        return jax.device_put(tree, shardings)

    def put(leaf: Any, sharding: NamedSharding) -> Any:
        if isinstance(leaf, jax.Array) and leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
            return leaf
        return jax.make_array_from_callback(leaf.shape, sharding, lambda index: leaf[index])

    return jax.tree.map(put, tree, shardings)


def whole_state(tree: Any) -> Any:
    """Copies of sliced arrays, whole, in the memory of the host. Each host has all slices of them."""

    def whole(leaf: jax.Array) -> np.ndarray:
        if leaf.is_fully_replicated:
            return np.array(leaf.addressable_data(0))
        found = np.empty(leaf.shape, leaf.dtype)
        for shard in leaf.addressable_shards:
            found[shard.index] = np.asarray(shard.data)
        return found

    return jax.tree.map(whole, tree)


def is_on_this_host(tree: Any) -> bool:
    """Whether all arrays lie on devices of this host, so that it can read them by itself."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    return all(leaf.is_fully_addressable for leaf in leaves)


def state_of_this_host(tree: Any) -> Any:
    """The same arrays on the devices of this host alone, for programs that each host runs alone."""
    if jax.process_count() == 1:
        return tree
    mesh = make_mesh(jax.local_devices())
    return jax.device_put(whole_state(tree), state_sharding(mesh, tree))


def put_batch(batch: Any, mesh: Mesh) -> Any:
    """This host's part of a batch as part of the global one, its rows divided among the devices."""
    sharding = batch_sharding(mesh)
    if jax.process_count() == 1:
        return jax.device_put(batch, sharding)
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, leaf), batch)


def compile_update(
    update: Callable[..., Any], state: Any, mesh: Mesh, more: Sequence[Any] = (), name: str | None = None
) -> Any:
    """`update(state, batch, …) -> (state, figures)` as one program over the mesh.

    The state stays where it lies (of shapes alone: in slices), and its memory is reused. Rows of the
    batch are divided; `more`: the shardings of further arguments; metrics are whole on every device.
    """
    sliced, everywhere = state_sharding(mesh, state), replicated(mesh)
    places = jax.tree.map(lambda leaf, place: getattr(leaf, "sharding", None) or place, state, sliced)

    def named(*arguments: Any) -> Any:
        return update(*arguments)

    named.__name__ = named.__qualname__ = name or update.__name__
    return jax.jit(
        named,
        in_shardings=(places, batch_sharding(mesh), *more),
        out_shardings=(places, everywhere),
        donate_argnums=0,
    )
