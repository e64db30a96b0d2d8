"""A PyTorch step that a recipe exported (`--export step.zip`): StableHLO, with the role of each array."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tpulab.check.chips import PreflightError

#: `batch`: rows are divided among the devices. `state`: parameters and optimizer state, which the step
#: replaces. `other`: constants and the state of the random numbers.
Role = Literal["batch", "state", "other"]
_FORMAT = 1
_ABOUT, _MODULE = "program.json", "step.mlirbc"


@dataclass(frozen=True, slots=True)
class Array:
    """An argument or a result; `dtype` is NumPy's name, or `bfloat16`."""

    shape: tuple[int, ...]
    dtype: str
    role: Role = "other"


@dataclass(frozen=True, slots=True)
class Step:
    """`module`: a StableHLO portable artifact whose `main` takes `inputs` and returns `outputs`, in order."""

    name: str
    #: the framework that wrote it, with its version
    source: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    module: bytes

    def save(self, file: Path | str) -> None:
        """Writes one file, whole or not at all."""
        file = Path(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        about = asdict(self) | {"format": _FORMAT}
        del about["module"]
        write_archive(file, [(_ABOUT, json.dumps(about)), (_MODULE, self.module)])


def write_archive(file: Path, members: Iterable[tuple[str, str | bytes]]) -> None:
    """A zip file of these names and contents, whole or not at all. Raises `OSError`."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.writing")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def read_step(file: Path) -> Step:
    """Raises `PreflightError` (`source_unusable`) for a file that `Step.save` did not write."""
    try:
        with zipfile.ZipFile(file) as archive:
            about, module = json.loads(archive.read(_ABOUT)), archive.read(_MODULE)
        if about["format"] != _FORMAT:
            raise ValueError(f"format {about['format']}")
        inputs, outputs = (
            [Array(tuple(each["shape"]), each["dtype"], each["role"]) for each in about[side]]
            for side in ("inputs", "outputs")
        )
        return Step(str(about["name"]), str(about["source"]), inputs, outputs, module)
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise PreflightError(
            "source_unusable",
            f"{file} is no exported step ({error}); write one with `--export FILE` of a recipe.",
        ) from error


def lower(step: Step, function: Callable[..., Any]) -> None:
    """Lowers the step, as `as_function` gives it, for all devices of this process: rows of the batch divided
    among them, and the state whole on each; on several, once more with the state in slices. Runs nothing.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh, count = Mesh(np.array(jax.devices()), ("data",)), jax.device_count()
    rows = {array.shape[0] for array in step.inputs if array.role == "batch" and array.shape}
    if any(number % count for number in rows):
        raise PreflightError(
            "bad_batch",
            f"A batch of {max(rows)} rows cannot be divided among {count} devices; export the step with a "
            f"multiple of {count}.",
        )

    def placed(array: Array, slices: bool) -> Any:
        axis = None
        if array.role == "batch" and array.shape:
            axis = 0
        elif slices and array.role == "state":
            axis = sharded_axis(array.shape, count)
        return NamedSharding(mesh, PartitionSpec(*(None,) * (axis or 0), *("data",) * (axis is not None)))

    with jax.enable_x64(True):
        for slices in (False, True) if count > 1 else (False,):

            def program(*arrays: Any) -> Any:
                return function(*arrays)

            program.__name__ = f"{step.name}_in_slices" if slices else step.name
            shapes = [
                jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=placed(each, slices))
                for each in step.inputs
            ]
            jax.jit(
                program,
                donate_argnums=[n for n, each in enumerate(step.inputs) if each.role == "state"],
                out_shardings=tuple(placed(each, slices) for each in step.outputs),
            ).lower(*shapes)


def sharded_axis(shape: tuple[int, ...], parts: int) -> int | None:
    """The longest axis that `parts` divides; None: the array stays whole on every device."""
    fitting = [axis for axis, size in enumerate(shape) if size % parts == 0 and size >= parts]
    return max(fitting, key=lambda axis: shape[axis], default=None) if parts > 1 else None


def as_function(step: Any, platform: str) -> Callable[..., tuple[Any, ...]]:
    """`step` as a function that `jax.jit` accepts for `platform`; call it with 64-bit types enabled. Of
    `step` it uses `inputs`, `outputs` and `module`."""
    import jax

    # PyTorch's indices are 64 bits wide, which jax narrows otherwise.
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in step.inputs]
        return as_called(shapes, step.outputs, _without_composites(step.module), platform)


def as_called(
    shapes: Sequence[Any], outputs: Sequence[Any], artifact: bytes, platform: str
) -> Callable[..., tuple[Any, ...]]:
    """A StableHLO portable artifact as a function, on as many devices as the shardings of `shapes` have."""
    import jax
    import jax.numpy as jnp

    def like(*_: Any) -> tuple[Any, ...]:
        return tuple(jnp.zeros(each.shape, each.dtype) for each in outputs)

    # A check lowers for the CPU first, which compiles nothing.
    unchecked = [jax.export.DisabledSafetyCheck.platform()]
    # jax makes the frame (types and calling convention); the module in it is replaced by ours.
    make = jax.export.export(
        jax.jit(like, keep_unused=True), platforms=(platform,), disabled_checks=unchecked
    )
    exported = dataclasses.replace(make(*shapes), mlir_module_serialized=artifact)
    called: Callable[..., tuple[Any, ...]] = exported.call
    return called


def _without_composites(module: bytes) -> bytes:
    """Each composite of a StableHLO artifact as a call of its parts. torch_tpu writes a running sum as
    a composite, which libtpu 0.0.50 does not accept (`vhlo.composite_v2`)."""
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        parsed = stablehlo.deserialize_portable_artifact(context, module)
        to_calls = "builtin.module(func.func(stablehlo-legalize-composite-to-call))"
        passmanager.PassManager.parse(to_calls).run(parsed.operation)
        artifact: bytes = stablehlo.serialize_portable_artifact(parsed, stablehlo.get_current_version())
        return artifact
