"""Writes down the shapes and dtypes with which a step is called: each new set is a program to compile."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from tpulab_recipes.runtime.trees import tree_leaves

Step = TypeVar("Step", bound=Callable[..., Any])
Signature = tuple[str, ...]


class TooManyShapes(AssertionError):
    """A step was called with more sets of shapes than were planned."""


class ShapeLedger:
    """`step = ledger.watch(step)`, then train; `ledger.signatures` counts the calls of each set of shapes.

    Args:
        at_most: how many sets of shapes (buckets) are planned; one more raises at once, naming both. None:
            only count.
    """

    def __init__(self, at_most: int | None = None) -> None:
        self.at_most = at_most
        self.signatures: Counter[Signature] = Counter()

    def watch(self, step: Step) -> Step:
        @functools.wraps(step)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.note(args, kwargs)
            return step(*args, **kwargs)

        return watched  # type: ignore[return-value]

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        signature = tuple(_describe(leaf) for leaf in tree_leaves([list(args), kwargs]))
        new = signature not in self.signatures
        self.signatures[signature] += 1
        if new and self.at_most is not None and len(self.signatures) > self.at_most:
            known = "; ".join(_text(one) for one in list(self.signatures)[: self.at_most])
            raise TooManyShapes(
                f"A step planned for {self.at_most} set(s) of shapes was called with another: "
                f"{_text(signature)}. So far: {known}. Pad or drop what does not fit."
            )


def _describe(leaf: Any) -> str:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    # A Python number or flag is a constant of the program: another value is another program.
    return (
        f"{type(leaf).__name__} {leaf!r}"
        if isinstance(leaf, bool | int | float | str)
        else type(leaf).__name__
    )


def _text(signature: Signature) -> str:
    return "(" + ", ".join(signature) + ")"
