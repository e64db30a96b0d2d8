"""A real kernel in a separate process, with a client, over ipc sockets."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from keeper_double import PATIENCE_S, wait_until

LAUNCHER = ("-m", "tpulab.launcher")
STOCK = ("-m", "ipykernel_launcher")


class KernelProcess:
    """Starts `python ARGUMENTS -f FILE` and talks to it. Use as a context manager."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...] = LAUNCHER,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        resend_socket: Path | None = None,
        python: str = sys.executable,
    ) -> None:
        self.file, _ = write_connection_file(str(folder / "c.json"), transport="ipc", ip=str(folder / "z"))
        if resend_socket is not None:
            info = {**json.loads(Path(self.file).read_text()), "resend_socket": str(resend_socket)}
            Path(self.file).write_text(json.dumps(info))
        self.log = folder / "kernel.log"
        base = {name: value for name, value in os.environ.items() if not name.startswith("TPULAB_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [python, *arguments, "-f", self.file],
                env={**base, **(env or {})},
                cwd=cwd or folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.client = BlockingKernelClient(connection_file=self.file)
        self.client.load_connection_file()

    def __enter__(self) -> KernelProcess:
        self.client.start_channels()
        try:
            wait_until(self._answers, "the kernel to answer on shell and iopub")
        except BaseException as error:
            self.__exit__()
            raise AssertionError(f"the kernel did not start:\n{self.log_text()}") from error
        return self

    def _answers(self) -> bool:
        """Whether a request is answered on both channels: the subscription to iopub takes a moment."""
        assert self.process.poll() is None, "the kernel has ended"
        request = self.client.kernel_info()
        try:
            self._reply_to(request, patience_s=5)
            return bool(self.client.get_iopub_msg(timeout=0.5))
        except queue.Empty:
            return False

    def _reply_to(self, request: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = self.client.get_shell_msg(timeout=patience_s)
            if message["parent_header"].get("msg_id") == request:
                return message

    def finish(self, code: str, patience_s: float = PATIENCE_S) -> None:
        """Runs a cell and waits only for its reply; iopub is left to others."""
        self._reply_to(self.client.execute(code), patience_s)

    def end_of(self, request: str) -> None:
        """Waits until a cell is over. An earlier cell is aborted when this one has failed."""
        while True:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=PATIENCE_S)
            state = message["content"].get("execution_state")
            if message["parent_header"].get("msg_id") == request and state == "idle":
                break
        self._reply_to(request)

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def run(self, code: str, cell_id: str | None = None) -> str:
        """Runs a cell and returns its output. Raises with the traceback when the cell fails."""
        client = self.client
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        request = client.session.msg("execute_request", content)
        if cell_id is not None:
            request["metadata"]["cellId"] = cell_id
        client.shell_channel.send(request)
        printed: list[str] = []
        failed: list[str] = []
        while True:
            message: dict[str, Any] = client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            kind, body = message["msg_type"], message["content"]
            if kind == "stream":
                printed.append(body["text"])
            elif kind == "error":
                failed = body["traceback"]
            elif kind == "status" and body["execution_state"] == "idle":
                break
        self._reply_to(request["header"]["msg_id"])
        if failed:
            raise AssertionError("\n".join(failed))
        return "".join(printed)

    def shut_down(self) -> int:
        """Requests the end of the kernel, as the bridge does, and returns its exit code."""
        self.client.shutdown()
        wait_until(lambda: self.process.poll() is not None, "the kernel to end")
        return int(self.process.returncode)
