"""Which cell of the notebook a piece of code belongs to.

ipykernel compiles each cell under a file name made from its source (`<tmp>/ipykernel_<pid>/<hash>.py`).
Before a cell runs, the name is noted with the cell's id (`metadata.cellId` of the execute_request) and its
number.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_CELLS = 4096


@dataclass(frozen=True, slots=True)
class Cell:
    cell_id: str | None
    #: n of `In [n]`
    execution_count: int | None


class CellRegister:
    """Cells that have run, by the file name of their code."""

    def __init__(self) -> None:
        self._by_file: OrderedDict[str, Cell] = OrderedDict()
        self._running: dict[int, Cell] = {}
        #: how many cells have begun
        self.begun = 0
        #: called before a cell runs, on its thread
        self.on_begin: Callable[[], None] | None = None
        self._shell: Any = None
        self._after: Callable[[bool], None] | None = None
        #: called with the exception that ended a cell, on the thread that ran it
        self.on_error: Callable[[BaseException], None] | None = None
        # IPython 9 counts a cell before it announces it, earlier versions afterwards: each result shows it.
        self._ahead = 1
        self._noted = 0

    @property
    def attached(self) -> bool:
        return self._shell is not None

    def attach(self, shell: Any, after_cell: Callable[[bool], None] | None = None) -> None:
        """Follows the cells of a shell. `after_cell(success)` is called on the thread that ran the cell."""
        self._shell = shell
        self._after = after_cell
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)

    def detach(self) -> None:
        if self._shell is not None:
            for event, callback in (("pre_run_cell", self._before_cell), ("post_run_cell", self._after_cell)):
                with contextlib.suppress(ValueError):
                    self._shell.events.unregister(event, callback)
            self._shell = None

    @property
    def kernel(self) -> Any:
        """The ipykernel that the shell belongs to; None outside one."""
        return getattr(self._shell, "kernel", None)

    def of_file(self, file: str) -> Cell | None:
        """The newest cell with this source."""
        return self._by_file.get(file)

    def running(self) -> Cell | None:
        """The cell that the calling thread runs."""
        return self._running.get(threading.get_ident())

    @property
    def are_running(self) -> bool:
        return bool(self._running)

    def _before_cell(self, info: Any) -> None:
        # IPython shows an exception of a hook in the cell: nothing here may raise.
        with contextlib.suppress(Exception):
            shell = self._shell
            source = info.raw_cell
            self._noted = shell.execution_count
            count = self._noted - self._ahead if info.store_history else None
            cell = Cell(getattr(info, "cell_id", None), count)
            # The second argument is used by plain IPython only, which names cells in another way.
            name = shell.compile.get_code_name(source, source, shell.execution_count)
            self._by_file[name] = cell
            self._by_file.move_to_end(name)
            while len(self._by_file) > MAX_CELLS:
                self._by_file.popitem(last=False)
            self._running[threading.get_ident()] = cell
            self.begun += 1
            if self.on_begin is not None:
                self.on_begin()

    def _after_cell(self, result: Any) -> None:
        count = getattr(result, "execution_count", None)
        if isinstance(count, int) and self._noted - count in (0, 1):
            self._ahead = self._noted - count
        error = getattr(result, "error_in_exec", None)
        if self.on_error is not None and isinstance(error, BaseException):
            with contextlib.suppress(Exception):
                self.on_error(error)
        if self._after is not None:
            with contextlib.suppress(Exception):
                self._after(bool(getattr(result, "success", True)))
        self._running.pop(threading.get_ident(), None)


def notebook_shell() -> Any:
    """The InteractiveShell of this process, None without one."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if callable(get_ipython) else None
