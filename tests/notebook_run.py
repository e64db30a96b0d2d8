"""Runs a notebook through a bridge with settings of its own, then asks its kernel what it has come to."""

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
from nbformat.v4 import new_code_cell

from .clients.bridge_kernel import BridgeKernelManager
from .clients.bridge_process import BridgeProcess
from .lesson import CHECKOUT

NOTEBOOKS = CHECKOUT / "notebooks"


@dataclass(frozen=True)
class Executed:
    """A notebook after its run; `values` are what its kernel answered when all cells had run."""

    notebook: Any
    values: dict[str, Any]
    folder: Path

    def text(self, cell_id: str) -> str:
        """What a cell printed."""
        return "".join(output.text for output in self._outputs(cell_id) if output.output_type == "stream")

    def mime_types(self, cell_id: str) -> set[str]:
        return {mime for output in self._outputs(cell_id) for mime in output.get("data", {})}

    def _outputs(self, cell_id: str) -> Any:
        return next(cell for cell in self.notebook.cells if cell.get("id") == cell_id).outputs


def require_environment(name: str) -> None:
    """Fails with a remedy where the kernel's environment is missing."""
    envs = Path(os.environ.get("TPULAB_ENV_DIR") or CHECKOUT / ".tpulab" / "envs")
    if not (envs / name / "bin" / "python").exists():
        pytest.fail(
            f'The environment "{name}" is missing; run `npx tpulab env create {name}`.', pytrace=False
        )


def run_notebook(
    file: str, folder: Path, *, settings: dict[str, object], probe: str, cell_deadline_s: float
) -> Executed:
    """Executes a notebook of ours.

    Args:
        folder: an empty one, for the state of the bridge and for what the notebook writes. The notebook as it
            was run is left there, for whoever wants to look at its pictures.
        settings: assigned in a cell of their own after the one with the tag `parameters`.
        probe: code for the kernel at the end; the last line that it prints is JSON.

    Raises:
        KeyboardInterrupt: SIGINT came; bridge and kernel have ended.
    """
    notebook: Any = nbformat.read(NOTEBOOKS / file, as_version=4)  # type: ignore[no-untyped-call]
    (place,) = [n for n, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])]
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    notebook.cells.insert(place + 1, _code_cell("\n".join(lines) or "pass", "injected-parameters"))
    notebook.cells.append(_code_cell(probe, "probe"))
    if not asyncio.run(_through_bridge(notebook, folder, cell_deadline_s)):
        raise KeyboardInterrupt
    nbformat.write(notebook, folder / "executed.ipynb")  # type: ignore[no-untyped-call]
    executed = Executed(notebook, {}, folder)
    executed.values.update(json.loads(executed.text("probe").splitlines()[-1]))
    return executed


async def _through_bridge(notebook: Any, folder: Path, cell_deadline_s: float) -> bool:
    """Whether it ran to its end; not when it was interrupted."""
    state, work = folder / "state", folder / "work"
    state.mkdir(mode=0o700)
    work.mkdir()
    bridge = BridgeProcess(state, work)
    interrupted = asyncio.Event()
    try:
        await bridge.start()
        client = NotebookClient(
            notebook,
            km=BridgeKernelManager(bridge, notebook.metadata.kernelspec.name),  # type: ignore[arg-type]  # it has what nbclient uses of a KernelManager
            timeout=cell_deadline_s,
            iopub_timeout=cell_deadline_s,
        )
        execution = asyncio.ensure_future(client.async_execute())

        def interrupt() -> None:
            interrupted.set()
            execution.cancel()

        # nbclient's own answer to SIGINT ends the kernel and waits for the reply of its cell all the same.
        loop = asyncio.get_running_loop()
        client.on_notebook_start = lambda **_: loop.add_signal_handler(signal.SIGINT, interrupt)
        await execution
    except (asyncio.CancelledError, DeadKernelError):
        if not interrupted.is_set():
            raise
    finally:
        await bridge.stop()
    return not interrupted.is_set()


def _code_cell(source: str, cell_id: str) -> Any:
    return new_code_cell(source, id=cell_id)  # type: ignore[no-untyped-call]
