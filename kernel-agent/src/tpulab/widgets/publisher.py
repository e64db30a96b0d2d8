"""Sends open widgets a new snapshot at most twice a second, when something has changed."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from typing import Any, Protocol

from tpulab.agent.process_agent import current_agent
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.guarded import start_thread
from tpulab.widgets.snapshot import SnapshotStore

PERIOD_S = 0.5
#: Pause between two pictures of runs that end in one cell; the pause doubles.
FIRST_PAUSE_NS = 30_000_000_000
MAX_PAUSE_NS = 6 * 3600 * 1_000_000_000


class Shown(Protocol):
    """A widget that takes snapshots."""

    def take(self, snapshot: dict[str, Any]) -> None: ...

    def keep_picture(self) -> None: ...


class Publisher:
    """One thread for all widgets of the process; it ends when none is left, and starts with the next."""

    def __init__(self) -> None:
        self._agent = current_agent()
        self.store = SnapshotStore(self._agent)
        self._next_picture_ns, self._pause_ns = 0, FIRST_PAUSE_NS
        #: number of the cell of the last picture
        self._cell = 0
        self._shown: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._version = -1
        self._devices: object = None
        self._commands: object = None
        self._ended = self.store.ended

    def add(self, widget: Shown) -> None:
        with self._lock:
            self._shown.add(widget)
            if self._thread is None:
                self._thread = start_thread("tpulab-widgets", self._publish)

    def remove(self, widget: Shown) -> None:
        self._shown.discard(widget)

    def _publish(self) -> None:
        while True:
            time.sleep(PERIOD_S)
            with self._lock:
                widgets = list(self._shown)
                if not widgets:
                    self._thread = None
                    return
            # A lost front end, or a kernel that ends, must not end the figures of the others.
            with contextlib.suppress(Exception):
                self._round(widgets)
            del widgets

    def _round(self, widgets: list[Shown]) -> None:
        # Before the snapshot: a message that arrives between the two is then in the next round, not lost.
        version, ended = self.store.version, self.store.ended
        snapshot = self.store.take()
        state = (version, snapshot["devices"], snapshot["commands"])
        if state != (self._version, self._devices, self._commands):
            self._version, self._devices, self._commands = state
            # A run may have ended, and another started, since the previous round.
            for each in [*self.store.take_ended(), snapshot]:
                for widget in widgets:
                    with contextlib.suppress(Exception):
                        widget.take(each)
        if ended != self._ended:
            self._keep_pictures(widgets, ended)

    def _keep_pictures(self, widgets: list[Shown], ended: int) -> None:
        """In the notebook, when a run has ended: immediately if its cell is over or it is its first,
        else ever more rarely, as a sweep of a week would fill the journal with pictures of its trials."""
        moment, cells = now_ns(), self._agent.cells
        if cells.begun != self._cell:
            self._cell, self._next_picture_ns, self._pause_ns = cells.begun, moment, FIRST_PAUSE_NS
        if cells.are_running and moment < self._next_picture_ns:
            return
        self._ended, self._next_picture_ns = ended, moment + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, MAX_PAUSE_NS)
        for widget in widgets:
            with contextlib.suppress(Exception):
                widget.keep_picture()


_publisher: Publisher | None = None


def publisher() -> Publisher:
    global _publisher
    if _publisher is None:
        _publisher = Publisher()
    return _publisher
