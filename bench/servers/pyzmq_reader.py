"""The bare reader: pyzmq sockets on a kernel, nothing verified, and only the end of a run parsed.

Reads a line of JSON `{"code": …}` for each execution from stdin and answers with one line of figures.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zmq

DELIMITER = b"<IDS|MSG>"
DIGITS = 8


class Reader:
    def __init__(self, connection: dict[str, Any]) -> None:
        self.key = connection["key"].encode()
        context = zmq.Context()
        address = f"{connection['transport']}://{connection['ip']}-"
        self.shell = context.socket(zmq.DEALER)
        self.iopub = context.socket(zmq.SUB)
        self.iopub.set_hwm(0)
        self.iopub.subscribe(b"")
        self.shell.connect(f"{address}{connection['shell_port']}")
        self.iopub.connect(f"{address}{connection['iopub_port']}")
        self.session = uuid.uuid4().hex

    def send(self, msg_type: str, content: dict[str, Any]) -> str:
        msg_id = uuid.uuid4().hex
        header = {
            "msg_id": msg_id,
            "msg_type": msg_type,
            "session": self.session,
            "username": "bench",
            "date": datetime.now(UTC).isoformat(),
            "version": "5.4",
        }
        parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        signature = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            signature.update(part)
        self.shell.send_multipart([DELIMITER, signature.hexdigest().encode(), *parts])
        return msg_id

    def ready(self) -> None:
        while True:
            self.send("kernel_info_request", {})
            if self.shell.poll(1000) and self.iopub.poll(1000):
                break
        while self.iopub.poll(300):
            self.iopub.recv_multipart()
        while self.shell.poll(0):
            self.shell.recv_multipart()

    def run(self, code: str) -> dict[str, float | bool]:
        begun, cpu = time.perf_counter(), time.process_time()
        msg_id = self.send("execute_request", {"code": code, "silent": False, "allow_stdin": False}).encode()
        delivered = disordered = missing = 0
        size = 0
        last = -1
        last_at = begun
        while True:
            frames = self.iopub.recv_multipart()
            content = frames[-1] if len(frames) < 8 else frames[6]
            size += sum(map(len, frames[7:]))
            found = content.find(b"#")
            if found < 0:
                if b'"idle"' in content and msg_id in frames[4]:
                    break
                continue
            if b"execute_input" in frames[3]:
                continue
            while found >= 0:
                number = int(content[found + 1 : found + 1 + DIGITS])
                delivered += 1
                if number <= last:
                    disordered += 1
                else:
                    missing += number - last - 1
                    last = number
                found = content.find(b"#", found + DIGITS)
            last_at = time.perf_counter()
        self.shell.recv_multipart()
        return {
            "delivered": delivered,
            "disordered": disordered,
            "missing": missing,
            "bytes": size,
            "idle": True,
            "ms": (last_at - begun) * 1000,
            "cpuMs": (time.process_time() - cpu) * 1000,
        }


if __name__ == "__main__":
    reader = Reader(json.loads(Path(sys.argv[1]).read_text()))
    reader.ready()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(reader.run(json.loads(line)["code"])), flush=True)
