"""The connection for commands: the keeper sends commands to this process and receives their results.

A separate thread sleeps in `poll` until a message arrives, so that a command is answered immediately whatever
the cell does, within the limits of the interpreter lock: a few milliseconds beside pure Python. The loop's
thread only appends to a queue.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tpulab.agent.keeper_socket import KeeperSocket
from tpulab.control.command import failed_command
from tpulab.telemetry.guarded import log_once, start_thread
from tpulab.telemetry.messages import ControlHello, ControlMessage, FenceMessage

#: Messages that wait while there is no connection; the oldest is dropped first.
MAX_MESSAGES = 1024
MAX_LINE_BYTES = 64 * 1024
#: Timeout for the remaining messages; only a keeper that does not read delays them (`SEND_TIMEOUT_S`).
EXIT_TIMEOUT_S = 5.0

Receive = Callable[[dict[str, Any]], tuple[ControlMessage | FenceMessage, bool]]


class ControlLink:
    """One per process with a keeper. `send` may be called on any thread and never blocks."""

    def __init__(self, path: str, receive: Receive) -> None:
        self._socket = KeeperSocket(path)
        self._receive = receive
        self._outgoing: deque[ControlMessage | FenceMessage] = deque(maxlen=MAX_MESSAGES)
        self._unsent: list[ControlMessage | FenceMessage] = []
        self._incoming = b""
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._wake_reader, self._wake_writer = -1, -1
        self._starting = threading.Lock()

    def start(self) -> None:
        """Begins to listen. Idempotent."""
        with self._starting:
            if self._thread is not None or self._stopping:
                return
            if self._wake_reader < 0:
                try:
                    self._wake_reader, self._wake_writer = os.pipe()
                except OSError as error:  # out of files; tried again with the next run
                    log_once("commands are not listened to", error)
                    return
                os.set_blocking(self._wake_reader, False)
                os.set_blocking(self._wake_writer, False)
            self._thread = start_thread("tpulab-control", self._run)

    def send(self, message: ControlMessage) -> None:
        self._outgoing.append(message)
        self.start()
        self._wake()

    def close(self) -> None:
        """Sends the remaining messages (bounded) and ends the thread."""
        self._stopping = True
        thread = self._thread
        if thread is None:
            return
        self._wake()
        if thread is not threading.current_thread():
            thread.join(EXIT_TIMEOUT_S)

    def abandon(self) -> None:
        """In a forked child: closes without touching the parent's connection."""
        self._stopping = True
        self._socket.close()

    def _wake(self) -> None:
        if self._wake_writer >= 0:
            # Full: the thread is awake anyway. Closed: the thread has ended.
            with contextlib.suppress(OSError):
                os.write(self._wake_writer, b"x")

    def _run(self) -> None:
        while not self._stopping:
            if self._socket.connect():
                self._incoming = b""
                hello: ControlHello = {"type": "control-hello", "v": 1, "pid": os.getpid()}
                self._socket.send([hello])
            self._flush()
            self._wait()
        self._flush()
        self._socket.close()
        reader, writer = self._wake_reader, self._wake_writer
        self._wake_reader = self._wake_writer = -1
        for end in (reader, writer):
            with contextlib.suppress(OSError):
                os.close(end)

    def _flush(self) -> None:
        if not self._socket.connected:
            return
        while self._outgoing:
            self._unsent.append(self._outgoing.popleft())
        if self._unsent:
            self._socket.send(self._unsent)

    def _wait(self) -> None:
        poller = select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        number = self._socket.fileno()
        if number is not None:
            poller.register(number, select.POLLIN)
        ready = poller.poll(None if number is not None else self._socket.wait_s() * 1e3 + 1)
        for found, _ in ready:
            if found == self._wake_reader:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_reader, 4096)
            elif found == number:
                self._read()

    def _read(self) -> None:
        data = self._socket.receive()
        if data is None:
            return
        *lines, self._incoming = (self._incoming + data).split(b"\n")
        if len(self._incoming) > MAX_LINE_BYTES:
            self._incoming = b""
        for line in lines:
            self._command(line)

    def _command(self, line: bytes) -> None:
        try:
            body = json.loads(line)
        except ValueError:
            return
        if not isinstance(body, dict):
            return
        try:
            answer, reported = self._receive(body)
        except Exception as error:
            log_once("a command failed", error)
            answer, reported = failed_command(body, error), False
        if not reported:
            self._outgoing.append(answer)
