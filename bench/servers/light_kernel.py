"""A kernel that answers and does nothing else: the cost of idle ipykernels would hide the server's."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zmq

DELIMITER = b"<IDS|MSG>"


class LightKernel:
    def __init__(self, connection: dict[str, Any]) -> None:
        self.key = connection["key"].encode()
        self.session = uuid.uuid4().hex
        self.context = zmq.Context()
        self.sockets = {
            name: self._bind(kind, connection, f"{name}_port")
            for name, kind in (
                ("shell", zmq.ROUTER),
                ("control", zmq.ROUTER),
                ("stdin", zmq.ROUTER),
                ("iopub", zmq.PUB),
                ("hb", zmq.REP),
            )
        }

    def _bind(self, kind: int, connection: dict[str, Any], port: str) -> zmq.Socket[bytes]:
        socket = self.context.socket(kind)
        separator = "-" if connection["transport"] == "ipc" else ":"
        socket.bind(f"{connection['transport']}://{connection['ip']}{separator}{connection[port]}")
        return socket

    def send(
        self, channel: str, idents: list[bytes], msg_type: str, parent: dict[str, Any], content: object
    ) -> None:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": msg_type,
            "session": self.session,
            "username": "light",
            "date": datetime.now(UTC).isoformat(),
            "version": "5.3",
        }
        parts = [json.dumps(part).encode() for part in (header, parent, {}, content)]
        signature = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            signature.update(part)
        self.sockets[channel].send_multipart([*idents, DELIMITER, signature.hexdigest().encode(), *parts])

    def answer(self, channel: str) -> bool:
        """Answers one request; returns whether the kernel continues."""
        frames = self.sockets[channel].recv_multipart()
        start = frames.index(DELIMITER)
        idents, parent = frames[:start], json.loads(frames[start + 2])
        kind = parent["msg_type"].removesuffix("_request")
        self.send("iopub", [b"status"], "status", parent, {"execution_state": "busy"})
        content: dict[str, Any] = {"status": "ok"}
        if kind == "kernel_info":
            content |= {
                "protocol_version": "5.3",  # from 5.4 on, jupyverse waits for an XPUB welcome
                "implementation": "light",
                "implementation_version": "1",
                "language_info": {
                    "name": "none",
                    "version": "1",
                    "mimetype": "text/plain",
                    "file_extension": ".txt",
                },
                "banner": "",
            }
        elif kind == "execute":
            content |= {"execution_count": 1, "user_expressions": {}}
        self.send(channel, idents, f"{kind}_reply", parent, content)
        self.send("iopub", [b"status"], "status", parent, {"execution_state": "idle"})
        return kind != "shutdown"

    def run(self) -> None:
        poller = zmq.Poller()
        for name in ("shell", "control", "hb"):
            poller.register(self.sockets[name], zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self.sockets["hb"] in ready:
                self.sockets["hb"].send(self.sockets["hb"].recv())
            for name in ("control", "shell"):
                if self.sockets[name] in ready and not self.answer(name):
                    self.context.destroy(linger=500)
                    return


if __name__ == "__main__":
    LightKernel(json.loads(Path(sys.argv[1]).read_text())).run()
