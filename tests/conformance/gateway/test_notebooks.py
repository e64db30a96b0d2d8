"""nbclient and papermill execute notebooks through jupyter_server's gateway client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from ..bridge import CHECKOUT
from ..gateway_client import BridgeKernelManager

# A cell compiles with XLA on a machine with other work, too. nbclient's own deadlines are a minute for
# the start, and four seconds for outputs that come after the reply: later ones are left out.
CELL_DEADLINE_S = 600

CELLS = (
    "import sys\nfor i in range(5):\n    print('out', i)\nprint('err', file=sys.stderr)",
    "from IPython.display import display, update_display, clear_output, HTML\n"
    "display(HTML('<b>one</b>'), display_id='a')",
    "update_display(HTML('<b>two</b>'), display_id='a')\n{'x': [1, 2, 3]}",
    "print('gone')\nclear_output(wait=True)\nprint('stays')",
    "for i in range(3):\n    print(f'\\r{i * 50} %', end='')",
)


def notebook(*cells: str, parameters: str | None = None) -> NotebookNode:
    made = nbformat.v4.new_notebook()
    if parameters:
        tagged = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        made.cells.append(tagged)
    made.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def execute(made: NotebookNode, folder: Path, **options: Any) -> NotebookNode:
    resources = {"metadata": {"path": str(folder)}}
    deadlines = dict.fromkeys(("timeout", "startup_timeout", "iopub_timeout"), CELL_DEADLINE_S)
    return NotebookClient(made, **deadlines, resources=resources, **options).execute()


def outputs(executed: NotebookNode) -> list[tuple[Any, list[Any]]]:
    return [
        (cell.execution_count, joined(cell.outputs)) for cell in executed.cells if cell.cell_type == "code"
    ]


def joined(given: list[Any]) -> list[Any]:
    """With joined pieces of one stream: a kernel flushes by the clock too."""
    whole: list[Any] = []
    for output in given:
        last = whole[-1] if whole else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            whole[-1] = NotebookNode({**last, "text": last.text + output.text})
        else:
            whole.append(output)
    return whole


@pytest.mark.usefixtures("gateway")
def test_nbclient_gets_the_same_outputs_as_from_its_own_kernel(folder: Path) -> None:
    through = execute(notebook(*CELLS), folder, kernel_manager_class=BridgeKernelManager)
    directly = execute(notebook(*CELLS), folder)
    assert outputs(through) == outputs(directly)
    assert through.cells[1].outputs[0].data["text/html"] == "<b>two</b>"


@pytest.mark.usefixtures("gateway")
def test_nbclient_receives_an_exception_and_stops(folder: Path) -> None:
    failing = notebook("print('before')", "raise ValueError('on purpose')", "print('never')")
    with pytest.raises(CellExecutionError, match="on purpose"):
        execute(failing, folder, kernel_manager_class=BridgeKernelManager)
    assert failing.cells[1].outputs[-1].ename == "ValueError"
    assert failing.cells[2].outputs == []


@pytest.mark.usefixtures("gateway")
def test_nbclient_executes_the_first_lesson_on_its_kernel(folder: Path) -> None:
    lesson = nbformat.read(CHECKOUT / "notebooks" / "00-getting-started.ipynb", as_version=4)
    executed = execute(
        lesson, folder, kernel_manager_class=BridgeKernelManager, kernel_name=lesson.metadata.kernelspec.name
    )
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.execution_count == place for place, cell in enumerate(code, start=1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]


@pytest.mark.usefixtures("gateway")
def test_papermill_sets_parameters_and_writes_the_outputs(folder: Path) -> None:
    given, written = folder / "given.ipynb", folder / "written.ipynb"
    nbformat.write(notebook("print(name, sum(range(count)))", parameters="name = 'x'\ncount = 1"), given)
    papermill.execute_notebook(
        str(given),
        str(written),
        parameters={"name": "papermill", "count": 1001},
        kernel_manager_class=BridgeKernelManager,
        progress_bar=False,
        execution_timeout=CELL_DEADLINE_S,
        start_timeout=CELL_DEADLINE_S,
        iopub_timeout=CELL_DEADLINE_S,
    )
    executed = nbformat.read(written, as_version=4)
    assert joined(executed.cells[-1].outputs)[0].text == "papermill 500500\n"
    assert executed.metadata.papermill.exception is None
