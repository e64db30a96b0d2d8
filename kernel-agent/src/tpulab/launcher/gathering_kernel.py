"""An ipykernel whose cells wait for the thread that publishes only where that changes what anybody sees.

Chosen by `gather_outputs`. Only where a keeper reads and nothing holds output back: with
`iopub_queue = "block"` a cell waits in its flushes, which must stay as ipykernel has them.
"""

from __future__ import annotations

import os
from typing import Any

import zmq
from ipykernel import kernelapp
from ipykernel.zmqshell import ZMQDisplayPublisher
from traitlets import Bool, default

from tpulab.launcher.gathering_iopub import (
    GatheringDisplayPublisher,
    GatheringIOPubThread,
    GatheringOutStream,
)
from tpulab.launcher.recorded_kernel import RecordedKernelApp
from tpulab.launcher.recorded_socket import RecordedSocket
from tpulab.launcher.whole_send import find_whole_send

#: `1`: outputs are gathered.
GATHER_VARIABLE = "TPULAB_GATHER_OUTPUTS"

STOCK_STREAM = "ipykernel.iostream.OutStream"


class GatheringKernelApp(RecordedKernelApp):
    """`RecordedKernelApp` with cheaper outputs."""

    gather_outputs = Bool(
        help="Whether a cell may be some outputs ahead of the thread that sends them: each costs less then."
    ).tag(config=True)

    @default("gather_outputs")
    def _gather_outputs_default(self) -> bool:
        return os.environ.get(GATHER_VARIABLE) == "1"

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        gathers = self.gather_outputs and self.ring is not None and self.iopub_queue != "block"
        whole = find_whole_send() if gathers else None
        if whole is None:
            super().init_iopub(context)
            return
        stock = kernelapp.IOPubThread
        # `init_iopub` makes the thread and starts it in one go.
        kernelapp.IOPubThread = GatheringIOPubThread
        try:
            super().init_iopub(context)
        finally:
            kernelapp.IOPubThread = stock
        socket = self.iopub_thread.socket
        if isinstance(socket, RecordedSocket):
            socket.whole = whole
            if self.outstream_class == STOCK_STREAM:  # type: ignore[has-type]
                self.outstream_class = f"{GatheringOutStream.__module__}.{GatheringOutStream.__name__}"

    def init_shell(self) -> None:
        super().init_shell()
        publisher = getattr(self.shell, "display_pub", None)
        gathers = isinstance(self.iopub_thread, GatheringIOPubThread)
        if gathers and type(publisher) is ZMQDisplayPublisher:
            publisher.__class__ = GatheringDisplayPublisher
