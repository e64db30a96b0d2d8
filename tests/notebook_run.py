"""Runs a notebook through a bridge with its own settings, then requests results from its kernel."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from .clients.bridge_kernel import BridgeKernelManager
from .clients.bridge_process import BridgeProcess
from .executed_notebook import ExecutedNotebook, code_cell, read_notebook
from .lesson import CHECKOUT

NOTEBOOKS = CHECKOUT / "notebooks"


def _compile_at(level: int) -> str:
    return f'import os\nos.environ["XLA_FLAGS"] = "--xla_backend_optimization_level={level}"\n'


#: For `before`. XLA compiles in about a third of the time; the results are the same. Its programs are
#: slower: for trainings of few steps.
COMPILE_QUICKLY = _compile_at(0)
#: XLA compiles in two thirds of the time, and its programs are as quick: for trainings of many steps.
COMPILE_LESS = _compile_at(1)


@dataclass(frozen=True)
class Executed(ExecutedNotebook):
    """A notebook after its run; `values` are its kernel's answers when all cells had run."""

    values: dict[str, Any]
    folder: Path


def require_environment(name: str) -> None:
    """Fails with a remedy where the kernel's environment is missing."""
    envs = Path(os.environ.get("TPULAB_ENV_DIR") or CHECKOUT / ".tpulab" / "envs")
    if not (envs / name / "bin" / "python").exists():
        pytest.fail(
            f'The environment "{name}" is missing; run `npx tpulab env create {name}`.', pytrace=False
        )


def run_notebook(
    file: str,
    folder: Path,
    *,
    settings: dict[str, object],
    probe: str,
    cell_deadline_s: float,
    before: str = "",
    kernel: str | None = None,
) -> Executed:
    """Executes one of our notebooks.

    Args:
        folder: for the state of the bridge and for files of the notebook; empty, or of an earlier run.
            The executed notebook is stored there, with its pictures.
        settings: assigned in a separate cell after the cell with the tag `parameters`.
        probe: code for the kernel at the end; the last line that it prints is JSON.
        before: code for the kernel before the first cell.
        kernel: name of its kernelspec, if another than the notebook's.

    Raises:
        KeyboardInterrupt: SIGINT came; bridge and kernel have ended.
    """
    notebook = read_notebook(NOTEBOOKS / file, settings)
    notebook.metadata.kernelspec.name = kernel or notebook.metadata.kernelspec.name
    if before:
        notebook.cells.insert(0, code_cell(before, "probe-before"))
    notebook.cells.append(code_cell(probe, "probe"))
    if not asyncio.run(_through_bridge(notebook, folder, cell_deadline_s)):
        raise KeyboardInterrupt
    nbformat.write(notebook, folder / "executed.ipynb")  # type: ignore[no-untyped-call]
    executed = Executed(notebook, {}, folder)
    executed.values.update(json.loads(executed.lines("probe")[-1]))
    return executed


async def _through_bridge(notebook: Any, folder: Path, cell_deadline_s: float) -> bool:
    """Whether it ran to its end; False after an interrupt."""
    state, work = folder / "state", folder / "work"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    bridge = BridgeProcess(state, work)
    interrupted = asyncio.Event()
    try:
        await bridge.start()
        client = NotebookClient(
            notebook,
            km=BridgeKernelManager(bridge, notebook.metadata.kernelspec.name),  # type: ignore[arg-type]  # it has what nbclient uses of a KernelManager
            timeout=cell_deadline_s,
            startup_timeout=int(cell_deadline_s),
            iopub_timeout=cell_deadline_s,
        )
        execution = asyncio.ensure_future(client.async_execute())

        def interrupt() -> None:
            interrupted.set()
            execution.cancel()

        # nbclient's own handler of SIGINT ends the kernel but still waits for the cell's reply.
        loop = asyncio.get_running_loop()
        client.on_notebook_start = lambda **_: loop.add_signal_handler(signal.SIGINT, interrupt)
        await execution
    except (asyncio.CancelledError, DeadKernelError):
        if not interrupted.is_set():
            raise
    finally:
        await bridge.stop()
    return not interrupted.is_set()
