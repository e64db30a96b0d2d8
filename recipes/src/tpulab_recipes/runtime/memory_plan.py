"""What a training needs of each chip's memory, counted before anything is allocated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from tpulab_recipes.runtime.backend import Backend
from tpulab_recipes.runtime.errors import DeviceRuntimeError

#: Bytes of a chip's HBM that a program may use (Google's system architecture pages, in GiB).
CHIP_GIB = {"v2": 16, "v3": 32, "v4": 32, "v5e": 16, "v5p": 95, "v6e": 32}
GIB = 2**30
#: What the runtime calls a device that is a whole chip. One of v2 or v3 is half of a chip, and not judged.
_CHIP_OF = {
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
}
#: Tensors of a parameter's size that an optimizer keeps for it.
MOMENTS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
_FP32 = 4


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on each chip. `activations` is what the backward pass needs of the forward pass, an upper bound:
    the compiler fuses and recomputes some of it."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    gathered: int = 0
    """Where parameters are in slices: the largest layer whole and its gradient, while it computes."""

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.activations + self.gathered

    def fits(self, chip: str) -> bool:
        """Whether it fits a chip of this kind (`v5e`, …), with a tenth left for the program itself."""
        return self.total <= 0.9 * CHIP_GIB[chip] * GIB

    def require_fit(self, chip: str, chips: int, step: str, remedy: str) -> None:
        """Raises `DeviceRuntimeError` (`too_large`) with the count where `step`, in words, does not fit."""
        if self.fits(chip):
            return
        parts = {
            "weights": self.parameters,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations + self.gathered,
        }
        raise DeviceRuntimeError(
            "too_large",
            f"{step} on {chips} chip{'s' * (chips > 1)} needs about {self.total / GIB:.1f} GiB per chip "
            f"({', '.join(f'{name} {size / GIB:.1f}' for name, size in parts.items())}); a {chip} has "
            f"{CHIP_GIB[chip]:g} GiB, a tenth of which is for the program. {remedy}",
        )


def refuse_too_large(
    device_kind: str, chips: int, plan: Callable[[], MemoryPlan], step: str, remedy: str
) -> None:
    """Raises `DeviceRuntimeError` (`too_large`), before anything is allocated, where a step is planned not to
    fit. Processors and chips whose memory is not known are not judged, and nothing is planned for them.

    Args:
        device_kind: as the framework calls it (`DeviceInfo.kind`).
        chips: how many `step` runs on; `plan` counts the bytes of one of them.
        step: what is too large, in words. remedy: what to change, a sentence.
    """
    chip = chip_of(device_kind)
    if chip is not None:
        plan().require_fit(chip, chips, step, remedy)


def refuse_too_large_on(backend: Backend, plan: Callable[[int], MemoryPlan], step: str, remedy: str) -> None:
    """`refuse_too_large` of a step on all devices of the backend; `plan` is given how many these are."""
    chips = backend.world().global_devices
    refuse_too_large(backend.devices()[0].kind, chips, lambda: plan(chips), step, remedy)


def chip_of(device_kind: str) -> str | None:
    """The chip (`v5e`, …) of a device of this kind; None for processors and for chips that are not known."""
    return _CHIP_OF.get(device_kind)


def slice_name(chip: str, chips: int) -> str:
    """As Google names them: v4 and v5p by TensorCores, two of each chip; the others by chips."""
    return f"{chip}-{chips * (2 if chip in ('v4', 'v5p') else 1)}"


def plan_memory(
    make_model: Callable[[], Any],
    loss_of: Callable[[Any], Any],
    *,
    optimizer: str = "adamw",
    chips: int = 1,
    shard: bool = False,
    recompute: RecomputeOnMeta | None = None,
) -> MemoryPlan:
    """Counts a step of PyTorch on the device `meta`, which has shapes and no memory.

    Args:
        make_model: makes the model; called with `meta` as the default device. Parameters that require no
            gradient are held, and have neither gradients nor moments.
        loss_of: the loss of a model for the batch of *one* chip, made on the default device.
        optimizer: one of `MOMENTS`.
        chips: how many share the parameters, with `shard`.
        shard: parameters, gradients and moments are divided among the chips, each along the axis that
            `sharded_axis` names; otherwise each chip has all of them.
        recompute: what the model of `make_model` was given to compute layers again.
    """
    import torch

    with torch.device("meta"):
        model = make_model()
        with _saved_for_backward() as saved:
            loss = loss_of(model)
    inputs = recompute.inputs if recompute else []
    activations = _bytes_beside(model, [*(each.tensor for each in saved), *inputs])
    activations += recompute.largest if recompute else 0
    del loss  # held until here, and with it the graph
    parts = chips if shard else 1
    held_bytes = trained_bytes = 0
    for parameter in model.parameters():
        divides = sharded_axis(tuple(parameter.shape), parts) is not None
        size = parameter.numel() // (parts if divides else 1) * _FP32
        held_bytes += size
        trained_bytes += size if parameter.requires_grad else 0
    gathered = 2 * _largest_layer(model) * _FP32 if parts > 1 else 0
    return MemoryPlan(held_bytes, trained_bytes, MOMENTS[optimizer] * trained_bytes, activations, gathered)


class RecomputeOnMeta:
    """Stands for `TorchBackend.recompute` in a plan: of each module only the inputs are kept. `largest` has
    the bytes of the one that keeps most while its backward pass runs."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.largest = 0

    def __call__(self, module: Any, *args: Any) -> Any:
        with _saved_for_backward() as inside:
            out = module(*args)
        self.inputs += args
        self.largest = max(self.largest, _bytes_beside(module, [each.tensor for each in inside]))
        return out


