"""Fixtures of pytest_jupyter, by the same names, that lead to a bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPResponse
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from ..reserved_port import reserved_port
from .bridge_app import BridgeApp

# jp_fetch has a timeout of 20 s, for a machine that does nothing else.
REQUEST_TIMEOUT_FACTOR = 6
# These compare a kernel's model before and after a request: it must still be starting then, a matter of luck
# unless starting takes longer than the request.
STILL_STARTING = {"test_modify_kernel_id", "test_modify_kernel_name"}
START_AFTER_S = 30


@pytest.fixture
def jp_base_url() -> str:
    """Below a prefix, like the original (that one has an escaped character, which a bridge refuses)."""
    return "/a@b/"


@pytest.fixture
def jp_http_port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


@pytest.fixture
def jp_configurable_serverapp(
    request: pytest.FixtureRequest,
    jp_environ: None,  # noqa: ARG001  (sets the folders in which kernelspecs are looked for)
    jp_data_dir: Path,
    jp_server_config: dict[str, Any],
    jp_http_port: int,
    jp_base_url: str,
    tmp_path: Path,
    jp_root_dir: Path,
) -> Iterator[Callable[..., BridgeApp]]:
    app = BridgeApp(
        folder=tmp_path,
        data_dir=jp_data_dir,
        root_dir=jp_root_dir,
        port=jp_http_port,
        base_url=jp_base_url,
        config=jp_server_config,
        start_after_s=START_AFTER_S if request.node.originalname in STILL_STARTING else 0,
    )
    yield lambda **_given: app
    app.close()


@pytest.fixture
def jp_server_cleanup() -> None:
    """There is no server in this process."""


class BridgeClient(SimpleAsyncHTTPClient):
    app: BridgeApp

    def fetch(self, path: str, **options: Any) -> Awaitable[HTTPResponse]:  # type: ignore[override]
        self.app.start()
        options["request_timeout"] = options.get("request_timeout", 20) * REQUEST_TIMEOUT_FACTOR
        return super().fetch(f"http://127.0.0.1:{self.app.port}{path}", **options)


@pytest.fixture
def http_server_client(
    jp_asyncio_loop: asyncio.AbstractEventLoop, jp_serverapp: BridgeApp
) -> Iterator[BridgeClient]:
    async def make() -> BridgeClient:
        return BridgeClient(force_instance=True)

    client = jp_asyncio_loop.run_until_complete(make())
    client.app = jp_serverapp
    yield client
    client.close()


@pytest.fixture
def jp_ws_fetch(jp_ws_fetch: Callable[..., Any], jp_serverapp: BridgeApp) -> Callable[..., Any]:
    def fetch(*parts: str, **options: Any) -> Any:
        jp_serverapp.start()
        return jp_ws_fetch(*parts, **options)

    return fetch
