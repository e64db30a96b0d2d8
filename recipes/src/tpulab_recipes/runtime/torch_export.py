"""A PyTorch training step as StableHLO: torch_xla traces it, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tpulab_recipes.runtime.backend import Backend
from tpulab_recipes.runtime.errors import DeviceRuntimeError, reads_back
from tpulab_recipes.runtime.step_program import Role, StepProgram, Value
from tpulab_recipes.runtime.trees import tree_leaves


@dataclass(frozen=True)
class ExportedStep:
    """`arguments` and `results` are tensors on the device, in the order of the program's `main`. The step is
    traced and has not run: the next `backend.sync()` runs it, as it would any other."""

    program: StepProgram
    arguments: list[Any]
    results: list[Any]


def export_step(
    backend: Backend, step: Callable[[Any], Any], batch: Any, *, model: Any, optimizer: Any, name: str
) -> ExportedStep:
    """The program of `step(batch)`: gradients, update and all.

    torch_xla records what the step asks for, so whatever trains there can be exported: no part of the loop
    is written a second time. docs/runtime.md says why `torch.export` is no way.

    Args:
        step: one update; it answers its figures, a tensor or a tree of them. It may use `backend.step()`.
        batch: on the device (`backend.shard_batch`).
        model: the module whose parameters and buffers the step changes.
        optimizer: whose state exists already (`create_optimizer_state`); a list where a step has several.

    Raises:
        DeviceRuntimeError: `unsupported` on another backend; `bad_program` when the step reads a value back:
            such a step is several programs.
    """
    from tpulab_recipes.runtime.torch_xla import TorchXlaBackend

    if not isinstance(backend, TorchXlaBackend) or backend.spmd:
        raise DeviceRuntimeError(
            "unsupported",
            "A step is exported by torch_xla on one device; use the environment torch-xla without `--spmd`. "
            "The compiler divides the program among the chips.",
        )
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch_xla.debug import metrics

    def graphs() -> int:
        # Handed over; `ExecuteTime` is counted later, by the thread that ran them.
        return sum(metrics.counter_value(name) or 0 for name in ("CachedCompile", "UncachedCompile"))

    backend.sync()
    lower: Any = torch_xla._XLAC
    # Before the step, which gives what it changes new numbers.
    rows = {lower._xla_get_tensor_id(leaf) for leaf in _on_device(batch)}
    changed = {lower._xla_get_tensor_id(value) for value in _state(model, optimizer)}
    before = graphs()
    with backend.recording():
        figures = _on_device(step(batch))
    if graphs() != before:
        raise reads_back()
    state = _state(model, optimizer)
    results = [*figures, *state]
    numbers, arguments = lower._get_tensors_xla_device_data_node(results)

    def role(number: int) -> Role:
        return "batch" if number in rows else "state" if number in changed else "other"

    program = StepProgram(
        name,
        f"torch_xla {torch_xla.__version__}",
        [_value(tensor, role(number)) for number, tensor in zip(numbers, arguments, strict=True)],
        [_value(tensor, "other") for tensor in figures] + [_value(tensor, "state") for tensor in state],
        xm.get_stablehlo_bytecode(results),
    )
    return ExportedStep(program, list(arguments), results)


def _on_device(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(tree) if getattr(getattr(leaf, "device", None), "type", "") == "xla"]


def _state(model: Any, optimizer: Any) -> list[Any]:
    optimizers = optimizer if isinstance(optimizer, list) else [optimizer]
    return _on_device([dict(model.state_dict()), [list(each.state.values()) for each in optimizers]])


def _value(tensor: Any, role: Role) -> Value:
    return Value(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), role)
