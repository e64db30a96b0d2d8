"""Traces a function as one graph, and fails where Python would have to look at a tensor's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def trace_full_graph(function: Callable[..., Any], *args: Any) -> Any:
    """Calls `function(*args)` through `torch.compile(fullgraph=True)` without generating code; answers its
    result.

    Raises what torch raises where the graph would break: `.item()`, `if tensor`, boolean indexing.
    """
    import torch

    torch.compiler.reset()
    try:
        return torch.compile(function, fullgraph=True, backend="eager", dynamic=False)(*args)
    finally:
        torch.compiler.reset()
