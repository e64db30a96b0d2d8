"""Measures the steps of a lazy runtime by its own figures: launches, compilations, device time.

Cost of a launch: a few reads of a counter. The agent's thread reads the intervals of the device.

A read of a value (`loss.item()` in an evaluation) compiles too, without a launch. A compilation found at the
start of a launch was caused by a read; the agent's thread sees a long one while it runs, at its line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from tpulab.compile.lazy_compilation import LazyCompilation, LazyReasons
from tpulab.measure.auto_steps import AutoSteps
from tpulab.measure.runs import Run
from tpulab.measure.sync_watch import LazySyncs, SyncWatch
from tpulab.measure.thread_state import ThreadState, thread_state
from tpulab.measure.tracked_run import current_run
from tpulab.measure.tracker import Tracker
from tpulab.runtimes.torch_xla_runtime import Launch, TorchXlaRuntime
from tpulab.telemetry.clocks import now_ns, unix_ahead_ns

#: A launch that takes longer than this, and compiles, is reported while it runs.
LONG_LAUNCH_NS = 300_000_000


class LazyWatch:
    """For one runtime and one tracker. `next_id` numbers the compilations of the process."""

    def __init__(
        self,
        runtime: TorchXlaRuntime,
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
        #: by thread that launches: the id of the compilation that has been reported as started
        self._announced: dict[int, int] = {}
        #: the thread that launched last, its known state, and the end of that launch
        self._launcher: tuple[int, ThreadState, int] | None = None
        #: a running compilation by a read
        self._of_read: LazyCompilation | None = None
        # A launch may begin or end while the agent's thread reports a compilation: one comes first.
        self._report_lock = threading.Lock()

    def attach(self) -> bool:
        self._compiled, self._compile_ns = self._runtime.compilations(), self._runtime.compile_ns()
        return self._runtime.attach(self._around_launch, self._around_wait)

    def detach(self) -> None:
        self._syncs.detach()
        self._runtime.detach()

    def poll(self) -> None:
        """Called by the agent's thread: reads when the device ran, and reports long compilations."""
        with self._report_lock:
            self._report_read(None)
        self._announce_long()
        requested = now_ns()
        launched = self._runtime.launched()
        count, executions = self._runtime.executions()
        if not executions:
            return
        ahead = unix_ahead_ns()
        spans = [(end - lasted - ahead, end - ahead) for end, lasted in executions if end > self._last_end_ns]
        self._last_end_ns = executions[-1].end_unix_ns
        # Programs run in order: all programs launched before the newest one was queued are over; if as many
        # have run as were queued before the poll, all are over.
        newest = executions[-1].end_unix_ns - executions[-1].duration_ns - ahead
        self._tracker.device.add_external(spans, requested if count >= launched else newest)

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
        with self._report_lock:
            try:
                self._report_read(state)
            except Exception as error:
                self._tracker.warn("a compilation of %s was not reported: %r", self._runtime.name, error)
            began = now_ns()
            self._launching[thread] = (began, sys._getframe(2))
        try:
            return launch()
        finally:
            with self._report_lock:
                self._launching.pop(thread, None)
                announced = self._announced.pop(thread, None)
            ended = now_ns()
            self._launcher = (thread, state, ended)
            try:
                self._launched(state, began, ended, sys._getframe(2), announced)
            except Exception as error:
                self._tracker.warn("a step of %s was not measured: %r", self._runtime.name, error)

    def _report_read(self, state: ThreadState | None) -> None:
        """Reports what the read of a value compiled since the previous launch. `state`: of the thread that is
        about to launch; None: the agent's thread polls. With the lock held."""
        compiled = self._runtime.compilations()
        if compiled == self._compiled or self._launching:
            return
        moment, total = now_ns(), self._runtime.compile_ns()
        lasted, goes_on = total - self._compile_ns, total == self._compile_ns and state is None
        thread, launcher, launched = self._launcher or (0, None, 0)
        reported = self._of_read
        if reported is None:
            # Found afterwards, the line is no longer known.
            frame = sys._current_frames().get(thread) if goes_on else None
            run = self._newest_run() if state is None else _run_since(launched)
            reported = self._reasons.of_read(frame, self._next_id(), run)
            self._send(reported.message("started"))
        self._of_read = reported if goes_on else None
        if goes_on:
            return
        self._finish(reported, lasted, compiled - self._compiled)
        self._compiled, self._compile_ns = compiled, total
        if (owner := state or launcher) is not None:
            # Usually the value belongs to the previous launch, and is read right after it.
            owner.compiles.append((launched, min(launched + lasted, moment)))

    def _launched(self, state: Any, began: int, ended: int, frame: Any, announced: int | None) -> None:
        compiled = self._runtime.compilations()
        # Finish a compilation reported as started, even if another thread's launch has counted it meanwhile.
        if compiled != self._compiled or announced is not None:
            self._on_compiled(state, began, ended, frame, compiled, announced)
        else:
            self._reasons.launched(frame)
        if state.clocks:
            state.launches.append((began, ended))
            state.dispatches += 1
            state.last_dispatch = ended
            state.last_post = self._tracker.device.post_external(ended)
            state.lazy_metrics.launched(state.last_post)
            if state.device_known_since is None:
                # An unwatched program of jax came before. All programs of this runtime are reported.
                state.device_known_since = ended
            self._syncs.launched(state)
        self._auto.tick(frame)

    def _on_compiled(
        self, state: Any, began: int, ended: int, frame: Any, compiled: int, announced: int | None
    ) -> None:
        total = self._runtime.compile_ns()
        lasted, number = max(total - self._compile_ns, 0), compiled - self._compiled
        self._compiled, self._compile_ns = compiled, total
        # Compilation directly precedes the queueing of the program; earlier compilations belong to `.item()`.
        state.compiles.append((max(began, ended - lasted), ended))
        run = current_run()
        identity = announced if announced is not None else self._next_id()
        compilation = self._reasons.explain(frame, identity, run)
        if announced is None:
            self._send(compilation.message("started"))
        self._finish(compilation, lasted, number)
        compilation.advise(self._tracker.adviser)

    def _finish(self, compilation: LazyCompilation, lasted: int, number: int) -> None:
        compilation.finish(lasted, number)
        if compilation.run is not None:
            compilation.run.compilations += number
            compilation.run.compile_ms += lasted / 1e6
        self._send(compilation.message("finished"))

    def _newest_run(self) -> Run | None:
        return next(iter(reversed(list(self._tracker.runs.values()))), None)

    def _announce_long(self) -> None:
        moment = now_ns()
        for thread, launch in list(self._launching.items()):
            began, frame = launch
            if moment - began <= LONG_LAUNCH_NS or self._runtime.compilations() == self._compiled:
                continue
            run = self._newest_run()
            with self._report_lock:
                # The request to the runtime may have taken until after the launch.
                if self._launching.get(thread) is not launch or thread in self._announced:
                    continue
                identity = self._announced[thread] = self._next_id()
                # The thread that traces finds the reason: tensors must not be inspected meanwhile.
                self._send(self._reasons.unexplained(frame, identity, run).message("started"))

    def _send(self, message: Any) -> None:
        self._tracker.recorder.events.append(message)
        self._tracker.wake()


def _run_since(moment: int) -> Run | None:
    """The run of this thread, if it had started by then."""
    run = current_run()
    return run if run is not None and run.started_ns <= moment else None
