"""`tpulab serve` for suites without knowledge of it: on a free port, with a separate state folder."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
BRIDGE_ENTRY = CHECKOUT / "kernel-bridge" / "bin" / "tpulab.js"

# Two shared cores: a slow start of a gateway is no failure, only a missing one is.
END_DEADLINE_S = 60
REST_DEADLINE_S = 120


# bash_kernel comes without a kernelspec; its own command writes one permanently, for more than a test.
BASH_KERNEL = {
    "argv": [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"],
    "display_name": "Bash",
    "language": "bash",
    "env": {"PS1": "$"},
}


class Bridge:
    """A gateway; `close` ends its kernels and then itself."""

    def __init__(
        self,
        folder: Path,
        root_dir: Path,
        *,
        env: Mapping[str, str],
        options: Sequence[str] = (),
        port: int = 0,
        base_url: str = "/",
        token: str | None = None,
    ) -> None:
        node = shutil.which("node")
        if node is None:
            raise RuntimeError("Node.js is not on PATH.")
        self.token = token or secrets.token_hex(16)
        self._stderr = folder / "serve.stderr"
        command = [node, str(BRIDGE_ENTRY), "serve", "--state-dir", str(folder / "state")]
        command += ["--port", str(port), "--root-dir", str(root_dir), *options]
        if base_url != "/":
            command += ["--base-url", base_url]
        with self._stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**env, "TPULAB_TOKEN": self.token},
            )
        assert self._process.stdout
        # The line comes when the gateway is ready; it ends the stream instead when it cannot start.
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"`tpulab serve` ended at once: {self._stderr.read_text()}")
        self.url = str(json.loads(line)["url"]).rstrip("/")

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}

    def rest(self, method: str, path: str, body: object = None) -> Any:
        """The body of a call that must succeed."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        with urllib.request.urlopen(request, timeout=REST_DEADLINE_S) as response:
            raw = response.read()
        return json.loads(raw) if raw else None

    def end_kernels(self) -> None:
        """Ends all kernels. A kernel that another client has ended meanwhile no longer exists."""
        for kernel in self.rest("GET", "/api/kernels"):
            try:
                self.rest("DELETE", f"/api/kernels/{kernel['id']}")
            except urllib.error.HTTPError as error:
                with error:
                    if error.code != 404:
                        raise

    def close(self) -> None:
        if self._process.poll() is None:
            try:
                self.end_kernels()
            finally:
                self._process.terminate()
                try:
                    self._process.wait(END_DEADLINE_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait(END_DEADLINE_S)
        if self._process.stdout:
            self._process.stdout.close()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stock_kernels(data: Path) -> dict[str, str]:
    """Environment in which Jupyter finds the kernels of this Python, bash_kernel, and those in `data`."""
    share = Path(sys.prefix) / "share" / "jupyter"
    bash = data / "kernels" / "bash" / "kernel.json"
    bash.parent.mkdir(parents=True, exist_ok=True)
    bash.write_text(json.dumps(BASH_KERNEL))
    return {
        **os.environ,
        # `python` in a kernelspec is this environment's.
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]]),
        "JUPYTER_PATH": str(share),
        "JUPYTER_DATA_DIR": str(data),
        # The history of the kernels, which they would otherwise share with the user's kernels.
        "IPYTHONDIR": str(data / "ipython"),
    }


def slow_kernels(env: dict[str, str], folder: Path, seconds: float) -> dict[str, str]:
    """The same environment, where `python3` needs at least so long before it starts."""
    later = f"import os, sys, time; time.sleep({seconds}); os.execvp(sys.argv[1], sys.argv[1:])"
    spec = folder / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = ["python", "-c", later, "python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3, slowly", "language": "python"}))
    return env | {"JUPYTER_PATH": os.pathsep.join([str(folder), env["JUPYTER_PATH"]])}
