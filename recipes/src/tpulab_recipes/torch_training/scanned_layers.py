"""Equal layers of a model as one loop of the program, which is compiled once for all of them.

Only torch_xla has such a loop, with its gradient (`TorchBackend.scan`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree


class ScannedLayers(torch.nn.ModuleList):
    """Iterates as one layer that computes all of them; `children()` has them one by one. Parameters keep
    their names. The layers differ in their parameters alone, and have no buffers.

    Args:
        scan: the backend's.
        remat: the backward pass computes each layer's activations again instead of keeping them.
    """

    def __init__(self, layers: torch.nn.ModuleList, scan: Any, *, remat: bool = False) -> None:
        super().__init__(layers.children())
        self.scan, self.remat = scan, remat

    def __iter__(self) -> Iterator[Any]:
        yield self._run

    def _run(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Calls each layer with the output of the one before and all other arguments. With a cache, which
        each layer changes, one after the other."""
        layers = list(self.children())
        if kwargs.get("past_key_values") is not None:
            for layer in layers:
                hidden = layer(hidden, *args, **kwargs)
            return hidden
        parameters = [dict(layer.named_parameters()) for layer in layers]
        stacked = {name: torch.stack([each[name] for each in parameters]) for name in parameters[0]}
        one = copy.copy(layers[0])
        one.gradient_checkpointing = False
        leaves, tree = pytree.tree_flatten((args, kwargs))
        # The loop carries only tensors that can have gradients; layers get None for integers (positions).
        carried = [n for n, leaf in enumerate(leaves) if _is_float(leaf)]
        others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

        def layer_of(carry: tuple[Any, ...], own: dict[str, Any]) -> tuple[tuple[Any, ...], None]:
            given = list(others)
            for n, value in zip(carried, carry[1:], strict=True):
                given[n] = value if leaves[n].requires_grad else value.detach()
            args, kwargs = pytree.tree_unflatten(given, tree)
            return (torch.func.functional_call(one, own, (carry[0], *args), kwargs), *carry[1:]), None

        first = (hidden, *(leaves[n] for n in carried))
        last, _ = self.scan(layer_of, first, stacked, partition_fn=_partition(remat=self.remat))
        found: torch.Tensor = last[0]
        return found


def _partition(*, remat: bool) -> Any:
    from torch._functorch import config, partitioners

    def keep_inputs(*args: Any, **kwargs: Any) -> Any:
        with config.patch(activation_memory_budget=0.0):
            return partitioners.min_cut_rematerialization_partition(*args, **kwargs)

    return keep_inputs if remat else partitioners.default_partition


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
