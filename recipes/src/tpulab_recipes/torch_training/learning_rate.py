"""A learning rate that may change at every step without a compilation.

In a lazy graph a Python number is a constant of the program, so a new learning rate is a new program. As a
tensor on the device it is an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpulab_recipes.runtime import Backend


def use_tensor_learning_rate(backend: Backend, optimizer: Any) -> None:
    """Turns the learning rate of every group into a 0-d tensor, where the backend compiles."""
    for group in optimizer.param_groups:
        if "capturable" in group:
            # The step counter of Adam then lives on the device too; otherwise it is a new constant at every
            # step. Elsewhere not, whatever the state says that was loaded.
            group["capturable"] = bool(backend.compiles_steps)
        _set(backend, group, float(group["lr"]))


def set_learning_rate(
    backend: Backend, optimizer: Any, value: Any, shares: Sequence[float] | None = None
) -> None:
    """`value` for every group: a number, or a 0-d tensor that is already where it belongs. `shares` has a
    factor for each group, for a number."""
    for number, group in enumerate(optimizer.param_groups):
        _set(backend, group, value if shares is None else value * shares[number])


def _set(backend: Backend, group: dict[str, Any], value: Any) -> None:
    if not backend.compiles_steps:
        group["lr"] = float(value)
        return
    rate = backend.replicate(np.asarray(value, np.float32)) if isinstance(value, int | float) else value
    # SGD otherwise reads the rate back at every step, to give it as a Python number: the device waits.
    group["lr"] = rate if "capturable" in group else rate.detach().requires_grad_()
