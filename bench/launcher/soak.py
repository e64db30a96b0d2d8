"""Whether a kernel of the launcher ever falls silent: flushed prints to a reader that stops for a while.

Usage: python soak.py [--rounds N] [--lines N] [--stall SECONDS] [--json FILE], in the environment `jax`.

Each round is a new kernel. Its reader is a separate process, which stalls after 1000 lines: in odd rounds it
is stopped (SIGSTOP), in even ones it sleeps, so that its libzmq buffers as much as its high-water mark
allows. A round is complete when every line has come, once and in order. It is silent when the reader runs,
nothing has come for `SILENCE_S`, and the end is missing; then the stacks of the kernel's threads are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

SILENCE_S = 60.0
START_S = 120.0
STALL_AFTER = 1_000
DUMP = "import faulthandler, signal, sys; faulthandler.register(signal.SIGUSR1, sys.__stderr__)"
CELL = "for i in range({lines}): print('line', i, flush=True)\nprint('END', flush=True)"


def read(endpoint: str, sleep_s: float) -> None:
    """The reader's process. Writes a line of JSON a second, and one with `end` when it has read the end."""
    socket = zmq.Context.instance().socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(endpoint)
    lines = faults = 0
    rest, next_word = "", 0.0
    while True:
        frames = socket.recv_multipart() if socket.poll(1000) else []
        text = ""
        if frames:
            at = frames.index(b"<IDS|MSG>")
            if json.loads(frames[at + 2])["msg_type"] == "stream":
                text = json.loads(frames[at + 5])["text"]
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            if line.startswith("line "):
                faults += line != f"line {lines}"
                lines += 1
                if lines == STALL_AFTER:
                    say(stall=lines)
                    time.sleep(sleep_s)
        if "END" in whole:
            say(end=True, lines=lines, faults=faults)
            return
        if time.monotonic() > next_word:
            next_word = time.monotonic() + 1
            say(received=bool(frames), lines=lines)


def say(**content: Any) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def play(folder: Path, number: int, lines: int, stall_s: float) -> dict[str, Any]:
    file, _ = write_connection_file(str(folder / "c.json"), transport="ipc", ip=str(folder / "z"))
    # As a keeper does it, so that recording is part of the test.
    info = {**json.loads(Path(file).read_text()), "resend_socket": str(folder / "resend.sock")}
    Path(file).write_text(json.dumps(info))
    log = folder / "log"
    with log.open("wb") as out:
        kernel = subprocess.Popen(
            [sys.executable, "-m", "tpulab.launcher", "-f", file, f"--IPKernelApp.exec_lines={DUMP}"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    is_stopped = number % 2 == 1
    endpoint = f"ipc://{info['ip']}-{info['iopub_port']}"
    reader = subprocess.Popen(
        [sys.executable, __file__, "--read", endpoint, "--stall", "0" if is_stopped else str(stall_s)],
        stdout=subprocess.PIPE,
    )
    client = BlockingKernelClient(connection_file=file)
    client.load_connection_file()
    # Without iopub: it would be another reader, and would never read.
    client.start_channels(iopub=False)
    try:
        hears = Words(reader)
        ready_until = time.monotonic() + START_S
        # The reader has to be subscribed before the cell runs: it receives the states of these requests.
        while not hears.next(0.2).get("heard"):
            client.kernel_info()
            assert kernel.poll() is None, log.read_text()
            assert time.monotonic() < ready_until, log.read_text()
        client.execute(CELL.format(lines=lines))
        began = received_at = time.monotonic()
        seen = 0
        while True:
            word = hears.next(1.0)
            if word.get("stall") and is_stopped:
                os.kill(reader.pid, signal.SIGSTOP)
                time.sleep(stall_s)
                os.kill(reader.pid, signal.SIGCONT)
            if word.get("end"):
                verdict = "whole" if word["lines"] == lines and not word["faults"] else "damaged"
                break
            if word.get("stall") or word.get("lines", 0) > seen:
                seen, received_at = word.get("lines", seen), time.monotonic()
            if time.monotonic() - received_at > SILENCE_S + stall_s:
                verdict, word = "silent", {"lines": seen}
                if kernel.poll() is None:
                    os.kill(kernel.pid, signal.SIGUSR1)
                    time.sleep(2)
                sys.stdout.write(log.read_text())
                break
        return {
            "round": number,
            "reader": "stopped" if is_stopped else "asleep",
            "verdict": verdict,
            "lines": word["lines"],
            "faults": word.get("faults"),
            "seconds": round(time.monotonic() - began, 1),
            "replied": _has_reply(client),
            "exit": kernel.poll(),
        }
    finally:
        client.stop_channels()
        for process in (reader, kernel):
            process.kill()
            process.wait()


class Words:
    """The reader's lines; each is awaited no longer than requested."""

    def __init__(self, reader: subprocess.Popen[bytes]) -> None:
        assert reader.stdout is not None
        self._fd = reader.stdout.fileno()
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._fd, selectors.EVENT_READ)

    def next(self, wait_s: float) -> dict[str, Any]:
        if b"\n" not in self._rest and self._selector.select(wait_s):
            read = os.read(self._fd, 65_536)
            assert read, "the reader has ended"
            self._rest += read
        line, newline, rest = self._rest.partition(b"\n")
        if not newline:
            return {}
        self._rest = rest
        return dict(json.loads(line))


def _has_reply(client: BlockingKernelClient) -> bool:
    try:
        while client.get_shell_msg(timeout=10)["msg_type"] != "execute_reply":
            pass
    except queue.Empty:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--stall", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read, options.stall)
        return
    rows: list[dict[str, Any]] = []
    for number in range(1, options.rounds + 1):
        with tempfile.TemporaryDirectory(prefix="tl-") as folder:
            rows.append(play(Path(folder), number, options.lines, options.stall))
        sys.stdout.write(json.dumps(rows[-1]) + "\n")
        sys.stdout.flush()
    verdicts = Counter(row["verdict"] for row in rows)
    sys.stdout.write(f"{len(rows)} rounds of {options.lines} lines: {dict(verdicts)}\n")
    if options.json:
        machine = {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}
        options.json.write_text(json.dumps({"machine": machine, "rounds": rows}, indent=1) + "\n")
    sys.exit(0 if set(verdicts) == {"whole"} else 1)


if __name__ == "__main__":
    main()
