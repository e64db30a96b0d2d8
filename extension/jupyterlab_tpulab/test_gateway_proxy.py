"""The bridge through the Jupyter server's own address, as a page on another machine reaches it."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from .conftest import DEADLINE_S, Bridge
from .test_server import TOKEN, serving

pytest.importorskip("jupyter_server_proxy")
pytestmark = pytest.mark.usefixtures("config_home")

ELSEWHERE = "lab.example"
REAL_BRIDGE = Path(__file__).resolve().parents[2] / "kernel-bridge" / "lib" / "cli" / "main.js"


def ask(url: str, host: str | None = None, method: str = "GET", **headers: str) -> tuple[int, Any, Any]:
    """A request with another host name, and the answer whatever its status."""
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    request = urllib.request.Request(url, method=method, headers=given | ({"Host": host} if host else {}))
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
            return response.status, parsed(response.read()), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, parsed(error.read()), error.headers


def serving_real(bridge: Bridge) -> AbstractContextManager[Any]:
    """A Jupyter server that foreign pages may reach, with the bridge itself instead of the stand-in."""
    command = json.dumps(["node", str(REAL_BRIDGE.parents[2] / "bin" / "tpulab.js")])
    return serving(
        bridge,
        arguments=["--ServerApp.allow_remote_access=True"],
        environ={"TPULAB_BRIDGE_COMMAND": command},
    )


def parsed(body: bytes) -> Any:
    """A page for users, such as the login page, stays unchanged."""
    try:
        return json.loads(body or b"null")
    except ValueError:
        return body


def test_a_page_elsewhere_gets_the_path_of_the_proxy_and_no_token(bridge: Bridge) -> None:
    with serving(bridge, arguments=["--ServerApp.allow_remote_access=True"]) as server:
        server.bridge("ready")
        auth = f"token {TOKEN}"
        _, here, _ = ask(f"{server.url}tpulab/bridge", Authorization=auth)
        assert here["proxy"] == "tpulab/gateway/"
        assert here["token"]
        _, elsewhere, _ = ask(f"{server.url}tpulab/bridge", ELSEWHERE, Authorization=auth)
        assert (elsewhere["status"], elsewhere["url"], elsewhere["token"]) == ("ready", None, None)
        status, health, headers = ask(
            f"{server.url}{elsewhere['proxy']}bridge/v1/health",
            ELSEWHERE,
            Authorization=auth,
            Origin="http://lab.example",
            Cookie="a=b",
        )
        assert (status, health["status"]) == (200, "ok")
        cookies = headers.get_all("Set-Cookie") or []
        assert [cookie for cookie in cookies if cookie.startswith("gateway=")] == []
        _, sent, _ = ask(
            f"{server.url}tpulab/gateway/headers",
            ELSEWHERE,
            Authorization=auth,
            Origin="http://lab.example",
            Cookie="a=b",
        )
        assert sent["authorization"] == f"token {here['token']}"
        assert not {"cookie", "origin", "x-xsrftoken"} & set(sent)


def test_the_proxy_requires_the_token_of_the_jupyter_server(bridge: Bridge) -> None:
    with serving(bridge, arguments=["--ServerApp.allow_remote_access=True"]) as server:
        server.bridge("ready")
        url = f"{server.url}tpulab/gateway/bridge/v1/health"
        status, body, _ = ask(url, ELSEWHERE)
        assert status != 200 or "gatewayId" not in str(body)
        status, body, _ = ask(f"{server.url}tpulab/gateway/api/kernels/x", ELSEWHERE, "DELETE", Cookie="a=b")
        assert status == 403


@pytest.mark.skipif(not REAL_BRIDGE.exists(), reason="the bridge is not built")
def test_help_opens_the_documentation_at_the_bridge_and_through_the_proxy(bridge: Bridge) -> None:
    with serving_real(bridge) as server:
        # A new tab sends no token.
        status, page, _ = ask(f"{server.bridge('ready')['url']}docs/")
        assert (status, b"<html" in page) == (200, True)
        proxied = f"{server.url}tpulab/gateway/docs/"
        status, page, _ = ask(proxied, ELSEWHERE, Authorization=f"token {TOKEN}")
        assert status == 200
        # A checkout may have no site; an existing one must load relative to the page's address.
        addresses = re.findall(rb'(?:href|src)="(/[^"]*)"', page)
        assert all(address.startswith(b"/base/tpulab/gateway/docs/") for address in addresses)
        for address in addresses[:3]:
            url = server.url.removesuffix("/base/") + address.decode()
            assert ask(url, ELSEWHERE, Authorization=f"token {TOKEN}")[0] == 200


@pytest.mark.asyncio
@pytest.mark.skipif(not REAL_BRIDGE.exists(), reason="the bridge is not built")
async def test_sockets_of_the_real_bridge_pass_through_without_its_token(bridge: Bridge) -> None:
    with serving_real(bridge) as server:
        server.bridge("ready")
        address = server.url.replace("http", "ws", 1) + "tpulab/gateway/bridge/v1/events"
        # Logged in by cookie, like a browser: a client with the token needs no origin.
        _, _, given = ask(f"{server.url}api/status", ELSEWHERE, Authorization=f"token {TOKEN}")
        cookies = "; ".join(cookie.split(";")[0] for cookie in given.get_all("Set-Cookie") or [])
        headers = {"Host": ELSEWHERE, "Cookie": cookies, "Origin": "http://lab.example"}
        socket = await websocket_connect(
            HTTPRequest(address, headers=headers, connect_timeout=DEADLINE_S, request_timeout=DEADLINE_S)
        )
        await socket.write_message(json.dumps({"op": "subscribe", "topics": ["kernels"]}))
        answer = json.loads(await socket.read_message() or "null")
        assert answer["op"] == "subscribed"
        socket.close()
        foreign = headers | {"Origin": "http://evil.example"}
        with pytest.raises(HTTPClientError) as refused:
            await websocket_connect(
                HTTPRequest(address, headers=foreign, connect_timeout=DEADLINE_S, request_timeout=DEADLINE_S)
            )
        assert refused.value.code == 403
