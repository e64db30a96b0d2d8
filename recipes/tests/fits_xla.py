"""Tools to test that a training step fits XLA: few shapes, one graph, no operator that waits for the device.

They work on any machine and need neither torch_xla nor a TPU; `compile_budget` counts real compilations where
there are some.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tpulab_recipes import runtime
from tpulab_recipes.runtime.trees import tree_leaves

Step = TypeVar("Step", bound=Callable[..., Any])
Signature = tuple[str, ...]


class TooManyCompilations(AssertionError):
    """A block compiled more programs than were planned for it."""


@contextlib.contextmanager
def compile_budget(at_most: int, backend: runtime.Backend | None = None) -> Iterator[None]:
    """Fails with `TooManyCompilations` when the block compiles more than `at_most` programs."""
    measured = backend or runtime.current()
    before = measured.compilations()
    yield
    measured.sync()
    made = measured.compilations() - before
    if made.count > at_most:
        raise TooManyCompilations(
            f"{made.count} programs were compiled ({made.seconds:.1f} s) where {at_most} were planned; look "
            "for shapes, dtypes or Python numbers that change from step to step."
        )


#: Each stops the lazy graph, or cannot be in a compiled one.
DYNAMIC_OPERATORS: dict[str, str] = {
    "aten::nonzero": "its result has as many rows as there are hits; use torch.where(condition, a, b)",
    "aten::masked_select": "its result has as many rows as there are hits; multiply by the mask, or "
    "torch.where",
    "aten::index.Tensor(bool)": "a boolean index has as many rows as there are hits; multiply by the mask",
    "aten::_local_scalar_dense": "it waits for the device (.item(), float(), `if tensor`); keep it a tensor",
    "aten::repeat_interleave.Tensor": "its length depends on data; give output_size, or index with a fixed "
    "table",
    "aten::_unique2": "its length depends on data; use a fixed table of values",
    "aten::_weight_norm_interface": "it has no XLA lowering; use torch.nn.utils.parametrizations.weight_norm",
}


class ForbiddenOperator(AssertionError):
    """A step used an operator that does not fit a compiled program."""

    def __init__(self, operator: str, why: str) -> None:
        super().__init__(f"The step uses {operator}: {why}.")
        self.operator = operator


@contextlib.contextmanager
def forbid_operators(forbidden: Iterable[str] | None = None) -> Iterator[None]:
    """Within the block these operators raise `ForbiddenOperator` (default: all of `DYNAMIC_OPERATORS`).

    Sees what PyTorch dispatches, backward passes included; run the step on the CPU inside it.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    names = set(DYNAMIC_OPERATORS if forbidden is None else forbidden)

    class Refuse(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
        def __torch_dispatch__(
            self,
            function: Any,
            types: Any,
            args: Any = (),
            kwargs: Any = None,
        ) -> Any:
            operator = _name_of(function, args)
            for name in (operator, operator.split(".")[0]):
                if name in names:
                    raise ForbiddenOperator(operator, DYNAMIC_OPERATORS.get(name, "it is on the list given"))
            return function(*args, **(kwargs or {}))

    with Refuse():
        yield


def _name_of(function: Any, args: Any) -> str:
    import torch

    name = str(function._schema.name)
    overload = function._overloadname
    full = name if overload in ("", "default") else f"{name}.{overload}"
    if full == "aten::index.Tensor" and any(
        index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
    ):
        return "aten::index.Tensor(bool)"
    return full


def trace_full_graph(function: Callable[..., Any], *args: Any) -> Any:
    """Calls `function(*args)` through `torch.compile(fullgraph=True)` without generating code; returns its
    result.

    Raises what torch raises where the graph would break: `.item()`, `if tensor`, boolean indexing.
    """
    import torch

    torch.compiler.reset()
    try:
        return torch.compile(function, fullgraph=True, backend="eager", dynamic=False)(*args)
    finally:
        torch.compiler.reset()


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
