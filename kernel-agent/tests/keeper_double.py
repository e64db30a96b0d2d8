"""A keeper's telemetry socket for tests: checks every line against the protocol's schema and stores it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = json.loads(Path(__file__).with_name("telemetry.schema.json").read_text())
#: By type of message: a union reports every alternative that does not match, and takes long to do so.
_VALIDATORS = {
    kind["properties"]["type"]["const"]: jsonschema.Draft202012Validator(kind) for kind in SCHEMA["anyOf"]
}
#: Generous: the machine may be small and shared. Reached only when a test fails.
PATIENCE_S = 90.0

Message = dict[str, Any]


def check_message(message: Message) -> None:
    """Raises when a message does not match the schema. NaN and infinities are not JSON and fail before."""
    validator = _VALIDATORS.get(message.get("type", ""))
    if validator is None:
        raise jsonschema.ValidationError(f"unknown type of message: {message.get('type')!r}")
    validator.validate(message)


def refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def wait_until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Waits until a condition holds and returns its value."""
    deadline = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s:.0f} s for {what}")
        time.sleep(0.02)
    return value


class KeeperDouble:
    """Listens on a unix socket. `messages` has all received messages, oldest first, over all connections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[Message] = []
        self.problems: list[str] = []
        self.arrivals: list[float] = []
        self.connections = 0
        #: connections that accept commands, oldest first
        self.control: list[socket.socket] = []
        #: cleared: nothing is read, as by a keeper that is busy
        self.reads = threading.Event()
        self.reads.set()
        self._open: list[socket.socket] = []
        self._unread = 0
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._start(self._accept, self._listener)

    def close(self) -> None:
        """Disconnects like a crashed keeper: listener and connections closed, the socket file removed."""
        if self._listener is not None:
            self.reads.set()
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            # First, so that no connection comes in after the others have been closed.
            self._threads.pop(0).join(10)
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()
        self.control.clear()
        self.path.unlink(missing_ok=True)
        for thread in self._threads:
            thread.join(10)
        self._threads.clear()

    def of_type(self, kind: str) -> list[Message]:
        return [message for message in list(self.messages) if message["type"] == kind]

    def steps(self, run: str | None = None) -> list[Message]:
        return [
            step
            for message in self.of_type("steps")
            if run is None or message["run"] == run
            for step in message["steps"]
        ]

    def compiled(self, function: str, phase: str = "finished") -> list[Message]:
        return [
            message
            for message in self.of_type("compile")
            if message["function"] == function and message["phase"] == phase
        ]

    def command(self, action: str, **fields: Any) -> str:
        """Sends a command as the keeper does and returns its id."""
        self.wait(lambda: self.control, "the agent to listen for commands")
        identity = str(fields.pop("id", uuid.uuid4()))
        line = json.dumps({"id": identity, "action": action, **fields}) + "\n"
        self.control[-1].sendall(line.encode())
        return identity

    def outcomes(self, identity: str) -> list[str]:
        """The results of a command, in order."""
        return [message["phase"] for message in self.of_type("control") if message["id"] == identity]

    def outcome(self, identity: str, phase: str) -> Message:
        """Waits until a command has reached `phase` and returns that message."""

        def found() -> Message | None:
            for message in self.of_type("control"):
                if message["id"] == identity and message["phase"] == phase:
                    return message
            return None

        message: Message = self.wait(found, f"command {identity} to be {phase}")
        return message

    def ended_runs(self) -> list[Message]:
        return [message for message in self.of_type("run") if message["state"] != "running"]

    def read_all(self) -> None:
        """Waits until all messages of a process that has ended are read."""
        self.wait(lambda: self.connections and not self._unread, "the ends of all connections")

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        value = wait_until(condition, what)
        assert not self.problems, self.problems
        return value

    def _start(self, work: Callable[[socket.socket], None], on: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(on,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._unread += 1
            self.connections += 1
            self._start(self._read, connection)

    def _read(self, connection: socket.socket) -> None:
        try:
            self._read_lines(connection)
        finally:
            self._unread -= 1

    def _read_lines(self, connection: socket.socket) -> None:
        first = True
        with contextlib.suppress(OSError), connection.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                self.reads.wait()
                if not line.endswith("\n"):
                    return
                try:
                    message = json.loads(line, parse_constant=refuse_constant)
                    if first and message["type"] == "control-hello":
                        first = False
                        self.control.append(connection)
                        continue
                    check_message(message)
                    if first and message["type"] != "hello":
                        raise ValueError("a connection begins with hello")
                except Exception as error:
                    self.problems.append(f"{error}: {line[:400]}")
                    continue
                first = False
                self.messages.append(message)
                self.arrivals.append(time.monotonic())
