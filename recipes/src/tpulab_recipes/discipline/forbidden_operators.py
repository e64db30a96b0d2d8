"""Refuses operators whose result has a shape that depends on data, or that read a number back to Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

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

    Sees what PyTorch dispatches, backward passes included; run the step on the processor inside it.
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
