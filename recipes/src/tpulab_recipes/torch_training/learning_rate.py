"""A learning rate that may change at every step without a compilation.

In a lazy graph a Python number is a constant of the program, so a new learning rate is a new program. As a
tensor on the device it is an input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpulab_recipes.runtime import Backend


def warmup_cosine(step: int, warmup: int, total: int) -> float:
    """Share of the peak learning rate at a step (from 0): linearly up to 1 over the warm-up, then along a
    cosine down to 0 at step `total` (torch's LinearLR and CosineAnnealingLR)."""
    warmup = fitting_warmup(warmup, total)
    if step < warmup:
        return (step + 1) / warmup
    return cosine((step - warmup) / max(1, total - warmup))


def fitting_warmup(warmup: int, total: int) -> int:
    """The warm-up if it is shorter than the run, else a tenth of the run: without that, the rate would never
    reach its peak, and nothing would be learned."""
    return warmup if warmup < total else total // 10


def cosine(done: float) -> float:
    """Half a wave from 1 (nothing `done`) to 0 (all of it)."""
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def use_tensor_learning_rate(backend: Backend, optimizer: Any) -> None:
    """Turns the learning rate of every group into a 0-d tensor, where the backend compiles."""
    for group in optimizer.param_groups:
        if "capturable" in group:
            # The step counter of Adam then lives on the device too; otherwise it is a new constant at every
            # step. Elsewhere it stays on the host, whatever the loaded state says.
            group["capturable"] = bool(backend.compiles_steps)
            _place_counters(optimizer, group)
        _set(backend, group, float(group["lr"]))


def _place_counters(optimizer: Any, group: dict[str, Any]) -> None:
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        if hasattr(state.get("step"), "to"):
            state["step"] = state["step"].to(parameter.device if group["capturable"] else "cpu")


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
