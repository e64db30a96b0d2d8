"""Runs the notebooks in PyTorch through a bridge, each once, with settings of its own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from ..clients.bridge_kernel import BridgeKernelManager
from ..clients.bridge_process import BridgeProcess
from ..lesson import CHECKOUT

NOTEBOOKS = CHECKOUT / "notebooks"
#: The first step of a network is compiled in the cell, on a machine that may be busy.
CELL_DEADLINE_S = 600


@dataclass(frozen=True)
class Executed:
    """A notebook after its run; `values` are what its kernel answered to `ask`."""

    notebook: Any
    values: dict[str, Any]
    folder: Path

    def text(self, cell_id: str) -> str:
        cell = next(cell for cell in self.notebook.cells if cell.get("id") == cell_id)
        return "".join(output.text for output in cell.outputs if output.output_type == "stream")

    def mime_types(self, cell_id: str) -> set[str]:
        cell = next(cell for cell in self.notebook.cells if cell.get("id") == cell_id)
        return {mime for output in cell.outputs for mime in output.get("data", {})}


Execute = Callable[..., Executed]


@pytest.fixture(scope="session")
def execute(tmp_path_factory: pytest.TempPathFactory) -> Execute:
    """`execute(file, ask, **parameters)`: `ask` maps names to expressions that JSON can hold."""
    envs = Path(os.environ.get("TPULAB_ENV_DIR") or CHECKOUT / ".tpulab" / "envs")
    if not (envs / "torch-xla" / "bin" / "python").exists():
        pytest.fail(
            'The environment "torch-xla" is missing; run `npx tpulab env create torch-xla`.', pytrace=False
        )

    def run(file: str, ask: dict[str, str], **parameters: object) -> Executed:
        folder = tmp_path_factory.mktemp(Path(file).stem)
        notebook: Any = nbformat.read(NOTEBOOKS / file, as_version=4)
        (place,) = [
            n for n, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])
        ]
        settings = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
        notebook.cells.insert(place + 1, new_code_cell(settings or "pass", id="injected-parameters"))
        expressions = ", ".join(f"{name!r}: {expression}" for name, expression in ask.items())
        notebook.cells.append(new_code_cell(f"import json\nprint(json.dumps({{{expressions}}}))", id="probe"))
        executed = asyncio.run(_through_bridge(notebook, folder))
        # For whoever wants to look at the pictures: pytest keeps the folders of its last three runs.
        nbformat.write(executed, folder / "executed.ipynb")
        return Executed(executed, json.loads(_last_stream(executed)), folder)

    return run


async def _through_bridge(notebook: Any, folder: Path) -> Any:
    state, work = folder / "state", folder / "work"
    state.mkdir(mode=0o700)
    work.mkdir()
    bridge = BridgeProcess(state, work)
    try:
        await bridge.start()
        manager = BridgeKernelManager(bridge, notebook.metadata.kernelspec.name)
        client = NotebookClient(
            notebook,
            km=manager,  # type: ignore[arg-type]  # it has what nbclient uses of a KernelManager
            timeout=CELL_DEADLINE_S,
            iopub_timeout=CELL_DEADLINE_S,
        )
        await client.async_execute()
    finally:
        await bridge.stop()
    return notebook


def _last_stream(notebook: Any) -> str:
    (text,) = [output.text for output in notebook.cells[-1].outputs if output.output_type == "stream"]
    return str(text)
