"""The lead: an ordinary kernel to Jupyter, with one engine per host behind it. It runs no user code."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import hashlib
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zmq
from ipykernel.ipkernel import IPythonKernel

from tpulab.slice.cell_run import CellRun, error_content
from tpulab.slice.errors import SliceError
from tpulab.slice.group import Group
from tpulab.slice.hosts import read_cell
from tpulab.slice.outputs import OUTPUTS
from tpulab.slice.spec import SliceSpec


class CommHosts:
    def __init__(self) -> None:
        #: By id: the host, and the name of the target.
        self._known: dict[str, tuple[int, str]] = {}

    def received(self, host: int, kind: str, content: dict[str, Any]) -> None:
        """A host opened or closed a comm."""
        if kind == "comm_open":
            self._known[content["comm_id"]] = (host, content.get("target_name", ""))
        elif kind == "comm_close":
            self._known.pop(content.get("comm_id", ""), None)

    def host_for(self, kind: str, content: dict[str, Any]) -> int:
        """The target of a message of the page: the comm's host. Comms of the page belong to process 0."""
        identifier = content.get("comm_id", "")
        host, _ = self._known.get(identifier, (0, ""))
        self.received(0 if kind == "comm_open" else host, kind, content)
        return 0 if kind == "comm_open" else host

    def info(self, target: str | None) -> dict[str, dict[str, str]]:
        """The comms of a target, or all."""
        return {
            identifier: {"target_name": name}
            for identifier, (_, name) in self._known.items()
            if not target or name == target
        }


#: Completion and inspection use process 0, which may be busy.
QUESTION_S = 30.0
#: Cells and comm messages whose late outputs are still assigned.
MAX_PARENTS = 1024
_STDIN_POLL_S = 0.02
_COMMS = ("comm_open", "comm_msg", "comm_close")

spec_file: Path | None = None


