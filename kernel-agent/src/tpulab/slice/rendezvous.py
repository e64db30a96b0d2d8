"""Where the processes of a slice connect: ipyparallel's controller on loopback, the coordinator."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

from tpulab.slice.errors import SliceStartError
from tpulab.slice.spec import SliceSpec

_SSH_S = 15


def controller_order(folder: Path) -> dict[str, Any]:
    """The controller's command for a supervisor. Other hosts reach it through their ssh connections."""
    options = {
        "ProfileDir.location": str(folder),
        "IPController.ip": "127.0.0.1",
        "IPController.location": "127.0.0.1",
        "IPController.use_threads": True,
        "IPController.db_class": "NoDB",
        # The controller admits an engine at its first heartbeat; its supervisor reports whether it is alive.
        "HeartMonitor.period": 500,
        "HeartMonitor.max_heartmonitor_misses": 10_000,
        "IPController.log_level": 30,
    }
    argv = ["-m", "ipyparallel.controller", *(f"--{name}={value}" for name, value in options.items())]
    return {"argv": argv, "env": {}, "cwd": str(folder)}


def connections(folder: Path) -> list[dict[str, Any]] | None:
    """How the engines and the client reach the controller, from the files (mode 0600) that it writes."""
    try:
        return [
            json.loads((folder / "security" / f"ipcontroller-{who}.json").read_text())
            for who in ("engine", "client")
        ]
    except (OSError, ValueError):
        return None  # not yet, or half written


def coordinator_address(spec: SliceSpec) -> dict[str, str]:
    """Where process 0 listens for the others: on loopback when all of them are here."""
    address = "127.0.0.1" if spec.is_local else spec.address or _own_address(spec)
    with socket.socket() as probe:
        probe.bind((address, 0))
        port = probe.getsockname()[1]
    return {"coordinator": f"{address}:{port}"}


def _own_address(spec: SliceSpec) -> str:
    """The address of this machine that reaches the first other host."""
    destination = next(filter(None, spec.others))
    known = subprocess.run(
        ["ssh", "-G", *spec.ssh_options, destination], capture_output=True, text=True, timeout=_SSH_S
    )
    names = [line.split(None, 1)[1] for line in known.stdout.splitlines() if line.startswith("hostname ")]
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(((names or [destination])[0], 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise SliceStartError(
            f"Host 0 does not know its address towards {destination} ({error}). Name it: "
            "`python -m tpulab.slice add … --address ADDRESS`."
        ) from None
