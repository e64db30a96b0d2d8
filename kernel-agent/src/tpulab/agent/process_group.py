"""Decisions shared by the processes of one kernel: the kernel of a slice has one process per host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: `agree(value)`: the first process's value, on all of them. JSON.
Agree = Callable[[Any], Any]


class ProcessGroup:
    def __init__(self) -> None:
        #: Process index. The first one keeps the logs.
        self.index = 0
        self._agree: Agree | None = None

    def join(self, index: int, agree: Agree) -> None:
        self.index, self._agree = index, agree

    @property
    def is_first(self) -> bool:
        return self.index == 0

    def agree(self, value: Any) -> Any:
        """Called by all processes that run the cell, in the same order. Waits for the first of them."""
        return value if self._agree is None else self._agree(value)


process_group = ProcessGroup()
