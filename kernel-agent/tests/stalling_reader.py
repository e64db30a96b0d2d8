"""Reads a kernel's iopub in a process that a test can stop: prints how many numbered outputs arrived.

Usage: `python stalling_reader.py ENDPOINT`. Prints `ready` when it has received something, and at the output
`END` the number of different outputs seen before.
"""

from __future__ import annotations

import json
import sys

import zmq


def main(endpoint: str) -> None:
    reader = zmq.Context.instance().socket(zmq.SUB)
    reader.setsockopt(zmq.RCVHWM, 0)
    reader.setsockopt(zmq.SUBSCRIBE, b"")
    reader.connect(endpoint)
    seen: set[str] = set()
    ready = False
    while True:
        frames = reader.recv_multipart()
        if not ready:
            ready = True
            sys.stdout.write("ready\n")
            sys.stdout.flush()
        start = frames.index(b"<IDS|MSG>")
        if json.loads(frames[start + 2])["msg_type"] != "display_data":
            continue
        text = json.loads(frames[start + 5])["data"]["text/plain"]
        if text == "END":
            sys.stdout.write(f"{len(seen)}\n")
            sys.stdout.flush()
            return
        seen.add(text)


if __name__ == "__main__":
    main(sys.argv[1])
