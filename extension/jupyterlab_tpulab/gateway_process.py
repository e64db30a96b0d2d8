"""One gateway process: starts it, reads the line that reports it ready, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BridgeError

# Credentials of the Jupyter server and of a hub are none of the bridge's business.
WITHHELD = (
    "JUPYTER_TOKEN",
    "JUPYTERHUB_API_TOKEN",
    "JPY_API_TOKEN",
    "JUPYTERHUB_CLIENT_ID",
    "JPY_PARENT_PID",
)

READY_TIMEOUT_S = 60.0
TERMINATE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class GatewayOptions:
    """How a gateway is started."""

    command: Sequence[str]
    state_dir: Path
    root_dir: Path
    token: str
    origins: Sequence[str]
    port: int = 0
    extra_arguments: Sequence[str] = ()


@dataclass
class GatewayProcess:
    """A gateway that is our child. Its starter ends it with `terminate`."""

    process: asyncio.subprocess.Process
    url: str = ""
    _last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    _readers: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    @classmethod
    async def start(
        cls, options: GatewayOptions, environ: Mapping[str, str], ready_timeout_s: float = READY_TIMEOUT_S
    ) -> GatewayProcess:
        """Starts a gateway and waits until it serves. Raises BridgeError and then leaves no process."""
        arguments = [
            *options.command,
            "serve",
            "--port",
            str(options.port),
            "--state-dir",
            str(options.state_dir),
            "--root-dir",
            str(options.root_dir),
            *(word for origin in options.origins for word in ("--allow-origin", origin)),
            *options.extra_arguments,
        ]
        env = {name: value for name, value in environ.items() if name not in WITHHELD}
        env["TPULAB_TOKEN"] = options.token
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # A Ctrl-C in the terminal is for the Jupyter server, which then ends the gateway properly.
                start_new_session=True,
            )
        except OSError as error:
            raise BridgeError(
                "bridge.notStarted",
                f"The kernel bridge could not be started with {options.command[0]!r}: {error.strerror}. "
                "Check c.TPULab.bridge_command.",
            ) from error
        gateway = cls(process)
        try:
            await gateway._become_ready(options, ready_timeout_s)
        except BaseException:
            await gateway.terminate(timeout_s=2.0)
            raise
        return gateway

    async def wait(self) -> int:
        return await self.process.wait()

    async def terminate(self, timeout_s: float = TERMINATE_TIMEOUT_S) -> None:
        """SIGTERM, and SIGKILL when that is not enough. Kernels continue under their keepers."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self.process.wait(), timeout_s)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def output(self) -> str:
        """Its last output on stderr, for the user."""
        return self._last_lines[-1] if self._last_lines else ""

    async def _become_ready(self, options: GatewayOptions, timeout_s: float) -> None:
        stdout, stderr = self.process.stdout, self.process.stderr
        assert stdout is not None
        assert stderr is not None
        self._readers.append(asyncio.create_task(self._read_errors(stderr, options.token)))
        try:
            line = await asyncio.wait_for(stdout.readline(), timeout_s)
        except TimeoutError:
            raise BridgeError(
                "bridge.slowStart",
                f"The kernel bridge did not report within {timeout_s:g} s that it is ready; it is started "
                f"again. See {options.state_dir / 'gateway.log'}.",
            ) from None
        except ValueError:
            line = b"?"
        self._readers.append(asyncio.create_task(_drain(stdout)))
        if line:
            self.url = _url_of(line)
            return
        code = await self.process.wait()
        # The reader has everything when the pipe ends; a child of the gateway may hold it open.
        await asyncio.wait([self._readers[0]], timeout=1.0)
        reason = self.output() or f"see {options.state_dir / 'gateway.log'}"
        raise BridgeError(
            "bridge.exited", f"The kernel bridge ended with code {code} while it was starting: {reason}"
        )

    async def _read_errors(self, stream: asyncio.StreamReader, token: str) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # longer than the buffer; it has been dropped
            if not line:
                return
            text = line.decode("utf-8", "replace").strip().replace(token, "[token]")
            if text:
                self._last_lines.append(text[:500])


def terminate_other(pid: int) -> None:
    """Asks a gateway that is not our child to end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)


def _url_of(line: bytes) -> str:
    try:
        body: object = json.loads(line)
    except ValueError:
        body = None
    url = body.get("url") if isinstance(body, dict) else None
    if not isinstance(url, str) or not url.startswith("http"):
        raise BridgeError(
            "bridge.badAnswer",
            "The command of the kernel bridge did not print its address; check that c.TPULab.bridge_command "
            "names `tpulab`.",
        )
    return url if url.endswith("/") else url + "/"


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass
