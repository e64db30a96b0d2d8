"""The text of a cell when a host fails, without the hosts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from typing import Any

import pytest

from tpulab.slice import cell_run, loss
from tpulab.slice.cell_run import CellRun
from tpulab.slice.errors import HostLostError, SliceError
from tpulab.slice.hosts import read_cell
from tpulab.slice.spec import SliceSpec

OPTIONS = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        ({"exited": -9, "oom": True}, "out of memory: its machine's kernel killed the process"),
        ({"exited": -9, "preempted": True}, "the cloud preempted its machine"),
        ({"exited": -9}, "its process was killed by SIGKILL"),
        ({"exited": -11, "tail": "Fatal Python error: x\n"}, "killed by SIGSEGV: Fatal Python error: x"),
        ({"exited": 1, "tail": "[Gloo] Error\nOSError: no\n  at f\n"}, "ended with code 1: OSError: no"),
    ],
)
def test_the_reason_states_what_is_known(reported: dict[str, Any], reason: str) -> None:
    assert loss.of_exit(reported).endswith(reason)


def test_a_connection_that_ends_is_named_with_its_last_word() -> None:
    reported = {"gone": 255, "why": "debug\nTimeout, server not responding."}
    assert loss.of_link(reported, False) == "the connection to it ended: Timeout, server not responding."
    assert loss.of_link(reported, True) == "the cloud preempted its machine"


class Hosts:
    """Replaces the group: accepts messages, and remembers signals and the end."""

    def __init__(self, count: int) -> None:
        self.spec = SliceSpec(name="try", others=("",) * (count - 1))
        self.broken: SliceError | None = None
        self.signals: list[tuple[list[int], int]] = []
        self.sent = 0

    def send_to(self, host: int, *_: Any, **__: Any) -> str:
        self.sent += 1
        return f"{host}-{self.sent}"

    def signal(self, hosts: Iterable[int], number: int) -> None:
        self.signals.append((list(hosts), number))

    def end(self, error: SliceError) -> None:
        self.broken = self.broken or error


class Scene:
    def __init__(self, code: str = "x", count: int = 3) -> None:
        self.hosts = Hosts(count)
        self.published: list[tuple[str, dict[str, Any]]] = []
        publish = lambda kind, content: self.published.append((kind, content))  # noqa: E731
        self.run = CellRun(self.hosts, read_cell(code, count), {}, publish, None, 1)  # type: ignore[arg-type]
        self.run.send(OPTIONS, {})
        for host in self.run.hosts:
            self.run.message(host, "iopub", {"header": {"msg_type": "execute_input"}, "content": {}})

    def end(self, host: int, **reply: Any) -> None:
        content = {"status": "ok", "user_expressions": {}, **reply}
        self.run.message(host, "shell", {"header": {"msg_type": "execute_reply"}, "content": content})
        idle = {"header": {"msg_type": "status"}, "content": {"execution_state": "idle"}}
        self.run.message(host, "iopub", idle)

    @property
    def warnings(self) -> str:
        return "".join(one["text"] for kind, one in self.published if kind == "stream")

    async def until_warned(self, text: str) -> None:
        async with asyncio.timeout(30):
            while text not in self.warnings:
                await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_run, "UNEVEN_S", 0.01)
    monkeypatch.setattr(cell_run, "FINAL_MESSAGES_S", 0.01)


def test_hosts_that_wait_for_one_that_failed_are_named() -> None:
    async def scene() -> None:
        cell = Scene()
        ended = asyncio.ensure_future(cell.run.finish())
        cell.end(1, status="error", ename="ValueError", evalue="no", traceback=[])
        await cell.until_warned(
            "host 1 ended with ValueError: no; hosts 0, 2 still run. Interrupt the kernel"
        )
        cell.run.interrupt()
        assert cell.hosts.signals == [([0, 2], signal.SIGINT)]
        for host in (0, 2):
            cell.end(host, status="error", ename="KeyboardInterrupt", evalue="", traceback=[])
        assert (await ended)["status"] == "error"

    asyncio.run(scene())


def test_a_second_interrupt_ends_hosts_that_did_not_answer_the_first() -> None:
    async def scene() -> None:
        cell = Scene()
        ended = asyncio.ensure_future(cell.run.finish())
        cell.run.interrupt()
        cell.end(0, status="error", ename="KeyboardInterrupt", evalue="", traceback=[])
        await cell.until_warned("No answer to the interrupt from hosts 1-2")
        cell.run.interrupt()
        reply = await ended
        assert reply["ename"] == "GroupEndedError"
        assert "hosts 1-2 did not answer the interrupt" in reply["evalue"]
        assert cell.hosts.broken is not None

    asyncio.run(scene())


def test_the_cell_ends_with_the_loss_also_on_hosts_that_wait_for_ever() -> None:
    async def scene() -> None:
        cell = Scene()
        ended = asyncio.ensure_future(cell.run.finish())
        cell.hosts.broken = HostLostError("Host 1 is lost: it died.")
        cell.run.lost(1, "it died")
        assert (await ended)["ename"] == "HostLostError"
        assert cell.hosts.signals == [([0, 2], signal.SIGINT)]
        assert "Host 1 is lost" in cell.warnings

    asyncio.run(scene())


def test_a_cell_on_some_hosts_is_warned_of_devices_of_all() -> None:
    async def scene() -> None:
        assert (
            "and jax.make_mesh speaks of devices of all hosts" in Scene("%%host 1\njax.make_mesh()").warnings
        )
        assert Scene("%%host 1\njax.local_devices()").warnings == ""
        assert Scene("jax.devices()").warnings == ""

    asyncio.run(scene())
