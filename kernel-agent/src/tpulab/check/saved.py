"""Compiled programs in a file, for a machine that is still being set up.

`tpulab check --save-compiled` writes it, into a folder in which kernels with TPUs look for it as they start;
`tpulab.load_compiled(FILE)` names one elsewhere. jax then takes programs from it: each is loaded only if
everything that decides its compiled form is the same: jax, the compiler, its flags and options, the devices
in their order, and the program. Else it compiles as usual, with a warning that has the reason.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tpulab.check.chips import PreflightError, first_line
from tpulab.check.exported import write_archive
from tpulab.compile.cache import HIT_EVENT, REQUEST_EVENT
from tpulab.compile.cache_folder import COMPILED_AHEAD
from tpulab.runtimes.import_hook import AfterImport

#: Version of the file; increase it for other facts.
FORMAT = 1
#: A kernel loads programs for these by itself. Those for a CPU are machine code of this computer, and the
#: file may have come with a repository or from another machine: only `load_compiled` loads them.
LOADED_BY_KERNEL = frozenset({"tpu"})
#: Flags that change only where the compiler writes, or the number of CPU devices.
_OTHER_FLAGS = ("--xla_dump", "--xla_force_host_platform_device_count")


def facts_of(backend: Any, module: Any, devices: Iterable[Any], options: Any) -> dict[str, Any]:
    """Everything that decides the compiled form of a program, and its name."""
    import jax
    from jax._src import cache_key

    text = module.operation.get_asm(enable_debug_info=False, assume_verified=True)
    chosen = hashlib.sha256()
    # The devices are compared by their places: a machine may number them differently.
    cache_key._hash_serialized_compile_options(chosen, options, strip_device_assignment=True)
    flags = " ".join(os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")).split()
    return {
        "name": str(module.operation.attributes["sym_name"]).strip('"'),
        "jax": jax.__version__,
        "libtpu": libtpu_version() if backend.platform == "tpu" else None,
        "compiler": f"jaxlib {metadata.version('jaxlib')}, {backend.platform_version}",
        "flags": sorted(flag for flag in flags if not flag.startswith(_OTHER_FLAGS)),
        "devices": [[device.device_kind, _place_of(device)] for device in devices],
        "options": chosen.hexdigest(),
        "program": hashlib.sha256(text.encode()).hexdigest(),
    }


def _place_of(device: Any) -> list[int]:
    """Where it is among the chips; on a CPU, its number and the instructions that the CPU has."""
    if (coords := getattr(device, "coords", None)) is not None:
        return [*coords, device.core_on_chip]
    from jax._src.lib import xla_client

    return [device.id, xla_client.get_topology_for_devices([device]).fingerprint()]


def write(file: Path, programs: Iterable[Path]) -> int:
    """Files of `compiler.Compiler.compile` as one, whole or not at all; returns their number. Raises
    `PreflightError` (`not_written`)."""
    members = [(f"programs/{number}", program.read_bytes()) for number, program in enumerate(programs, 1)]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_archive(file, [("format", str(FORMAT)), *members])
    except OSError as error:
        raise PreflightError("not_written", f"{file} cannot be written: {error.strerror}.") from error
    return len(members)


class CompiledPrograms:
    """The programs of a file. `loaded`: names of the programs that jax loaded; `refused`: reasons by name."""

    def __init__(self, file: Path, requested: bool = True) -> None:
        """`requested`: by `load_compiled`; else only programs for TPUs are loaded, and programs for other
        kinds of chips are ignored without a reason. Raises `PreflightError` (`compiled_unusable`)."""
        self._file, self._requested = file, requested
        self.loaded: list[str] = []
        self.refused: dict[str, str] = {}
        #: by name: facts and the serialized executable
        self._programs: dict[str, list[tuple[dict[str, Any], bytes]]] = {}
        try:
            with zipfile.ZipFile(file) as archive:
                if (version := archive.read("format").decode()) != str(FORMAT):
                    raise ValueError(f"format {version}")
                for name in archive.namelist():
                    if name != "format":
                        line, _, executable = archive.read(name).partition(b"\n")
                        facts = json.loads(line)
                        self._programs.setdefault(facts["name"], []).append((facts, executable))
        except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            raise PreflightError(
                "compiled_unusable",
                f"{file} has no compiled programs ({error}); `tpulab check NOTEBOOK --save-compiled FILE` "
                "writes them.",
            ) from error

    def __repr__(self) -> str:
        total = sum(map(len, self._programs.values()))
        return f"{self._file}: {total} programs, {len(self.loaded)} loaded, {len(self.refused)} refused"

    def executable(self, backend: Any, module: Any, devices: Any, options: Any, where: Any) -> Any:
        """The program on these devices; None where the file has no identical one. `devices`: in the
        program's order, `where`: the same as jaxlib's list."""
        if not self._requested and backend.platform not in LOADED_BY_KERNEL:
            return None
        name = str(module.operation.attributes["sym_name"]).strip('"')
        kind = devices[0].device_kind
        programs = [
            each
            for each in self._programs.get(name, ())
            if self._requested or each[0]["devices"][0][0] == kind
        ]
        if not programs:
            return None
        try:
            here = facts_of(backend, module, devices, options)
            reasons = []
            for facts, serialized in programs:
                if (found := difference(facts, here)) is None:
                    executable = backend.deserialize_executable(serialized, where, options)
                    self.loaded.append(name)
                    return executable
                reasons.append(found)
            # The reason of the closest program: the others are for other machines.
            _, reason = max(reasons)
        except Exception as error:
            reason = f"it cannot be loaded here: {first_line(error)[:300]}"
        self.refused[name] = reason
        warnings.warn(f"{name} is compiled again, not loaded from {self._file}: {reason}.", stacklevel=2)
        return None


def difference(saved: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[int, str] | None:
    """The first difference in words, with its rank; None: there is none."""

    def kinds(facts: Mapping[str, Any]) -> str:
        return f"{len(facts['devices'])} {' and '.join(sorted({kind for kind, _ in facts['devices']}))}"

    flags = sorted(set(saved["flags"]) ^ set(here["flags"]))
    ranked = (
        ("jax", f"it was compiled with jax {saved['jax']}, and this is jax {here['jax']}"),
        ("kinds", f"it was compiled for {kinds(saved)}, and this is {kinds(here)}"),
        ("libtpu", f"it was compiled by libtpu {saved['libtpu']}, and this is libtpu {here['libtpu']}"),
        ("compiler", f"it was compiled by {saved['compiler']!r}, and this is {here['compiler']!r}"),
        ("devices", "its devices are in another order; make the mesh with jax.make_mesh"),
        ("flags", f"flags of XLA or libtpu differ: {' '.join(flags)}"),
        ("program", "its code, shapes or settings have changed"),
        ("options", "jax's compile options differ (compiler_options, or how results are placed)"),
    )
    one, other = ({**facts, "kinds": kinds(facts)} for facts in (saved, here))
    return next(((rank, words) for rank, (key, words) in enumerate(ranked) if one[key] != other[key]), None)


def load_compiled(file: str | os.PathLike[str]) -> CompiledPrograms:
    """From now on jax takes programs from this file instead of compiling them.

    Raises:
        PreflightError: `compiled_unusable` for another file, `jax_unknown` for an unsupported jax.
    """
    return _give_to_jax(CompiledPrograms(Path(file)))


def load_with_jax() -> None:
    """Loads the files in the folder of a kernel once jax has been imported. Programs for other kinds of chips
    are ignored; a file that cannot be used, or that another user could have written, is a warning: programs
    run as native code."""
    AfterImport("jax", _load_beside).install()


def _load_beside() -> None:
    for file in sorted(Path(COMPILED_AHEAD).glob("*.compiled")):
        try:
            for place in (file, file.parent):
                found = place.stat()
                if found.st_uid not in (os.getuid(), 0) or found.st_mode & 0o002:
                    raise PreflightError(
                        "compiled_unusable",
                        f"{file} is not loaded: another user could have written it. If you trust it: "
                        f"tpulab.load_compiled({str(file)!r}).",
                    )
            _give_to_jax(CompiledPrograms(file, requested=False))
        except Exception as error:
            warnings.warn(first_line(error), stacklevel=2)


def _give_to_jax(programs: CompiledPrograms) -> CompiledPrograms:
    import jax
    from jax._src import compiler

    compile_program = compiler.compile_or_get_cached
    known = ["backend", "computation", "devices", "compile_options", "host_callbacks", "executable_devices"]
    if list(inspect.signature(compile_program).parameters)[:6] != known:
        raise PreflightError("jax_unknown", f"Programs cannot be loaded into jax {jax.__version__}.")

    @functools.wraps(compile_program)
    def compile_or_load(
        backend: Any, module: Any, devices: Any, options: Any, callbacks: Any, where: Any, *rest: Any
    ) -> Any:
        # A callback is an address in the process that compiled.
        if not callbacks:
            found = programs.executable(backend, module, list(devices.flat), options, where)
            if found is not None:
                for event in (REQUEST_EVENT, HIT_EVENT):
                    jax.monitoring.record_event(event)
                return found
        return compile_program(backend, module, devices, options, callbacks, where, *rest)

    compiler.compile_or_get_cached = compile_or_load
    return programs


def libtpu_version() -> str | None:
    try:
        return metadata.version("libtpu")
    except metadata.PackageNotFoundError:
        return None
