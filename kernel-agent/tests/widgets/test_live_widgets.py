"""Widgets that act while a synchronous cell is busy, in a real kernel, with messages of a client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keeper_double import PATIENCE_S
from kernel_process import LAUNCHER, STOCK, KernelProcess

SETUP = """
import threading, time
import ipywidgets
import tpulab
slider = ipywidgets.IntSlider(value=1)
button = ipywidgets.Button()
seen = []
def note(what):
    main = threading.current_thread() is threading.main_thread()
    seen.append((what, "main" if main else threading.current_thread().name))
slider.observe(lambda change: note(change["new"]), "value")
button.on_click(lambda _: note("clicked"))
print(slider.comm.comm_id, button.comm.comm_id)
"""


class BusyCell:
    """A cell that has been started and has printed `ready`."""

    def __init__(self, kernel: KernelProcess, code: str) -> None:
        self._kernel = kernel
        self.client = kernel.client
        self._request = self.client.execute("print('ready', flush=True)\n" + code)
        self.printed = ""
        #: ipywidgets' output about failed callbacks, or the cell's own failure
        self.errors: list[str] = []
        while "ready\n" not in self.printed:
            self._next()

    def send(self, comm_id: str, data: dict[str, Any]) -> str:
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        self.client.shell_channel.send(message)
        identity: str = message["header"]["msg_id"]
        return identity

    def set(self, comm_id: str, value: object) -> str:
        return self.send(comm_id, {"method": "update", "state": {"value": value}, "buffer_paths": []})

    def click(self, comm_id: str) -> str:
        return self.send(comm_id, {"method": "custom", "content": {"event": "click"}})

    def statuses(self, request: str) -> list[str]:
        """Reads until the kernel has sent `idle` for a message."""
        found: list[str] = []
        while "idle" not in found:
            message = self._next()
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "status":
                found.append(message["content"]["execution_state"])
        return found

    def status(self) -> str:
        """The next message of the cell itself."""
        while True:
            message = self._next()
            if message["parent_header"].get("msg_id") == self._request and message["msg_type"] == "status":
                state: str = message["content"]["execution_state"]
                return state

    def end(self) -> str:
        self._kernel._reply_to(self._request)
        while True:
            message = self._next()
            state = message["content"].get("execution_state")
            if message["parent_header"].get("msg_id") == self._request and state == "idle":
                return self.printed.removeprefix("ready\n")

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = self.client.get_iopub_msg(timeout=PATIENCE_S)
        if message["parent_header"].get("msg_id") == self._request:
            if message["msg_type"] == "stream":
                self.printed += message["content"]["text"]
            if message["msg_type"] == "error":
                self.errors.append(message["content"]["evalue"])
        return message


@pytest.fixture(params=["launcher"])
def kernel(request: pytest.FixtureRequest, short_folder: Path) -> Iterator[KernelProcess]:
    arguments = LAUNCHER if request.param == "launcher" else STOCK
    with KernelProcess(short_folder, arguments, env={"TPULAB_TEXT": "0"}) as started:
        yield started


@pytest.mark.parametrize("kernel", ["launcher", "stock"], indirect=True)
def test_a_slider_changes_what_a_busy_cell_reads(kernel: KernelProcess) -> None:
    slider, _ = kernel.run(SETUP).split()
    kernel.run("speed = tpulab.live(slider)")
    cell = BusyCell(kernel, "while speed.value != 7:\n    time.sleep(0.002)\nprint(seen)")
    sent = cell.set(slider, 2)
    assert cell.statuses(sent) == ["busy", "idle"]
    # A client shows the last message: the cell is not over.
    assert cell.status() == "busy"
    cell.set(slider, 7)
    assert cell.end() == "[(2, 'main'), (7, 'main')]\n"


def test_a_spinning_loop_gets_values_in_order_and_between_its_steps(kernel: KernelProcess) -> None:
    slider, button = kernel.run(SETUP).split()
    kernel.run("tpulab.live(ipywidgets.HBox([slider, button]))")
    cell = BusyCell(
        kernel,
        "in_step = False\n"
        "slider.observe(lambda _: seen.append('in a step' if in_step else 'between'), 'value')\n"
        "for _ in tpulab.steps(range(10**9)):\n"
        "    in_step = True\n"
        "    for spin in range(1000): pass\n"
        "    in_step = False\n"
        "    if ('clicked', 'main') in seen: break\n"
        "print(seen)",
    )
    for value in (2, 3):
        cell.set(slider, value)
    cell.click(button)
    assert cell.end() == "[(2, 'main'), 'between', (3, 'main'), 'between', ('clicked', 'main')]\n"


def test_immediate_callbacks_run_at_once_on_a_separate_thread(kernel: KernelProcess) -> None:
    _, button = kernel.run(SETUP).split()
    kernel.run("tpulab.live(button, immediate=True)")
    cell = BusyCell(kernel, "while not seen: pass\nprint(seen)")
    cell.click(button)
    assert cell.end() == "[('clicked', 'tpulab-live')]\n"


def test_a_message_that_no_step_follows_is_delivered_when_the_cell_ends(kernel: KernelProcess) -> None:
    slider, _ = kernel.run(SETUP).split()
    kernel.run("live = tpulab.live(slider)")
    waits = "while not live_widget._route._waiting: pass"
    cell = BusyCell(kernel, f"from tpulab.widgets import live_widget\n{waits}")
    cell.set(slider, 4)
    cell.end()
    assert kernel.run("print(seen, slider.value)") == "[(4, 'main')] 4\n"
    # Idle: the usual route.
    idle = kernel.client.session.msg(
        "comm_msg", {"comm_id": slider, "data": {"method": "update", "state": {"value": 5}}}
    )
    kernel.client.shell_channel.send(idle)
    assert kernel.run("print(seen[-1], live.value)") == "(5, 'main') 5\n"


def test_a_closed_handle_and_other_widgets_wait_for_the_end_of_the_cell(kernel: KernelProcess) -> None:
    slider, button = kernel.run(SETUP).split()
    kernel.run("live = tpulab.live(slider)\nother = tpulab.live(button)\nlive.close()")
    cell = BusyCell(kernel, "for _ in tpulab.steps(range(10**9)):\n    if seen: break\nprint(seen)")
    cell.set(slider, 9)
    cell.click(button)
    assert cell.end() == "[('clicked', 'main')]\n"
    assert kernel.run("print(seen)") == "[('clicked', 'main'), (9, 'main')]\n"


def test_a_callback_that_raises_is_reported_and_ends_nothing(kernel: KernelProcess) -> None:
    _, button = kernel.run(SETUP).split()
    kernel.run("def fails(_):\n    raise ValueError('no')\nbutton.on_click(fails)\ntpulab.live(button)")
    cell = BusyCell(kernel, "for _ in tpulab.steps(range(10**9)):\n    if seen: break\nprint('done')")
    cell.click(button)
    assert cell.end() == "done\n"
    assert cell.errors == ["no"]


def test_only_widgets_can_be_live(kernel: KernelProcess) -> None:
    code = "import tpulab\ntry:\n    tpulab.live(3)\nexcept TypeError as error:\n    print(error.code, error)"
    assert kernel.run(code) == "LIVE_WIDGET int is not an open ipywidget.\n"
