"""Metrics that are tensors of torch.

A metric on the CPU is read immediately. A lazy one must be read on the thread that traces (another one may
find it between two states), and only when the device is done with it, so that nothing waits. That costs some
tens of microseconds, so the newest one is read ten times a second, and the others are left out.

A metric can be logged before its step is launched: loaders such as MpDeviceLoader launch it when they are
requested to load the next batch. Reading it then would compile a second program and compute the step twice.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from tpulab.runtimes.device_value import described
from tpulab.runtimes.torch_arrays import is_launched
from tpulab.telemetry.clocks import now_ns

PERIOD_NS = 100_000_000
#: Tensors that wait for their device; a scalar each.
MAX_ENTRIES = 256


class NotANumber(str):
    """Describes a tensor in its place: the tensor itself may be large."""


class LazyMetric:
    """A number that is not known yet. Until then, and after it has been dropped, `float` raises."""

    __slots__ = ("_freed", "_left_out", "_tensor", "_value")

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._value: float | None = None
        self._left_out = self._freed = False

    def is_deleted(self) -> bool:
        return self._freed

    def is_ready(self) -> bool:
        return self._value is not None or self._left_out

    def __float__(self) -> float:
        if self._value is None:
            raise ValueError("This metric has not been read.")
        return self._value

    @property
    def number(self) -> float | None:
        return self._value

    def is_launched(self) -> bool:
        """Whether a launched program computes it. On the thread that traces."""
        return self._tensor is None or is_launched(self._tensor)

    def read(self) -> None:
        """On the thread that traces, when the device is done."""
        tensor, self._tensor = self._tensor, None
        if tensor is None:
            return
        try:
            self._value = float(tensor.detach())
        except Exception:  # its data was freed, or it is not a number
            self._left_out = True
            with contextlib.suppress(Exception):
                self._freed = tensor.numel() == 1 and not tensor.is_complex() and not tensor.is_meta

    def leave_out(self) -> None:
        self._tensor, self._left_out = None, True


class LazyMetrics:
    """The metrics of one thread that wait to be read, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[LazyMetric, int]] = deque()
        #: metrics that no launch has computed yet
        self._unlaunched: deque[LazyMetric] = deque()
        self._next_ns = 0
        #: number of reads so far
        self.reads = 0

    def __bool__(self) -> bool:
        return bool(self._waiting or self._unlaunched)

    def add(self, metric: LazyMetric, post: int) -> None:
        """`post`: the newest launch."""
        if not metric.is_launched():
            if len(self._unlaunched) >= MAX_ENTRIES:
                self._unlaunched.popleft().leave_out()
            self._unlaunched.append(metric)
            return
        if len(self._waiting) >= MAX_ENTRIES:
            self._waiting.popleft()[0].leave_out()
        self._waiting.append((metric, post))

    def launched(self, post: int) -> None:
        """The launch `post` has computed some of the metrics that waited for one."""
        while self._unlaunched and self._unlaunched[0].is_launched():
            self.add(self._unlaunched.popleft(), post)

    def read_settled(self, is_settled: Callable[[int], bool], *, everything: bool = False) -> None:
        """Reads the finished values: of the newest step, or of everything that was launched."""
        if not everything and now_ns() < self._next_ns:
            return
        self._next_ns = now_ns() + PERIOD_NS
        done: list[tuple[LazyMetric, int]] = []
        while self._waiting and (everything or is_settled(self._waiting[0][1])):
            done.append(self._waiting.popleft())
        for metric, post in done:
            if post == done[-1][1]:
                metric.read()
                self.reads += 1
            else:
                metric.leave_out()
        while everything and self._unlaunched:
            self._unlaunched.popleft().leave_out()


def stored_value(value: Any) -> Any:
    """A metric as stored until it is read."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "Tensor") or not isinstance(value, torch.Tensor):
        return value
    if value.device.type == "xla":
        return LazyMetric(value)
    read = LazyMetric(value)
    read.read()
    if read.number is None and not read.is_deleted():
        return NotANumber(described(value))
    return read if read.is_deleted() else read.number
