"""How the code on a host sends the lead a question and waits for the answer: input, a decision of the first
host, and permission to run a program.

The question is sent on iopub, after the output of the cell; the answer comes on the control channel,
whose thread is free while the cell runs.
"""

from __future__ import annotations

import itertools
import queue
import sys
from typing import Any

QUESTION = "tpulab_question"
ANSWER = "tpulab_answer"
#: The main thread checks for an interrupt at this interval.
_POLL_S = 0.2


class LeadLink:
    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._numbers = itertools.count(1)
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        kernel.control_handlers[ANSWER] = self._take

    def request(self, kind: str, **content: Any) -> dict[str, Any]:
        """Waits until the lead answers, the user interrupts, or the group is ended."""
        number = next(self._numbers)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        kernel = self._kernel
        kernel.session.send(
            kernel.iopub_socket,
            QUESTION,
            {"number": number, "kind": kind, **content},
            parent=kernel.get_parent("shell"),
        )
        while True:
            try:
                answer = self._answers.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            # Another number: the answer to a question that was interrupted.
            if answer.get("number") == number:
                return answer

    def agree(self, value: Any) -> Any:
        """The value of the first host of the cell."""
        return self.request("agree", value=value)["value"]

    def _take(self, _stream: Any, _identity: Any, message: dict[str, Any]) -> None:
        self._answers.put(message["content"])
