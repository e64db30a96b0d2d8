"""A bridge for all tests of the folder, and a stock jupyter_server in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..bridge import CHECKOUT, Bridge, stock_kernels
from ..gateway_client import gateway_client
from .front import Front


@pytest.fixture(scope="session")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    folder = tmp_path_factory.mktemp("bridge")
    options = ["--default-kernel", "python3", "--env-dir", str(CHECKOUT / ".tpulab" / "envs")]
    root_dir = CHECKOUT / "notebooks"
    with Bridge(folder, root_dir, env=stock_kernels(folder / "data"), options=options) as running:
        yield running


@pytest.fixture(scope="session")
def front(bridge: Bridge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with Front(bridge, tmp_path_factory.mktemp("front")) as running:
        yield running


@pytest.fixture
def gateway(bridge: Bridge) -> Iterator[None]:
    with gateway_client(bridge):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
