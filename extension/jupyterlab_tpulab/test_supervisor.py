"""The supervisor with real processes: start, attach, restart, stop, and its error messages."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from . import state
from .conftest import FAKE_GATEWAY, ORIGIN, Bridge, is_running, until
from .errors import BridgeError
from .supervisor import BridgeSupervisor

pytestmark = pytest.mark.asyncio


async def ready(supervisor: BridgeSupervisor) -> BridgeSupervisor:
    supervisor.start()
    await until(lambda: supervisor.status.status == "ready")
    return supervisor


async def test_starts_a_gateway_and_reports_its_address(bridge: Bridge) -> None:
    supervisor = bridge.supervisor()
    supervisor.start()
    assert supervisor.status.status == "starting"
    await until(lambda: supervisor.status.status == "ready")
    assert supervisor.status.url == bridge.starts[0]["url"]
    assert supervisor.status.token == state.read_token(bridge.state_dir)
    assert (bridge.state_dir / "token").stat().st_mode & 0o777 == 0o600
    assert bridge.starts[0]["root_dir"] == str(bridge.root_dir)
    assert bridge.starts[0]["allow_origin"] == [ORIGIN]
    await supervisor.stop(keep_kernels=False)
    assert not is_running(bridge.pids[0])


async def test_restarts_a_killed_gateway_on_the_same_port_with_another_token(bridge: Bridge) -> None:
    supervisor = await ready(bridge.supervisor())
    before = supervisor.status
    os.kill(bridge.pids[0], signal.SIGKILL)
    await until(lambda: len(bridge.starts) == 2 and supervisor.status.status == "ready")
    assert supervisor.status.url == before.url
    # During the outage, pages continued to send requests: any program on the port then has the old token.
    assert supervisor.status.token != before.token
    assert supervisor.status.token == state.read_token(bridge.state_dir)
    assert supervisor.status.proofKey not in (None, before.proofKey)
    await supervisor.stop(keep_kernels=False)


async def test_takes_another_port_when_the_old_one_stays_occupied(bridge: Bridge) -> None:
    blocker = socket.socket()
    blocker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def command() -> list[str]:
        # Requested before each start: after the end of the old gateway, before a new one can have its port.
        if bridge.starts and blocker.getsockname()[1] == 0:
            blocker.bind(("127.0.0.1", port))
            blocker.listen()
        return FAKE_GATEWAY

    with blocker:
        supervisor = await ready(bridge.supervisor(command=command))
        port = int(str(supervisor.status.url).rsplit(":", 1)[1].strip("/"))
        os.kill(bridge.pids[0], signal.SIGKILL)
        await until(lambda: len(bridge.starts) == 2 and supervisor.status.status == "ready")
        assert supervisor.status.url != bridge.starts[0]["url"]
    await supervisor.stop(keep_kernels=False)


async def test_shuts_kernels_down_at_the_end_unless_they_are_to_be_kept(bridge: Bridge) -> None:
    supervisor = await ready(bridge.supervisor())
    kernel = bridge.add_kernel("k1")
    await supervisor.stop(keep_kernels=True)
    assert kernel.exists()
    supervisor = await ready(bridge.supervisor())
    await supervisor.stop(keep_kernels=False)
    assert not kernel.exists()
    await supervisor.stop(keep_kernels=False)


async def test_attaches_to_a_living_gateway_and_leaves_it_to_its_owner(bridge: Bridge) -> None:
    owner = await ready(bridge.supervisor())
    # The owner represents another Jupyter server, so its record must name another living process.
    state.write_owner(bridge.state_dir, state.OwnerRecord(os.getppid(), bridge.pids[0]))
    guest = await ready(bridge.supervisor())
    assert guest.status == owner.status
    assert len(bridge.starts) == 1
    kernel = bridge.add_kernel("k1")
    await guest.stop(keep_kernels=False)
    assert kernel.exists()
    assert is_running(bridge.pids[0])
    await owner.stop(keep_kernels=False)


async def test_a_guest_starts_a_gateway_itself_when_the_one_it_used_has_ended(bridge: Bridge) -> None:
    owner = await ready(bridge.supervisor())
    state.write_owner(bridge.state_dir, state.OwnerRecord(os.getppid(), bridge.pids[0]))
    guest = await ready(bridge.supervisor())
    before = guest.status
    await owner.stop(keep_kernels=True)
    await until(lambda: len(bridge.starts) == 2 and guest.status.status == "ready")
    assert guest.status.url == before.url
    await guest.stop(keep_kernels=False)


async def test_the_record_of_a_guest_that_has_taken_over_stays(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await ready(bridge.supervisor())
    state.write_owner(bridge.state_dir, state.OwnerRecord(os.getppid(), bridge.pids[0]))
    guest = await ready(bridge.supervisor())
    gateway = owner._gateway
    assert gateway is not None
    assert gateway.process is not None
    terminate = gateway.process.terminate

    async def terminate_late() -> None:
        await terminate()
        await until(lambda: len(bridge.starts) == 2 and guest.status.status == "ready")

    monkeypatch.setattr(gateway.process, "terminate", terminate_late)
    await owner.stop(keep_kernels=True)
    kept = state.read_owner(bridge.state_dir)
    assert kept is not None
    assert kept.gateway_pid == bridge.pids[1]
    await guest.stop(keep_kernels=False)
    assert state.read_owner(bridge.state_dir) is None


async def orphan(bridge: Bridge, origin: str = ORIGIN) -> int:
    """A gateway whose Jupyter server has been killed."""
    state.write_token(bridge.state_dir, "orphan-token")
    process = subprocess.Popen(
        [
            *FAKE_GATEWAY,
            "serve",
            "--state-dir",
            str(bridge.state_dir),
            "--root-dir",
            "/",
            "--allow-origin",
            origin,
        ],
        env={**os.environ, "TPULAB_TOKEN": "orphan-token"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    # No process reaps it otherwise, and a zombie looks alive.
    asyncio.get_running_loop().run_in_executor(None, process.wait)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    state.write_owner(bridge.state_dir, state.OwnerRecord(gone.pid, process.pid))
    return process.pid


async def test_takes_over_the_gateway_of_a_server_that_was_killed_and_ends_it(bridge: Bridge) -> None:
    pid = await orphan(bridge)
    supervisor = await ready(bridge.supervisor())
    assert supervisor.status.token == "orphan-token"
    assert bridge.pids == [pid]
    await supervisor.stop(keep_kernels=False)
    await until(lambda: not is_running(pid))


async def test_takes_over_the_gateway_of_a_server_whose_process_id_was_reused(bridge: Bridge) -> None:
    pid = await orphan(bridge)
    # Alive, and not the process that started the gateway.
    state.write_owner(bridge.state_dir, state.OwnerRecord(os.getppid(), pid, "long ago/1"))
    supervisor = await ready(bridge.supervisor())
    await supervisor.stop(keep_kernels=False)
    await until(lambda: not is_running(pid))


async def test_replaces_an_orphan_that_does_not_accept_our_pages(bridge: Bridge) -> None:
    pid = await orphan(bridge, origin="http://127.0.0.1:1")
    supervisor = await ready(bridge.supervisor())
    assert len(bridge.starts) == 2
    assert not is_running(pid)
    assert supervisor.status.url == bridge.starts[1]["url"]
    await supervisor.stop(keep_kernels=False)


async def test_another_users_gateway_that_refuses_our_pages_is_reported(bridge: Bridge) -> None:
    owner = await ready(bridge.supervisor(origins=["http://127.0.0.1:1"]))
    state.write_owner(bridge.state_dir, state.OwnerRecord(os.getppid(), bridge.pids[0]))
    guest = bridge.supervisor()
    guest.start()
    await until(lambda: guest.status.status == "failed")
    assert f"--allow-origin {ORIGIN}" in str(guest.status.message)
    await guest.stop(keep_kernels=False)
    assert is_running(bridge.pids[0])
    await owner.stop(keep_kernels=False)


async def test_ignores_a_stale_record_whose_process_has_ended(bridge: Bridge) -> None:
    bridge.state_dir.mkdir()
    (bridge.state_dir / "gateway.json").write_text('{"url": "http://127.0.0.1:1/", "pid": 999999999}')
    state.write_token(bridge.state_dir, "old")
    supervisor = await ready(bridge.supervisor())
    assert supervisor.status.token != "old"
    await supervisor.stop(keep_kernels=False)


class Stranger:
    """Another user's program on the port that a gateway had: answers all requests, and records them."""

    def __init__(self, answer: bytes = b'{"status": "ok", "proof": "00", "gatewayId": "fake"}') -> None:
        self.received: list[str] = []
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stranger.received.append(f"{self.requestline}\n{self.headers}")
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", self.headers.get("Origin", ORIGIN))
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_OPTIONS = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    def __enter__(self) -> Stranger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


