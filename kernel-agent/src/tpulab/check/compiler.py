"""Compiles captured programs for one machine type that is not attached; a separate process, with libtpu.

    python -m tpulab.check.compiler FOLDER v5e-8

FOLDER has the modules. It compiles those that are named on stdin, one `{"number": 4}` per line, and answers
with one JSON object per line. With `"save": true` it writes the compiled program too, as `4.v5e-8`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpulab.check import hlo, saved
from tpulab.check.chips import Machine, PreflightError, first_line, machine_named
from tpulab.check.saved import libtpu_version
from tpulab.compile.cache_folder import cache_folder, delete_oldest
from tpulab.memory.error import parse

#: Nothing runs on a TPU, so no cloud metadata is requested, and other processes may have libtpu loaded.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}


#: Version of stored answers; increase it for another form of `Compiled`, or another way to read it.
ANSWER_FORMAT = 4
_OPTION_VARIABLES = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
MAX_STORED_BYTES = 50_000_000
UNREADABLE = "it compiles, but its collectives and buffers are not known"


@dataclass(slots=True)
class Compiled(hlo.Facts):
    """The compiler's figures for a program on each device of a machine, and facts of its optimized form."""

    number: int = 0
    #: whether the compiler accepted it; None where it refused for another reason than memory
    compiles: bool | None = None
    seconds: float = 0.0
    #: bytes on each device at the peak; the required bytes where it does not fit
    peak: int | None = None
    arguments: int = 0
    outputs: int = 0
    temporaries: int = 0
    code: int = 0
    aliased: int = 0
    #: for one device, counted once for each loop; a lower bound
    flops: float = 0.0
    bytes: float = 0.0
    note: str = ""


def need_of(compiled: Mapping[str, Any]) -> int | None:
    """Bytes on each device: what one program has in memory at a time, without counting donated results twice,
    as the compiler's own peak does. Where it does not fit, the bytes that the compiler asks for."""
    if not compiled["compiles"]:
        return compiled.get("peak")
    parts = ("arguments", "outputs", "temporaries", "code")
    return int(sum(compiled[name] for name in parts) - compiled["aliased"])


class Compiler:
    """The compiler of one machine type."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def devices(self) -> list[Any]:
        """Loads libtpu, which takes seconds. Raises `PreflightError` where it is missing."""
        os.environ.update(ENVIRONMENT)
        import jax
        from jax.experimental import topologies

        machine = self._machine
        options: dict[str, Any] = {"chip_config_name": "megacore"} if machine.kind.name == "v4" else {}
        if machine.chips == 1:
            # libtpu before 0.0.50 counts four chips per host, even in a topology of one chip.
            options["chips_per_host_bounds"] = [1, 1, 1]
        try:
            found = topologies.get_topology_desc(platform="tpu", topology_name=machine.topology, **options)
            return list(found.devices)
        except Exception as error:
            why = first_line(error)[:200]
            if find_spec("libtpu") is not None:
                raise PreflightError(
                    "compiler_refused",
                    f"The TPU compiler does not accept {machine.name} "
                    f"(jax {jax.__version__}, libtpu {libtpu_version()}: {why}).",
                ) from error
            raise PreflightError(
                "compiler_missing",
                "The TPU compiler is not in this environment; `tpulab env create aot` makes one that has it "
                f"(jax {jax.__version__}: {why}).",
            ) from error

    def answer(self, number: int, module: bytes, save: Path | None = None) -> dict[str, Any]:
        """`Compiled` as a table, from an earlier check if the program is unchanged and not saved; and
        libtpu's version."""
        stored = StoredAnswer(module, self._machine)
        found = stored.read() if save is None else None
        if found is None:
            found = asdict(self.compile(number, module, save))
            stored.write(found)
        return found | {"number": number, "libtpu": libtpu_version()}

    def compile(self, number: int, module: bytes, save: Path | None = None) -> Compiled:
        """`save`: file for the compiled program, as `saved.load_compiled` takes it."""
        available = self.devices
        began = time.perf_counter()
        try:
            executable = self._compile(module, available, save)
        except Exception as error:
            seconds, text = time.perf_counter() - began, str(error)
            found, note = parse(text), first_line(error)
            return Compiled(
                number=number,
                compiles=None if found is None else False,
                seconds=seconds,
                peak=None if found is None else found.requested,
                note=note,
            )
        seconds = time.perf_counter() - began
        memory = executable.get_compiled_memory_stats()
        cost = executable.cost_analysis()
        cost = (cost[0] if isinstance(cost, list) else cost) or {}
        facts, note = hlo.Facts(), ""
        try:
            facts = hlo.read(executable.hlo_modules()[0].to_string())
        except Exception as error:
            # libtpu 0.0.50 cannot return some programs that it has compiled for 7x.
            note = f"{UNREADABLE} ({first_line(error)[:200]})"
        return Compiled(
            **{each.name: getattr(facts, each.name) for each in fields(facts)},
            number=number,
            compiles=True,
            seconds=seconds,
            peak=int(memory.peak_memory_in_bytes),
            arguments=int(memory.argument_size_in_bytes),
            outputs=int(memory.output_size_in_bytes),
            temporaries=int(memory.temp_size_in_bytes),
            code=int(memory.generated_code_size_in_bytes),
            aliased=int(memory.alias_size_in_bytes),
            flops=float(cost.get("flops", 0.0)),
            bytes=float(cost.get("bytes accessed", 0.0)),
            note=note,
        )

    def _compile(self, module: bytes, available: list[Any], save: Path | None) -> Any:
        import numpy as np
        from jax._src import compiler
        from jax._src.interpreters import mlir
        from jax._src.lib import xla_client
        from jax._src.lib.mlir import ir

        line, _, code = module.partition(b"\n")
        beside = json.loads(line)
        count = beside["devices"]
        if count > len(available):
            raise ValueError(f"The program is for {count} devices; this machine has {len(available)}.")
        devices = _in_order(available[:count], beside["mesh"])
        backend = devices[0].client
        with mlir.make_ir_context():
            parsed = ir.Module.parse(code)
            options = compiler.get_compile_options(
                1,
                count,
                np.array([[device.id for device in devices]]),
                detailed_logging=compiler.use_detailed_logging(parsed),
                backend=backend,
                env_options_overrides=beside["options"],
            )
            build = options.executable_build_options
            build.use_shardy_partitioner = True
            build.allow_spmd_sharding_propagation_to_parameters = beside["freeInputs"]
            build.allow_spmd_sharding_propagation_to_output = beside["freeOutputs"]
            facts = saved.facts_of(backend, parsed, devices, options) if save is not None else {}
            # Only TPUs have topology descriptions without devices.
            compile_program = backend.compile if backend.platform == "tpu" else backend.compile_and_load
            executable = compile_program(
                parsed,
                executable_devices=xla_client.DeviceList(tuple(devices)),
                compile_options=options,
            )
        if save is not None:
            save.write_bytes(json.dumps(facts).encode() + b"\n" + executable.serialize())
        return executable


