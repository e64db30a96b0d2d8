"""Requests of a page to the kernel, not to a run: free memory, list memory owners, trace for some seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tpulab.control.command import Command
from tpulab.measure.xla_profile import ProfileError, capture
from tpulab.memory.owners import arrays_by_owner
from tpulab.memory.retained import free_retained, live_bytes
from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.guarded import start_thread
from tpulab.telemetry.messages import ControlMessage, MemoryMessage, ProfileMessage

PROFILE_S = 2.0
#: Upper bound of a requested trace: a trace of seconds has a million events.
MIN_S, MAX_S = 0.1, 60.0


class KernelRequests:
    """`report` sends a message with the next batch, `write_line` a command's result; both on any thread."""

    def __init__(
        self,
        report: Callable[[MemoryMessage | ProfileMessage], None],
        write_line: Callable[[ControlMessage], None],
    ) -> None:
        self._report = report
        self._send = write_line
        self._tracing = threading.Lock()
        #: beside the log of the newest run; None: traces are deleted with the kernel
        self.trace_folder: Path | None = None

    def free(self, command: Command) -> ControlMessage:
        return command.message("applied", reason=free_retained())

    def memory(self, command: Command) -> ControlMessage:
        arrays, held = arrays_by_owner()
        self._report(
            {
                "type": "memory",
                "time": unix_now_ms(),
                "totalBytes": live_bytes(),
                "arrays": arrays,
                "heldBytes": held,
            }
        )
        return command.message("applied")

    def profile(self, command: Command) -> ControlMessage:
        """Accepted immediately; the trace runs for its seconds on a separate thread."""
        if not self._tracing.acquire(blocking=False):
            return command.message("refused", reason="A trace is already being taken.")
        if start_thread("tpulab-profile", lambda: self._trace(command), again=False) is None:
            self._tracing.release()
            return command.message("failed", reason="The kernel can start no further thread.")
        return command.message("accepted")

    def _trace(self, command: Command) -> None:
        try:
            given = command.value if isinstance(command.value, (int, float)) else PROFILE_S
            seconds = min(max(given, MIN_S), MAX_S)
            self._report(capture(seconds, self.trace_folder))
            reported = command.message("applied")
        except ProfileError as error:
            reported = command.message("failed", reason=str(error))
        except Exception as error:  # any error of the profiler
            reported = command.message("failed", reason=f"The trace could not be read: {error}")
        finally:
            self._tracing.release()
        self._send(reported)
