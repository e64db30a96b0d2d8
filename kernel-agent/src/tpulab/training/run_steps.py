"""The loops of a run that can be steered: `for`, `async for`, and a block.

Between two steps the commands that wait are applied; a pause holds the loop there, a stop ends it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, Generic, Protocol, TypeVar, cast

from tpulab.control.controller import Controller
from tpulab.measure.loop_exit import LoopGuard, length_of
from tpulab.measure.runs import Run
from tpulab.telemetry.messages import RunState
from tpulab.training.steered_run import SteeredRun

T = TypeVar("T")


class Training(Protocol):
    """The run that a loop belongs to."""

    total: int | None

    @property
    def controller(self) -> Controller: ...

    def begin_loop(self, frame: FrameType, length: int | None) -> SteeredRun: ...

    def take_later(self) -> dict[str, Any]: ...


class RunSteps(Iterator[T], AsyncIterator[T], Generic[T]):
    """One loop of a run. Created by `run.steps(iterable)`."""

    def __init__(
        self,
        training: Training,
        iterable: Iterable[T] | AsyncIterable[T],
        total: int | None,
        watch: Callable[[], Any] | None,
    ) -> None:
        self._training = training
        self._iterable = iterable
        self._total = total
        self._watch = watch
        self._items: Any = None
        self._tracked: SteeredRun | None = None
        self._guard: LoopGuard | None = None
        self._exhausted = False

    def __iter__(self) -> RunSteps[T]:
        self._again()
        return self

    def __aiter__(self) -> RunSteps[T]:
        self._again()
        return self

    def __len__(self) -> int:
        length = length_of(self._iterable)
        if length is None:
            raise TypeError("the length of the iterable of run.steps is unknown")
        return length

    def __bool__(self) -> bool:
        return True

    def __next__(self) -> T:
        tracked = self._between(sys._getframe(1))
        try:
            if tracked.halted or not self._training.controller.boundary(tracked.run.closed):
                raise StopIteration
            self._begin_step(tracked)
            if self._items is None:
                if not isinstance(self._iterable, Iterable):
                    raise TypeError("use `async for … in run.steps(…)` for an asynchronous iterable")
                self._items = iter(self._iterable)
            item = cast(T, next(self._items))
        except StopIteration:
            self._over(tracked)
            raise
        except BaseException:
            self._failed(tracked)
            raise
        self._begin_body(tracked)
        return item

    async def __anext__(self) -> T:
        tracked = self._between(sys._getframe(1))
        try:
            go_on = not tracked.halted and await self._training.controller.boundary_async(tracked.run.closed)
            if not go_on:
                raise StopAsyncIteration
            self._begin_step(tracked)
            if self._items is None:
                is_async = isinstance(self._iterable, AsyncIterable)
                self._items = aiter(self._iterable) if is_async else iter(self._iterable)  # type: ignore[arg-type]
            item = await self._next_async()
        except StopAsyncIteration:
            self._over(tracked)
            raise
        except BaseException:
            self._failed(tracked)
            raise
        self._begin_body(tracked)
        return item

    def watch(self, output: Any) -> None:
        """Names an output (array or tree of arrays) of the running step, to measure its device time."""
        if self._tracked is not None:
            self._tracked.clock.watch(output)

    async def _next_async(self) -> T:
        if isinstance(self._items, AsyncIterator):
            return cast(T, await anext(self._items))
        try:
            return cast(T, next(self._items))
        except StopIteration:
            raise StopAsyncIteration from None

    def _again(self) -> None:
        if self._exhausted:
            self._exhausted, self._items, self._tracked = False, None, None

    def _between(self, frame: FrameType) -> SteeredRun:
        """The step before is over, if there is one."""
        tracked = self._tracked
        if tracked is None:
            total = self._total if self._total is not None else length_of(self._iterable)
            tracked = self._tracked = self._training.begin_loop(frame, total)
            self._guard = LoopGuard(_LoopEnd(tracked), frame.f_code)
        elif tracked.clock.is_open:
            if self._watch is not None:
                try:
                    tracked.clock.watch_at_end(self._watch())
                except Exception as error:
                    self._watch = None
                    tracked.tracker.warn("the `watch` of run.steps failed and is not called again: %r", error)
            tracked.clock.end()
        return tracked

    def _begin_step(self, tracked: SteeredRun) -> None:
        tracked.begin_step()

    def _begin_body(self, tracked: SteeredRun) -> None:
        tracked.clock.body()
        self._training.controller.begin()
        later = self._training.take_later()
        if later:
            tracked.metric(later)

    def _over(self, tracked: SteeredRun) -> None:
        self._disarm()
        self._exhausted = True
        tracked.clock.discard()
        if self._training.controller.stops:
            tracked.halt()
        elif self._training.total is not None and tracked.run.closed >= self._training.total:
            tracked.end("finished")

    def _failed(self, tracked: SteeredRun) -> None:
        self._disarm()
        tracked.end("failed")

    def _disarm(self) -> None:
        # The finalizer has nothing to do any more.
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.disarm()


class _LoopEnd:
    """What the guard of a loop ends: the loop when it is left by `break`, the run when by an exception."""

    def __init__(self, tracked: SteeredRun) -> None:
        self._tracked = tracked

    @property
    def run(self) -> Run:
        return self._tracked.run

    def end(self, state: RunState) -> None:
        if state == "failed":
            self._tracked.end(state)
        else:
            self._tracked.clock.discard()


class RunBlock:
    """One step of a run as a block. Created by `run.step()`."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._tracked: SteeredRun | None = None

    def __enter__(self) -> RunBlock:
        frame = sys._getframe(1)
        tracked = self._training.begin_loop(frame, None)
        controller = self._training.controller
        try:
            controller.boundary(tracked.run.closed)
        except BaseException:
            tracked.end("failed")
            raise
        if tracked.halted or tracked.clock.is_open:
            return self
        self._tracked = tracked
        tracked.begin_step()
        controller.begin()
        later = self._training.take_later()
        if later:
            tracked.metric(later)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tracked, self._tracked = self._tracked, None
        if tracked is None:
            return
        if kind is None:
            tracked.clock.end()
        else:
            tracked.end("failed")

    def watch(self, output: Any) -> None:
        """Names an output of this step: its device time is measured by it."""
        if self._tracked is not None:
            self._tracked.clock.watch(output)
