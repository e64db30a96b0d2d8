"""The process that runs the cells on one host: an ipyparallel engine that has joined the other hosts.

`python -m tpulab.slice.engine FRAMEWORK`, started by the supervisor. The first line of standard input states
how to join them and how to reach the controller; no file is written on the host. Standard input stays open as
the lifeline: when it ends, the lead has ended, and this process ends too.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import signal
import sys
import threading
from typing import Any

import ipyparallel.engine.app as engine_app
from ipyparallel.engine.kernel import IPythonParallelKernel

from tpulab.agent.process_group import process_group
from tpulab.runtimes.jax_internals import before_compile
from tpulab.slice import frameworks
from tpulab.slice.errors import ProgramMismatchError
from tpulab.slice.lead_link import LeadLink

SIGNATURE_CHARS = 400


class ProgramCheck:
    def __init__(self, line: LeadLink) -> None:
        self._line = line
        self._programs: collections.Counter[tuple[int, ...]] = collections.Counter()

    def install(self) -> bool:
        """False: this JAX offers no query; programs are then not compared."""
        return before_compile(self._check)

    def begin_cell(self) -> None:
        self._programs.clear()

    def _check(self, module: Any, devices: Any) -> None:
        processes = tuple(sorted({device.process_index for device in devices.flatten()}))
        # The order in which threads compile need not be the same on all hosts.
        if len(processes) < 2 or threading.current_thread() is not threading.main_thread():
            return
        text = str(module)
        self._programs[processes] += 1
        answer = self._line.request(
            "program",
            place=self._programs[processes],
            processes=processes,
            name=_name_of(text),
            fingerprint=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
            signature=_signature_of(text),
        )
        if answer.get("error"):
            raise ProgramMismatchError(answer["error"])


def _name_of(text: str) -> str:
    return text.partition("module @")[2].split(None, 1)[0]


def _signature_of(text: str) -> str:
    """The shapes that the program takes, without the places of its arguments."""
    line = text.partition("func.func public @main(")[2].partition("\n")[0]
    types = [part.split(">", 1)[0] + ">" for part in line.partition(" -> ")[0].split(": tensor<")[1:]]
    return ", ".join(types).replace(">", "")[:SIGNATURE_CHARS]


class SliceEngineKernel(IPythonParallelKernel):  # type: ignore[misc]
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lead = LeadLink(self)
        self.programs = ProgramCheck(self.lead)

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        try:
            await super().execute_request(stream, ident, parent)
        except KeyboardInterrupt:
            # Just before or after the user's code: without a reply the lead would wait for ever.
            content = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
            metadata = self.init_metadata(parent)
            self.session.send(stream, "execute_reply", content, parent, metadata=metadata, ident=ident)

    async def do_execute(self, *args: Any, **kwargs: Any) -> Any:
        metadata = self.get_parent("shell").get("metadata") or {}
        # The same number on all hosts, even after cells that ran on some.
        if (count := metadata.get("tpulab_count")) is not None:
            self.shell.execution_count = count
        self.programs.begin_cell()
        return await super().do_execute(*args, **kwargs)

    def _input_request(self, prompt: str, *_: Any, password: bool = False) -> str:
        answer = self.lead.request("input", prompt=str(prompt), password=password)
        if answer.get("eof"):
            raise EOFError
        return str(answer["value"])


class SliceEngine(engine_app.IPEngine):  # type: ignore[misc]
    async def complete_registration(self, *args: Any) -> None:
        await super().complete_registration(*args)
        kernel = self.kernel
        if not isinstance(kernel, SliceEngineKernel):
            raise RuntimeError("ipyparallel made another kernel than the slice's; use ipyparallel 9.2.")
        kernel.programs.install()
        process_group.join(self.id, kernel.lead.agree)
        if os.environ.get("TPULAB_AGENT_SOCKET"):
            from tpulab.agent.process_agent import start_in_kernel

            start_in_kernel(kernel.shell)


def hold_lifeline(descriptor: int) -> None:
    def watch() -> None:
        while os.read(descriptor, 4096):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="tpulab-lifeline", daemon=True).start()


def read_order() -> dict[str, Any]:
    """The first line, and standard input as the user's code should see it: empty."""
    lifeline = os.dup(0)
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(lifeline, 1)
        if not byte:
            sys.exit(0)
        line += byte
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    hold_lifeline(lifeline)
    order: dict[str, Any] = json.loads(line)
    return order


def main(framework: str) -> None:
    from tpulab.compile.cache_folder import keep_compiled_programs
    from tpulab.launcher.__main__ import drop_working_directory

    drop_working_directory(sys.path)
    keep_compiled_programs()
    # Done while the lead starts the controller.
    frameworks.load(framework)
    order = read_order()
    frameworks.join(framework, order)
    engine_app.Kernel = SliceEngineKernel
    engine = SliceEngine.instance(
        id=order["index"],
        connection_info_env=json.dumps(order["connection"]),
        enable_nanny=False,
        # The lifeline does that immediately.
        max_heartbeat_misses=0,
        timeout=60.0,
        log_level=30,
    )
    engine.initialize([])
    engine.start()


if __name__ == "__main__":
    main(sys.argv[1])
