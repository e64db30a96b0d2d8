"""Which number formats a model computes in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

PrecisionName = Literal["float32", "bfloat16"]
PRECISIONS: tuple[PrecisionName, ...] = ("float32", "bfloat16")


@dataclass(frozen=True)
class Precision:
    """`float32`: everything in 32 bits, matrix products too (a TPU would round their inputs to bfloat16).

    `bfloat16`: parameters stay in 32 bits, products are made of 16-bit inputs and added up in 32.
    """

    name: PrecisionName
    compute_dtype: Any
    """The framework's dtype for activations."""
    cast: Callable[[Any], Any]
    """A tree with its floating arrays in `compute_dtype`; for models that are not cast by the framework
    itself."""


def full_precision(like: Any) -> AbstractContextManager[Any]:
    """Within the block nothing is cast on the device of this tensor, also inside `Backend.precision`."""
    import torch

    kind = like.device.type
    # `meta` has no autocast; a plan uses the CPU's (`bfloat16_on_meta`).
    off: AbstractContextManager[Any] = torch.autocast("cpu" if kind == "meta" else kind, enabled=False)
    return off


def check_precision(name: str) -> PrecisionName:
    for known in PRECISIONS:
        if name == known:
            return known
    raise ValueError(f'There is no precision "{name}"; choose {" or ".join(PRECISIONS)}.')
