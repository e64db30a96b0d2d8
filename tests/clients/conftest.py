"""A bridge for the tests of a module, and kernels for a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from ..kernel_environment import environment_python
from ..lesson import CHECKOUT
from .bridge_process import BridgeProcess
from .kernel_connection import KernelConnection


@pytest_asyncio.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[BridgeProcess]:
    """A gateway for one test; its kernels end with the test."""
    environment_python()
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    process = BridgeProcess(state, CHECKOUT / "notebooks")
    try:
        await process.start()
        yield process
    finally:
        # Shielded, so that a cancelled test still leaves no process behind.
        await asyncio.shield(process.stop())


@pytest_asyncio.fixture
async def client(bridge: BridgeProcess) -> AsyncIterator[KernelConnection]:
    """A client of a fresh `tpulab-jax` kernel."""
    kernel_id = await bridge.start_kernel()
    async with KernelConnection(bridge, kernel_id) as connection:
        yield connection
