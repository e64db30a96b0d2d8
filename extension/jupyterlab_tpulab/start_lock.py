"""Lets only one Jupyter server at a time search for a gateway and start one in the same state folder."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .errors import BridgeError
from .state import make_private_dir


@asynccontextmanager
async def start_lock(state_dir: Path, timeout_s: float = 90.0) -> AsyncIterator[None]:
    """Held while a gateway is searched for or started. The system releases it when its holder dies."""
    try:
        make_private_dir(state_dir)
        handle = os.open(state_dir / "lab.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BridgeError(
            "bridge.stateDir",
            f"The state folder of the kernel bridge, {state_dir}, cannot be used: {error.strerror}. "
            "Make it writable, or set c.TPULab.state_dir or TPULAB_STATE_DIR.",
        ) from error
    try:
        await _lock(handle, timeout_s)
        yield
    finally:
        os.close(handle)


async def _lock(handle: int, timeout_s: float) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if asyncio.get_running_loop().time() > deadline:
                raise BridgeError(
                    "bridge.locked",
                    f"Another Jupyter server has been starting the kernel bridge for {timeout_s:g} s; it is "
                    "tried again.",
                ) from None
            await asyncio.sleep(0.1)
