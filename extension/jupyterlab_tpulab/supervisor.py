"""Keeps a gateway running beside the Jupyter server: attaches to one, else starts one, and restarts it.

The gateway keeps its port over restarts, so open pages find it again, and gets a new token with each: during
the outage, another user's program may have received the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from . import state
from .errors import BridgeError
from .gateway_api import GatewayApi
from .gateway_process import TERMINATE_TIMEOUT_S, GatewayOptions, GatewayProcess, terminate_other
from .start_lock import start_lock

# Limit for an orderly end of all kernels; a remaining one is ended by its keeper or stays under it.
KERNELS_TIMEOUT_S = 20.0
MAX_PAUSE_S = 30.0
# A gateway that ran this long was healthy, so the next failure starts with a short pause again.
STABLE_S = 60.0
# After this number of failures on the old port another program may have claimed it.
FIXED_PORT_ATTEMPTS = 3


@dataclass(frozen=True)
class BridgeStatus:
    """The status sent to the page (`BridgeAddress` in protocol/src/rest.ts)."""

    status: Literal["ready", "starting", "failed"]
    url: str | None = None
    token: str | None = None
    proofKey: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class SupervisorSettings:
    command: Callable[[], Sequence[str]]
    state_dir: Path
    root_dir: Path
    origins: Sequence[str]
    environ: Mapping[str, str]
    extra_arguments: Sequence[str] = ()
    first_pause_s: float = 1.0
    watch_interval_s: float = 2.0


@dataclass
class _Gateway:
    """The gateway in use. `process` is set when it is our child; `owned` when it ends with this server."""

    api: GatewayApi
    record: state.GatewayRecord
    owned: bool
    process: GatewayProcess | None = None


class BridgeSupervisor:
    """Owns the gateway from `start` to `stop`."""

    def __init__(
        self, settings: SupervisorSettings, log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    ) -> None:
        self.status = BridgeStatus("starting", message="The kernel bridge is starting.")
        self._settings = settings
        self._log = log
        self._gateway: _Gateway | None = None
        self._port = 0
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Returns immediately; `status` has the progress."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self, keep_kernels: bool) -> None:
        """Ends the kernels (unless set to keep them) and the gateway, if this server owns it. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        gateway, self._gateway = self._gateway, None
        if gateway is None or not gateway.owned:
            return
        if not keep_kernels:
            await self._shut_down_kernels(gateway.api)
        if gateway.process is not None:
            await gateway.process.terminate()
        else:
            await self._end_other(gateway.record)
        state.forget_owner(self._settings.state_dir, gateway.record.pid)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            since = loop.time()
            try:
                await self._obtain()
                since = loop.time()
                await self._watch()
                self._log.warning("The kernel bridge has ended; it is started again.")
                self.status = BridgeStatus(
                    "starting", message="The kernel bridge has ended and is started again."
                )
            except BridgeError as error:
                if self.status.message != error.message:
                    self._log.error("%s", error.message)
                self.status = BridgeStatus("failed", message=error.message)
            except OSError as error:
                message = f"The kernel bridge could not be started: {error}. See the Jupyter server's log."
                self._log.exception("The kernel bridge could not be started.")
                self.status = BridgeStatus("failed", message=message)
            await self._release()
            self._failures = 1 if loop.time() - since > STABLE_S else self._failures + 1
            await asyncio.sleep(min(MAX_PAUSE_S, self._settings.first_pause_s * 2 ** (self._failures - 1)))

    async def _obtain(self) -> None:
        async with start_lock(self._settings.state_dir):
            gateway = await self._attach() or await self._spawn()
            # Stored before anything is awaited: `stop` must find it.
            self._gateway = gateway
            if gateway.owned:
                own = os.getpid()
                state.write_owner(
                    self._settings.state_dir,
                    state.OwnerRecord(own, gateway.record.pid, state.process_start(own)),
                )
        self._port = urlsplit(gateway.api.url).port or 0
        self.status = BridgeStatus(
            "ready", url=gateway.api.url, token=gateway.api.token, proofKey=gateway.record.proof_key
        )
        self._log.info("The kernel bridge serves at %s (process %d).", gateway.api.url, gateway.record.pid)

    async def _attach(self) -> _Gateway | None:
        """A living gateway of this state folder that accepts us and our pages; None when there is none."""
        folder = self._settings.state_dir
        record, token = state.read_gateway(folder), state.read_token(folder)
        if record is None or token is None or not record.is_running():
            return None
        api = GatewayApi(record.url, token)
        if record.proof_key is not None and not await api.proves_itself(record.proof_key):
            # No data was sent to the server at this address, if there is one.
            self._log.warning("Process %d does not serve at %s as its record says.", record.pid, record.url)
            return None
        if not await api.is_serving():
            return None
        owner = state.read_owner(folder)
        ours = owner is not None and owner.gateway_pid == record.pid
        orphan = (
            owner is not None and ours and (owner.server_pid == os.getpid() or not owner.is_server_running())
        )
        refused = [origin for origin in self._settings.origins if not await api.allows_origin(origin)]
        if not refused:
            self._log.info("Using the kernel bridge that is already running.")
            return _Gateway(api, record, owned=orphan)
        if orphan:
            # Left by a Jupyter server on another port. Its kernels continue under their keepers.
            await self._end_other(record)
            return None
        raise BridgeError(
            "bridge.foreignGateway",
            f"The kernel bridge that serves {folder} does not accept pages of {refused[0]}. Start it with "
            f"--allow-origin {refused[0]}, stop it, or set c.TPULab.state_dir to another folder.",
        )

    async def _spawn(self) -> _Gateway:
        settings = self._settings
        token = secrets.token_urlsafe(32)
        # Before the gateway runs, so that a server that finds it can also send it requests.
        state.write_token(settings.state_dir, token)
        options = GatewayOptions(
            command=settings.command(),
            state_dir=settings.state_dir,
            root_dir=settings.root_dir,
            token=token,
            origins=settings.origins,
            port=self._port if self._failures < FIXED_PORT_ATTEMPTS else 0,
            extra_arguments=settings.extra_arguments,
        )
        process = await GatewayProcess.start(options, settings.environ)
        record = state.read_gateway(settings.state_dir)
        if record is None or record.url != process.url:
            record = state.GatewayRecord(process.url, process.pid)
        return _Gateway(GatewayApi(process.url, token), record, owned=True, process=process)

    async def _watch(self) -> None:
        """Returns when the gateway has ended."""
        gateway = self._gateway
        assert gateway is not None
        if gateway.process is not None:
            await gateway.process.wait()
            return
        while gateway.record.is_running():
            await asyncio.sleep(self._settings.watch_interval_s)

    async def _release(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None and gateway.process is not None:
            await gateway.process.terminate()

    async def _shut_down_kernels(self, api: GatewayApi) -> None:
        kernels = await api.kernel_ids()
        if not kernels:
            return
        self._log.info("Shutting down %d kernels of the bridge.", len(kernels))
        ended = await asyncio.gather(*(api.shut_down_kernel(kernel, KERNELS_TIMEOUT_S) for kernel in kernels))
        if not all(ended):
            self._log.warning(
                "%d kernels of the bridge did not end within %g s; `tpulab status` lists them.",
                ended.count(False),
                KERNELS_TIMEOUT_S,
            )

    async def _end_other(self, record: state.GatewayRecord) -> None:
        """Ends a gateway that is not our child, and waits for its end."""
        if not record.is_running():
            return
        terminate_other(record.pid)
        deadline = asyncio.get_running_loop().time() + TERMINATE_TIMEOUT_S
        while record.is_running():
            if asyncio.get_running_loop().time() > deadline:
                self._log.warning("The kernel bridge (process %d) did not end; end it by hand.", record.pid)
                return
            await asyncio.sleep(0.1)
