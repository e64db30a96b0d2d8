"""A PyTorch training step as StableHLO, for the compilers of chips that are not attached.

By default the step runs once on the host CPU, which records each operation below autograd: gradients and
optimizer too, so no part of a loop needs a second implementation. torch_tpu lowers the recording
(`torch_lowering`). The result of a random operation (the mask of a dropout) becomes an input of the program,
as its generator is on the chip. torch_xla, which traces lazily, can produce the same program.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from tpulab.check.exported import Array, Role, Step
from tpulab_recipes.compile_ahead.torch_lowering import VARIABLES, Named, Operations, Slot
from tpulab_recipes.runtime.backend import Backend
from tpulab_recipes.runtime.cpu import CpuBackend
from tpulab_recipes.runtime.errors import DeviceRuntimeError, several_programs
from tpulab_recipes.runtime.trees import tree_leaves

#: For one step. The largest recipe takes a minute on two cores.
LOWERING_LIMIT_S = 1800


class LoweringBackend(CpuBackend):
    """The host CPU, on which a trainer is made as for a compiled device: its rates and counters are tensors.
    For `export_step` alone."""

    compiles_steps: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("cpu")
        if find_spec("torch_tpu") is None:
            raise DeviceRuntimeError(
                "framework_missing",
                "torch_tpu, which writes the step, is not installed here; run with the Python of the "
                'environment "torch-tpu" (`tpulab env create torch-tpu` makes it), or export by '
                "`--backend torch_xla`.",
            )
        # The first backward pass makes torch_tpu search for chips. It would query a cloud's metadata server,
        # for minutes where there is none.
        for name, value in VARIABLES.items():
            os.environ.setdefault(name, value)

    def describe(self) -> str:
        return f"torch_tpu {version('torch_tpu')}, which exports the step on the CPU"


@dataclass(frozen=True)
class ExportedStep:
    """`arguments` and `results` are tensors in the order of the program's `main`. With torch_xla the results
    are traced and not computed: the next `backend.sync()` runs the step, as it would any other."""

    program: Step
    arguments: list[Any]
    results: list[Any]


def export_step(
    backend: Backend, step: Callable[[Any], Any], batch: Any, *, model: Any, optimizer: Any, name: str
) -> ExportedStep:
    """The program of `step(batch)`: gradients, update and all.

    Args:
        backend: a `LoweringBackend`, or torch_xla's on one device.
        step: one update; returns its metrics, a tensor or a tree of tensors. It may use `backend.step()`.
        batch: on the device (`backend.shard_batch`).
        model: the module whose parameters and buffers the step changes.
        optimizer: whose state exists already (`create_optimizer_state`); a list where a step has several.

    Raises:
        DeviceRuntimeError: `unsupported` on another backend; `bad_program` when the step reads a value back:
            such a step is several programs.
    """
    optimizers = optimizer if isinstance(optimizer, list) else [optimizer]

    def state() -> list[Any]:
        return _tensors([dict(model.state_dict()), [list(each.state.values()) for each in optimizers]])

    if isinstance(backend, LoweringBackend):
        return _by_torch_tpu(lambda: step(batch), _tensors(batch), state, name)
    if getattr(backend, "name", "") == "torch_xla" and not backend.spmd:  # type: ignore[attr-defined]
        return _by_torch_xla(backend, lambda: step(batch), _tensors(batch), state, name)
    raise DeviceRuntimeError(
        "unsupported",
        "A step is exported on the CPU, by torch_tpu or by torch_xla on one device: leave out `--spmd` "
        "and other backends. The compiler divides the program among the chips.",
    )


def _tensors(tree: Any) -> list[Any]:
    import torch

    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _value(tensor: Any, role: Role) -> Array:
    return Array(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), role)


def _by_torch_tpu(
    step: Callable[[], Any], batch: list[Any], state: Callable[[], list[Any]], name: str
) -> ExportedStep:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    recording = _Recording()
    for role, tensors in (("batch", batch), ("state", state())):
        for tensor in tensors:
            recording.find(tensor, role)
    # A TPU has no counterpart of the CPU's fused attention.
    with (
        torch.random.fork_rng(devices=()),
        sdpa_kernel(SDPBackend.MATH),
        _as_compiled(),
        recording.recorder(),
    ):
        figures = _tensors(step())
    results = [*figures, *state()]
    numbers = [recording.find(tensor, "other") for tensor in results]
    program = Step(
        name,
        f"torch_tpu {version('torch_tpu')}, torch {torch.__version__}",
        [_value(value, role) for value, role in recording.inputs.values()],
        [_value(tensor, "other") for tensor in figures]
        + [_value(t, "state") for t in results[len(figures) :]],
        _lowered(
            Operations(
                {key: (tuple(value.shape), value.dtype) for key, (value, _) in recording.inputs.items()},
                recording.calls,
                numbers,
            )
        ),
    )
    return ExportedStep(program, [value for value, _ in recording.inputs.values()], results)


def _lowered(operations: Operations) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        recording, artifact = Path(folder, "recording"), Path(folder, "artifact")
        recording.write_bytes(pickle.dumps(operations))
        # Parts of torch_tpu import JAX, which must not search for chips either.
        environment = {
            **os.environ,
            **VARIABLES,
            "JAX_PLATFORMS": "cpu",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        }
        command = [
            sys.executable,
            "-m",
            "tpulab_recipes.compile_ahead.torch_lowering",
            str(recording),
            str(artifact),
        ]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LOWERING_LIMIT_S, check=False
        )
        if done.returncode != 0:
            messages = [
                line for line in done.stderr.splitlines() if "Error" in line or "not implemented" in line
            ]
            raise DeviceRuntimeError(
                "bad_program",
                f"torch_tpu {version('torch_tpu')} cannot lower this step (exit status {done.returncode}): "
                f"{messages[-1] if messages else done.stderr.strip()[-300:]}",
            )
        return artifact.read_bytes()


@contextmanager
def _as_compiled() -> Iterator[None]:
    """In this context Adam accepts tensor counters on the host CPU too, as it does while it is compiled."""
    from torch.optim import adam

    allowed: Any = adam._get_capturable_supported_devices
    adam._get_capturable_supported_devices = lambda *args, **options: [*allowed(*args, **options), "cpu"]
    try:
        yield
    finally:
        adam._get_capturable_supported_devices = allowed


class _Recording:
    """The operations of a step, with a number for each tensor."""

    def __init__(self) -> None:
        #: Value before the step, and role, by number.
        self.inputs: dict[int, tuple[Any, Role]] = {}
        self.calls: list[tuple[str, Any, Any, list[int | None]]] = []
        self._numbers: dict[int, int] = {}
        self._places: dict[Any, int] = {}
        self._storages: set[int] = set()
        #: Alive to the end, so that no other tensor takes their identity or their memory.
        self._alive: list[Any] = []

    def number(self, tensor: Any) -> int | None:
        found = self._numbers.get(id(tensor))
        # Autograd passes some tensors on as new Python objects.
        return self._places.get(_place(tensor)) if found is None and tensor.numel() else found

    def add(self, tensor: Any) -> int:
        number = len(self._alive)
        place = _place(tensor)
        self._numbers[id(tensor)] = self._places[place] = number
        self._storages.add(place[0])
        self._alive.append(tensor)
        return number

    def add_input(self, tensor: Any, role: Role) -> int:
        number = self.add(tensor)
        self.inputs[number] = tensor.detach().clone(), role
        return number

    def find(self, tensor: Any, role: Role) -> int:
        """The number of a tensor. A tensor that no recorded operation made is an input, for example a
        constant."""
        number = self.number(tensor)
        if number is None and tensor.numel() and _place(tensor)[0] in self._storages:
            raise DeviceRuntimeError(
                "bad_program",
                f"The step uses a tensor of shape {tuple(tensor.shape)} that is part of another one and was "
                "not made in the step; make such a view inside it.",
            )
        return self.add_input(tensor, role) if number is None else number

    def recorder(self) -> Any:
        import torch
        from torch._decomp import get_decompositions
        from torch.utils import _pytree as pytree
        from torch.utils._python_dispatch import TorchDispatchMode

        recording, aten = self, torch.ops.aten
        # torch_tpu 0.2.0 lowers batch norm without updating the running statistics, and fails at a bfloat16
        # layer norm with float32 weights. Decomposed, both are lowered correctly.
        norms = [aten.native_layer_norm, aten.native_layer_norm_backward]
        parts = get_decompositions([aten.native_batch_norm, aten.masked_fill, *norms])

        def written(leaf: Any) -> Any:
            if isinstance(leaf, torch.memory_format):
                return Named(str(leaf).removeprefix("torch."))
            return Slot(recording.find(leaf, "other")) if isinstance(leaf, torch.Tensor) else leaf

        class Recorder(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                kwargs = kwargs or {}
                if func.namespace == "profiler":  # marks, which compute nothing
                    return func(*args, **kwargs)
                if func is aten._local_scalar_dense.default:
                    raise several_programs()
                if func is aten.native_dropout.default:
                    return self._dropout(*args)
                if (decomposed := parts.get(func)) is not None:
                    with self:
                        return decomposed(*args, **kwargs)
                where = pytree.tree_map(written, (args, kwargs))
                made = func(*args, **kwargs)
                outputs = made if isinstance(made, tuple | list) else (made,)
                if torch.Tag.nondeterministic_seeded in func.tags:
                    for tensor in outputs:
                        recording.add_input(tensor, "other")
                    return made
                given = {id(leaf) for leaf in pytree.tree_leaves((args, kwargs))}
                # A returned argument was changed in place, and keeps its number.
                numbers = [
                    recording.add(one) if isinstance(one, torch.Tensor) and id(one) not in given else None
                    for one in outputs
                ]
                recording.calls.append((func.name(), *where, numbers))
                return made

            def _dropout(self, value: Any, share: float, train: bool | None) -> Any:
                share = share if train is not False else 0.0
                kept = torch.rand(value.shape) >= share
                recording.add_input(kept, "other")
                with self:
                    return value * kept * (1 / (1 - share) if share < 1 else 0.0), kept

        return Recorder()


def _place(tensor: Any) -> Any:
    storage = tensor.untyped_storage().data_ptr()
    return storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def _by_torch_xla(
    backend: Any, step: Callable[[], Any], batch: list[Any], state: Callable[[], list[Any]], name: str
) -> ExportedStep:
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch_xla.debug import metrics

    def graphs() -> int:
        # Submitted; the thread that runs them counts `ExecuteTime` later.
        return sum(metrics.counter_value(name) or 0 for name in ("CachedCompile", "UncachedCompile"))

    backend.sync()
    lower: Any = torch_xla._XLAC
    # Before the step, which gives changed tensors new numbers.
    rows = {lower._xla_get_tensor_id(tensor) for tensor in _on_xla(batch)}
    changed = {lower._xla_get_tensor_id(tensor) for tensor in _on_xla(state())}
    before = graphs()
    with backend.recording():
        figures = _on_xla(_tensors(step()))
    if graphs() != before:
        raise several_programs()
    after = _on_xla(state())
    results = [*figures, *after]
    numbers, arguments = lower._get_tensors_xla_device_data_node(results)

    def role(number: int) -> Role:
        return "batch" if number in rows else "state" if number in changed else "other"

    program = Step(
        name,
        f"torch_xla {torch_xla.__version__}",
        [_value(tensor, role(number)) for number, tensor in zip(numbers, arguments, strict=True)],
        [_value(tensor, "other") for tensor in figures] + [_value(tensor, "state") for tensor in after],
        xm.get_stablehlo_bytecode(results),
    )
    return ExportedStep(program, list(arguments), results)


def _on_xla(tensors: list[Any]) -> list[Any]:
    return [tensor for tensor in tensors if tensor.device.type == "xla"]
