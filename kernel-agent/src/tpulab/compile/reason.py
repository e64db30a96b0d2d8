"""Why a function was compiled again: the difference to the closest earlier call, and a sentence of advice."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpulab.compile.signatures import Leaf, Signature
from tpulab.telemetry.messages import CompileReason, Verdict

Shape = tuple[int, ...]
#: As many sizes must have been seen before advice on buckets is useful.
MIN_SIZES = 3
MAX_BUCKETS = 4


def bucket_advice(argument: str, name: str, shapes: Sequence[Shape]) -> str | None:
    """A sentence that names the sizes to pad to. None while too little has been seen."""
    axes = _changing_axes(shapes)
    if len(axes) != 1:
        return None
    axis = axes[0]
    sizes = sorted({shape[axis] for shape in shapes})
    if len(sizes) < MIN_SIZES:
        return None
    chosen = buckets(sizes)
    listed = ", ".join(map(str, chosen))
    to = f"to {listed}" if len(chosen) == 1 else f"up to the next of {listed}"
    return f"Axis {axis} of `{argument}` has had {len(sizes)} sizes, each a program of `{name}`: pad it {to}."


def buckets(sizes: Sequence[int]) -> list[int]:
    """Powers of two that cover the sizes, at most four; none is above the largest size."""
    largest = max(sizes)
    found: list[int] = []
    size = 1
    while size < largest:
        size *= 2
        if any(size // 2 < seen <= size for seen in sizes):
            found.append(min(size, largest))
    if not found or found[-1] < largest:
        found.append(largest)
    return sorted(set(found[-MAX_BUCKETS:]))


def _changing_axes(shapes: Sequence[Shape]) -> list[int]:
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1:
        return []
    return [axis for axis in range(ranks.pop()) if len({shape[axis] for shape in shapes}) > 1]


MAX_FUNCTIONS = 1024
MAX_SIGNATURES = 32

FIRST: CompileReason = {"verdict": "first", "argument": None, "before": None, "after": None, "advice": None}
#: No explanation was found: a wrong sentence would be worse than none.
UNKNOWN: CompileReason = {**FIRST, "verdict": "other"}
#: Functions of one place that may coexist before they count as one function that is created repeatedly.
MAX_ALIKE = 8
_EAGER_ADVICE = "`{}` runs outside jit: inside a jitted function it becomes part of one program."


@dataclass(frozen=True, slots=True)
class Difference:
    verdict: Verdict
    argument: str | None
    before: str | None
    after: str | None


@dataclass(slots=True)
class FunctionHistory:
    """Earlier compilations of one function (by module and qualified name)."""

    variants: int = 0
    #: function object (weakly) and signature of the newest compilations
    seen: deque[tuple[Callable[[], Any], Signature | None]] = field(
        default_factory=lambda: deque(maxlen=MAX_SIGNATURES)
    )


class ReasonFinder:
    """Remembers how each function was compiled. Bounded: the oldest compilation is dropped first."""

    def __init__(self) -> None:
        self._functions: OrderedDict[str, FunctionHistory] = OrderedDict()

    def variants(self, key: str) -> int:
        history = self._functions.get(key)
        return history.variants if history is not None else 0

    def explain(
        self,
        key: str,
        name: str,
        function: Any,
        signature: Signature | None,
        *,
        eager: bool = False,
        transformed: bool = False,
    ) -> CompileReason:
        """The reason for compiling now. Does not count it; `remember` does, once it succeeded."""
        history = self._functions.get(key)
        if history is None or history.variants == 0:
            return FIRST
        if eager:
            # jax creates a function object for each set of parameters of an operation: nothing was redefined.
            found = self._compare(name, history, None, signature, transformed=False)
            return {**found, "advice": _EAGER_ADVICE.format(name)}
        return self._compare(name, history, function, signature, transformed=transformed)

    def _compare(
        self,
        name: str,
        history: FunctionHistory,
        function: Any,
        signature: Signature | None,
        *,
        transformed: bool,
    ) -> CompileReason:
        same = [earlier for seen, earlier in history.seen if _is_same(seen, function)]
        if function is not None and not same:
            others = [seen() for seen, _ in history.seen]
            # A factory, or lambdas of one line, create several functions that coexist: each of them
            # is compiled for the first time. A function whose predecessor is deleted is redefined.
            if None not in others and len({id(other) for other in others}) < MAX_ALIKE:
                return FIRST
            return reason_of(Difference("redefined", None, None, None), name)
        if transformed or (signature is not None and signature.transformed):
            return reason_of(Difference("other", None, None, None), name, transformed=True)
        if signature is None:
            return UNKNOWN
        candidates = [
            find_differences(earlier, signature)
            for earlier in reversed(same)
            if earlier is not None and not earlier.transformed
        ]
        closest = min(candidates, key=_distance, default=[])
        if not closest:
            return reason_of(Difference("other", None, None, None), name)
        found = min(closest, key=lambda found: _ORDER[found.verdict])
        reason = reason_of(found, name)
        if found.verdict == "shape" and found.argument is not None:
            shapes = [
                leaf.shape
                for one in [*same, signature]
                if one is not None and (leaf := one.leaves.get(found.argument)) is not None
            ]
            reason["advice"] = bucket_advice(found.argument, name, shapes) or reason["advice"]
        return reason

    def remember(self, key: str, function: Callable[[], Any], signature: Signature | None) -> int:
        """Counts a compilation of the function behind `function`. Returns their number so far."""
        history = self._functions.setdefault(key, FunctionHistory())
        self._functions.move_to_end(key)
        while len(self._functions) > MAX_FUNCTIONS:
            self._functions.popitem(last=False)
        history.variants += 1
        history.seen.append((function, signature))
        return history.variants


_ORDER: dict[Verdict, int] = {
    "tree": 0,
    "static": 1,
    "shape": 2,
    "dtype": 3,
    "sharding": 4,
    "config": 5,
    "other": 6,
    "redefined": 7,
    "first": 8,
}


def weight_of(verdict: Verdict) -> int:
    """Which of several differences is reported: the lowest."""
    return _ORDER[verdict]


def _distance(found: list[Difference]) -> tuple[int, int]:
    """Fewer differences are closer; among equal numbers, the minor ones (a dtype rather than a shape)."""
    return len(found), -sum(_ORDER[difference.verdict] for difference in found)


def find_differences(before: Signature, after: Signature) -> list[Difference]:
    found = [
        Difference("tree", name, _short_tree(before.trees.get(name)), _short_tree(after.trees.get(name)))
        for name in {**before.trees, **after.trees}
        if before.trees.get(name) != after.trees.get(name)
    ]
    found += [
        Difference("static", name, before.statics.get(name), after.statics.get(name))
        for name in {**before.statics, **after.statics}
        if before.statics.get(name) != after.statics.get(name)
    ]
    for path, new in after.leaves.items():
        old = before.leaves.get(path)
        if old is not None and old != new:
            found.append(_leaf_difference(path, old, new))
    found += [
        Difference("config", name, before.context.get(name), after.context.get(name))
        for name in {**before.context, **after.context}
        if before.context.get(name) != after.context.get(name)
    ]
    return found


def _leaf_difference(path: str, old: Leaf, new: Leaf) -> Difference:
    if old.shape != new.shape:
        return Difference("shape", path, str(old), str(new))
    if old.dtype != new.dtype or old.weak != new.weak:
        return Difference("dtype", path, str(old), str(new))
    return Difference("sharding", path, old.sharding or "not placed", new.sharding or "not placed")


def _short_tree(text: str | None) -> str | None:
    text = text.removeprefix("PyTreeDef(").removesuffix(")") if text is not None else None
    return text if text is None or len(text) <= 160 else text[:159] + "…"


def reason_of(found: Difference, name: str, *, transformed: bool = False) -> CompileReason:
    """A difference with its advice, for the function `name`."""
    return {
        "verdict": found.verdict,
        "argument": found.argument,
        "before": found.before,
        "after": found.after,
        "advice": _advice(found, name, transformed),
    }


def _advice(found: Difference, name: str, transformed: bool) -> str:
    what = f"`{found.argument}`"
    match found.verdict:
        case "shape":
            return (
                f"Give {what} one shape (pad it, drop a smaller last batch): each new one compiles `{name}`."
            )
        case "dtype":
            return f"Convert {what} to one dtype before the call, for example with `jnp.asarray(x, dtype)`."
        case "tree":
            return f"Pass {what} with the same structure each time: the same keys, lengths and None entries."
        case "static":
            return (
                f"{what} is static, so each new value compiles `{name}`: pass it as an array if it changes."
            )
        case "redefined":
            return (
                f"`{name}` is a new function object: define and jit it once, not in a loop or a rerun cell."
            )
        case "sharding":
            return f"Place {what} the same way each time, for example with `jax.device_put` before the loop."
        case _ if transformed:
            return (
                f"`{name}` is called by `grad` or `vmap` outside jit: jit the transformed function instead."
            )
        case "config":
            return f"The jax setting {what} changed: set it once, before the first call."
        case _:
            return f"`{name}` was jitted again with other options: jit it once and keep the result."


def reference_to(function: Any) -> Callable[[], Any]:
    """A weak reference, so that a function's closure is not kept alive."""
    try:
        return weakref.ref(function)
    except TypeError:
        return lambda: None


def _is_same(seen: Callable[[], Any], function: Any) -> bool:
    return function is None or seen() is function
