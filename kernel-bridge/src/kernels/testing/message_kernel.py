"""For specs: a kernel that ignores signals and is interrupted by a message, like many other kernels."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel


class MessageKernel(Kernel):  # type: ignore[misc]  # ipykernel is not followed
    """Echoes its input; ``wait`` runs until the kernel is interrupted."""

    implementation = "message_kernel"
    implementation_version = "1"
    banner = "a kernel for specs"
    language_info = {"name": "text", "mimetype": "text/plain", "file_extension": ".txt"}  # noqa: RUF012

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.interrupted = threading.Event()

    async def do_execute(self, code: str, silent: bool, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
        self.interrupted.clear()
        if code == "wait":
            self._print("waiting\n")
            while not self.interrupted.is_set():
                await asyncio.sleep(0.01)
            self._print("interrupted\n")
            return {"status": "error", "ename": "Interrupt", "evalue": "", "traceback": []}
        if not silent:
            self._print(code)
        return {
            "status": "ok",
            "execution_count": self.execution_count,
            "payload": [],
            "user_expressions": {},
        }

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        self.interrupted.set()
        self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    def _print(self, text: str) -> None:
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": text})


class MessageKernelApp(IPKernelApp):  # type: ignore[misc]  # as above
    """Leaves SIGINT ignored, so that only the message can interrupt."""

    def init_signal(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    MessageKernelApp.launch_instance(kernel_class=MessageKernel)
