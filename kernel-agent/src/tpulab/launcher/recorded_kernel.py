"""An ipykernel whose four channels record sent messages, at the request of a keeper.

The keeper sets `resend_socket` in the connection file, not a variable, which a kernel that a cell
starts would inherit. Without it nothing is recorded, because no keeper would ever confirm anything.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zmq
from traitlets import Int, default

from tpulab.launcher.kernel_io import report_crashes, send_well_formed
from tpulab.launcher.lossless_iopub import LosslessKernelApp
from tpulab.launcher.resend_socket import ResendSocket
from tpulab.launcher.send_ring import (
    ALARM_VARIABLE,
    CHANNELS,
    DEFAULT_ALARM_BYTES,
    DEFAULT_LIMIT_BYTES,
    QueueAlarm,
    SendRing,
)


class RecordedSocket(zmq.Socket[Any]):
    """Created from an existing socket by `record`, because ipykernel creates its sockets itself."""

    # pyzmq accepts only attributes that the class has; any other name counts as an option of libzmq.
    ring: SendRing | None = None
    channel: str = ""

    def send_multipart(
        self, msg_parts: Sequence[Any], flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        if self.ring is None:
            return super().send_multipart(msg_parts, flags, copy, track, **kwargs)
        frames = [stable_bytes(part) for part in msg_parts]
        self.ring.add(self.channel, frames)
        return super().send_multipart(msg_parts, flags, copy, track, **kwargs)


def record(made: zmq.Socket[Any], channel: str, ring: SendRing) -> RecordedSocket:
    """Turns an unused socket into one that records."""
    made.__class__ = RecordedSocket
    assert isinstance(made, RecordedSocket)
    made.ring = ring
    made.channel = channel
    return made


def stable_bytes(part: Any) -> bytes:
    """The bytes of a frame. A buffer of the user's is copied: it may change right after it is sent."""
    return part if type(part) is bytes else bytes(memoryview(part))


class RecordedKernelApp(LosslessKernelApp):
    """`LosslessKernelApp` whose messages survive the keeper that should have received them."""

    resend_bytes = Int(
        DEFAULT_LIMIT_BYTES,
        min=0,
        help="bytes of sent messages kept for a keeper that takes over; the oldest are dropped first",
    ).tag(config=True)

    iopub_alarm_bytes = Int(
        min=0,
        help="bytes of waiting output at which the kernel warns; 0: never",
    ).tag(config=True)

    @default("iopub_alarm_bytes")
    def _iopub_alarm_bytes_default(self) -> int:
        given = os.environ.get(ALARM_VARIABLE) or ""
        if given and not (given.isascii() and given.isdigit()):
            self.log.warning("tpulab: %s is not a number of bytes: %r", ALARM_VARIABLE, given)
            given = ""
        return int(given or DEFAULT_ALARM_BYTES)

    ring: SendRing | None = None
    resend_socket: ResendSocket | None = None

    def init_sockets(self) -> None:
        report_crashes()
        send_well_formed(self.session)
        path = self._resend_path()
        if path is not None:
            self.ring = SendRing(self.resend_bytes)
            blocks = self.iopub_queue == "block"
            self.ring.alarm = QueueAlarm(self.iopub_alarm_bytes, self._warn_user, blocks=blocks)
        super().init_sockets()
        if path is None or self.ring is None:
            return
        recorded = [
            channel for channel in CHANNELS if isinstance(self._channel_socket(channel), RecordedSocket)
        ]
        if len(recorded) < len(CHANNELS):
            # Not fatal: all messages are delivered as long as the keeper lives.
            self.log.warning("tpulab: ipykernel created sockets that are not recorded; only %s are", recorded)
        try:
            self.resend_socket = ResendSocket(path, self.ring, self.log)
            self.resend_socket.start()
        except OSError as error:
            self.log.warning("tpulab: nothing can be resent after a keeper crash: %r", error)

    def _bind_socket(self, s: zmq.Socket[Any], port: int) -> int:
        if self.ring is not None:
            for channel in CHANNELS:
                if s is getattr(self, f"{channel}_socket", None):
                    record(s, channel, self.ring)
        bound: int = super()._bind_socket(s, port)
        return bound

    def close(self) -> None:
        super().close()
        if self.resend_socket is not None:
            self.resend_socket.close()

    def init_io(self) -> None:
        super().init_io()
        # Resolved now: a cell may have replaced it later.
        self._stderr_of_cells = sys.stderr

    def _warn_user(self, text: str) -> None:
        """To the kernel's log and as text of the running cell. Called from any thread, the ring locked."""
        # The iopub thread prints it after the message in progress: ring and wire have one order.
        stream = getattr(self, "_stderr_of_cells", None)
        self.iopub_thread.io_loop.add_callback(self._report, text, stream)

    def _report(self, text: str, stream: Any) -> None:
        self.log.warning("%s", text.rstrip())
        if stream is not None:
            stream.write(text)

    def _channel_socket(self, channel: str) -> Any:
        # ipykernel wraps the socket of iopub in a thread
        return self.iopub_thread.socket if channel == "iopub" else getattr(self, f"{channel}_socket")

    def _resend_path(self) -> str | None:
        try:
            info = json.loads(Path(self.abs_connection_file).read_text())
        except (OSError, ValueError):
            return None
        path = info.get("resend_socket")
        return path if isinstance(path, str) and path else None
