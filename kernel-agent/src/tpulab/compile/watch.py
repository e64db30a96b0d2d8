"""Turns jax's monitoring events into one message per compilation, with the place and the reason.

jax announces the start of a phase (tracing, lowering, compiling) as a scalar and its end as a duration, on
the thread that does it. Tracing alone is no compilation (`eval_shape`, a cached program), so a compilation
is reported when lowering starts, when tracing takes long, or when it ends. No cost without a compilation.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tpulab.compile.compilation import Compilation, advise_on_batch, describe
from tpulab.compile.flop_count import count_flops
from tpulab.compile.programs import Programs
from tpulab.compile.reason import ReasonFinder
from tpulab.figures.throughput import Program
from tpulab.measure.thread_state import thread_state
from tpulab.measure.tracked_run import current_run
from tpulab.runtimes import jax_internals
from tpulab.runtimes.jax_internals import COMPILE_EVENT, LOWER_EVENT, TRACE_EVENT
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.messages import CompileMessage

#: Tracing that takes longer than this is reported while it runs.
LONG_TRACE_NS = 300_000_000
_PHASES = (TRACE_EVENT, LOWER_EVENT, COMPILE_EVENT)


class _ThreadCompiles(threading.local):
    def __init__(self) -> None:
        #: running phases, outermost first: event, start, their compilation
        self.running: list[tuple[str, int, Compilation]] = []
        #: by depth of nesting: traced or lowered, not yet compiled
        self.unfinished: dict[int, Compilation] = {}


class CompileWatch:
    """Receives jax.monitoring events once attached. `events` receives the messages."""

    def __init__(self, cells: CellRegister, events: deque[Any], wake: Callable[[], None]) -> None:
        self._cells = cells
        self._events = events
        self._wake = wake
        self._state = _ThreadCompiles()
        # From the time of day, so that a restarted kernel has different ids; below 2**53 for JavaScript.
        self._ids = itertools.count(time.time_ns() // 1_000_000 * 100)
        self._reasons = ReasonFinder()
        self._tracing: dict[int, Compilation] = {}
        # The agent's thread may report a compilation as it ends. Reentrant: a finalizer may compile too.
        self._report_lock = threading.RLock()
        #: finished compilations: number, milliseconds, by function name (for `status`)
        self.finished: dict[str, tuple[int, float]] = {}
        self.programs = Programs()
        self.adviser: Adviser | None = None
        self._monitoring: Any = None

    def next_id(self) -> int:
        return next(self._ids)

    @property
    def active(self) -> bool:
        return bool(self._tracing)

    def attach(self) -> None:
        from jax import monitoring

        if self._monitoring is None:
            self.programs.complete = not jax_internals.backends_ready()
            monitoring.register_scalar_listener(self._on_start)
            monitoring.register_event_duration_secs_listener(self._on_end)
            monitoring.register_event_listener(self._on_event)
            self._monitoring = monitoring

    def detach(self) -> None:
        monitoring, self._monitoring = self._monitoring, None
        if monitoring is not None:
            for unregister, listener in (
                (monitoring.unregister_scalar_listener, self._on_start),
                (monitoring.unregister_event_duration_listener, self._on_end),
                (monitoring.unregister_event_listener, self._on_event),
            ):
                try:
                    unregister(listener)
                except AssertionError:
                    continue  # another package has cleared all listeners

    def slowest(self, number: int = 5) -> list[tuple[str, tuple[int, float]]]:
        """Functions that took longest to compile: name, (compilations, milliseconds)."""
        return sorted(self.finished.items(), key=lambda item: -item[1][1])[:number]

    def announce_long_traces(self) -> None:
        """Called by the agent's thread: reports compilations that are still tracing."""
        moment = now_ns()
        for compilation in list(self._tracing.values()):
            if compilation.executes and moment - compilation.started_ns > LONG_TRACE_NS:
                self._announce(compilation)

    # Exceptions of a listener would surface in the user's call: each is guarded as a whole.
    def _on_start(self, event: str, value: float, **kwargs: str | int) -> None:  # noqa: ARG002 - jax's names
        if event in _PHASES:
            try:
                self._start_phase(event, str(kwargs.get("fun_name", "")))
            except Exception:
                self._state.running.clear()

    def _on_end(self, event: str, duration_secs: float, **kwargs: str | int) -> None:  # noqa: ARG002
        if event in _PHASES:
            try:
                self._end_phase(event, jax_internals.phase_error(sys._getframe(2)) is not None)
            except Exception:
                self._state.running.clear()

    def _on_event(self, event: str, **kwargs: str | int) -> None:  # noqa: ARG002
        if event.startswith("/jax/compilation_cache/") and self._state.running:
            self._state.running[-1][2].cache_events.add(event)

    def _start_phase(self, event: str, raw_name: str) -> None:
        state = self._state
        depth = len(state.running)
        name = plain_name(raw_name)
        compilation = state.unfinished.get(depth)
        if event == TRACE_EVENT or compilation is None or compilation.name_in_jax != name:
            compilation = describe(name, next(self._ids), self._cells, self._reasons, sys._getframe(2))
            compilation.run = current_run()
            state.unfinished[depth] = compilation
        for deeper in [level for level in state.unfinished if level > depth]:
            del state.unfinished[deeper]
        state.running.append((event, now_ns(), compilation))
        if event == TRACE_EVENT:
            self._tracing[compilation.id] = compilation
            self._wake()
        else:
            self._announce(compilation)
        if event == LOWER_EVENT and not compilation.eager:
            compilation.program = _program_of(jax_internals.find_lowered(sys._getframe(2)))
        if event == COMPILE_EVENT and compilation.run is not None and not compilation.eager:
            compilation.fingerprint = jax_internals.program_fingerprint(sys._getframe(2))

    def _end_phase(self, event: str, failed: bool) -> None:
        state = self._state
        if not state.running or state.running[-1][0] != event:
            state.running.clear()
            return
        _, began, compilation = state.running.pop()
        ended = now_ns()
        if not state.running:
            thread_state().compiles.append((began, ended))
        compilation.phase_ns[event] += ended - began
        self._tracing.pop(compilation.id, None)
        if failed:
            state.unfinished.pop(len(state.running), None)
            with self._report_lock:
                if compilation.executes or compilation.claimed:
                    self._send(compilation.message("failed"))
        elif event == COMPILE_EVENT:
            state.unfinished.pop(len(state.running), None)
            self._finish(compilation)

    def _finish(self, compilation: Compilation) -> None:
        variant = self._reasons.remember(compilation.key, compilation.function, compilation.signature)
        if compilation.reason["verdict"] != "first":
            compilation.variant = variant
        if not compilation.eager:
            state = thread_state()
            state.programs_compiled += 1
            # jax does not announce the call that compiles: the program that it starts is not posted.
            state.device_known_since = None
        if compilation.program is not None and compilation.call_key is not None:
            self.programs.add(
                compilation.function(), compilation.jit_info, compilation.call_key, compilation.program
            )
        total_ms = sum(compilation.phase_ns.values()) / 1e6
        number, earlier_ms = self.finished.get(compilation.name, (0, 0.0))
        self.finished[compilation.name] = (number + 1, earlier_ms + total_ms)
        if compilation.run is not None:
            compilation.run.compilations += 1
            compilation.run.compile_ms += total_ms
        self._announce(compilation)
        reported = compilation.message("finished")
        if compilation.program is not None:
            compilation.program.reported = reported
        self._send(reported)
        if self.adviser is not None and compilation.run is not None:
            advise_on_batch(
                compilation.name,
                compilation.reason,
                compilation.location,
                compilation.run,
                self.adviser,
            )

    def _announce(self, compilation: Compilation) -> None:
        # Claimed and sent together: the second thread finds that it has been reported.
        with self._report_lock:
            if compilation.claim():
                self._send(compilation.message("started"))

    def _send(self, message: CompileMessage) -> None:
        self._events.append(message)
        self._wake()


def _program_of(lowered: tuple[Any, int] | None) -> Program | None:
    if lowered is None:
        return None
    jaxpr, devices = lowered
    try:
        counted = count_flops(jaxpr)
    except Exception:  # a primitive of another jax; the program is then unknown
        return None
    return Program(counted.flops, counted.exact, devices, counted.missing)


def plain_name(name: str) -> str:
    """`train_step` of `jit(train_step)`: lowering and compiling name the module, tracing the function."""
    head, bracket, rest = name.partition("(")
    return rest[:-1] if bracket and rest.endswith(")") and head.isidentifier() else name
