"""Runs one process on a host for the lead: starts it, reports its state each second, ends it with the lead.

`python -m tpulab.slice.supervisor`, started by the lead on its own machine or over ssh. Standard input is the
lifeline: when it ends, or the lead is silent for too long because the network is cut, the process is ended.

One JSON object per line. From the lead: first the process (`argv`, `env`, `cwd`, `patience_s`, `reports`,
`lock`), then `{"line": text}` for the process, `{"command": …}` for its agent, `{"signal": number}`,
`{"kill": true}`, and `{}` as a sign of life. To the lead: `{"waits": text}` before the process starts,
`{"alive": pid, …}`, `{"agent": message}`, and last `{"exited": code, "oom": bool, "tail": text}`.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpulab.slice.host_lock import acquire_host_lock, release_host_lock_on_request


class AgentRelay:
    def __init__(self, send_line: Callable[[dict[str, Any]], None]) -> None:
        """`send_line` is called on any thread."""
        self._send_line = send_line
        # Of mode 0700, so no other user can connect.
        self._folder = tempfile.mkdtemp(prefix="tpulab-agent-")
        self.path = f"{self._folder}/agent.sock"
        self._commands: socket.socket | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.path)
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def command(self, body: dict[str, Any]) -> None:
        """Sends a line to the agent; lost when the agent does not listen for commands."""
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
                self._send_line(message)


ALIVE_S = 1.0
TAIL_LINES = 30
#: The variable by which Google's own libraries name another metadata server.
METADATA_VARIABLES = ("GCE_METADATA_IP", "GCE_METADATA_HOST")
_METADATA = "metadata.google.internal"
_PREEMPTED = "/computeMetadata/v1/instance/preempted"


class Supervisor:
    def __init__(self, order: dict[str, Any], lock: socket.socket | None) -> None:
        self._report_lock = threading.Lock()
        self._tail: collections.deque[bytes] = collections.deque(maxlen=TAIL_LINES)
        #: one count per second: an older kill of another process explains nothing
        self._kills = collections.deque([_oom_kills()], maxlen=10)
        self._preempted = False
        #: 0: the lead is on this machine, and its end is noticed immediately.
        self._patience_s = float(order.get("patience_s", 0))
        self._received_at = time.monotonic()
        self._host_lock = lock
        cwd = order.get("cwd") or None
        if cwd is not None and not os.path.isdir(cwd):
            cwd = None
        self._env = {**os.environ, **order["env"]}
        self._agent = (
            AgentRelay(lambda message: self._report({"agent": message})) if order.get("reports") else None
        )
        if self._agent is not None:
            self._env["TPULAB_AGENT_SOCKET"] = self._agent.path
        self._process = subprocess.Popen(
            [sys.executable, *order["argv"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._env,
            cwd=cwd,
            start_new_session=True,
        )

    def run(self) -> None:
        reader = threading.Thread(target=self._read_output, daemon=True)
        reader.start()
        threading.Thread(target=self._read_commands, daemon=True).start()
        if self._patience_s:
            threading.Thread(target=self._watch_lead, daemon=True).start()
        if self._host_lock is not None:
            release_host_lock_on_request(self._host_lock, self._end)
        named = next(filter(None, map(self._env.get, METADATA_VARIABLES)), "")
        server = named or (_METADATA if _is_google() else "")
        if server:
            threading.Thread(target=self._watch_preemption, args=(server,), daemon=True).start()
        while self._process.poll() is None:
            self._report({"alive": self._process.pid, **self._figures()})
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ALIVE_S)
                break
            self._kills.append(_oom_kills())
        reader.join(1.0)
        if self._agent is not None:
            self._agent.close()
        self._report(
            {
                "exited": self._process.returncode,
                "oom": self._process.returncode == -signal.SIGKILL and _oom_kills() > self._kills[0],
                "preempted": self._preempted,
                "tail": b"".join(self._tail).decode(errors="replace"),
            }
        )

    def _report(self, what: dict[str, Any]) -> None:
        with self._report_lock:
            try:
                _write(what)
            except OSError:
                self._kill()

    def _figures(self) -> dict[str, Any]:
        try:
            after_name = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return {"state": after_name[0], "rss": int(after_name[21]) * os.sysconf("SC_PAGE_SIZE")}
        except (OSError, IndexError, ValueError):
            return {}

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tail.append(line[:2000])

    def _read_commands(self) -> None:
        assert self._process.stdin is not None
        for line in sys.stdin.buffer:
            order = json.loads(line)
            self._received_at = time.monotonic()
            # The process may have ended meanwhile.
            with contextlib.suppress(OSError):
                if "line" in order:
                    self._process.stdin.write(order["line"].encode() + b"\n")
                    self._process.stdin.flush()
                elif "command" in order and self._agent is not None:
                    self._agent.command(order["command"])
                elif "signal" in order:
                    self._process.send_signal(order["signal"])
                elif "kill" in order:
                    self._kill()
        self._kill()

    def _kill(self) -> None:
        # With the workers that it has started.
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> None:
        self._kill()
        self._process.wait()

    def _watch_lead(self) -> None:
        # A separate thread: where the network is cut, a message to the lead blocks sooner or later.
        while self._process.poll() is None:
            if time.monotonic() - self._received_at > self._patience_s:
                self._kill()
            time.sleep(ALIVE_S)

    def _watch_preemption(self, server: str) -> None:
        request = urllib.request.Request(
            f"http://{server}{_PREEMPTED}", headers={"Metadata-Flavor": "Google"}
        )
        while not self._preempted:
            with (
                contextlib.suppress(OSError, ValueError),
                urllib.request.urlopen(request, timeout=2) as answer,
            ):
                self._preempted = answer.read(16).strip() == b"TRUE"
            if self._preempted:
                self._report({"preempted": True})
            time.sleep(1.0)


def _write(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(what).encode() + b"\n")
    sys.stdout.buffer.flush()


def _oom_kills() -> int:
    """How often a process of this control group, or else of this machine, was killed for lack of memory."""
    groups = [line.split(":", 2) for line in _lines("/proc/self/cgroup") if line.count(":") > 1]
    named = {controllers: path for _, controllers, path in groups}
    counts = [f"/sys/fs/cgroup/memory{named['memory']}/memory.oom_control"] if "memory" in named else []
    counts += [f"/sys/fs/cgroup{named['']}/memory.events"] if "" in named else []
    for file in (*counts, "/proc/vmstat"):
        for line in _lines(file):
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:
        return []


def _is_google() -> bool:
    try:
        return "Google" in Path("/sys/class/dmi/id/product_name").read_text()
    except OSError:
        return False


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = sys.stdin.buffer.readline()
    if first:
        order = json.loads(first)
        name = order.get("lock")
        lock = acquire_host_lock(name, lambda text: _write({"waits": text})) if name else None
        Supervisor(order, lock).run()
        # Python would wait for the thread that reads standard input, and abort.
        os._exit(0)


if __name__ == "__main__":
    main()
