"""Tensors of torch on devices (XLA, CUDA, torch_tpu), by their sizes: none is computed, copied or read."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, NamedTuple

#: A failure states the requested size with two decimals ("3.00G").
_ROUNDING = 0.01
#: Devices on which tensors take no device memory.
HOST = ("cpu", "meta")
#: tensors that the device has refused and that are still referenced
_refused: list[weakref.ref[Any]] = []


class DeviceStorage(NamedTuple):
    """Memory of one storage: the largest tensor on it, and its views."""

    tensor: Any
    views: list[Any]
    nbytes: int


def device_storages(requested: int | None = None) -> list[DeviceStorage]:
    """One entry for each storage on a device.

    `requested`: bytes that the device has just refused. The newest tensor of that size is then left out,
    because it exists in name only.
    """
    torch: Any = sys.modules.get("torch")
    xlac: Any = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    if not hasattr(torch, "Tensor"):  # not imported, or not completely
        return []
    by_storage: dict[int, list[Any]] = {}
    # Not by isinstance: that reads the `__class__` of other objects.
    for found in [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]:
        for tensor in (found, *_gradient(found)):
            key = _storage(tensor)
            if key is not None and not any(tensor is other for other in by_storage.setdefault(key, [])):
                by_storage[key].append(tensor)
    groups = [sorted(group, key=lambda tensor: -tensor.nbytes) for group in by_storage.values()]
    held = [DeviceStorage(group[0], group, int(group[0].nbytes)) for group in groups]
    if xlac is not None:
        held = _computed(held, xlac)
        if requested:
            _note_refused(held, requested, xlac)
    _refused[:] = [one for one in _refused if one() is not None]
    return [one for one in held if not any(one.tensor is other() for other in _refused)]


def is_launched(tensor: Any) -> bool:
    """Whether the tensor is more than a graph: a launched program computes it, or has computed it."""
    xlac: Any = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    try:
        return not xlac._check_tensor_need_materialization([tensor])[0]
    except Exception:  # no such call, or a tensor that has been deleted
        return True


def gradient_of(value: Any) -> Any:
    """The gradient of a parameter, which only the parameter references."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not issubclass(type(value), torch.Tensor):
        return None
    return next(iter(_gradient(value)), None)


def tensors_of_module(value: Any) -> list[tuple[str, Any]] | None:
    """Parameters and buffers of a module by their names, however deep; None for other objects."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not issubclass(type(value), torch.nn.Module):
        return None
    return [*value.named_parameters(), *value.named_buffers()]


def _gradient(tensor: Any) -> list[Any]:
    try:
        # Only for leaves: reading it of others prints a warning.
        return [tensor.grad] if tensor.is_leaf and tensor.grad is not None else []
    except Exception:
        return []


def _storage(tensor: Any) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata) if tensor.device.type not in HOST else None
    except Exception:
        return None


def _computed(held: list[DeviceStorage], xlac: Any) -> list[DeviceStorage]:
    """Without tensors that are so far only a graph: they use no memory."""
    try:
        pending = xlac._check_tensor_need_materialization([one.tensor for one in held])
    except Exception:
        return held
    return [one for one, waits in zip(held, pending, strict=True) if not waits]


def _note_refused(held: list[DeviceStorage], requested: int, xlac: Any) -> None:
    try:
        alike = [one for one in held if abs(one.nbytes - requested) <= requested * _ROUNDING]
        newest = max(alike, key=lambda one: xlac._xla_get_tensor_id(one.tensor), default=None)
    except Exception:
        return
    if newest is not None:
        _refused.append(weakref.ref(newest.tensor))
