"""One cell on its hosts: from the request to the reply, whatever happens to a host meanwhile."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from tpulab.slice.errors import RESTART, GroupEndedError, HostLostError
from tpulab.slice.group import Group
from tpulab.slice.hosts import Cell, name_hosts, touches_whole_slice
from tpulab.slice.lead_link import ANSWER, QUESTION
from tpulab.slice.outputs import OUTPUTS, Outputs, Publish
from tpulab.slice.questions import Ask, Inputs, ProgramChecks, SpeakerDecisions

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def merge_errors(errors: Mapping[int, dict[str, Any]], hosts: Sequence[int]) -> dict[str, Any]:
    """`errors`: by host the content of a reply with `ename`, `evalue` and `traceback`; at least one."""
    groups: dict[tuple[str, str], list[int]] = {}
    for host in sorted(errors):
        error = errors[host]
        text = _ADDRESS.sub("0x", "\n".join(error["traceback"]))
        groups.setdefault((error["ename"], text), []).append(host)
    traceback: list[str] = []
    for alike in groups.values():
        fine = [host for host in hosts if host not in errors]
        rest = f"; {name_hosts(fine)} finished" if fine and len(groups) == 1 else ""
        traceback += [f"\x1b[1m{name_hosts(alike)}{rest}\x1b[0m", *errors[alike[0]]["traceback"]]
    first = errors[min(errors)]
    return {"ename": first["ename"], "evalue": first["evalue"], "traceback": traceback}


def error_content(error: BaseException) -> dict[str, Any]:
    """An error of the slice itself, without a traceback through code that is not the user's."""
    name = type(error).__name__
    return {"ename": name, "evalue": str(error), "traceback": [f"\x1b[31m{name}\x1b[0m: {error}"]}


