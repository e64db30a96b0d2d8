"""Maps over nested dicts, lists and tuples: what a batch, a state dict or a set of parameters is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `function` applied to every leaf; containers keep their type and order."""
    if isinstance(tree, Mapping):
        mapped = {key: tree_map(function, value) for key, value in tree.items()}
        return mapped if type(tree) is dict else _rebuilt(tree, mapped)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(function, value) for value in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(tree_map(function, value) for value in tree)
    return function(tree)


def tree_leaves(tree: Any) -> list[Any]:
    """Every leaf, in order."""
    leaves: list[Any] = []
    tree_map(leaves.append, tree)
    return leaves


def _rebuilt(original: Mapping[Any, Any], mapped: dict[Any, Any]) -> Any:
    """A mapping of the same type; a plain dict where that type cannot be made from one."""
    try:
        return type(original)(mapped)  # type: ignore[call-arg]
    except TypeError:
        return mapped
