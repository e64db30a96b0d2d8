"""Exchange between PyTorch processes through their `torch.distributed` group; gradients may use another
way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpulab_recipes.runtime.trees import tree_map


class _Tensor:
    """A placeholder for a tensor that is broadcast separately."""


def group_size() -> int:
    """Processes of the group; 1: there is none."""
    from torch import distributed

    in_group = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if in_group else 1


def read_by_one(read: Callable[[], Any], *, is_main: bool) -> Any:
    """The tree that `read` returns in the main process, in every process of the group; all call this. An
    error of `read` is raised in all of them."""
    if group_size() == 1:
        return read()
    import torch
    from torch import distributed

    flags: list[Any] = [None] * group_size()
    distributed.all_gather_object(flags, is_main)
    source = flags.index(True)

    def broadcast(value: Any = None) -> Any:
        message = [value]
        distributed.broadcast_object_list(message, source)
        return message[0]

    # One tensor after the other: otherwise a large checkpoint would be in memory twice more.
    if not is_main:
        form, problem = broadcast()
        if problem is not None:
            raise problem
        return tree_map(lambda leaf: broadcast() if isinstance(leaf, _Tensor) else leaf, form)
    try:
        tree = read()
    except Exception as error:
        broadcast((None, error))
        raise
    broadcast((tree_map(lambda leaf: _Tensor() if isinstance(leaf, torch.Tensor) else leaf, tree), None))
    return tree_map(lambda leaf: broadcast(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)
