"""Parameters in slices over processes, by PyTorch's own FSDP (`torch.distributed.fsdp.fully_shard`, which
TorchTPU names for it): each process has its rows of every parameter, of its gradient and of its moments, and
gathers a layer at a time to compute with.
"""

from __future__ import annotations

from typing import Any


def slice_parameters(model: Any, mesh: Any) -> None:
    """Leaves each process its slice of every parameter of the module, which are the same in all of them now.

    The entries of a `ModuleList` or `Sequential` are gathered one after the other, what is left together.
    State dicts are loaded whole: each process keeps its slice of them.
    """
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    lists = [each for each in model.modules() if isinstance(each, nn.ModuleList | nn.Sequential)]
    for layer in (layer for each in reversed(lists) for layer in each):
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.register_load_state_dict_pre_hook(_slice_loaded)


def _slice_loaded(module: Any, state: Any, prefix: str, *_: Any) -> None:
    for name, parameter in module.named_parameters():
        if (key := prefix + name) in state:
            state[key] = sliced_as(state[key], parameter)


def sliced_as(value: Any, parameter: Any) -> Any:
    """Slices a whole tensor like the parameter. Sliced tensors, and those of whole parameters, are kept."""
    from torch.distributed.tensor import distribute_tensor

    if is_sliced(value) or not is_sliced(parameter):
        return value
    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def is_sliced(tensor: Any) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def whole(tensor: Any) -> Any:
    """The whole of a sliced tensor, in every process; all must call this. Other values are unchanged."""
    return tensor.full_tensor() if is_sliced(tensor) else tensor


def sharded_axis(shape: tuple[int, ...], parts: int) -> int | None:
    """The longest axis that `parts` divides; None: the tensor stays whole on every chip."""
    fitting = [axis for axis, size in enumerate(shape) if size % parts == 0 and size >= parts]
    return max(fitting, key=lambda axis: shape[axis], default=None) if parts > 1 else None
