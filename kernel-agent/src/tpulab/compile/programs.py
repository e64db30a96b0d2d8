"""The operations of a jitted function's programs, one for each set of arguments that it was compiled for.

A loop that ends with a smaller batch has two programs of one function. The arguments in which they differ
show which of them a call runs, so that a call is inspected only where that matters.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpulab.compile.signatures import arguments_of
from tpulab.figures.throughput import Program
from tpulab.runtimes.jax_internals import JitCall, function_of_jit, loaded_jax

MAX_FUNCTIONS = 1024
#: Programs of one function; a user with more compilations has other problems than MFU.
MAX_VARIANTS = 64
#: Number or keyword of an argument to its structure, shapes and dtypes (or value, where it is static).
CallKey = Mapping[int | str, Any]


def call_key(call: JitCall) -> CallKey | None:
    """None where the arguments cannot be distinguished (an unhashable structure)."""
    try:
        return {name: _key_of(value, static) for name, value, static in _numbered(call)}
    except Exception:
        return None


@dataclass(slots=True, eq=False)
class _Function:
    reference: weakref.ref[Any]
    jit_info: Any
    #: newest last
    variants: list[tuple[CallKey, Program]] = field(default_factory=list)
    #: arguments in which the variants differ
    distinguishing: frozenset[int | str] = frozenset()

    def add(self, key: CallKey, program: Program) -> None:
        self.variants = [kept for kept in self.variants if kept[0] != key][-(MAX_VARIANTS - 1) :]
        self.variants.append((key, program))
        names = {name for known, _ in self.variants for name in known}
        self.distinguishing = frozenset(
            name for name in names if any(known.get(name) != key.get(name) for known, _ in self.variants)
        )

    def find(self, call: JitCall, names: frozenset[int | str] | None) -> Program | None:
        key = {
            name: _key_of(value, static)
            for name, value, static in _numbered(call)
            if names is None or name in names
        }
        for known, program in reversed(self.variants):
            inspected = known.keys() if names is None else names
            if key.keys() <= known.keys() and all(known.get(name) == key.get(name) for name in inspected):
                return program
        return None


class Programs:
    """By function object, as two functions may share a name. Written and read on the calling threads."""

    def __init__(self) -> None:
        self._functions: dict[int, _Function] = {}
        #: every compilation of the process was seen, so a function with one known program has only this one
        self.complete = False

    def add(self, function: Any, jit_info: Any, key: CallKey, program: Program) -> None:
        kept = self._functions.get(id(function))
        if kept is None or kept.reference() is not function:
            try:
                kept = _Function(weakref.ref(function), jit_info)
            except TypeError:
                return
            self._functions[id(function)] = kept
            while len(self._functions) > MAX_FUNCTIONS:
                del self._functions[next(iter(self._functions))]
        kept.add(key, program)

    def find(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program | None:
        """The program that this call ran; None when it was compiled before the watch started."""
        function = function_of_jit(jitted)
        kept = self._functions.get(id(function))
        if kept is None or kept.reference() is not function:
            return None
        if self.complete and len(kept.variants) == 1:
            return kept.variants[0][1]
        try:
            call = JitCall(function, kept.jit_info, args, kwargs, executes=True)
            return kept.find(call, kept.distinguishing if self.complete else None)
        except Exception:
            return None


def _numbered(call: JitCall) -> Iterator[tuple[int | str, Any, bool]]:
    keywords = list(call.kwargs)
    for number, (_, value, static) in enumerate(arguments_of(call)):
        at = number - len(call.args)
        yield number if at < 0 else keywords[at], value, static


def _key_of(value: Any, static: bool) -> Any:
    if static:
        # Only its hash, which jit computes too: no reference to the user's objects is kept here.
        return type(value), hash(value)
    jax = loaded_jax()
    if jax is None:
        return None
    leaves, tree = jax.tree_util.tree_flatten(value)
    return tree, tuple((getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))) for leaf in leaves)
