"""Sends a keeper that takes over the messages that the previous keeper has not recorded.

A unix socket with a separate thread, which never needs the main thread: it works while a cell runs, and only
code that holds the GIL delays it. The keeper writes one JSON object per line. Answers are frames `u32 length
| u8 kind | body`, little-endian:

kind 1: JSON. First `{"hello": 1, "pid": …}`, then one for each request.
kind 2: a message: `u8 channel | u16 frames | (u32 length | bytes)…`, channel as an index into `CHANNELS`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import socket
import struct
import threading
from typing import Any

from tpulab.launcher.send_ring import CHANNELS, Frames, SendRing

#: A keeper that does not read for so long is disconnected; it can connect again.
SEND_TIMEOUT_S = 60.0
#: Answers are written in pieces of about this size, so that a full ring is not copied whole.
PIECE_BYTES = 1024 * 1024
MAX_LINE_BYTES = 64 * 1024
MAX_CONNECTIONS = 4

JSON_FRAME, MESSAGE_FRAME = 1, 2


class _Connection:
    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.unread = b""


class ResendSocket:
    """Serves one ring. `close` ends the thread and removes the socket."""

    def __init__(self, path: str, ring: SendRing, log: logging.Logger) -> None:
        self._path = path
        self._ring = ring
        self._log = log
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        os.chmod(path, 0o600)
        self._listener.listen(MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self._wake_in, self._wake_out = socket.socketpair()
        self._connections: list[_Connection] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tpulab-resend", daemon=True)
        # debugpy must not stop the thread at breakpoints: a keeper would wait for it
        self._thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        self._thread.is_pydev_daemon_thread = True  # type: ignore[attr-defined]

    def start(self) -> None:
        self._thread.start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)

    @property
    def connected(self) -> bool:
        return bool(self._connections)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wake_out.send(b"x")
            self._thread.join(SEND_TIMEOUT_S)
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _abandon(self) -> None:
        """In a forked child, whose copies of these would hide the kernel's end from the keeper."""
        self._closed = True
        for held in (self._listener, self._wake_in, self._wake_out, *(c.peer for c in self._connections)):
            held.close()
        self._connections.clear()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_in, selectors.EVENT_READ)
            while not self._closed:
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif key.data is not None:
                        self._serve(selector, key.data)
            for connection in list(self._connections):
                self._end(selector, connection)
            self._listener.close()
            self._wake_in.close()
            self._wake_out.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return  # already closed
        connection = _Connection(peer)
        peer.settimeout(SEND_TIMEOUT_S)
        while len(self._connections) >= MAX_CONNECTIONS:
            self._end(selector, self._connections[0])
        self._connections.append(connection)
        self._ring.reader_attached()
        selector.register(peer, selectors.EVENT_READ, connection)
        self._answer(selector, connection, [_json_frame({"hello": 1, "pid": os.getpid()})])

    def _serve(self, selector: selectors.BaseSelector, connection: _Connection) -> None:
        try:
            read = connection.peer.recv(MAX_LINE_BYTES)
        except OSError:
            read = b""
        connection.unread += read
        if not read or len(connection.unread) > MAX_LINE_BYTES:
            self._end(selector, connection)
            return
        *lines, connection.unread = connection.unread.split(b"\n")
        for line in lines:
            try:
                request = json.loads(line)
                answer = self._answer_to(request)
            except Exception:
                # An unknown request is no reason to end the thread that the next keeper needs.
                self._log.exception("tpulab: a request of the keeper failed")
                self._end(selector, connection)
                return
            self._answer(selector, connection, answer)

    def _answer_to(self, request: dict[str, Any]) -> list[bytes]:
        if request["op"] == "confirm":
            self._ring.confirm(request["last"])
            return [_json_frame({"id": request["id"]})]
        if request["op"] == "resend":
            rest = self._ring.unconfirmed(
                request["last"], request["routingId"].encode(), request.get("channels", CHANNELS)
            )
            pieces: list[bytes] = []
            for channel, frames in rest.messages:
                pieces.extend(_message_frame(channel, frames))
            pieces.append(_json_frame({"id": request["id"], "lost": rest.lost, "exact": rest.exact}))
            return pieces
        raise ValueError(f"unknown request {request['op']!r}")

    def _answer(self, selector: selectors.BaseSelector, connection: _Connection, pieces: list[bytes]) -> None:
        try:
            gathered: list[bytes] = []
            size = 0
            for piece in pieces:
                gathered.append(piece)
                size += len(piece)
                if size >= PIECE_BYTES:
                    connection.peer.sendall(b"".join(gathered))
                    gathered, size = [], 0
            connection.peer.sendall(b"".join(gathered))
        except OSError:
            self._end(selector, connection)

    def _end(self, selector: selectors.BaseSelector, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            selector.unregister(connection.peer)
            connection.peer.close()
            if not self._connections:
                self._ring.readers_detached()


def _json_frame(content: dict[str, Any]) -> bytes:
    body = json.dumps(content, separators=(",", ":")).encode()
    return struct.pack("<IB", len(body) + 1, JSON_FRAME) + body


def _message_frame(channel: str, frames: Frames) -> list[bytes]:
    pieces: list[bytes] = []
    size = 4
    for frame in frames:
        pieces += (struct.pack("<I", len(frame)), frame)
        size += 4 + len(frame)
    return [struct.pack("<IBBH", size, MESSAGE_FRAME, CHANNELS.index(channel), len(frames)), *pieces]
