"""The lead's end of a supervisor: starts it here or over ssh, and receives its messages with their times."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpulab.slice.spec import SliceSpec

#: The part of the lead's environment that another host gets. Variables of a machine (`TPU_…`) stay here.
_FORWARDED_PREFIXES = (
    *("JAX_", "XLA_", "PJRT_DEVICE", "LIBTPU_INIT_ARGS", "HF_", "MPLBACKEND"),
    *("TPULAB_BACKEND", "TPULAB_TEXT", "TPULAB_COMPILATION"),
)
#: Range of the controller's forwarded ports on another host.
_REMOTE_PORTS = range(20_000, 32_000)
SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"),
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=15"),
)

HostMessage = Callable[[dict[str, Any]], None]


class HostLink:
    """`message` is called in the loop with each message, and last with `{"gone": exit code, "why": text}`."""

    def __init__(
        self,
        command: Sequence[str],
        order: dict[str, Any],
        message: HostMessage,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._reported = message
        self._loop = loop
        self._sending = threading.Lock()
        self.received_at = time.monotonic()
        #: The process on the host, and its state as /proc shows it (`T`: stopped); empty until it is known.
        self.pid = 0
        self.state = ""
        self.rss_bytes = 0
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._send(order)
        threading.Thread(target=self._read, name="tpulab-host", daemon=True).start()

    def write_line(self, line: str) -> None:
        self._send({"line": line})

    def greet(self) -> None:
        """A sign of life: without one, the supervisor of another machine ends its process."""
        self._send({})

    def signal(self, number: int) -> None:
        self._send({"signal": number})

    def command(self, body: dict[str, Any]) -> None:
        """For the agent of the process."""
        self._send({"command": body})

    def kill(self) -> None:
        """Ends the process on the host; over a broken connection that happens when ssh there notices."""
        self._send({"kill": True})
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()

    def reap(self, patience_s: float) -> None:
        """Waits for the supervisor, and kills it after a timeout."""
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _send(self, what: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with self._sending, contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        for line in self.process.stdout:
            # Here and not in the loop, which may be busy with a flood of output.
            self.received_at = time.monotonic()
            try:
                message = json.loads(line)
            except ValueError:
                continue  # output of a login shell
            if isinstance(message, dict):
                self._call_in_loop(self._receive, message)
        why = self.process.stderr.read(4000).decode(errors="replace").strip()
        self.process.stdout.close()
        self.process.stderr.close()
        self._call_in_loop(self._reported, {"gone": self.process.wait(), "why": why})

    def _call_in_loop(self, function: HostMessage, message: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no recipient
            self._loop.call_soon_threadsafe(function, message)

    def _receive(self, message: dict[str, Any]) -> None:
        if "alive" in message:
            self.pid, self.state, self.rss_bytes = (
                message["alive"],
                message.get("state", ""),
                message.get("rss", 0),
            )
        self._reported(message)


def local_command() -> list[str]:
    return [sys.executable, "-m", "tpulab.slice.supervisor"]


def ssh_command(spec: SliceSpec, index: int, forwarded: Mapping[int, int]) -> list[str]:
    """`forwarded`: ports on that host to the controller's on this one."""
    tunnels = [
        word for there, here in forwarded.items() for word in ("-R", f"127.0.0.1:{there}:127.0.0.1:{here}")
    ]
    python = spec.python or sys.executable
    path = os.environ.get("PYTHONPATH")
    setting = f"PYTHONPATH={shlex.quote(path)} " if path else ""
    remote = f"{setting}exec {shlex.quote(python)} -m tpulab.slice.supervisor"
    return [*SSH, *spec.ssh_options, *tunnels, spec.destination(index), remote]


def forwarded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_FORWARDED_PREFIXES)}


def forwarded_connection(connection: dict[str, Any]) -> tuple[dict[str, Any], dict[int, int]]:
    """The controller's connection as another host sees it, and a map of its ports to the ports here.

    The ports there are random, as free ones cannot be queried before ssh connects; ssh refuses used ones.
    """
    here: dict[str, Any] = {
        name: value for name, value in connection.items() if _is_ports(value) and name != "location"
    }
    count = sum(len(value) if isinstance(value, list) else 1 for value in here.values())
    drawn = iter(random.SystemRandom().sample(_REMOTE_PORTS, count))
    forwarded: dict[int, int] = {}
    there: dict[str, Any] = dict(connection)

    def move(port: int) -> int:
        new = next(drawn)
        forwarded[new] = port
        return new

    for name, value in here.items():
        there[name] = [move(port) for port in value] if isinstance(value, list) else move(value)
    return there, forwarded


def _is_ports(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(one, int) and not isinstance(one, bool) for one in values)
