"""On a host: shows the lead each program over several hosts before it is compiled, and waits for leave.

Hosts that run different programs over the same devices wait for each other for ever. Compiling is the last
moment at which they can be compared.
"""

from __future__ import annotations

import collections
import hashlib
import threading
from typing import Any

from tpulab.runtimes.jax_internals import before_compile
from tpulab.slice.errors import ProgramMismatchError
from tpulab.slice.lead_line import LeadLine

SIGNATURE_CHARS = 400


class ProgramCheck:
    def __init__(self, line: LeadLine) -> None:
        self._line = line
        self._programs: collections.Counter[tuple[int, ...]] = collections.Counter()

    def install(self) -> bool:
        """False: this JAX cannot be asked; programs are then not compared."""
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
        answer = self._line.ask(
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