class _Saved:
    """A tensor that the graph keeps for the backward pass; gone when the graph lets go of it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


@contextmanager
def _saved_for_backward() -> Iterator[WeakSet[_Saved]]:
    """What the graph made in the block keeps. Weak, so that only what it still holds at the end counts."""
    import torch

    saved: WeakSet[_Saved] = WeakSet()

    def keep(tensor: Any) -> _Saved:
        held = _Saved(tensor.detach())
        saved.add(held)
        return held

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda each: each.tensor):
        yield saved


def _bytes_beside(module: Any, tensors: Sequence[Any]) -> int:
    """Bytes of these tensors, without the module's parameters. Storages are known by their addresses, so the
    tensors must be alive."""
    own = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    storages = [each.untyped_storage() for each in tensors]
    sizes = {storage._cdata: storage.nbytes() for storage in storages}
    return sum(size for place, size in sizes.items() if place not in own)


def _largest_layer(model: Any) -> int:
    """Parameters of the largest entry of a `ModuleList`, or of the largest single one (a table, a head)."""
    import torch

    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    layers = [list(layer.parameters()) for each in lists for layer in each]
    alone = [[parameter] for parameter in model.parameters()]
    return max(sum(one.numel() for one in group) for group in layers + alone)


@contextmanager
def bfloat16_on_meta() -> Iterator[None]:
    """`torch.autocast` to bfloat16 for the device `meta`, which it does not know: products of matrices, also
    those of attention, and convolutions take and give bfloat16, except where autocast is switched off for the
    processor."""
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    products = {functional.linear, torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm}
    products |= {functional.scaled_dot_product_attention, torch.einsum}
    products |= {functional.conv1d, functional.conv2d, functional.conv_transpose1d}

    def lowered(value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(torch.bfloat16) if floating else value

    class Products(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in products and torch.is_autocast_enabled("cpu"):
                args = tuple(map(lowered, args))
            return func(*args, **(kwargs or {}))

    with torch.autocast("cpu", torch.bfloat16), Products():
        yield


def plan_jax_memory(
    loss_of: Callable[[Any, Any], Any],
    params: Any,
    optimizer_state: Any,
    batch: Any,
    *,
    chips: int = 1,
    shard: bool = False,
) -> MemoryPlan:
    """Counts a step of JAX from shapes (`jax.eval_shape` of what makes them), without a device.

    Args:
        loss_of: the loss of parameters and a batch.
        params: trees of arrays or of their shapes, as `optimizer_state` and `batch` are.
        batch: of *one* chip.
        chips: of a host, that share parameters, gradients and optimizer state, with `shard`: as
            `jax_mesh.state_sharding` slices them. What a step gathers of them for a while comes on top.
    """
    import jax

    parts = chips if shard else 1

    def backward(params: Any, batch: Any) -> Any:
        # The closure of a backward pass is a tree of all that the forward pass kept for it.
        return jax.vjp(lambda values: loss_of(values, batch), params)[1]

    kept = Counter(_kind(leaf) for leaf in jax.tree.leaves(jax.eval_shape(backward, params, batch)))
    # It keeps weights too, which are counted; what else has their shape looks the same.
    kept -= Counter(_kind(leaf) for leaf in jax.tree.leaves(params))
    activations = sum(math.prod(shape) * size * count for (shape, size, _), count in kept.items())
    masters = sliced_bytes(params, parts)
    return MemoryPlan(masters, masters, sliced_bytes(optimizer_state, parts), activations)


def sliced_bytes(tree: Any, chips: int) -> int:
    """Bytes on each of `chips` chips of a host, of a tree of arrays or shapes in JAX that `state_sharding`
    slices over them."""
    import jax
    from jax.sharding import AbstractMesh

    from tpulab_recipes.runtime.jax_mesh import BATCH_AXES, state_sharding

    places = state_sharding(AbstractMesh((1, chips), BATCH_AXES), tree)
    placed = zip(jax.tree.leaves(tree), jax.tree.leaves(places), strict=True)
    return sum(math.prod(place.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf, place in placed)


def _kind(leaf: Any) -> tuple[tuple[int, ...], int, str]:
    # Keys of random numbers have no bytes of their own to count, and need none worth counting.
    return tuple(leaf.shape), getattr(leaf.dtype, "itemsize", 0), str(leaf.dtype)


def sharded_axis(shape: tuple[int, ...], parts: int) -> int | None:
    """The longest axis that `parts` divides; None: the tensor stays whole on every chip."""
    fitting = [axis for axis, size in enumerate(shape) if size % parts == 0 and size >= parts]
    return max(fitting, key=lambda axis: shape[axis], default=None) if parts > 1 else None
