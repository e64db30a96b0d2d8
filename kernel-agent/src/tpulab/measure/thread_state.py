"""The agent's data about one thread: its open step clocks, and when it compiled."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tpulab.figures.spans import Span
from tpulab.runtimes.lazy_metrics import LazyMetrics

if TYPE_CHECKING:
    from tpulab.measure.runs import Run
    from tpulab.runtimes.jax_internals import DispatchHookSlot
    from tpulab.telemetry.messages import RunState


class Clock(Protocol):
    """A step clock, as stored for its thread."""

    run: Run
    is_open: bool
    is_watching: bool
    end_run: Callable[[RunState], None] | None

    @property
    def usual_ns(self) -> float: ...

    def watch(self, output: Any) -> None: ...

    def watch_at_end(self, output: Any) -> None: ...

    def metric(self, values: dict[str, Any]) -> None: ...


class ThreadState:
    """One per thread. A plain object: a step reads it a dozen times, and a thread-local is slow."""

    __slots__ = (
        "clocks",
        "compiles",
        "device_known_since",
        "dispatches",
        "hook",
        "idle",
        "last_dispatch",
        "last_post",
        "launches",
        "lazy_metrics",
        "programs_compiled",
        "waits",
    )

    def __init__(self) -> None:
        #: clocks with an open step, outermost first
        self.clocks: list[Clock] = []
        #: closed compile spans of this thread, oldest first; a step never spans more than these
        self.compiles: deque[Span] = deque(maxlen=512)
        #: number of programs that the user compiled here (not counting single operations)
        self.programs_compiled = 0
        #: when the last dispatch of this thread returned, and the number of its post
        self.last_dispatch = 0
        #: since when every program of this thread has been posted; None: some were not, and may still run.
        #: One post is enough to know again, as it is ready after all earlier programs.
        self.device_known_since: int | None = 0
        self.last_post = 0
        #: dispatches seen by the hook since the thread started
        self.dispatches = 0
        self.hook: DispatchHookSlot | None = None
        #: no clock watches, and the device clock knows that; until a step is watched nothing is noted
        self.idle = False
        #: waits for a loader, and launches of a traced graph, of a lazy runtime (`lazy_watch`)
        self.waits: deque[Span] = deque(maxlen=512)
        self.launches: deque[Span] = deque(maxlen=512)
        self.lazy_metrics = LazyMetrics()

    def compiles_since(self, moment: int) -> tuple[Span, ...]:
        if not self.compiles or self.compiles[-1][1] <= moment:
            return ()
        return tuple(span for span in self.compiles if span[1] > moment)

    def waits_since(self, moment: int) -> tuple[Span, ...]:
        return tuple(span for span in self.waits if span[1] > moment) if self.waits else ()

    def launches_since(self, moment: int) -> tuple[Span, ...]:
        return tuple(span for span in self.launches if span[1] > moment) if self.launches else ()


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


_local = _Local()


def thread_state() -> ThreadState:
    """The state of the calling thread."""
    return _local.state