def left_behind(bridge: Bridge, **record: object) -> None:
    """Writes the record and the token of a killed gateway."""
    bridge.state_dir.mkdir()
    (bridge.state_dir / "gateway.json").write_text(json.dumps(record))
    state.write_token(bridge.state_dir, "old-token")


@pytest.mark.parametrize("start", ["the same", "another"])
async def test_a_stranger_on_the_old_port_gets_no_token_and_serves_no_page(
    bridge: Bridge, start: str
) -> None:
    # The pid is a living process of ours: another process has it now, or the gateway hangs without its port.
    process_start = state.process_start(os.getpid()) if start == "the same" else "long ago/1"
    with Stranger() as stranger:
        left_behind(
            bridge, url=stranger.url, pid=os.getpid(), processStart=process_start, proofKey="only ours"
        )
        supervisor = await ready(bridge.supervisor())
        assert supervisor.status.url == bridge.starts[0]["url"]
        assert supervisor.status.token != "old-token"
        await supervisor.stop(keep_kernels=False)
    assert "old-token" not in "".join(stranger.received)
    assert all("Authorization" not in request for request in stranger.received)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run a process as another user")
async def test_a_process_of_another_user_is_no_gateway_of_ours(bridge: Bridge) -> None:
    # As an earlier version recorded it, with neither start nor key.
    other = subprocess.Popen(["/bin/sh", "-c", "read line"], user=65534, stdin=subprocess.PIPE)
    try:
        with Stranger() as stranger:
            left_behind(bridge, url=stranger.url, pid=other.pid)
            supervisor = await ready(bridge.supervisor())
            assert supervisor.status.url == bridge.starts[0]["url"]
            await supervisor.stop(keep_kernels=False)
        assert stranger.received == []
    finally:
        other.kill()
        other.communicate()


