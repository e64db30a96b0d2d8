"""An iopub thread and streams that hand the interpreter over as seldom as they can.

What an output costs a kernel is mostly not its message but handing over the interpreter between the cell's
thread and the one that publishes: ipykernel wakes that thread for each output, and a `display` first flushes
stdout and stderr, each of which waits for the thread, also where nothing was printed. Here nobody wakes a
thread that is at work already, a flush that has nothing to do returns at once, and a `display` waits only
for text that was printed before it, or while much is not sent.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ipykernel.iostream import IOPubThread, OutStream
from ipykernel.zmqshell import ZMQDisplayPublisher

from tpulab.launcher.whole_send import WHOLE_BYTES

#: Outputs by which a cell may be ahead of the thread that sends them. What waits there dies with a process
#: that crashes.
AHEAD = 8
#: How often the thread looks again before new readers and timers get their turn.
ROUNDS = 16


class GatheringIOPubThread(IOPubThread):  # type: ignore[misc]
    """`IOPubThread` that is woken once for what comes while it works."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        #: Set and cleared by the iopub thread alone: an interrupt elsewhere cannot leave it wrong.
        self._at_work = False
        #: One entry for each large message that waits.
        self._large: deque[None] = deque()
        super().__init__(*args, **kwargs)

    @property
    def is_another(self) -> bool:
        """It runs, and it is not the thread that asks."""
        return bool(self.thread.is_alive()) and self.thread.ident != threading.get_ident()

    @property
    def is_resting(self) -> bool:
        """Everything that was asked of the thread is done."""
        return not self._events and not self._at_work

    @property
    def is_behind(self) -> bool:
        """So much waits that who makes more should wait too."""
        return len(self._events) > AHEAD or bool(self._large)

    def schedule(self, f: Callable[..., Any]) -> None:
        if not self.thread.is_alive():
            f()
            return
        self._events.append(f)
        # In this order: one that is seen at work has not yet looked for the last time.
        if not self._at_work:
            self._event_pipe.send(b"")

    def send_multipart(self, msg: list[Any], *args: Any, **kwargs: Any) -> None:
        if sum(map(_bytes_of, msg)) <= WHOLE_BYTES:
            super().send_multipart(msg, *args, **kwargs)
        else:
            self._large.append(None)
            self.schedule(lambda: self._send_large(msg, *args, **kwargs))

    def _send_large(self, *args: Any, **kwargs: Any) -> None:
        try:
            self._really_send(*args, **kwargs)
        finally:
            self._large.popleft()

    def _handle_event(self, msg: Any) -> None:
        self._at_work = True
        try:
            for _ in range(ROUNDS):
                super()._handle_event(msg)
                if not self._events:
                    break
        finally:
            self._at_work = False
            if self._events:
                self._event_pipe.send(b"")


class GatheringOutStream(OutStream):  # type: ignore[misc]
    """`OutStream` that knows whether there is anything to flush."""

    _is_flushing = False

    @property
    def is_flushed(self) -> bool:
        """All text that was written is at least in the thread's queue."""
        # In this order: who takes the text out of the buffers says so before.
        return not self._buffers and not self._is_flushing and self.echo is None

    def flush(self) -> None:
        thread = self.pub_thread
        if not isinstance(thread, GatheringIOPubThread) or not thread.is_another:
            super().flush()
        elif not (self.is_flushed and thread.is_resting):
            self._flush_in(thread)

    def _flush_in(self, thread: GatheringIOPubThread) -> None:
        """As `OutStream` does it, but asking the thread once instead of twice."""
        done = threading.Event()

        def flush() -> None:
            try:
                self._flush()
            finally:
                done.set()

        thread.schedule(flush)
        if not done.wait(self.flush_timeout):
            # Not a warning: that would be written to the stream which may be the trouble.
            print("IOStream.flush timed out", file=sys.__stderr__)

    def _flush(self) -> None:
        self._is_flushing = True
        try:
            super()._flush()
        finally:
            self._is_flushing = False


class GatheringDisplayPublisher(ZMQDisplayPublisher):  # type: ignore[misc]
    """`ZMQDisplayPublisher` that waits for streams only when they hold text, which comes first."""

    def _flush_streams(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, GatheringOutStream) and stream.is_flushed and self._goes_on(stream):
                continue
            stream.flush()

    @staticmethod
    def _goes_on(stream: GatheringOutStream) -> bool:
        thread = stream.pub_thread
        return isinstance(thread, GatheringIOPubThread) and not thread.is_behind


def _bytes_of(part: Any) -> int:
    return len(part) if type(part) is bytes else memoryview(part).nbytes