#: While the cell runs, the fold shows the output of other hosts at this interval.
REFRESH_S = 1.0
#: Each time it is sent as a whole, and stored: many hosts with much output are shown less often.
FOLD_CHARS_PER_S = 50_000
#: After the loss of a host the others get so long to end the cell themselves.
FINAL_MESSAGES_S = 2.0
#: When some hosts are done and others are not, this is reported after so long.
UNEVEN_S = 5.0
_GLOO = re.compile(r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\.[^\n]*\n")


class CellRun:
    def __init__(
        self, group: Group, cell: Cell, parent: dict[str, Any], publish: Publish, ask: Ask, count: int
    ) -> None:
        self._group = group
        #: The request of the front end.
        self.parent = parent
        self._cell = cell
        self._count = count
        self._publish = publish
        self.hosts = cell.hosts
        self._outputs = Outputs(cell.hosts, publish, count)
        self._inputs = Inputs(cell.hosts[0], ask, self._answer)
        self._decisions = SpeakerDecisions(cell.hosts[0], self._answer)
        self._programs = ProgramChecks(cell.hosts, self._answer)
        self._tasks: set[asyncio.Task[None]] = set()
        #: Lines of gloo whose end is still missing.
        self._gloo: dict[int, str] = {}
        #: By host: the id of its request, its reply, and whether all of its output has come.
        self._requests: dict[int, str] = {}
        self._replies: dict[int, dict[str, Any]] = {}
        self._idle: set[int] = set()
        #: Hosts whose code runs, and hosts that an interrupt waits for: earlier it would be ignored there.
        self._begun: set[int] = set()
        self._interrupt_late: set[int] = set()
        self._done = asyncio.Event()
        self._failure: Exception | None = None
        self._interrupts = 0

    def send(self, options: Mapping[str, Any], metadata: dict[str, Any]) -> list[str]:
        """Starts the cell and returns the ids of its requests. `options`: from the front end."""
        if len(self.hosts) < self._group.spec.count and (call := touches_whole_slice(self._cell.code)):
            self._warn(
                f"This cell runs on {name_hosts(self.hosts)}, and {call} speaks of devices of all hosts: a "
                "computation over them would wait for the others for ever.\n"
            )
        self._silent = bool(options["silent"])
        for host in self.hosts:
            speaks = host == self.hosts[0]
            content = {
                "code": self._cell.code,
                "silent": options["silent"],
                "store_history": options["store_history"],
                "user_expressions": options["user_expressions"] if speaks else {},
                "allow_stdin": options["allow_stdin"],
                "stop_on_error": False,
            }
            self._requests[host] = self._group.send_to(
                host, "execute_request", content, metadata={**metadata, "tpulab_count": self._count}
            )
        return list(self._requests.values())

    async def finish(self) -> dict[str, Any]:
        """Waits for the end. Returns the content of the `execute_reply`."""
        tick = self._task(self._refresh())
        try:
            await self._done.wait()
        finally:
            tick.cancel()
            for task in self._tasks:
                task.cancel()
        self._outputs.refresh(ended=True)
        return self._reply()

    def message(self, host: int, channel: str, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if channel == "shell":
            if kind == "execute_reply":
                self._replies[host] = content
                self._programs.finish(host)
                self._settle(host)
        elif kind == "execute_input":
            self._begun.add(host)
            if host in self._interrupt_late:
                self._interrupt_late.remove(host)
                self._group.signal([host], signal.SIGINT)
        elif kind == "status":
            if content["execution_state"] == "idle":
                self._idle.add(host)
                self._settle(host)
        elif kind == QUESTION:
            if content["kind"] == "program":
                self._programs.question(host, content)
            else:
                commands = self._decisions if content["kind"] == "agree" else self._inputs
                self._task(commands.question(host, content))
        elif kind in OUTPUTS:
            if kind == "stream" and (host in self._gloo or "[Gloo]" in content["text"]):
                content = {**content, "text": self._without_gloo(host, content["text"])}
                if not content["text"]:
                    return
            self._outputs.add(host, kind, content)
            if self._done.is_set():
                # Output of a thread, printed after the end of the cell.
                self._outputs.refresh(ended=True)

    def _without_gloo(self, host: int, text: str) -> str:
        """The library prints a line for each connection, which may come in pieces."""
        text = _GLOO.sub("", self._gloo.pop(host, "") + text)
        begun = text.rfind("[Gloo]")
        if begun > text.rfind("\n"):
            self._gloo[host] = text[begun:]
            text = text[:begun]
        return text

    def interrupt(self) -> None:
        """The first interrupt reaches the code on all hosts; the second ends unreachable hosts."""
        self._interrupts += 1
        running = self._running()
        if self._interrupts == 1:
            self._signal(running)
            self._task(self._report_silent_hosts())
        elif self._failure is None and self._silent_reported:
            self._failure = GroupEndedError(
                f"All hosts were ended, because {name_hosts(running)} did not answer the interrupt. {RESTART}"
            )
            self._group.end(self._failure)
            self._done.set()
        else:
            self._signal(running)

    def lost(self, host: int, reason: str) -> None:
        if self._failure is not None or self._done.is_set():
            return
        self._failure = self._group.broken or HostLostError(reason)
        self._warn(f"{self._failure}\n")
        self._task(self._end_after_loss(host))

    def notice(self, text: str) -> None:
        self._warn(text)

    # --- inside ---

    _silent_reported = False
    _uneven_reported = False
    #: A silent request does not report its start.
    _silent = False

    def _running(self) -> list[int]:
        return [host for host in self.hosts if host not in self._replies]

    def _signal(self, hosts: list[int]) -> None:
        self._interrupt_late = {host for host in hosts if host not in self._begun and not self._silent}
        self._group.signal([host for host in hosts if host not in self._interrupt_late], signal.SIGINT)

    def _settle(self, host: int) -> None:
        if host in self._replies and host in self._idle:
            self._outputs.finish(host)
            if all(one in self._replies and one in self._idle for one in self.hosts):
                self._done.set()
            elif not self._uneven_reported:
                self._uneven_reported = True
                self._task(self._report_uneven())

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(max(REFRESH_S, self._outputs.fold_chars / FOLD_CHARS_PER_S))
            self._outputs.refresh()

    async def _report_uneven(self) -> None:
        await asyncio.sleep(UNEVEN_S)
        failed = {host: reply for host, reply in self._replies.items() if reply["status"] == "error"}
        if failed and self._failure is None and self._running():
            first = min(failed)
            self._warn(
                f"{name_hosts(failed)} ended with {failed[first]['ename']}: {failed[first]['evalue']}; "
                f"{name_hosts(self._running())} still run. Interrupt the kernel if they wait for it.\n"
            )

    async def _report_silent_hosts(self) -> None:
        await asyncio.sleep(UNEVEN_S)
        if self._running() and self._failure is None:
            self._silent_reported = True
            self._warn(
                f"No answer to the interrupt from {name_hosts(self._running())}: still compiling, or in code "
                "that cannot be interrupted. Interrupt again to end all hosts.\n"
            )

    async def _end_after_loss(self, host: int) -> None:
        others = [one for one in self._running() if one != host]
        if host >= 0 and others:
            self._signal(others)
            ends = asyncio.get_running_loop().time() + FINAL_MESSAGES_S
            while asyncio.get_running_loop().time() < ends and any(one in self._running() for one in others):
                await asyncio.sleep(0.05)
        assert self._group.broken is not None
        self._group.end(self._group.broken)
        self._done.set()

    def _reply(self) -> dict[str, Any]:
        if self._failure is not None:
            return self._failed(error_content(self._failure))
        errors = {host: reply for host, reply in self._replies.items() if reply["status"] != "ok"}
        if errors:
            full = {
                host: {"ename": "Aborted", "evalue": "", "traceback": [], **one}
                for host, one in errors.items()
            }
            return self._failed(merge_errors(full, self.hosts))
        spoken = self._replies[self.hosts[0]]
        return {
            "status": "ok",
            "execution_count": self._count,
            "user_expressions": spoken.get("user_expressions", {}),
            "payload": spoken.get("payload", []),
        }

    def _failed(self, error: dict[str, Any]) -> dict[str, Any]:
        self._publish("error", error)
        return {
            "status": "error",
            "execution_count": self._count,
            "user_expressions": {},
            "payload": [],
            **error,
        }

    def _answer(self, host: int, content: dict[str, Any]) -> None:
        if self._group.broken is None:
            self._group.send_to(host, ANSWER, content, control=True)

    def _warn(self, text: str) -> None:
        self._publish("stream", {"name": "stderr", "text": text})

    def _task(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
