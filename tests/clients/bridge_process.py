"""Starts and ends `tpulab serve` for a test, on a free port and with a separate state folder."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import urllib.error
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..conformance.reserved_port import reserved_port
from ..lesson import CHECKOUT

START_DEADLINE_S = 120
STOP_DEADLINE_S = 120
# Kernels import JAX on a busy machine.
REST_DEADLINE_S = 120


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class BridgeProcess:
    """One gateway. `kill` and `start` again: the same port, token and state folder."""

    state_dir: Path
    root_dir: Path
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    port: int = 0
    url: str = ""
    process: Process | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    async def start(self) -> None:
        if self.port == 0:
            # The system assigns the port to no other program while no gateway runs.
            self.port = self._held.enter_context(reserved_port())
        environment = os.environ | {"TPULAB_TOKEN": self.token}
        environment.setdefault("TPULAB_ENV_DIR", str(CHECKOUT / ".tpulab" / "envs"))
        self.process = await asyncio.create_subprocess_exec(
            *self._command("serve", "--port", str(self.port), "--root-dir", str(self.root_dir)),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=(self.state_dir / "serve.stderr").open("ab"),
            env=environment,
        )
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), START_DEADLINE_S)
        if not line:
            raise RuntimeError(
                f"`tpulab serve` ended at once: {(self.state_dir / 'serve.stderr').read_text()}"
            )
        ready = json.loads(line)
        assert ready["pid"] == self.process.pid
        self.url = ready["url"].rstrip("/")

    async def kill(self) -> None:
        """SIGKILL, as a crash would end it: no clean-up."""
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(self.process.wait(), STOP_DEADLINE_S)

    async def stop(self) -> None:
        """Ends the gateway and its kernels."""
        if self.process is None:
            return
        if self.process.returncode is not None:
            # Its keepers outlived it; only a gateway can end them.
            await self.start()
        stopping = await asyncio.create_subprocess_exec(
            *self._command("stop", "--kernels"), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        _, output = await asyncio.wait_for(stopping.communicate(), STOP_DEADLINE_S)
        assert stopping.returncode == 0, f"`tpulab stop --kernels`: {output.decode()}"
        await asyncio.wait_for(self.process.wait(), STOP_DEADLINE_S)
        self._held.close()

    def _command(self, verb: str, *options: str) -> list[str]:
        node = shutil.which("node")
        assert node, "Node.js is not on PATH"
        entry = CHECKOUT / "kernel-bridge" / "bin" / "tpulab.js"
        return [node, str(entry), verb, "--state-dir", str(self.state_dir), *options]

    async def rest(
        self, method: str, path: str, body: object = None, *, token: str | None = None, authorize: bool = True
    ) -> Answer:
        """One REST call; an HTTP error is a response like any other."""
        headers = {"Content-Type": "application/json"}
        if authorize:
            headers["Authorization"] = f"token {self.token if token is None else token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        return await asyncio.to_thread(_open, request)

    async def start_kernel(self, name: str = "tpulab-jax", **model: object) -> str:
        answer = await self.rest("POST", "/api/kernels", {"name": name, **model})
        assert answer.status == 201, answer
        return str(answer.body["id"])


def _open(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=REST_DEADLINE_S) as response:
            raw, status, headers = response.read(), response.status, dict(response.headers)
    except urllib.error.HTTPError as error:
        raw, status, headers = error.read(), error.code, dict(error.headers)
    return Answer(status, headers, json.loads(raw) if raw else None)
