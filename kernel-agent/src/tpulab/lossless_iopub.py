"""Lifts the send mark of ipykernel's iopub socket, so that a reader that stalls loses nothing.

ipykernel publishes on an XPUB socket with libzmq's default mark of 1000 messages per reader and drops what
comes after. The mark counts only when it is set before `bind`, and `IPKernelApp.init_iopub(context)` makes
and binds the socket in one go. So the context that it gets is a proxy which sets the mark on the socket it
makes.
"""

from __future__ import annotations

from typing import Any

import zmq
from ipykernel.kernelapp import IPKernelApp


class IopubHookError(RuntimeError):
    """ipykernel no longer makes its iopub socket in the way that this launcher lifts the mark of."""

    code = "IOPUB_HOOK"

    def __init__(self, found: str) -> None:
        super().__init__(
            f"Cannot make iopub lossless: {found}. This launcher supports ipykernel 7.4 to 7.x; "
            "install such a version in this environment, or choose a kernel without tpulab.launcher."
        )


class LosslessContext:
    """A `zmq.Context` whose publishing sockets have no send mark. Everything else is passed through."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self._context = context
        self.publishers: list[zmq.Socket[Any]] = []

    def socket(self, socket_type: int, *args: Any, **kwargs: Any) -> zmq.Socket[Any]:
        made: zmq.Socket[Any] = self._context.socket(socket_type, *args, **kwargs)
        if socket_type in (zmq.XPUB, zmq.PUB):
            made.setsockopt(zmq.SNDHWM, 0)
            self.publishers.append(made)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class LosslessKernelApp(IPKernelApp):  # type: ignore[misc]
    """`IPKernelApp` whose iopub socket queues without bound instead of dropping."""

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        proxy = LosslessContext(context)
        super().init_iopub(proxy)
        if len(proxy.publishers) != 1:
            raise IopubHookError(
                f"init_iopub made {len(proxy.publishers)} publishing sockets where one was expected"
            )
        thread = getattr(self, "iopub_thread", None)
        if getattr(thread, "socket", None) is not proxy.publishers[0]:
            raise IopubHookError("the iopub thread does not publish on the socket that init_iopub made")