def _in_order(devices: list[Any], mesh: Sequence[int]) -> list[Any]:
    """As `jax.make_mesh` places them on the chips."""
    import jax

    if math.prod(mesh) != len(devices) or len(devices) == 1:
        return devices
    kinds = (jax.sharding.AxisType.Auto,) * len(mesh)
    names = tuple(map(str, range(len(mesh))))
    return list(jax.make_mesh(mesh, names, axis_types=kinds, devices=devices).devices.flat)


class StoredAnswer:
    """The earlier result of this compiler for a program, so that a check of an unchanged program compiles
    nothing. Its seconds are the seconds of the original compilation."""

    def __init__(self, module: bytes, machine: Machine) -> None:
        versions = [metadata.version("jax"), libtpu_version(), ANSWER_FORMAT]
        # jax, XLA and libtpu read options for the compiler from variables with their names.
        flags = sorted(each for each in os.environ.items() if each[0].startswith(_OPTION_VARIABLES))
        key = hashlib.sha256(json.dumps([machine.name, versions, flags]).encode())
        key.update(module)
        folder = cache_folder(os.environ)
        #: None: the user stores no compiled programs
        self._file = folder / "check" / f"{key.hexdigest()}.json" if folder else None

    def read(self) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError):
            if self._file is not None:
                found = json.loads(self._file.read_text(encoding="utf-8"))
                os.utime(self._file)
                return found if isinstance(found, dict) else None
        return None

    def write(self, answer: dict[str, Any]) -> None:
        """Stores no refusal for a reason other than memory: this computer may have been the cause."""
        if self._file is None or answer["compiles"] is None:
            return
        # A read-only folder only makes the next check slower.
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside = self._file.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(answer), encoding="utf-8")
            beside.replace(self._file)
            delete_oldest(self._file.parent, MAX_STORED_BYTES)


def module_bytes(lowered: Any) -> bytes:
    """A program that was lowered for a TPU, as `Compiler.compile` takes it: a line with the other
    settings that jax gives the compiler, and its StableHLO."""
    from jax._src import config
    from jax._src.interpreters import mlir, pxla

    program = getattr(lowered, "_lowering", lowered)
    given = program.compile_args
    shardings = given["in_shardings"]
    effects = len(given["ordered_effects"])
    free = pxla.get_prop_to_input_output(shardings, given["out_shardings"], effects)
    meshes = (dict(getattr(getattr(each, "mesh", None), "shape", {})) for each in shardings)
    beside = {
        "devices": int(given["num_devices"]),
        "mesh": next((list(mesh.values()) for mesh in meshes if mesh), []),
        "freeInputs": free[0],
        "freeOutputs": free[1],
        # As jax had them when the program was lowered.
        "options": {
            "exec_time_optimization_effort": config.exec_time_optimization_effort.value,
            "memory_fitting_effort": config.memory_fitting_effort.value,
            "optimization_level": config.EffortLevel(config.optimization_level.value).value,
            "memory_fitting_level": config.EffortLevel(config.memory_fitting_level.value).value,
            **dict(program._compiler_options_kvs),
        },
    }
    return json.dumps(beside).encode() + b"\n" + bytes(mlir.module_to_bytecode(program.stablehlo()))


def main(argv: list[str]) -> int:
    folder, machine = Path(argv[0]), machine_named(argv[1])
    # libtpu writes to both; the reader gets only our lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write_line(value: dict[str, Any]) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    try:
        os.environ.update(ENVIRONMENT)
        # Imports jax only for a program without a stored answer.
        compiler = Compiler(machine)
        for request in map(json.loads, sys.stdin):
            number = request["number"]
            save = folder / f"{number}.{machine.name}" if request.get("save") else None
            write_line(compiler.answer(number, (folder / f"{number}.mlirbc").read_bytes(), save))
    except PreflightError as error:
        write_line({"error": error.code, "message": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
