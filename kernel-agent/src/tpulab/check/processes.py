"""The processes of a check: children that answer in lines of JSON, and the compiler of a machine type."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpulab.check.chips import Machine, PreflightError
from tpulab.check.compiler import ENVIRONMENT

#: Seconds without an answer of a compiler; the longest program of the recipes takes 83 s on a busy machine.
COMPILER_LIMIT = 3600.0


class JsonProcess:
    """A child process that answers in lines of JSON; at the end of the block, it ends with all that it
    started. Raises `PreflightError` (`process_not_started`)."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        mark = str(uuid.uuid4())
        self._mark = mark.encode()
        try:
            with log.open("ab") as errors:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **environment, "TPULAB_CHECK_PROCESS": mark},
                    text=True,
                    start_new_session=True,
                )
        except OSError as error:
            raise PreflightError(
                "process_not_started", f"{command[0]} cannot be started: {error.strerror}."
            ) from error
        _children.add(self)
        self._log = log
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def next(self, limit: float) -> dict[str, Any] | None:
        """The next answer; None at the end. Raises `PreflightError` (`timeout`)."""
        while True:
            try:
                line = self._lines.get(timeout=limit)
            except queue.Empty:
                raise PreflightError(
                    "timeout", f"A process of the check gave no answer for {limit:.0f} s."
                ) from None
            if line is None:
                return None
            # Other output of the process is no answer.
            with contextlib.suppress(ValueError):
                answer = json.loads(line)
                if isinstance(answer, dict):
                    return answer

    def request(self, question: Mapping[str, Any], limit: float) -> dict[str, Any]:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError:
            return {}
        return self.next(limit) or {}

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def exit_text(self) -> str:
        code = self.exit_code or 0
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name
        return f"{name}, perhaps because memory was full" if name == "SIGKILL" else name

    @property
    def last_error_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return lines[-1][:300] if lines else ""
        return ""

    def __enter__(self) -> JsonProcess:
        return self

    def __exit__(self, *_: object) -> None:
        _children.discard(self)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(timeout=10)
        # While this looks, one of them may start another one. A process that waits for a disk does not end.
        for _round in range(1000):
            if not sum(_end(process, self._mark) for process in Path("/proc").glob("[0-9]*")):
                return


def _end(process: Path, mark: bytes) -> bool:
    """Ends a process that inherited `mark`, also in a session of its own; whether it was one."""
    with contextlib.suppress(OSError):
        if mark in (process / "environ").read_bytes():
            os.kill(int(process.name), signal.SIGKILL)
            return True
    return False


#: Ended with the check, even if a thread waits for one when the check is interrupted.
_children: set[JsonProcess] = set()


def end_children() -> None:
    for child in list(_children):
        child.__exit__()


class MachineCompiler:
    """The compiler of one machine type; its process is restarted after a program that ended it."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine, self._folder = machine, folder
        self._lines: JsonProcess | None = None

    def start(self) -> JsonProcess:
        """Raises `PreflightError` (`compiler_missing`)."""
        if self._lines is None:
            command = [
                compiler_python(),
                "-m",
                "tpulab.check.compiler",
                str(self._folder),
                self._machine.name,
            ]
            log = self._folder / f"{self._machine.name}.log"
            self._lines = JsonProcess(command, log, {**ENVIRONMENT, "PYTHONPATH": own_folder()})
        return self._lines

    def compile(self, program: Mapping[str, Any], save: bool = False) -> dict[str, Any]:
        """`compiler.Compiled` as a table, for the module with this `number`. With `save` its compiled form is
        written too. Raises `PreflightError` where no program can be compiled."""
        question = {name: program[name] for name in ("number", "bytes") if name in program} | {"save": save}
        lines = self.start()
        answer = lines.request(question, COMPILER_LIMIT)
        if "error" in answer:
            raise PreflightError(answer["error"], answer["message"])
        if not answer:
            note = f"the compiler's process ended: {lines.last_error_line or 'without a message'}"
            answer = {"number": program["number"], "compiles": None, "seconds": 0.0, "note": note}
            self.__exit__()
        return answer

    def __enter__(self) -> MachineCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lines is not None:
            self._lines.__exit__()
            self._lines = None


def compiler_python() -> str:
    """This Python if it has libtpu, else the Python of the environment `aot`. Raises `PreflightError`."""
    from importlib.util import find_spec

    if find_spec("libtpu") is not None:
        return sys.executable
    named = os.environ.get("TPULAB_AOT_PYTHON")
    homes = [os.environ.get("TPULAB_ENV_DIR"), str(Path(sys.prefix).parent)]
    beside = [Path(home) / "aot" / "bin" / "python" for home in homes if home]
    for python in (*([Path(named)] if named else []), *beside):
        if python.is_file():
            return str(python)
    raise PreflightError(
        "compiler_missing",
        "The TPU compiler is not on this computer: run `tpulab env create aot` once (0.2 GB to download, "
        "1.9 GB on disk).",
    )


def own_folder() -> str:
    """The folder of this package, for a Python of the user that does not have it."""
    return str(Path(__file__).resolve().parents[2]) if "site-packages" not in __file__ else ""


def cpu_environment() -> dict[str, str]:
    """Variables for a program on CPU devices, whose count this package sets."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    return {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(filter(None, (own_folder(), os.environ.get("PYTHONPATH", "")))),
        # An inherited value would create other devices.
        "XLA_FLAGS": " ".join(flag for flag in flags if "xla_force_host_platform_device_count" not in flag),
    }
