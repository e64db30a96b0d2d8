"""A stock jupyter_server that gets its kernels from a bridge (`--gateway-url`), and a plain client of it."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import requests
import websocket

from ..bridge import END_DEADLINE_S, REST_DEADLINE_S, Bridge, stock_kernels
from ..reserved_port import reserved_port

Message = dict[str, Any]
POLL_INTERVAL_S = 0.1


class Front:
    def __init__(self, bridge: Bridge, folder: Path) -> None:
        self._held = ExitStack()
        port = self._held.enter_context(reserved_port())
        self.url = f"http://127.0.0.1:{port}"
        self.token = secrets.token_hex(16)
        self._log = folder / "front.log"
        environment = {
            **stock_kernels(folder / "data"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_TOKEN": self.token,
            "JUPYTER_GATEWAY_AUTH_TOKEN": bridge.token,
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
                    *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
                    *(f"--ServerApp.root_dir={folder}", f"--gateway-url={bridge.url}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        wait_for("jupyter_server", self._answers)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"jupyter_server ended at once: {self._log.read_text()}")
        try:
            self.rest("GET", "/api/status")
        except requests.ConnectionError:
            return False
        return True

    def rest(self, method: str, path: str, body: object = None) -> Any:
        answer = requests.request(
            method,
            self.url + path,
            json=body,
            headers={"Authorization": f"token {self.token}"},
            timeout=REST_DEADLINE_S,
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def connect(self, kernel_id: str) -> FrontKernel:
        return FrontKernel(self, kernel_id)

    def __enter__(self) -> Front:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_DEADLINE_S)
        finally:
            self._held.close()


class FrontKernel:
    """One channels socket of the front, which speaks only the legacy format."""

    def __init__(self, front: Front, kernel_id: str) -> None:
        self.session = uuid.uuid4().hex
        channels = f"/api/kernels/{kernel_id}/channels?session_id={self.session}"
        self._socket = websocket.create_connection(
            front.url.replace("http", "ws", 1) + channels,
            header={"Authorization": f"token {front.token}"},
            timeout=REST_DEADLINE_S,
        )

    def send(self, channel: str, kind: str, content: Message, parent: Message | None = None) -> str:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "session": self.session,
            "username": "front",
            "version": "5.3",
            "date": "2026-01-01T00:00:00.000000Z",
        }
        message = {"header": header, "parent_header": parent or {}, "metadata": {}, "content": content}
        self._socket.send(json.dumps({**message, "channel": channel, "buffers": []}))
        return str(header["msg_id"])

    def execute(self, code: str, *, allow_stdin: bool = False) -> str:
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        return self.send(
            "shell", "execute_request", {**content, "allow_stdin": allow_stdin, "stop_on_error": True}
        )

    def receive(self) -> Message:
        return dict(json.loads(self._socket.recv()))

    def until(self, kind: str, parent: str | None = None) -> tuple[Message, list[Message]]:
        """The next message of this kind (about this request), and the messages before it."""
        before: list[Message] = []
        while True:
            message = self.receive()
            about = message["parent_header"].get("msg_id")
            if message["header"]["msg_type"] == kind and parent in (None, about):
                return message, before
            before.append(message)

    def result(self, request: str) -> tuple[Message, list[Message]]:
        """The reply to an execution and all its output, when both are complete."""
        reply: Message | None = None
        outputs: list[Message] = []
        idle = False
        while reply is None or not idle:
            message = self.receive()
            if message["parent_header"].get("msg_id") != request:
                continue
            kind = message["header"]["msg_type"]
            if kind == "execute_reply":
                reply = message["content"]
            elif kind == "status":
                idle = idle or message["content"]["execution_state"] == "idle"
            elif message["channel"] == "iopub" and kind != "execute_input":
                outputs.append(message)
        return reply, outputs

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> FrontKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def wait_for(what: str, probe: Callable[[], bool], deadline_s: float = REST_DEADLINE_S) -> None:
    end = time.monotonic() + deadline_s
    while not probe():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {deadline_s} s.")
        time.sleep(POLL_INTERVAL_S)
