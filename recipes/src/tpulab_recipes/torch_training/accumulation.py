"""Gradients of a batch that does not fit, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def backward_in_parts(loss_of: Callable[[dict[str, Any]], Any], batch: dict[str, Any], parts: int) -> Any:
    """Adds the gradients of a batch's loss to the parameters, and returns that loss, on the device.

    Of a compiled step: one program, in which the compiler can reuse a part's memory for the next. The
    optimizer's step comes after.

    Args:
        loss_of: the contribution of some rows to the batch's loss; the parts' contributions add up to it.
        batch: arrays of equally many rows, on the device.
        parts: how many; it divides the rows.
    """
    rows = len(next(iter(batch.values())))
    if parts < 1 or rows % parts:
        raise ValueError(f"{rows} rows cannot be divided into {parts} parts.")
    total, share = 0.0, rows // parts
    for first in range(0, rows, share):
        loss = loss_of({name: value.narrow(0, first, share) for name, value in batch.items()})
        loss.backward()
        total = total + loss.detach()
    return total
