"""Lets messages to chosen comms through while a cell is busy.

ipykernel reads the shell socket on a separate thread and queues a message of a comm for the main thread,
which is busy with the cell. A route set here checks each message on that thread: messages to a live comm are
processed while a cell runs, and everything else continues unchanged. Messages of the bridge and of other
clients, including signatures and order, are unchanged.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tpulab.telemetry.guarded import start_thread

#: Long enough for a busy machine: without the route a live widget acts only when its cell has ended.
INSTALL_TIMEOUT_S = 60.0
#: A dragged slider sends some tens a second. The oldest are dropped first; the newest value counts.
MAX_MESSAGES = 1024

Deliver = Callable[[Any, dict[str, Any]], None]


class LiveRouteError(RuntimeError):
    """This ipykernel receives its messages in a way that the route does not support."""

    code = "LIVE_ROUTE"


class LiveRoute:
    """One per kernel. `pump` delivers the accepted messages; on the main thread only."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._waiting: deque[tuple[Any, dict[str, Any]]] = deque(maxlen=MAX_MESSAGES)
        self._immediate: deque[tuple[Any, dict[str, Any]]] = deque(maxlen=MAX_MESSAGES)
        self._news = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        #: the request of the running cell; changed and reported under the lock: no busy comes after its idle
        self._cell: dict[str, Any] | None = None
        self._cell_lock = threading.Lock()
        #: comm id to whether its callbacks run immediately, on a separate thread
        self.comms: dict[str, bool] = {}

    @classmethod
    def install(cls, kernel: Any) -> LiveRoute:
        """Puts a route into a running kernel. Raises `LiveRouteError`."""
        thread = getattr(kernel, "shell_channel_thread", None)
        stream = getattr(kernel, "shell_stream", None)
        original = getattr(kernel, "shell_channel_thread_main", None)
        lock = getattr(kernel, "_main_asyncio_lock", None)
        if thread is None or stream is None or not callable(original) or not hasattr(lock, "locked"):
            raise LiveRouteError("this kernel reads messages on the thread that runs cells")
        route = cls(kernel)
        route._follow_cells()

        async def receive(message: Any) -> None:
            if not route._take(message):
                await original(message)

        done = threading.Event()

        def put() -> None:
            stream.on_recv(receive, copy=False)
            done.set()

        thread.io_loop.add_callback(put)
        if not done.wait(INSTALL_TIMEOUT_S):
            raise LiveRouteError(f"the kernel's message thread did not answer within {INSTALL_TIMEOUT_S:g} s")
        return route

    def pump(self) -> None:
        """Delivers the accepted messages, in order. Does nothing on another thread than the main one."""
        if not self._waiting or threading.current_thread() is not threading.main_thread():
            return
        while self._waiting:
            comm, message = self._waiting.popleft()
            deliver(comm, message)

    def _take(self, frames: Any) -> bool:
        """On the message thread: whether the message was accepted. Anything odd is queued as usual."""
        if not self.comms:
            return False
        try:
            kernel = self._kernel
            if not kernel._main_asyncio_lock.locked():
                return False
            session = kernel.session
            _, parts = session.feed_identities(frames, copy=False)
            header = session.unpack(parts[1].bytes)
            if header.get("msg_type") != "comm_msg":
                return False
            comm_id = session.unpack(parts[4].bytes).get("comm_id")
            immediate = self.comms.get(comm_id)
            comm = kernel.comm_manager.get_comm(comm_id) if immediate is not None else None
            if comm is None:
                return False
            # In full, and the signature with it: no message is checked twice.
            message = session.deserialize(parts, content=True, copy=False)
            kernel._publish_status("busy", "shell", parent=message)
            try:
                self._accept(comm, message, immediate=bool(immediate))
            finally:
                kernel._publish_status("idle", "shell", parent=message)
                self._report_busy()
        except Exception as error:
            self._kernel.log.warning(
                "tpulab: a message to a live widget is handled after the cell: %r", error
            )
            return False
        return True

    def _follow_cells(self) -> None:
        shell, main = self._kernel.shell, threading.main_thread()
        if threading.current_thread() is main:
            # Added by a cell that has already started.
            self._cell = self._kernel.get_parent("shell")

        def begins(_info: Any) -> None:
            if threading.current_thread() is main:
                self._cell = self._kernel.get_parent("shell")

        def ends(_result: Any) -> None:
            if threading.current_thread() is main:
                with self._cell_lock:
                    self._cell = None

        shell.events.register("pre_run_cell", begins)
        shell.events.register("post_run_cell", ends)

    def _report_busy(self) -> None:
        """A client takes the newest status as the kernel's, which is still busy with its cell."""
        with self._cell_lock:
            if self._cell:
                self._kernel._publish_status("busy", "shell", parent=self._cell)

    def _accept(self, comm: Any, message: dict[str, Any], *, immediate: bool) -> None:
        if immediate:
            self._immediate.append((comm, message))
            self._ensure_thread()
            self._news.release()
            return
        self._waiting.append((comm, message))
        # For a cell that awaits, and for a cell that ends before its next step.
        self._kernel.io_loop.add_callback(self.pump)

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = start_thread("tpulab-live", self._deliver_at_once)

    def _deliver_at_once(self) -> None:
        while True:
            self._news.acquire()
            if self._immediate:
                comm, message = self._immediate.popleft()
                deliver(comm, message)


def deliver(comm: Any, message: dict[str, Any]) -> None:
    """Hands a message to its comm. An exception of a callback is printed on stderr, as in an idle kernel."""
    try:
        comm.handle_msg(message)
    except Exception as error:
        sys.stderr.write(f"[tpulab] a callback of a live widget failed: {error!r}\n")
