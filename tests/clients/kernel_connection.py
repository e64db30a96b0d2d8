"""One client of a kernel at the bridge: a channels socket with requests and their replies."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from .bridge_process import BridgeProcess
from .v1_frames import SUBPROTOCOL, Message, decode, encode

REPLY_DEADLINE_S = 180


@dataclass
class KernelConnection:
    """Speaks the v1 subprotocol. `messages` stores all received messages, in order."""

    bridge: BridgeProcess
    kernel_id: str
    session_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    messages: list[Message] = field(default_factory=list)
    listener: Callable[[Message], None] | None = None
    _socket: ClientConnection | None = None
    _reader: asyncio.Task[None] | None = None
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        base = self.bridge.url.replace("http", "ws", 1)
        self._socket = await connect(
            f"{base}/api/kernels/{self.kernel_id}/channels?session_id={self.session_id}",
            additional_headers={"Authorization": f"token {self.bridge.token}"},
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            max_size=None,
            compression=None,
            # The library's own limits are for servers on machines that do nothing else.
            open_timeout=REPLY_DEADLINE_S,
            ping_timeout=REPLY_DEADLINE_S,
        )
        assert self._socket.subprotocol == SUBPROTOCOL
        self._reader = asyncio.create_task(self._read(self._socket))

    async def close(self) -> None:
        if self._socket:
            await self._socket.close()
        if self._reader:
            await self._reader

    def abort(self) -> None:
        """Cuts the connection without a closing handshake, as a lost network does."""
        assert self._socket
        self._socket.transport.abort()

    @property
    def is_open(self) -> bool:
        return self._reader is not None and not self._reader.done()

    async def closed(self) -> int | None:
        """Waits until the other side has closed; the close code, if there was one."""
        assert self._socket
        assert self._reader
        await asyncio.wait_for(asyncio.shield(self._reader), REPLY_DEADLINE_S)
        return self._socket.close_code

    async def send(
        self, channel: str, msg_type: str, content: dict[str, Any], buffers: tuple[bytes, ...] = ()
    ) -> str:
        """Sends a request; its msg_id."""
        assert self._socket
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": msg_type,
            "session": self.session_id,
            "username": "test",
            "date": datetime.now(UTC).isoformat(),
            "version": "5.4",
        }
        await self._socket.send(encode(channel, [header, {}, {}, content], buffers))
        return header["msg_id"]

    async def request_execute(
        self, code: str, *, allow_stdin: bool = False, store_history: bool = True, stop_on_error: bool = True
    ) -> str:
        content = {
            "code": code,
            "silent": False,
            "store_history": store_history,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": stop_on_error,
        }
        return await self.send("shell", "execute_request", content)

    async def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message, received or still to come, that `wanted` accepts."""

        inspected = 0

        def found() -> Message | None:
            # Each message once: a flood has too many to rescan them for each.
            nonlocal inspected
            for message in self.messages[inspected:]:
                inspected += 1
                if wanted(message):
                    return message
            return None

        async with asyncio.timeout(REPLY_DEADLINE_S), self._arrived:
            while (message := found()) is None:
                await self._arrived.wait()
            return message

    async def wait_idle(self, msg_id: str) -> None:
        await self.wait_for(
            lambda m: (
                m.parent_id == msg_id and m.msg_type == "status" and m.content["execution_state"] == "idle"
            )
        )

    async def execute(self, code: str) -> list[Message]:
        """Runs code to its end; all messages that answer it, in order, the reply included."""
        msg_id = await self.request_execute(code)
        await self.wait_for(lambda m: m.parent_id == msg_id and m.msg_type == "execute_reply")
        await self.wait_idle(msg_id)
        return self.answers(msg_id)

    def answers(self, msg_id: str) -> list[Message]:
        return [message for message in self.messages if message.parent_id == msg_id]

    async def _read(self, socket: ClientConnection) -> None:
        # A lost connection ends the reading too; the test checks the close code.
        with contextlib.suppress(ConnectionClosed):
            await self._receive(socket)

    async def _receive(self, socket: ClientConnection) -> None:
        async for frame in socket:
            assert isinstance(frame, bytes), "a v1 socket carries binary frames only"
            async with self._arrived:
                message = decode(frame)
                self.messages.append(message)
                if self.listener:
                    self.listener(message)
                self._arrived.notify_all()


def printed(messages: list[Message]) -> str:
    """What the messages print on stdout, each message counted once."""
    seen: set[str] = set()
    parts = []
    for message in messages:
        if (
            message.msg_type == "stream"
            and message.content["name"] == "stdout"
            and message.msg_id not in seen
        ):
            seen.add(message.msg_id)
            parts.append(message.content["text"])
    return "".join(parts)
