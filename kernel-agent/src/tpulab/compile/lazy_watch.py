"""Measures the steps of a lazy runtime by its own figures: launches, compilations, device time.

Cost of a launch: two looks at a counter. The intervals of the device are read by the agent's thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from tpulab.compile.lazy_compilation import LazyReasons
from tpulab.measure.auto_steps import AutoSteps
from tpulab.measure.lazy_syncs import LazySyncs
from tpulab.measure.step_clock import innermost_clock
from tpulab.measure.sync_watch import SyncWatch
from tpulab.measure.thread_state import thread_state
from tpulab.measure.tracker import Tracker
from tpulab.runtimes.lazy_runtime import Launch, LazyRuntime
from tpulab.telemetry.clocks import now_ns, unix_ahead_ns

#: A launch that takes longer than this, and compiles, is told while it goes on.
LONG_LAUNCH_NS = 300_000_000


class LazyWatch:
    """Of one runtime and one tracker. `next_id` numbers the compilations of the process."""

    def __init__(
        self,
        runtime: LazyRuntime,
        tracker: Tracker,
        auto: AutoSteps,
        syncs: SyncWatch,
        next_id: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._tracker = tracker
        self._auto = auto
        self._next_id = next_id
        self._reasons = LazyReasons(tracker.cells)
        self._syncs = LazySyncs(runtime, syncs)
        self._compiled = 0
        self._compile_ns = 0
        self._last_end_ns = 0
        self._launching: dict[int, tuple[int, Any]] = {}
        #: by thread that launches: the id of the compilation that has been told as started
        self._announced: dict[int, int] = {}
        # A launch ends while the agent's thread is about to tell it as compiling: one of them comes first.
        self._telling = threading.Lock()

    def attach(self) -> bool:
        self._compiled, self._compile_ns = self._runtime.compilations(), self._runtime.compile_ns()
        return self._runtime.attach(self._around_launch, self._around_wait)

    def detach(self) -> None:
        self._syncs.detach()
        self._runtime.detach()

    def poll(self) -> None:
        """Called by the agent's thread: reads when the device ran, and tells compilations that take long."""
        self._announce_long()
        asked = now_ns()
        launched = self._runtime.launched()
        count, executions = self._runtime.executions()
        if not executions:
            return
        ahead = unix_ahead_ns()
        spans = [(end - lasted - ahead, end - ahead) for end, lasted in executions if end > self._last_end_ns]
        self._last_end_ns = executions[-1].end_unix_ns
        # Programs run in order: what was launched before the newest one was queued is over; all is, when as
        # many have run as were queued before the look.
        newest = executions[-1].end_unix_ns - executions[-1].duration_ns - ahead
        self._tracker.device.add_external(spans, asked if count >= launched else newest)

    def _around_wait(self, wait: Launch) -> Any:
        state = thread_state()
        began = now_ns()
        try:
            return wait()
        finally:
            if state.clocks:
                state.waits.append((began, now_ns()))

    def _around_launch(self, launch: Launch) -> Any:
        state = thread_state()
        thread = threading.get_ident()
        began = now_ns()
        self._launching[thread] = (began, sys._getframe(2))
        try:
            return launch()
        finally:
            with self._telling:
                self._launching.pop(thread, None)
                announced = self._announced.pop(thread, None)
            ended = now_ns()
            try:
                self._launched(state, began, ended, sys._getframe(2), announced)
            except Exception as error:
                self._tracker.warn("a step of %s was not measured: %r", self._runtime.name, error)

    def _launched(self, state: Any, began: int, ended: int, frame: Any, announced: int | None) -> None:
        compiled = self._runtime.compilations()
        # What was told as started is finished here, also if another thread's launch has counted it meanwhile.
        if compiled != self._compiled or announced is not None:
            self._on_compiled(state, began, ended, frame, compiled, announced)
        else:
            self._reasons.look(frame)
        if state.clocks:
            state.launches.append((began, ended))
            state.dispatches += 1
            state.last_dispatch = ended
            state.last_post = self._tracker.device.post_external(ended)
            state.lazy_metrics.launched(state.last_post)
            if state.device_known_since is None:
                # A program of jax that nobody watched came before. Of what this runtime runs, all is told.
                state.device_known_since = ended
            self._syncs.launched(state)
        self._auto.tick(frame)

    def _on_compiled(
        self, state: Any, began: int, ended: int, frame: Any, compiled: int, announced: int | None
    ) -> None:
        total = self._runtime.compile_ns()
        lasted, number = max(total - self._compile_ns, 0), compiled - self._compiled
        self._compiled, self._compile_ns = compiled, total
        # Compiling is the last thing before the program is queued; what `.item()` compiled came before.
        state.compiles.append((max(began, ended - lasted), ended))
        clock = innermost_clock()
        run = clock.run if clock is not None else None
        identity = announced if announced is not None else self._next_id()
        compilation = self._reasons.explain(frame, identity, run)
        if announced is None:
            self._send(compilation.message("started"))
        compilation.finish(lasted, number)
        if run is not None:
            run.compilations += number
            run.compile_ms += lasted / 1e6
        self._send(compilation.message("finished"))
        compilation.advise(self._tracker.adviser)

    def _announce_long(self) -> None:
        moment = now_ns()
        for thread, launch in list(self._launching.items()):
            began, frame = launch
            if moment - began <= LONG_LAUNCH_NS or self._runtime.compilations() == self._compiled:
                continue
            run = next(iter(reversed(list(self._tracker.runs.values()))), None)
            with self._telling:
                # Asking the runtime may have taken until after the launch.
                if self._launching.get(thread) is not launch or thread in self._announced:
                    continue
                identity = self._announced[thread] = self._next_id()
                # Why is found out by the thread that traces: tensors must not be looked at meanwhile.
                self._send(self._reasons.unexplained(frame, identity, run).message("started"))

    def _send(self, message: Any) -> None:
        self._tracker.recorder.events.append(message)
        self._tracker.wake()
