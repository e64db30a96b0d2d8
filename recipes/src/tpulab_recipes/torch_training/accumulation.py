"""Gradients of a batch that does not fit, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpulab_recipes.runtime.torch_base import TorchBackend


def backward_in_parts(
    backend: TorchBackend, loss_of: Callable[[Any], Any], batch: dict[str, Any], parts: int
) -> Any:
    """Adds the gradients of the mean loss of `batch` to the parameters, and answers that loss, on the device.

    Each part is a step of its own for a lazy device, so its activations are free before the next begins; all
    parts are one program. The optimizer's step comes after.

    Args:
        loss_of: the mean loss of the rows that it is given.
        batch: arrays of equally many rows, on the device.
        parts: how many; it divides the rows.
    """
    rows = len(next(iter(batch.values())))
    if parts < 1 or rows % parts:
        raise ValueError(f"{rows} rows cannot be divided into {parts} parts.")
    share, total = rows // parts, None
    for first in range(0, rows, share):
        with backend.step():
            part = {name: value.narrow(0, first, share).clone() for name, value in batch.items()}
        with backend.step():
            loss = loss_of(part) / parts
            loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    return total
