"""The TPU compiler for chips that are not attached, as `tpulab check` uses it. Nothing runs on a TPU."""

from __future__ import annotations

from typing import Any

from tpulab.check.chips import PreflightError, machine_named
from tpulab.check.compiler import Compiler, module_bytes, need_of
from tpulab_recipes.runtime.errors import DeviceRuntimeError

#: Machine types with eight devices, by the name of the chip (7x shows each chip as two).
MACHINES = {"v4": "v4-16", "v5e": "v5e-8", "v5p": "v5p-16", "v6e": "v6e-8", "7x": "7x-8"}


def compiler_for(chip: str) -> Compiler:
    """For eight devices of a chip. Raises `DeviceRuntimeError`: `unsupported` for an unknown chip,
    `framework_missing` without libtpu."""
    if chip not in MACHINES:
        raise DeviceRuntimeError(
            "unsupported", f"{chip!r} is none of the chips that are known: {', '.join(MACHINES)}."
        )
    try:
        compiler = Compiler(machine_named(MACHINES[chip]))
        # Loads libtpu here, where a missing one has its own error message.
        assert compiler.devices
    except PreflightError as error:
        raise DeviceRuntimeError("framework_missing", str(error)) from error
    return compiler


def measure(compiler: Compiler, lowered: Any) -> dict[str, Any]:
    """The compiler's figures (`tpulab.check.compiler.Compiled`) for a step that was lowered for its devices,
    with `need`, bytes on each; a step that does not fit has them too. Raises `DeviceRuntimeError`
    (`bad_program`) where the compiler refuses it for another reason."""
    found = compiler.answer(0, module_bytes(lowered))
    if found["compiles"] is None:
        raise DeviceRuntimeError("bad_program", f"The TPU compiler refuses the step: {found['note']}")
    return found | {"need": need_of(found)}
