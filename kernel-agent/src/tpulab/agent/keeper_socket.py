"""A connection to the keeper's unix socket: newline-delimited JSON.

Telemetry goes one way on one of them; another carries commands (`control_link`).

The keeper may go away and come back (it is restarted after a crash). Connecting is tried again with growing
pauses; nothing here ever raises or waits longer than `SEND_TIMEOUT_S`.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Sequence

from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.messages import ControlHello, FenceMessage, Message
from tpulab.telemetry.plain import encode

SEND_TIMEOUT_S = 1.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


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

    def connect(self) -> bool:
        """Tries to connect unless a pause is running. True: a new connection was made."""
        if self._socket is not None or now_ns() < self._next_try_ns:
            return False
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(SEND_TIMEOUT_S)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            self._next_try_ns = now_ns() + int(self._pause_s * 1e9)
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
            return False
        self._socket = made
        self._pause_s = FIRST_PAUSE_S
        return True

    def wait_s(self) -> float:
        """Seconds until the next try to connect is due."""
        return max(0.0, (self._next_try_ns - now_ns()) / 1e9)

    def send(self, messages: Sequence[Message | ControlHello | FenceMessage]) -> bool:
        """Sends messages whole. False: the connection is gone; send them again on the next one.

        A message that was cut off ends with the connection, so the keeper never sees two halves as one line.
        """
        if self._socket is None:
            return False
        try:
            self._socket.sendall(b"".join(map(encode, messages)))
        except OSError:
            self._drop()
            return False
        return True

    def fileno(self) -> int | None:
        return self._socket.fileno() if self._socket is not None else None

    def receive(self) -> bytes | None:
        """What has come. None: the connection is gone."""
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
        """Notices that the keeper has closed its side, so that an idle kernel comes back too."""
        if self._socket is None:
            return
        # Not `recv` alone: on a socket with a timeout it would wait, MSG_DONTWAIT or not.
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        try:
            gone = bool(poller.poll(0)) and self._socket.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            gone = True
        if gone:
            self._drop()

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _drop(self) -> None:
        self.close()
        self._next_try_ns = now_ns() + int(self._pause_s * 1e9)
