"""The bridge's state folder: where it is, and the small files in it that name a running gateway."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATE_VARIABLE = "TPULAB_STATE_DIR"


@dataclass(frozen=True)
class GatewayRecord:
    """`gateway.json`: the gateway that serves this folder, or the last one that did."""

    url: str
    pid: int
    process_start: str | None = None
    """Distinguishes the process from a later one with its pid; None in the record of an older gateway."""
    proof_key: str | None = None
    """Key with which the gateway proves its identity (`GatewayApi.proves_itself`); None as above."""

    def is_running(self) -> bool:
        """Whether this same process of this same user still runs."""
        if self.process_start is None:
            return is_alive(self.pid) and runs_as_us(self.pid)
        return process_start(self.pid) == self.process_start and runs_as_us(self.pid)


@dataclass(frozen=True)
class OwnerRecord:
    """`lab.json`: which Jupyter server started which gateway, so that a later server can adopt an orphan."""

    server_pid: int
    gateway_pid: int
    server_start: str | None = None
    """Start of that process; None in records of older versions, where only its id counts."""

    def is_server_running(self) -> bool:
        """Whether it is the same process: another process may have got its id."""
        if self.server_start is None:
            return is_alive(self.server_pid)
        return process_start(self.server_pid) == self.server_start


def find_state_dir(configured: str, environ: Mapping[str, str]) -> Path:
    """Configured, `$TPULAB_STATE_DIR`, `$XDG_STATE_HOME/tpulab` or `~/.local/state/tpulab`."""
    if configured or environ.get(STATE_VARIABLE):
        return Path(configured or environ[STATE_VARIABLE]).expanduser().absolute()
    # The XDG specification requires that relative values are ignored.
    base = Path(environ.get("XDG_STATE_HOME", ""))
    if base.is_absolute():
        return base / "tpulab"
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        try:
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError as error:
            raise RuntimeError("Your home folder is unknown; set HOME to its absolute path.") from error
    return home / ".local" / "state" / "tpulab"


def read_gateway(state_dir: Path) -> GatewayRecord | None:
    """The recorded gateway; None when there is none or the record is not readable."""
    body = _read_object(state_dir / "gateway.json")
    url, pid = body.get("url"), body.get("pid")
    if isinstance(url, str) and url.startswith("http") and isinstance(pid, int) and not isinstance(pid, bool):
        return GatewayRecord(
            url if url.endswith("/") else url + "/",
            pid,
            _text(body.get("processStart")),
            _text(body.get("proofKey")),
        )
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
    start = body.get("serverStart")
    if isinstance(server, int) and isinstance(gateway, int):
        return OwnerRecord(server, gateway, start if isinstance(start, str) else None)
    return None


def write_owner(state_dir: Path, owner: OwnerRecord) -> None:
    body = {
        "serverPid": owner.server_pid,
        "serverStart": owner.server_start,
        "gatewayPid": owner.gateway_pid,
    }
    _write_private(state_dir / "lab.json", json.dumps(body) + "\n")


def forget_owner(state_dir: Path, gateway_pid: int) -> None:
    """Removes the record, unless another server has meanwhile started a gateway and recorded it."""
    owner = read_owner(state_dir)
    if owner is not None and owner.gateway_pid == gateway_pid:
        (state_dir / "lab.json").unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists, ours or not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def process_start(pid: int) -> str | None:
    """A mark that differs between processes with the same pid; None without one (`process-identity.ts`)."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command name may contain spaces and brackets; fields are counted after its last bracket.
        fields = stat[stat.rindex(")") + 2 :].split(" ")
        return None if fields[0] == "Z" else f"{_boot_id()}/{fields[19]}"
    words = _ps("stat=,lstart=", pid)
    return None if words is None or words.startswith("Z") else words.split(maxsplit=1)[-1]


def runs_as_us(pid: int) -> bool:
    if sys.platform == "linux":
        try:
            return os.stat(f"/proc/{pid}").st_uid == os.getuid()
        except (FileNotFoundError, ProcessLookupError):
            return False
    return _ps("uid=", pid) == str(os.getuid())


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _ps(columns: str, pid: int) -> str | None:
    command = ["ps", "-o", columns, "-p", str(pid)]
    environ = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=5, env=environ, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() or None


def make_private_dir(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


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
