"""ipyparallel's client: forwards the engines' messages unchanged, and sends any message to one of them."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from ipyparallel import Client
from ipyparallel.client.client import unpack_message

#: Requests whose late outputs are still assigned to a host.
MAX_REQUESTS = 16_384

#: Host, channel (`iopub` or `shell`), message. Called on the client's thread.
Deliver = Callable[[int, str, dict[str, Any]], None]


class SliceClient(Client):  # type: ignore[misc]
    """Stores no results: they would grow with each cell."""

    def __init__(self, connection: dict[str, Any], deliver: Deliver, joined: Callable[[int], None]) -> None:
        self._deliver = deliver
        self._hosts: dict[str, int] = {}
        self._joined = joined
        self._sent: collections.OrderedDict[str, int] = collections.OrderedDict()
        super().__init__(connection, timeout=60)

    def _update_engines(self, engines: dict[Any, str]) -> None:
        super()._update_engines(engines)
        for index, uuid in engines.items():
            self._hosts[uuid] = int(index)
            self._joined(int(index))

    def _unregister_engine(self, msg: dict[str, Any]) -> None:
        """The supervisor of the host reports more, and sooner."""

    @unpack_message  # type: ignore[untyped-decorator]
    def _dispatch_iopub(self, msg: dict[str, Any]) -> None:
        self._dispatch("iopub", msg)

    @unpack_message  # type: ignore[untyped-decorator]
    def _dispatch_reply(self, msg: dict[str, Any]) -> None:
        self._dispatch("shell", msg)

    def _dispatch(self, channel: str, message: dict[str, Any]) -> None:
        # Text of the streams does not name its engine.
        host = self._sent.get(message["parent_header"].get("msg_id", ""))
        if host is None:
            host = self._hosts.get(message["metadata"].get("engine", ""))
        if host is not None and message["parent_header"]:
            self._deliver(host, channel, message)

    def send_to(
        self,
        host: int,
        msg_type: str,
        content: dict[str, Any],
        *,
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
        control: bool = False,
    ) -> str:
        """Returns the id of the message."""
        message = self.session.msg(msg_type, content=content, metadata=metadata)
        # The streams, not their sockets: a send on a socket may swallow the event that a reply has come.
        stream = self._control_stream if control else self._mux_stream
        identity = self._engines[host].encode()

        identifier: str = message["header"]["msg_id"]
        self._sent[identifier] = host
        if len(self._sent) > MAX_REQUESTS:
            self._sent.popitem(last=False)

        def send() -> None:
            self.session.send(stream, message, buffers=buffers, ident=identity)

        self._io_loop.add_callback(send)
        return identifier
