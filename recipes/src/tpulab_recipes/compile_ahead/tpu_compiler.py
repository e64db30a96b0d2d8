"""Compiles for TPUs that are not there: memory and operations of a step on each kind of chip.

    python -m tpulab_recipes.compile_ahead.tpu_compiler step.zip --chips v5e v5p

Needs JAX and libtpu (`pip install "jax[tpu]"`). Nothing runs on a TPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tpulab.check.exported import as_function, sharded_axis
from tpulab_recipes.compile_ahead.step_program import StepProgram, Value
from tpulab_recipes.runtime.errors import DeviceRuntimeError

#: Topologies with eight devices (v4 and 7x show each chip as two).
TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x4", "v5p": "v5p:2x2x2", "v6e": "v6e:2x4", "7x": "tpu7x:2x2x1"}


@dataclasses.dataclass(frozen=True)
class CompiledFor:
    """The compiler's report on a step, for each device of a kind of chip."""

    chip: str
    devices: int
    memory_gib: float | None
    """Peak of arguments, results and temporaries; None when it does not fit."""
    tflop: float | None
    compile_s: float
    note: str = ""


def tpu_devices(chip: str) -> list[Any]:
    """Devices of a chip that is not there. Raises `DeviceRuntimeError` (`framework_missing`) without
    libtpu."""
    if chip not in TOPOLOGIES:
        raise DeviceRuntimeError(
            "unsupported", f"{chip!r} is none of the chips that are known: {', '.join(TOPOLOGIES)}."
        )
    # Otherwise libtpu asks the metadata server of a cloud that this machine is not in.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    # No chip is used, so it does not matter whether another process has libtpu.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    import jax
    from jax.experimental import topologies

    try:
        return list(topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[chip]).devices)
    except Exception as error:
        raise DeviceRuntimeError(
            "framework_missing",
            'The TPU compiler is missing here; install it with `pip install "jax[tpu]"` of the same '
            f"version as jax ({jax.__version__}). ({str(error).splitlines()[0]})",
        ) from error


def measure(chip: str, devices: int, compile_step: Callable[[], Any]) -> CompiledFor:
    """Compiles, and returns the compiler's report; a step that does not fit has a report too."""
    import jax

    began = time.perf_counter()
    try:
        compiled = compile_step()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        reason = str(error).splitlines()[0].split("RESOURCE_EXHAUSTED: ")[-1]
        return CompiledFor(chip, devices, None, None, time.perf_counter() - began, f"does not fit: {reason}")
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis() or {}
    return CompiledFor(
        chip,
        devices,
        memory.peak_memory_in_bytes / 2**30,
        cost.get("flops", 0.0) / 1e12,
        time.perf_counter() - began,
    )


def compile_program(program: StepProgram, chip: str, *, shard: bool = False) -> CompiledFor:
    """The step on eight devices of `chip`: rows of the batch divided among them, parameters and optimizer
    state whole on each or, with `shard`, in slices. The exported batch is that of all devices together."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = tpu_devices(chip)
    mesh, count = Mesh(np.array(devices), ("data",)), len(devices)

    def placed(value: Value) -> NamedSharding:
        if value.role == "batch" and value.shape:
            if value.shape[0] % count:
                raise DeviceRuntimeError(
                    "bad_batch",
                    f"A batch of {value.shape[0]} rows cannot be divided among {count} devices; export the "
                    f"step with a multiple of {count}.",
                )
            return NamedSharding(mesh, PartitionSpec("data"))
        axis = sharded_axis(value.shape, count) if shard and value.role == "state" else None
        return NamedSharding(mesh, PartitionSpec(*(None,) * (axis or 0), *("data",) * (axis is not None)))

    def compiled() -> Any:
        # PyTorch's indices are 64 bits wide, which JAX narrows otherwise.
        with jax.enable_x64(True):
            shapes = [
                jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=placed(value))
                for value in program.inputs
            ]
            step = jax.jit(
                as_function(program, "tpu"),
                donate_argnums=[n for n, value in enumerate(program.inputs) if value.role == "state"],
                out_shardings=tuple(placed(value) for value in program.outputs),
            )
            return step.trace(*shapes).lower(lowering_platforms=("tpu",)).compile()

    return measure(chip, count, compiled)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tpulab_recipes.compile_ahead.tpu_compiler",
        description="Compiles an exported training step for TPUs that are not there.",
    )
    parser.add_argument("program", help="what a recipe wrote with --export")
    parser.add_argument("--chips", nargs="+", default=list(TOPOLOGIES), metavar="CHIP", help="default: all")
    parser.add_argument("--shard", action="store_true", help="slice parameters and optimizer state")
    options = parser.parse_args(argv)
    try:
        program = StepProgram.load(options.program)
        for chip in options.chips:
            print(json.dumps(dataclasses.asdict(compile_program(program, chip, shard=options.shard))))
    except DeviceRuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
