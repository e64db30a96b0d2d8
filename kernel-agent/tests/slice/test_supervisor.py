"""The messages of a host's supervisor, with a real process and a metadata server in the form of Google's."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from keeper_double import PATIENCE_S, wait_until
from tpulab.slice import supervisor as program

SLEEP = ["-c", "import time; time.sleep(600)"]


class Metadata(http.server.BaseHTTPRequestHandler):
    preempted = threading.Event()

    def do_GET(self) -> None:
        is_known = self.path == "/computeMetadata/v1/instance/preempted"
        self.send_response(200 if is_known and self.headers["Metadata-Flavor"] == "Google" else 403)
        self.end_headers()
        self.wfile.write(b"TRUE" if self.preempted.is_set() else b"FALSE")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def metadata_host() -> Iterator[str]:
    Metadata.preempted.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def supervisor(metadata_host: str) -> Iterator[subprocess.Popen[str]]:
    with _supervisor({"env": {"GCE_METADATA_IP": metadata_host}}) as process:
        yield process


@contextlib.contextmanager
def _supervisor(order: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tpulab.slice.supervisor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _send(process, {"argv": SLEEP, "env": {}, **order})
        try:
            yield process
        finally:
            # Ends its lifeline: a killed supervisor would leave its process running.
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()


def _send(process: subprocess.Popen[str], order: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()


def _receive(process: subprocess.Popen[str], key: str) -> dict[str, Any]:
    assert process.stdout is not None
    while key not in (message := json.loads(process.stdout.readline())):
        pass
    return dict(message)


def test_it_reports_the_preemption_and_how_the_process_ended(
    supervisor: subprocess.Popen[str],
) -> None:
    _receive(supervisor, "alive")
    Metadata.preempted.set()
    _receive(supervisor, "preempted")
    _send(supervisor, {"kill": True})
    ended = _receive(supervisor, "exited")
    assert (ended["exited"], ended["oom"], ended["preempted"]) == (-9, False, True)
    assert supervisor.wait(PATIENCE_S) == 0


def test_the_process_ends_with_the_lead(supervisor: subprocess.Popen[str]) -> None:
    pid = _receive(supervisor, "alive")["alive"]
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the process to end")


def test_it_ends_the_process_from_before_the_restart_and_waits_for_its_end() -> None:
    order = {"lock": uuid.uuid4().hex, "patience_s": 600}
    with _supervisor(order) as cut_off, _supervisor({"lock": uuid.uuid4().hex}) as another:
        pid = _receive(cut_off, "alive")["alive"]
        with _supervisor(order) as after:
            assert _receive(after, "alive")["alive"] != pid
            assert not os.path.exists(f"/proc/{pid}")
            assert _receive(cut_off, "exited")["exited"] == -9
            # The process of another kernel, or of another host.
            assert os.path.exists(f"/proc/{_receive(another, 'alive')['alive']}")


def test_it_states_what_it_waits_for() -> None:
    name = uuid.uuid4().hex
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(f"\0tpulab-slice-{os.getuid()}-{name}")
        stuck.listen()
        with _supervisor({"lock": name}) as after:
            assert "waiting for it to free the chips" in _receive(after, "waits")["waits"]
            stuck.close()
            _receive(after, "alive")


def test_it_ends_the_process_when_the_lead_is_silent() -> None:
    with _supervisor({"patience_s": 0.1}) as process:
        assert _receive(process, "exited")["exited"] == -9


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        (["5:memory:/host", "0::/"], 2),
        (["0::/host.slice"], 3),
        (["5:memory:/elsewhere", "0::/elsewhere"], 11),
        ([], 11),
    ],
)
def test_memory_kills_of_its_control_group_count_where_it_has_a_counter(
    monkeypatch: pytest.MonkeyPatch, groups: list[str], count: int
) -> None:
    files = {
        "/proc/self/cgroup": groups,
        "/sys/fs/cgroup/memory/host/memory.oom_control": ["oom_kill_disable 0", "under_oom 0", "oom_kill 2"],
        "/sys/fs/cgroup/host.slice/memory.events": ["max 5", "oom_kill 3"],
        "/proc/vmstat": ["oom_kill 11"],
    }
    monkeypatch.setattr(program, "_lines", lambda file: files.get(file, []))
    assert program._oom_kills() == count
