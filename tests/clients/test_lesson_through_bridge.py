"""The getting-started notebook, run by nbclient through the bridge, and its slider moved by a front end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from nbclient import NotebookClient

from ..kernel_environment import environment_python
from ..lesson import CELL_DEADLINE_S, CHECKOUT, ExecutedLesson, execute_lesson, read_lesson
from ..lesson_checks import CHECKS
from .bridge_kernel import BridgeKernelManager
from .bridge_process import BridgeProcess
from .kernel_connection import KernelConnection, printed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executed_lesson(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ExecutedLesson]:
    environment_python()
    folder = tmp_path_factory.mktemp("bridge")
    state = folder / "state"
    state.mkdir(mode=0o700)
    bridge = BridgeProcess(state, CHECKOUT / "notebooks")
    try:
        await bridge.start()
        manager = BridgeKernelManager(bridge, read_lesson().metadata.kernelspec.name)
        client = NotebookClient(
            read_lesson(),
            km=manager,  # type: ignore[arg-type]  # it has what nbclient uses of a KernelManager
            timeout=CELL_DEADLINE_S,
            startup_timeout=CELL_DEADLINE_S,
            iopub_timeout=CELL_DEADLINE_S,
        )
        yield await execute_lesson(client, folder / "arrays.npz")
    finally:
        await bridge.stop()


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("cell_id", sorted(CHECKS))
async def test_the_cell_prints_the_same_through_the_bridge(
    executed_lesson: ExecutedLesson, cell_id: str
) -> None:
    CHECKS[cell_id](executed_lesson)


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_the_agent_reports_to_the_bridge_and_prints_nothing(executed_lesson: ExecutedLesson) -> None:
    assert all(line.startswith("epoch") for line in executed_lesson.lines("training"))
    assert all(line.startswith("step") for line in executed_lesson.lines("first-epoch"))


async def test_the_slider_works_both_ways(client: KernelConnection) -> None:
    cells = {cell.id: cell.source for cell in read_lesson().cells}
    await client.execute("import ipywidgets as widgets\nlearning_rate = 0.1")
    shown = await client.execute(cells["slider"])
    models = {
        m.content["data"]["state"]["_model_name"]: m.content["comm_id"]
        for m in shown
        if m.msg_type == "comm_open"
    }
    slider, sentence = models["FloatLogSliderModel"], models["LabelModel"]

    # A front end moves the handle: Python writes the sentence.
    moved = await client.send(
        "shell",
        "comm_msg",
        {"comm_id": slider, "data": {"method": "update", "state": {"value": 0.01}, "buffer_paths": []}},
    )
    await client.wait_idle(moved)
    (written,) = [
        m.content["data"]["state"]["value"]
        for m in client.answers(moved)
        if m.msg_type == "comm_msg"
        and m.content["comm_id"] == sentence
        and m.content["data"]["method"] == "update"
    ]
    assert written == "Python sees a learning rate of 0.010"
    assert printed(await client.execute("print(slider.value)")) == "0.01\n"

    # Python sets the value: the front end is notified.
    answers = await client.execute(cells["slider-set"])
    reported = [
        m.content["data"]["state"]["value"]
        for m in answers
        if m.msg_type == "comm_msg" and m.content["comm_id"] == slider
    ]
    assert reported == [0.05]
