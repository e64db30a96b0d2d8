"""What the supervisor of a host says, with a real process and a metadata server in the form of Google's."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from keeper_double import PATIENCE_S, wait_until

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
    with subprocess.Popen(
        [sys.executable, "-m", "tpulab.slice.supervisor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _tell(process, {"argv": SLEEP, "env": {"GCE_METADATA_IP": metadata_host}})
        yield process
        process.kill()


def _tell(process: subprocess.Popen[str], order: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str], key: str) -> dict[str, Any]:
    assert process.stdout is not None
    while key not in (said := json.loads(process.stdout.readline())):
        pass
    return dict(said)


def test_it_says_that_the_machine_is_preempted_and_how_the_process_ended(
    supervisor: subprocess.Popen[str],
) -> None:
    _hear(supervisor, "alive")
    Metadata.preempted.set()
    _hear(supervisor, "preempted")
    _tell(supervisor, {"kill": True})
    ended = _hear(supervisor, "exited")
    assert (ended["exited"], ended["oom"], ended["preempted"]) == (-9, False, True)
    assert supervisor.wait(PATIENCE_S) == 0


def test_the_process_ends_with_the_lead(supervisor: subprocess.Popen[str]) -> None:
    pid = _hear(supervisor, "alive")["alive"]
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the process to end")
