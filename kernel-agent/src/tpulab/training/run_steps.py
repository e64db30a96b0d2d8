"""The loops of a run that can be steered: `for`, `async for`, and a block.

Between two steps the waiting commands are applied; a pause holds the loop there, a stop ends it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar, cast

from tpulab.control.controller import Controller
from tpulab.measure.loop_exit import LoopGuard, MeasuredBlock, MeasuredLoop
from tpulab.training.steered_run import SteeredRun

T = TypeVar("T")


class Training(Protocol):
    """The run of a loop."""

    total: int | None

    @property
    def controller(self) -> Controller: ...

    def begin_loop(self, frame: FrameType, length: int | None) -> SteeredRun: ...

    def go_on(self) -> None: ...

    def take_pending_metrics(self) -> dict[str, Any]: ...


class RunSteps(MeasuredLoop[SteeredRun], Iterator[T], AsyncIterator[T], Generic[T]):
    """One loop of a run. Created by `run.steps(iterable)`."""

    def __init__(
        self,
        training: Training,
        iterable: Iterable[T] | AsyncIterable[T],
        total: int | None,
        watch: Callable[[], Any] | None,
    ) -> None:
        super().__init__(iterable, total, watch)
        self._training = training
        self._raised = False
        #: the cell of the newest step
        self._cell: object = None

    def __aiter__(self) -> RunSteps[T]:
        return self.__iter__()

    def __next__(self) -> T:
        tracked = self._between(sys._getframe(1))
        try:
            if tracked.halted or not self._training.controller.boundary(tracked.run.closed):
                raise StopIteration
            tracked.begin_step()
            if self._items is None:
                if isinstance(self._iterable, AsyncIterable) and not isinstance(self._iterable, Iterable):
                    raise TypeError("use `async for … in run.steps(…)` for an asynchronous iterable")
                self._items = iter(cast(Iterable[T], self._iterable))
            item = cast(T, next(self._items))
        except StopIteration:
            self._end_loop(tracked)
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
            tracked.begin_step()
            if self._items is None:
                is_async = isinstance(self._iterable, AsyncIterable)
                self._items = aiter(self._iterable) if is_async else iter(self._iterable)
            item = await self._next_async()
        except StopAsyncIteration:
            self._end_loop(tracked)
            raise
        except BaseException:
            self._failed(tracked)
            raise
        self._begin_body(tracked)
        return item

    async def _next_async(self) -> T:
        if isinstance(self._items, AsyncIterator):
            return cast(T, await anext(self._items))
        try:
            return cast(T, next(self._items))
        except StopIteration:
            raise StopAsyncIteration from None

    def _between(self, frame: FrameType) -> SteeredRun:
        """The previous step is over, if there is one."""
        tracked = self._tracked
        if tracked is None:
            tracked = self._tracked = self._training.begin_loop(frame, self._length())
            self._guard = LoopGuard(tracked.leave_loop, frame.f_code)
        elif tracked.clock.is_open:
            self._end_step(tracked)
        cell, before = tracked.tracker.cells.running(), self._cell
        if tracked.run.ended and not self._exhausted and (self._raised or cell is not before):
            # An iterator that a later cell uses, or one that goes on after an item that raised.
            self._training.go_on()
        self._cell, self._raised = cell, False
        return tracked

    def _begin_body(self, tracked: SteeredRun) -> None:
        tracked.clock.body()
        self._training.controller.begin()
        later = self._training.take_pending_metrics()
        if later:
            tracked.metric(later)

    def _end_loop(self, tracked: SteeredRun) -> None:
        self._disarm()
        self._exhausted = True
        tracked.clock.discard()
        if self._training.controller.stops:
            tracked.halt()
        elif self._training.total is not None and tracked.run.closed >= self._training.total:
            tracked.end("finished")

    def _failed(self, tracked: SteeredRun) -> None:
        self._disarm()
        self._raised = True
        tracked.end("failed")


class RunBlock(MeasuredBlock[SteeredRun]):
    """One step of a run as a block. Created by `run.step()`."""

    def __init__(self, training: Training) -> None:
        self._training = training

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
        later = self._training.take_pending_metrics()
        if later:
            tracked.metric(later)
        return self
