"""Cells tagged `shapes-only`: a call of a jitted function in them is traced and lowered instead of run, and
its results are shapes. A step that is too large for this computer's memory can be checked in this way."""

from __future__ import annotations

import ast
from typing import Any

from tpulab.check.capture import Recorder

#: The name by which a changed cell calls `ShapesOnly.call`.
NAME = "__tpulab_call__"


class ShapesOnly(ast.NodeTransformer):
    """Changes each call of a cell into one of `call`, by the name above."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[Any, tuple[Any, Any]] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "globals", "vars", "dir"):
            return node
        called = ast.Call(ast.Name(NAME, ast.Load()), [node.func, *node.args], node.keywords)
        return ast.fix_missing_locations(ast.copy_location(called, node))

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        import jax
        from jax._src.core import trace_state_clean

        if not (hasattr(function, "lower") and hasattr(function, "_jit_info") and trace_state_clean()):
            return function(*args, **kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs))
        key = (function, tree, tuple(map(_key, leaves)))
        # Only the first call in a loop is lowered.
        if key not in self._known:
            lowered = function.lower(*args, **kwargs)
            program = self._recorder.latest
            shardings = lowered.compile().output_shardings
            self._known[key] = program, jax.tree.map(_shape, lowered.out_info, shardings)
        program, shapes = self._known[key]
        results = jax.tree.map(lambda each: each.update(), shapes)
        if program is not None:
            self._recorder.count(program, leaves, jax.tree.leaves(results))
        return results


def _key(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        weak = getattr(leaf, "weak_type", False)
        return leaf.shape, leaf.dtype, getattr(leaf, "sharding", None), weak
    # A number is an argument of its type, unless it is static.
    return type(leaf), leaf


def _shape(info: Any, sharding: Any) -> Any:
    """A shape with the sharding of its values, if the function or its arguments specify one."""
    import jax

    named = sharding if isinstance(sharding, jax.NamedSharding) else None
    return jax.ShapeDtypeStruct(info.shape, info.dtype, sharding=named)
