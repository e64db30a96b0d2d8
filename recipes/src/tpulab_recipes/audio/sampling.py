"""Choosing the next code from scores, the same on every backend and without reading a value back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tpulab_recipes.runtime import Backend

#: Steps between two checks of whether all rows have ended: each waits for the device.
STEPS_PER_CHECK = 16


def decode(
    backend: Backend, step: Callable[[], Any], limit: int, on_check: Callable[[int], None] | None = None
) -> int:
    """Calls a compiled step against static caches, which returns whether all rows have ended, until they have
    or `limit` steps are done. Returns the number of steps, which may be a few more than were needed.

    `on_check` gets the number of steps at each check.
    """
    every = STEPS_PER_CHECK
    for number in range(1, limit + 1):
        ended = step()
        if number % every == 0 or number == limit:
            if on_check is not None:
                on_check(number)
            if int(backend.to_host(ended)):
                return number
    return limit


def best(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest values of each row and their ids. Of equal values (common in bfloat16) the lowest id
    comes first, on every backend; `topk` does not define the order."""
    values, ids = scores.sort(dim=-1, descending=True, stable=True)
    return values[..., :k], ids[..., :k]


def nucleus(scores: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Float[..., id]: softmax of the scores, Float[..., id], inside top-k and top-p (Holtzman et al. 2020,
    arXiv 1904.09751), and 0 outside."""
    values, ids = best(scores, top_k)
    kept = values.softmax(-1)
    # A candidate stays while the candidates before it have not reached top_p; the first always stays.
    before = kept.cumsum(-1) - kept
    values = torch.where(before <= top_p, values, -torch.inf)
    return torch.zeros_like(scores).scatter(-1, ids, values.softmax(-1))


def drawn(probabilities: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Int[...]: the id whose share of [0, 1) a draw, Float[...], falls into, ids in their order."""
    cumulative = probabilities.cumsum(-1)
    # Rounding may leave the sum below the draw.
    reached = draws.clamp(max=1 - 1e-6)[..., None] * cumulative[..., -1:]
    return (cumulative <= reached).sum(-1)
