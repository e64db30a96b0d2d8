"""A process beside JAX's own in which torch runs: the two need different environments.

`call("package.module:function", …)` runs that function there, with arguments that can be pickled. The process
is started at the first call, keeps what the modules hold, and ends with this one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import DataError, MissingPackage

#: Packages of the environment `torch-xla` for the recipes in JAX.
_PACKAGES = ("torch", "transformers", "diffusers", "torchmetrics", "torch_fidelity")
_SOURCES = str(Path(__file__).parents[2])


def torch_python() -> str:
    """The Python with torch: `TPULAB_TORCH_PYTHON`, this Python, or the Python of the environment
    `torch-xla` beside this one. Raises `MissingPackage`."""
    configured = os.environ.get("TPULAB_TORCH_PYTHON")
    if configured:
        return configured
    if all(importlib.util.find_spec(package) for package in _PACKAGES):
        return sys.executable
    beside = Path(sys.prefix).parent / "torch-xla" / "bin" / "python"
    if beside.exists():
        return str(beside)
    raise MissingPackage(
        "torch",
        "A published encoder or distance (for a trial there are `small` encoders)",
        "make the environment that has it with `npx tpulab env create torch-xla`, or set TPULAB_TORCH_PYTHON "
        f"to a Python that has {', '.join(_PACKAGES)}.",
    )


class _Process:
    def __init__(self, python: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": _SOURCES,
            # Chips are JAX's; diffusers imports torch_xla where it is installed.
            "PJRT_DEVICE": "CPU",
        }
        self._lock = threading.Lock()
        try:
            # A separate session: Ctrl-C reaches only this process. When it ends, the pipe closes and the
            # other process ends.
            self._child = subprocess.Popen(
                [python, "-m", "tpulab_recipes.common.torch_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise DataError(f"TPULAB_TORCH_PYTHON={python} cannot be started: {error.strerror}.") from error

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            with self._lock:
                pickle.dump((name, arguments), self._child.stdin)
                self._child.stdin.flush()
                answer, problem = pickle.load(self._child.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            _process.cache_clear()
            raise DataError(
                f"The process with torch ended with {self._child.wait()} (-9: out of memory); what it "
                "printed stands above."
            ) from error
        if problem is not None:
            raise DataError(problem)
        return answer


@lru_cache(maxsize=1)
def _process(python: str) -> _Process:
    return _Process(python)


def call(function: str, /, **arguments: Any) -> Any:
    """The return value of the function. Raises `DataError` with its message, or when the process has ended,
    and `MissingPackage` when there is no torch."""
    return _process(torch_python()).call(function, arguments)


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # Output printed by libraries must not mix with the answers.
    os.dup2(2, 1)
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        module, _, function = name.partition(":")
        try:
            called = getattr(importlib.import_module(module), function)
            answer: tuple[Any, str | None] = (called(**arguments), None)
        except DataError as error:
            answer = (None, str(error))
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    _serve()
