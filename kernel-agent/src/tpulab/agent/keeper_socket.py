"""A connection to the keeper's unix socket: newline-delimited JSON.

One connection carries telemetry in one direction; another carries commands (`control_link`).

The keeper may end and return (it is restarted after a crash). Connecting is tried again with growing
pauses; nothing here ever raises or waits longer than `SEND_TIMEOUT_S`.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import MutableSequence
from typing import Any

from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.plain import encode

SEND_TIMEOUT_S = 1.0
#: Size of one send: the keeper need not read more than this within the time-out.
CHUNK_BYTES = 32 * 1024
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0


class KeeperSocket:
    """Connection to one socket path. Used by one thread only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._pause_s = FIRST_PAUSE_S
        self._next_try_ns = 0

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def connect(self, *, at_once: bool = False) -> bool:
        """Tries to connect, except during a retry pause (`at_once` ignores the pause). True: connected."""
        if self._socket is not None or (now_ns() < self._next_try_ns and not at_once):
            return False
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(SEND_TIMEOUT_S)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            self._next_try_ns = now_ns() + int(self._pause_s * 1e9)
            self._pause_s = min(self._pause_s * 2, MAX_PAUSE_S)
            return False
        self._socket = made
        self._pause_s = FIRST_PAUSE_S
        return True

    def wait_s(self) -> float:
        """Seconds until the next connection attempt is due."""
        return max(0.0, (self._next_try_ns - now_ns()) / 1e9)

    def send(self, messages: MutableSequence[Any]) -> bool:
        """Sends whole messages and removes them from the list. False: the connection is lost; send only the
        rest on the next one: a slow keeper would otherwise receive the same messages again and again.

        A message that was cut off ends with the connection, so the keeper never sees two halves as one line.
        """
        while messages and self._socket is not None:
            part: list[bytes] = []
            while len(part) < len(messages) and sum(map(len, part)) < CHUNK_BYTES:
                part.append(encode(messages[len(part)]))
            rest, left = memoryview(b"".join(part)), len(part)
            try:
                while rest:
                    rest = rest[self._socket.send(rest) :]
                left = 0
            except OSError:
                # Keep the messages at the end of this part that were sent incompletely: they are sent again.
                while left and sum(map(len, part[len(part) - left + 1 :])) >= len(rest):
                    left -= 1
                self._drop()
            del messages[: len(part) - left]
        return self._socket is not None

    def fileno(self) -> int | None:
        return self._socket.fileno() if self._socket is not None else None

    def receive(self) -> bytes | None:
        """Returns the received data. None: the connection is lost."""
        if self._socket is None:
            return None
        try:
            data = self._socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._drop()
            return None
        return data

    def check(self) -> None:
        """Notices that the keeper has closed its side, so that an idle kernel reconnects too."""
        if self._socket is None:
            return
        # Not `recv` alone: on a socket with a timeout it would wait, MSG_DONTWAIT or not.
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        try:
            ended = bool(poller.poll(0)) and self._socket.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            ended = True
        if ended:
            self._drop()

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _drop(self) -> None:
        self.close()
        self._next_try_ns = now_ns() + int(self._pause_s * 1e9)
