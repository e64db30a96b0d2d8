"""The extension in real Jupyter servers: the route and its guard, and the processes left at the end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from .conftest import DEADLINE_S, FAKE_GATEWAY, Bridge, is_running

TOKEN = "server-token"


class Server:
    """A Jupyter server in a separate process."""

    def __init__(
        self, bridge: Bridge, port: int, environ: dict[str, str], arguments: Sequence[str] = ()
    ) -> None:
        self.state_dir = bridge.state_dir
        self.url = f"http://127.0.0.1:{port}/base/"
        self.log = (bridge.root_dir / f"server-{port}.log").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyter_server",
                "--no-browser",
                "--allow-root",
                f"--ServerApp.port={port}",
                "--ServerApp.port_retries=0",
                "--ServerApp.base_url=/base/",
                f"--ServerApp.root_dir={bridge.root_dir}",
                f"--IdentityProvider.token={TOKEN}",
                "--ServerApp.jpserver_extensions=jupyterlab_tpulab=True",
                *arguments,
            ],
            env={**os.environ, "TPULAB_STATE_DIR": str(bridge.state_dir), **environ},
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )

    def get(self, path: str, token: str | None = TOKEN) -> tuple[int, Any]:
        headers = {"Authorization": f"token {token}"} if token else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path, headers=headers), timeout=DEADLINE_S
            ) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, None
        except OSError:
            # It listens before it serves: the connection may be refused, cut, or not answered in time.
            return 0, None

    def bridge(self, *statuses: str) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        body: Any = None
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.text()
            _, body = self.get("tpulab/bridge")
            if body and body["status"] in statuses:
                return dict(body)
            time.sleep(0.05)
        raise AssertionError(f"the bridge is {body}\n{self.text()}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(DEADLINE_S)

    def text(self) -> str:
        self.log.flush()
        return Path(self.log.name).read_text()


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that the system gives to no other process: bound and not listened on. A process that binds it by
    number with SO_REUSEADDR, as servers do, gets it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def serving(
    bridge: Bridge,
    *,
    port: int | None = None,
    arguments: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """`port`: a port that the caller has reserved."""
    command = {"TPULAB_BRIDGE_COMMAND": json.dumps(FAKE_GATEWAY)}
    with ExitStack() as held:
        port = port or held.enter_context(reserved_port())
        server = Server(bridge, port, {**command, **(environ or {})}, arguments)
        held.enter_context(closing(server.log))
        try:
            yield server
            if server.process.poll() is None:
                server.end()
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()


@pytest.mark.usefixtures("config_home")
def test_answers_only_users_of_the_server(bridge: Bridge) -> None:
    with serving(bridge) as server:
        body = server.bridge("ready")
        assert body["url"] == bridge.starts[0]["url"]
        assert set(body) == {"status", "url", "token", "proofKey", "message", "proxy"}
        assert server.get("tpulab/bridge", token=None)[0] == 403
        assert server.get("tpulab/bridge", token="wrong")[0] == 403
        port = server.url.split(":")[2].split("/")[0]
        assert bridge.starts[0]["allow_origin"] == [f"http://127.0.0.1:{port}", f"http://localhost:{port}"]
        kernel = bridge.add_kernel("k1")
        server.end()
        assert not kernel.exists()
        assert not is_running(bridge.pids[0])
        assert body["token"] not in server.text()


@pytest.mark.usefixtures("config_home")
def test_without_the_command_the_server_works_and_names_the_remedy(bridge: Bridge) -> None:
    with serving(bridge, environ={"TPULAB_BRIDGE_COMMAND": '["no-such-program"]'}) as server:
        body = server.bridge("failed")
        assert "TPULAB_BRIDGE_COMMAND" in body["message"]
        assert body["url"] is None
        assert body["token"] is None
        assert server.get("api/kernels") == (200, [])


@pytest.mark.usefixtures("config_home")
def test_a_gateway_that_never_becomes_ready_does_not_delay_the_server(bridge: Bridge) -> None:
    with serving(bridge, environ={"FAKE_GATEWAY": "silent"}) as server:
        assert server.bridge("starting")["url"] is None
        assert server.get("api/kernels") == (200, [])


@pytest.mark.usefixtures("config_home")
def test_after_a_killed_server_the_next_one_takes_its_gateway_over(bridge: Bridge) -> None:
    with reserved_port() as port:
        with serving(bridge, port=port) as first:
            before = first.bridge("ready")
            first.end(signal.SIGKILL)
        assert is_running(bridge.pids[0])
        kernel = bridge.add_kernel("kept")
        with serving(bridge, port=port) as second:
            assert second.bridge("ready") == before
            assert kernel.exists()
    assert len(bridge.starts) == 1
    assert not kernel.exists()
    assert not is_running(bridge.pids[0])
