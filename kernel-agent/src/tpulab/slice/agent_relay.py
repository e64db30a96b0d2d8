"""On a host: the socket that its agent reports to, as a keeper's; what comes is handed to the lead.

The agent does not know that it is on another machine than the keeper. One JSON object a line, as
`protocol/src/telemetry.ts` says; the connection that begins with `control-hello` takes commands.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Any


class AgentRelay:
    def __init__(self, hand_on: Callable[[dict[str, Any]], None]) -> None:
        """`hand_on` is called on any thread."""
        self._hand_on = hand_on
        # Of mode 0700, so nobody else connects.
        self._folder = tempfile.mkdtemp(prefix="tpulab-agent-")
        self.path = f"{self._folder}/agent.sock"
        self._commands: socket.socket | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.path)
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def command(self, body: dict[str, Any]) -> None:
        """For the agent; lost when it does not listen for commands."""
        connection = self._commands
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(body).encode() + b"\n")

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # cut off with the connection
                if message.get("type") == "control-hello":
                    self._commands = connection
                self._hand_on(message)
