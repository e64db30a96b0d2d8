"""Receives the commands of this process: finds the target run, and never executes a command twice."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from tpulab.control.command import Command, ControlRefusedError, parse_command
from tpulab.control.controller import Controller
from tpulab.control.state import ENDED
from tpulab.telemetry.messages import ControlMessage, FenceMessage

#: Number of remembered ids. A page repeats a command within seconds if at all.
MAX_IDS = 4096


class CommandQueue:
    """Used by the thread that reads commands, and by every thread that reports the result of one."""

    def __init__(self, of_kernel: Mapping[str, Callable[[Command], ControlMessage]]) -> None:
        """`of_kernel`: by action, the requests to the kernel and not to a run."""
        self._of_kernel = of_kernel
        # Reentrant: the thread that holds it may create garbage, whose finalizer ends a run and reports that.
        self._lock = threading.RLock()
        # Weak: a run without references cannot be steered.
        self._runs: OrderedDict[str, weakref.ref[Controller]] = OrderedDict()
        self._known: OrderedDict[str, ControlMessage] = OrderedDict()

    def add(self, run_id: str, controller: Controller) -> None:
        with self._lock:
            self._runs[run_id] = weakref.ref(controller)
            self._runs.move_to_end(run_id)
            for known in [known for known, reference in self._runs.items() if reference() is None]:
                del self._runs[known]

    def reported(self, message: ControlMessage) -> None:
        """Remembers the result of a command."""
        with self._lock:
            self._known[message["id"]] = message
            self._known.move_to_end(message["id"])
            while len(self._known) > MAX_IDS:
                self._known.popitem(last=False)

    def recent(self, count: int) -> list[ControlMessage]:
        """The newest commands, each with its last result; oldest first."""
        with self._lock:
            return list(self._known.values())[-count:]

    def fence(self, body: dict[str, Any]) -> FenceMessage:
        """A command for all hosts of a slice is about to come: no step after the returned one begins."""
        controller = self._find(body.get("run"))
        step = controller.fence() if controller is not None else -1
        return {"type": "fence", "id": str(body.get("id")), "step": step}

    def receive(self, body: dict[str, Any]) -> tuple[ControlMessage, bool]:
        """Decides about a command. Returns the report, and whether it has been sent already."""
        try:
            command = parse_command(body)
        except ControlRefusedError as error:
            refused = Command("pause", origin="page", id=str(body.get("id"))[:64] or "unknown")
            return refused.message("refused", reason=str(error)), False
        with self._lock:
            earlier = self._known.get(command.id)
        if earlier is not None:
            # Sent again, word for word: its first answer may have been lost on the way.
            return earlier, False
        answer = self._of_kernel.get(command.action)
        if answer is not None:
            if command.action != "branch":
                command.run = None
            message = answer(command)
            self.reported(message)
            return message, False
        controller = self._find(command.run)
        if controller is None:
            message = command.message("refused", reason=self._none(command.run))
            self.reported(message)
            return message, False
        return controller.submit(command), True

    def _find(self, run_id: str | None) -> Controller | None:
        if run_id is not None:
            reference = self._runs.get(run_id)
            return reference() if reference is not None else None
        with self._lock:
            references = list(self._runs.values())
        for reference in reversed(references):
            controller = reference()
            if controller is not None and controller.state not in ENDED:
                return controller
        return None

    def _none(self, run_id: str | None) -> str:
        if run_id is None:
            return "No run of this kernel accepts commands now: start one with tpulab.run(…)."
        return f"This kernel has no run {run_id} that accepts commands; it may be over."