async def test_two_servers_that_start_together_use_one_gateway(bridge: Bridge) -> None:
    first, second = bridge.supervisor(), bridge.supervisor()
    first.start()
    second.start()
    await until(lambda: first.status.status == second.status.status == "ready")
    assert first.status == second.status
    assert len(bridge.starts) == 1
    await first.stop(keep_kernels=False)
    await second.stop(keep_kernels=False)


@pytest.mark.parametrize(
    ("fault", "words"),
    [("exit", "ended with code 3 while it was starting"), ("garbage", "did not print its address")],
)
async def test_a_gateway_that_cannot_start_is_reported_without_its_token(
    bridge: Bridge, fault: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    supervisor = bridge.supervisor(environ={**os.environ, "FAKE_GATEWAY": fault})
    supervisor.start()
    await until(lambda: supervisor.status.status == "failed")
    message = str(supervisor.status.message)
    assert words in message
    token = str(state.read_token(bridge.state_dir))
    assert token not in message
    assert token not in caplog.text
    await supervisor.stop(keep_kernels=False)


async def test_recovers_when_the_command_is_repaired(bridge: Bridge) -> None:
    words: list[list[str]] = [["/nowhere/tpulab"], FAKE_GATEWAY]

    def command() -> list[str]:
        return words.pop(0) if len(words) > 1 else words[0]

    supervisor = bridge.supervisor(command=command)
    supervisor.start()
    await until(lambda: supervisor.status.status == "failed" or bool(bridge.starts))
    await until(lambda: supervisor.status.status == "ready")
    await supervisor.stop(keep_kernels=False)


async def test_a_missing_command_fails_with_a_remedy(bridge: Bridge) -> None:
    def command() -> list[str]:
        raise BridgeError("bridge.noCommand", "Not found. Do this.")

    supervisor = bridge.supervisor(command=command)
    supervisor.start()
    await until(lambda: supervisor.status.status == "failed")
    assert supervisor.status.message == "Not found. Do this."
    await supervisor.stop(keep_kernels=False)


async def test_an_unusable_state_folder_fails_with_a_remedy(bridge: Bridge, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    supervisor = bridge.supervisor(state_dir=tmp_path / "file" / "state")
    supervisor.start()
    await until(lambda: supervisor.status.status == "failed")
    assert "c.TPULab.state_dir" in str(supervisor.status.message)
    await supervisor.stop(keep_kernels=False)


async def test_stop_during_a_start_leaves_nothing(bridge: Bridge) -> None:
    supervisor = bridge.supervisor(environ={**os.environ, "FAKE_GATEWAY": "silent"})
    supervisor.start()
    await until(lambda: (bridge.state_dir / "token").exists())
    await supervisor.stop(keep_kernels=False)
    assert bridge.starts == []


async def test_credentials_of_the_jupyter_server_do_not_reach_the_bridge(
    bridge: Bridge, tmp_path: Path
) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import json, os, pathlib, runpy, sys\n"
        f"pathlib.Path({str(tmp_path / 'env.json')!r}).write_text(json.dumps(dict(os.environ)))\n"
        f"sys.argv = [{FAKE_GATEWAY[1]!r}, *sys.argv[1:]]\n"
        f"runpy.run_path({FAKE_GATEWAY[1]!r}, run_name='__main__')\n"
    )
    environ = {
        **os.environ,
        "JUPYTER_TOKEN": "secret",
        "JUPYTERHUB_API_TOKEN": "secret",
        "TPULAB_ENV_DIR": "/envs",
    }
    supervisor = await ready(bridge.supervisor(command=lambda: [sys.executable, str(probe)], environ=environ))
    text = (tmp_path / "env.json").read_text()
    assert "secret" not in text
    assert "/envs" in text
    await supervisor.stop(keep_kernels=False)
