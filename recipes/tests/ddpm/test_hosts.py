"""Two processes of four devices each, as two hosts of a slice: the same result as one process with eight."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

#: Both hosts compile, on a machine that may be busy. Reached only when one waits for the other for ever.
DEADLINE_S = 900
HOST = Path(__file__).with_name("one_host.py")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _start(folder: Path, process: int, processes: int, port: int) -> subprocess.Popen[str]:
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(8 // processes), "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = str(HOST.parents[1])
    arguments = [sys.executable, str(HOST), str(folder), str(process), str(processes), str(port)]
    return subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _run(folder: Path, processes: int) -> dict[str, np.ndarray]:
    port = _free_port()
    hosts = [_start(folder, process, processes, port) for process in range(processes)]
    try:
        for host in hosts:
            output, _ = host.communicate(timeout=DEADLINE_S)
            assert host.returncode == 0, output
    finally:
        for host in hosts:
            if host.poll() is None:
                host.kill()
                host.wait()
    with np.load(folder / f"result-{processes}.npz") as archive:
        return dict(archive)


def test_two_hosts_train_as_one_does_and_share_a_checkpoint(tmp_path: Path) -> None:
    alone, together = _run(tmp_path, 1), _run(tmp_path, 2)
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, atol=1e-5, err_msg=name)