class SliceKernel(IPythonKernel):  # type: ignore[misc]
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert spec_file is not None
        self.spec = SliceSpec.load(spec_file)
        self.group: Group | None = None
        self._cell: CellRun | None = None
        #: Publishes for the cell that waits until all hosts have joined.
        self._starting: Callable[[str, dict[str, Any]], None] | None = None
        #: By the id of a message to a host: the front end's request that it represents.
        self._parents: collections.OrderedDict[str, dict[str, Any]] = collections.OrderedDict()
        #: By the id of a request to a host. Late outputs find their cell.
        self._runs: collections.OrderedDict[str, CellRun] = collections.OrderedDict()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._comms = CommHosts()
        for kind in _COMMS:
            self.shell_handlers[kind] = functools.partial(self._comm_of_page, kind)

    @property
    def kernel_info(self) -> dict[str, Any]:
        info: dict[str, Any] = super().kernel_info
        # A debugger would stop one process in front of a computation that the others enter.
        features = [feature for feature in info.get("supported_features", ()) if feature != "debugger"]
        return {**info, "supported_features": features, "debugger": False}

    def start(self) -> None:
        super().start()
        self.io_loop.add_callback(self._begin)

    def _begin(self) -> None:
        self.group = Group(self.spec, self, self.log, _place_name(self.parent.connection_file))

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        self.close_group()
        return {"status": "ok", "restart": restart}

    def close_group(self) -> None:
        if self.group is not None:
            self.group.close()

    # --- cells ---

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,  # noqa: ARG002 - it is in the metadata too
    ) -> dict[str, Any]:
        parent = self.get_parent("shell")
        ident = self._get_shell_context_var(self._shell_parent_ident)
        count = self.shell.execution_count
        publish = functools.partial(self._publish, parent)
        self._starting = publish
        self._allow_stdin = allow_stdin
        if store_history and not silent:
            self.shell.history_manager.store_inputs(count, code)
            self.shell.execution_count += 1
        with self._interrupts() as interrupted:
            try:
                cell = read_cell(code, self.spec.count)
                assert self.group is not None
                await _first(self.group.ready(), interrupted)
                ask = functools.partial(self._request, ident, parent)
                run = self._cell = CellRun(self.group, cell, parent, publish, ask, count)
                options = {
                    "silent": silent,
                    "store_history": store_history,
                    "user_expressions": user_expressions or {},
                    "allow_stdin": allow_stdin,
                }
                for request in run.send(options, dict(cell_meta or {})):
                    self._runs[request] = run
                _keep_newest(self._runs)
                return await run.finish()
            except (SliceError, KeyboardInterrupt) as error:
                content = error_content(error)
                if not silent:
                    publish("error", content)
                return {"status": "error", "execution_count": count, **content}
            finally:
                self._cell = self._starting = None

    @contextlib.contextmanager
    def _interrupts(self) -> Iterator[asyncio.Event]:
        """While the cell runs, an interrupt is sent to its hosts; before that, it ends the wait for them."""
        early = asyncio.Event()

        def interrupt() -> None:
            if self._cell is not None:
                self._cell.interrupt()
            else:
                early.set()

        def handle(*_: object) -> None:
            self.io_loop.add_callback_from_signal(interrupt)

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield early
        finally:
            signal.signal(signal.SIGINT, before)

    async def _request(self, ident: Any, parent: dict[str, Any], prompt: str, password: bool) -> str | None:
        """The user's input; None: end of file, also where the front end cannot ask."""
        if not self._allow_stdin:
            return None
        with contextlib.suppress(zmq.Again):
            while True:  # answers to prompts that no longer wait
                self.stdin_socket.recv_multipart(zmq.NOBLOCK)
        question = {"prompt": prompt, "password": password}
        self.session.send(self.stdin_socket, "input_request", question, parent, ident=ident)
        while True:
            _, reply = self.session.recv(self.stdin_socket, zmq.NOBLOCK)
            if reply is not None:
                value = str(reply["content"].get("value", ""))
                return None if value == "\x04" else value
            await asyncio.sleep(_STDIN_POLL_S)

    # --- completion and inspection ---

    async def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        answer = await self._request_first("complete_request", {"code": code, "cursor_pos": cursor_pos})
        nothing = {"matches": [], "cursor_start": cursor_pos, "cursor_end": cursor_pos, "metadata": {}}
        return answer or {"status": "ok", **nothing}

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        content = {
            "code": code,
            "cursor_pos": cursor_pos,
            "detail_level": detail_level,
            "omit_sections": list(omit_sections),
        }
        answer = await self._request_first("inspect_request", content)
        return answer or {"status": "ok", "found": False, "data": {}, "metadata": {}}

    async def _request_first(self, kind: str, content: dict[str, Any]) -> dict[str, Any] | None:
        if self.group is None or not self.group.is_ready or self._cell is not None:
            return None
        request = self.group.send_to(0, kind, content)
        return await self._answer_to(request)

    async def _answer_to(self, request: str) -> dict[str, Any] | None:
        """None when the host takes too long."""
        self._answers[request] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(QUESTION_S):
                return await self._answers[request]
        except TimeoutError:
            return None
        finally:
            del self._answers[request]

    # --- comms ---

    async def _comm_of_page(self, kind: str, _stream: Any, _ident: Any, message: dict[str, Any]) -> None:
        if self.group is None or not self.group.is_ready:
            return
        host = self._comms.host_for(kind, message["content"])
        content, more = message["content"], {name: message[name] for name in ("metadata", "buffers")}
        request = self.group.send_to(host, kind, content, **more)
        self._parents[request] = message
        _keep_newest(self._parents)
        if self._cell is None:
            # The request is reported as idle when its host is: pages wait for that before they send the next.
            await self._answer_to(request)

    async def comm_info_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        comms = self._comms.info(parent["content"].get("target_name"))
        self.session.send(stream, "comm_info_reply", {"comms": comms, "status": "ok"}, parent, ident)

    # --- messages of the group ---

    def message(self, host: int, channel: str, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        requested = message["parent_header"].get("msg_id", "")
        waiting = self._answers.get(requested)
        if waiting is not None and not waiting.done():
            # A comm message has no reply: it is done when its host is idle.
            is_idle = kind == "status" and content["execution_state"] == "idle"
            if is_idle if requested in self._parents else channel == "shell":
                waiting.set_result(content)
        run = self._runs.get(requested)
        if channel == "iopub" and kind in _COMMS:
            self._comms.received(host, kind, content)
            parent = run.parent if run is not None else self._parents.get(requested, {})
            self._publish(parent, kind, content, message["metadata"], message["buffers"])
        elif run is not None:
            run.message(host, channel, message)
        elif channel == "iopub" and kind in OUTPUTS and requested in self._parents:
            # Output of a widget's callback.
            self._publish(self._parents[requested], kind, content)

    def lost(self, host: int, reason: str) -> None:
        if self._cell is not None:
            self._cell.lost(host, reason)
        elif self.group is not None and self.group.broken is not None:
            self.log.warning("tpulab: %s", self.group.broken)
            self.group.end(self.group.broken)

    def notice(self, host: int, text: str) -> None:  # noqa: ARG002 - the text names it
        if self._cell is not None:
            self._cell.notice(text)
        elif self._starting is not None:
            self._starting("stream", {"name": "stderr", "text": text})
        self.log.warning("tpulab: %s", text.rstrip())

    def _publish(
        self,
        parent: dict[str, Any],
        kind: str,
        content: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
    ) -> None:
        self.session.send(
            self.iopub_socket,
            kind,
            content,
            parent=parent,
            ident=self._topic(kind),
            metadata={name: value for name, value in (metadata or {}).items() if name != "engine"},
            buffers=buffers,
        )


def _place_name(connection_file: str) -> str:
    """A name of this kernel on all hosts: its connection file is the same after a restart."""
    return hashlib.sha256(f"{socket.gethostname()}:{connection_file}".encode()).hexdigest()[:16]


def _keep_newest(kept: collections.OrderedDict[str, Any]) -> None:
    while len(kept) > MAX_PARENTS:
        kept.popitem(last=False)


async def _first(waiting: Any, interrupted: asyncio.Event) -> None:
    """Waits; raises KeyboardInterrupt on an earlier interrupt."""
    wait, stop = asyncio.ensure_future(waiting), asyncio.ensure_future(interrupted.wait())
    try:
        await asyncio.wait((wait, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
    if not wait.done():
        wait.cancel()
        raise KeyboardInterrupt("The hosts still start; run the cell again to wait for them.")
    wait.result()
