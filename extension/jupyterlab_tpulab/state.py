"""The bridge's state folder: where it is, and the small files in it that name a running gateway."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATE_VARIABLE = "TPULAB_STATE_DIR"


@dataclass(frozen=True)
class GatewayRecord:
    """`gateway.json`: the gateway that serves this folder, or did when it was last alive."""

    url: str
    pid: int


@dataclass(frozen=True)
class OwnerRecord:
    """`lab.json`: which Jupyter server started which gateway, so that a later one can take an orphan over."""

    server_pid: int
    gateway_pid: int


def find_state_dir(configured: str, environ: Mapping[str, str]) -> Path:
    """Configured, `$TPULAB_STATE_DIR`, `$XDG_STATE_HOME/tpulab` or `~/.local/state/tpulab`."""
    if configured or environ.get(STATE_VARIABLE):
        return Path(configured or environ[STATE_VARIABLE]).expanduser().absolute()
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tpulab"


def read_gateway(state_dir: Path) -> GatewayRecord | None:
    """The recorded gateway; None when there is none or the record is not readable."""
    body = _read_object(state_dir / "gateway.json")
    url, pid = body.get("url"), body.get("pid")
    if isinstance(url, str) and url.startswith("http") and isinstance(pid, int) and not isinstance(pid, bool):
        return GatewayRecord(url if url.endswith("/") else url + "/", pid)
    return None


def read_token(state_dir: Path) -> str | None:
    try:
        token = (state_dir / "token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return token or None


def write_token(state_dir: Path, token: str) -> None:
    _write_private(state_dir / "token", token + "\n")


def read_owner(state_dir: Path) -> OwnerRecord | None:
    body = _read_object(state_dir / "lab.json")
    server, gateway = body.get("serverPid"), body.get("gatewayPid")
    if isinstance(server, int) and isinstance(gateway, int):
        return OwnerRecord(server, gateway)
    return None


def write_owner(state_dir: Path, owner: OwnerRecord) -> None:
    body = {"serverPid": owner.server_pid, "gatewayPid": owner.gateway_pid}
    _write_private(state_dir / "lab.json", json.dumps(body) + "\n")


def forget_owner(state_dir: Path) -> None:
    (state_dir / "lab.json").unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists, be it ours or not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def make_private_dir(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _read_object(path: Path) -> dict[str, object]:
    try:
        body: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): value for key, value in body.items()} if isinstance(body, dict) else {}


def _write_private(path: Path, text: str) -> None:
    """Atomically, and never readable by others, not even for a moment."""
    make_private_dir(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
