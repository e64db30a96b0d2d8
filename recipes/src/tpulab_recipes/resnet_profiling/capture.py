"""Captures the framework's own profile of a few steps, while the training continues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpulab_recipes.resnet_profiling.xplane import newest_trace
from tpulab_recipes.runtime import Backend

#: Under this name a step stands in the trace.
STEP_NAME = "train_step"


class Capture:
    """`with capture.step():` around each step; `capture.request()` from anywhere, a button for example.

    The next `steps` whole steps are then written below `folder` (a path; several captures lie side by side).
    Only one capture can run in a process.
    """

    def __init__(self, backend: Backend, folder: Path | str, *, steps: int = 5) -> None:
        if steps < 1:
            raise ValueError(f"A capture needs at least one step, and steps is {steps}.")
        self.folder, self.steps = Path(folder), steps
        self.done: list[Path] = []
        """Files of the captures that are complete, oldest first."""
        self._backend = backend
        self._wanted = threading.Event()
        self._left = 0
        self._number = 0

    def request(self, *_: object) -> None:
        """Captures the next steps; while a capture runs, nothing."""
        self._wanted.set()

    @property
    def running(self) -> bool:
        return self._left > 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step of the loop. Without a request it costs next to nothing."""
        if self._wanted.is_set() and not self.running:
            self._begin()
        with self._backend.trace_step(STEP_NAME, self._number):
            yield
        self._number += 1
        if self.running:
            self._left -= 1
            if self._left == 0:
                self._finish()

    def close(self) -> None:
        """Ends a capture that the loop left early, and writes it."""
        if self.running:
            self._left = 0
            self._finish()

    def _begin(self) -> None:
        # Work of earlier steps that still runs is not part of this capture.
        self._backend.sync()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._backend.start_trace(str(self.folder))
        self._wanted.clear()
        self._left = self.steps

    def _finish(self) -> None:
        self._backend.sync()
        self._backend.stop_trace()
        self.done.append(newest_trace(self.folder))
