"""Lifts the send mark of ipykernel's iopub socket, so that a reader that stalls loses nothing.

ipykernel publishes on an XPUB socket with libzmq's default mark of 1000 messages per reader and drops
later ones. Instead the queue is either unbounded (memory grows while the reader stalls), or it has a
mark: the iopub thread then waits, and a cell that flushes waits for that thread, up to ipykernel's 10 s a
flush.

The mark takes effect only when it is set before `bind`, and `IPKernelApp.init_iopub(context)` makes and
binds the socket together. So it receives a proxy context, which sets the mark on each new socket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import zmq
from ipykernel import subshell_manager
from ipykernel.kernelapp import IPKernelApp
from ipykernel.socket_pair import SocketPair
from traitlets import Enum, Int, default

#: `unbounded` or `block`: the behaviour of a kernel that prints faster than its reader reads.
QUEUE_VARIABLE = "TPULAB_IOPUB_QUEUE"

UNBOUNDED: Mapping[int, int] = {zmq.SNDHWM: 0}


class IopubHookError(RuntimeError):
    """ipykernel no longer creates its iopub socket in the way that this launcher relies on."""

    code = "IOPUB_HOOK"

    def __init__(self, found: str) -> None:
        super().__init__(
            f"Cannot make iopub lossless: {found}. This launcher supports ipykernel 7.4 to 7.x; "
            "install such a version in this environment, or choose a kernel without tpulab.launcher."
        )


class LosslessContext:
    """A `zmq.Context` whose publishing sockets drop nothing. Everything else is passed through."""

    def __init__(self, context: zmq.Context[Any], options: Mapping[int, int] = UNBOUNDED) -> None:
        self._context = context
        self._options = options
        self.publishers: list[zmq.Socket[Any]] = []

    def socket(self, socket_type: int, *args: Any, **kwargs: Any) -> zmq.Socket[Any]:
        made: zmq.Socket[Any] = self._context.socket(socket_type, *args, **kwargs)
        if socket_type in (zmq.XPUB, zmq.PUB):
            for option, value in self._options.items():
                made.setsockopt(option, value)
            self.publishers.append(made)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class UnboundedPair(SocketPair):  # type: ignore[misc]
    """ipykernel passes requests to its main thread, and replies back, through pairs of sockets. Where
    thousands wait, both pairs reach their mark, and each thread would wait for the other for ever."""

    def __init__(self, context: zmq.Context[Any], name: str) -> None:
        unbounded: zmq.Context[Any] = zmq.Context(context)
        unbounded.sndhwm = unbounded.rcvhwm = 0
        super().__init__(unbounded, name)


subshell_manager.SocketPair = UnboundedPair


class LosslessKernelApp(IPKernelApp):  # type: ignore[misc]
    """`IPKernelApp` whose iopub socket drops nothing."""

    iopub_queue = Enum(
        ["unbounded", "block"],
        help="what to do with unread outputs: keep them in memory, or make the cell wait",
    ).tag(config=True)
    iopub_mark = Int(10_000, min=1, help="number of unread messages above which the cell waits").tag(
        config=True
    )

    @default("iopub_queue")
    def _iopub_queue_default(self) -> str:
        return os.environ.get(QUEUE_VARIABLE) or "unbounded"

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        blocks = self.iopub_queue == "block"
        # XPUB_NODROP: a send at the mark fails instead of dropping the message.
        proxy = LosslessContext(
            context, {zmq.SNDHWM: self.iopub_mark, zmq.XPUB_NODROP: 1} if blocks else UNBOUNDED
        )
        super().init_iopub(proxy)
        if len(proxy.publishers) != 1:
            raise IopubHookError(
                f"init_iopub made {len(proxy.publishers)} publishing sockets where one was expected"
            )
        thread = getattr(self, "iopub_thread", None)
        if getattr(thread, "socket", None) is not proxy.publishers[0]:
            raise IopubHookError("the iopub thread does not publish on the socket that init_iopub made")
