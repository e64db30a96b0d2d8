"""The kernel of a slice whose hosts are processes, and the messages of one of its cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keeper_double import PATIENCE_S
from kernel_process import KernelProcess
from tpulab.slice.spec import SliceSpec


@dataclass
class Answer:
    """The iopub messages of one request, and its reply."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    reply: dict[str, Any] = field(default_factory=dict)

    def contents(self, *kinds: str) -> list[dict[str, Any]]:
        return [one["content"] for one in self.messages if one["msg_type"] in kinds]

    def text(self, name: str = "stdout") -> str:
        return "".join(one["text"] for one in self.contents("stream") if one["name"] == name)

    @property
    def folds(self) -> list[str]:
        """The last text of each fold, in the order of arrival."""
        shown: dict[str, str] = {}
        for one in self.contents("display_data", "update_display_data"):
            if "tpulab-hosts" in one["data"].get("text/html", ""):
                shown[one["transient"]["display_id"]] = one["data"]["text/plain"]
        return list(shown.values())

    @property
    def traceback(self) -> str:
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(self.reply.get("traceback", [])))


class SliceProcess(KernelProcess):
    def __init__(
        self, folder: Path, hosts: int, env: dict[str, str] | None = None, framework: str = "jax"
    ) -> None:
        folder.mkdir(exist_ok=True)
        spec = folder / "slice.json"
        SliceSpec("test", ("",) * (hosts - 1), framework=framework, cpu_devices=2).save(spec)
        super().__init__(folder, ("-m", "tpulab.slice", "lead", str(spec)), env)

    def start(self, code: str, *, stdin: bool = False) -> str:
        return str(self.client.execute(code, allow_stdin=stdin))

    def answer(self, request: str) -> Answer:
        """Waits until the cell is over."""
        answer = Answer()
        while True:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            answer.messages.append(message)
            if message["content"].get("execution_state") == "idle":
                break
        answer.reply = self._reply_to(request)["content"]
        return answer

    def cell(self, code: str) -> Answer:
        return self.answer(self.start(code))

    def ask(self, request: str) -> dict[str, Any]:
        content: dict[str, Any] = self._reply_to(request)["content"]
        return content

    def wait_for_text(self, request: str, text: str) -> None:
        """Waits until the cell prints it, and raises when it ends without."""
        seen = ""
        while text not in seen:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") == request:
                assert message["content"].get("execution_state") != "idle", f"the cell ended: {seen}"
                seen += message["content"].get("text", "")

    def host_pids(self) -> list[int]:
        """By host, as reported by the hosts themselves."""
        answer = self.cell("import os; print(os.getpid())")
        own = int(answer.text())
        others = re.findall(r"host (\d+): .*\n  (\d+)", answer.folds[0])
        return [own, *(int(pid) for _, pid in sorted(others, key=lambda one: int(one[0])))]

    def __exit__(self, *arguments: object) -> None:
        if self.process.poll() is None:
            self.client.shutdown()
            try:
                self.process.wait(20)
            except Exception:
                self.process.kill()
        super().__exit__(*arguments)
