"""Lowers a recorded training step to StableHLO by torch_tpu, without a chip. A separate process, which
`torch_export` starts: it registers the device `tpu`, which cannot be undone, and reads its
variables while PyTorch is imported.

    python -m tpulab_recipes.compile_ahead.torch_lowering RECORDING ARTIFACT
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Set before PyTorch is imported. Otherwise libtpu queries the metadata server of a cloud that this machine
#: is not in. No chip is used, so other processes may have libtpu loaded.
VARIABLES = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
#: Private parts of torch_tpu; the tests of the export go through all of them.
PRIVATE = (
    "torch_tpu._loader._init_device",
    "torch_tpu._internal.compile.tpu_torch_compile.placeholder",
    "torch_tpu._internal.compile.tpu_torch_compile.build_mlir",
    "torch_tpu._internal.compile.tpu_torch_compile.serialize_mlir_portable_artifact",
    "torch_tpu._internal.execution_mode.set_eager_mode",
    "torch_tpu._internal.execution_mode.EagerMode._INTERNAL_COMPILE_FX_GRAPH",
)


class Slot(int):
    """A tensor of a recording, by its number."""


class Named(str):
    """The name of a PyTorch memory format, because pickle cannot restore the object itself reliably."""


@dataclass(frozen=True)
class Operations:
    """What is lowered: shapes and types of the inputs by number; each operation by its name
    (`aten::add.Tensor`) with arguments, keywords and the numbers of what it makes; the numbers of the
    results.
    """

    inputs: dict[int, tuple[tuple[int, ...], Any]]
    calls: list[tuple[str, Any, Any, list[int | None]]]
    results: list[int]


def lower(operations: Operations) -> bytes:
    """A StableHLO portable artifact whose `main` takes the inputs and returns the results."""
    import torch
    from torch.utils import _pytree as pytree
    from torch_tpu import _loader
    from torch_tpu._internal import execution_mode
    from torch_tpu._internal.compile import tpu_torch_compile as compiler

    _loader._init_device("tpu")
    device = torch.device("tpu")
    values: dict[int, Any] = {}

    def to_tpu(leaf: Any) -> Any:
        if isinstance(leaf, Slot):
            return values[int(leaf)]
        if isinstance(leaf, Named):
            return getattr(torch, leaf)
        return device if isinstance(leaf, torch.device) else leaf

    placeholders = {
        number: compiler.placeholder(list(shape), dtype, False)
        for number, (shape, dtype) in operations.inputs.items()
    }
    mode = execution_mode.EagerMode._INTERNAL_COMPILE_FX_GRAPH
    with torch.no_grad(), execution_mode.set_eager_mode(mode):
        # Copies: a tensor that the step changes in place would otherwise become another argument.
        values |= {number: placeholder.clone() for number, placeholder in placeholders.items()}
        for name, args, kwargs, numbers in operations.calls:
            args, kwargs = pytree.tree_map(to_tpu, (args, kwargs))
            kwargs.pop("pin_memory", None)
            made = _run(operator(name), args, kwargs)
            outputs = made if isinstance(made, tuple | list) else (made,)
            values |= {
                number: output for number, output in zip(numbers, outputs, strict=True) if number is not None
            }
        results = [values[number].clone() for number in operations.results]
        module = compiler.build_mlir(results, list(placeholders.values()))
    artifact: bytes = compiler.serialize_mlir_portable_artifact(module)
    return artifact


def _run(operation: Any, args: Any, kwargs: Any) -> Any:
    """The operation, or its parts where torch_tpu lacks the operation itself (`mish`)."""
    from torch._decomp import decomposition_table

    try:
        return operation(*args, **kwargs)
    except (NotImplementedError, RuntimeError) as error:
        parts = decomposition_table.get(operation)
        if parts is None or "is not implemented for TPU" not in str(error):
            raise
        return parts(*args, **kwargs)


def operator(name: str) -> Any:
    """`aten::add.Tensor` as PyTorch has it."""
    import torch

    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


def main(argv: Sequence[str]) -> int:
    recording, artifact = map(Path, argv)
    artifact.write_bytes(lower(pickle.loads(recording.read_bytes())))
    return 0


if __name__ == "__main__":
    # Under its own name, by which the recording knows the classes.
    from tpulab_recipes.compile_ahead import torch_lowering

    sys.exit(torch_lowering.main(sys.argv[1:]))
