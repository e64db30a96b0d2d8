"""A measured loop: its length, and the end of the loop, which it detects by the finalizer of an object
in its iterator.

CPython drops the iterator of a loop in the loop's own frame. When it is left by `break`, `return` or `del`,
the current instruction pops or stores; when an exception unwinds the frame, it is the instruction that
raised.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, Generic, Self, TypeVar

from tpulab.measure.tracked_run import TrackedRun
from tpulab.telemetry.messages import RunState

R = TypeVar("R", bound=TrackedRun)

#: Instructions that drop a value on purpose (3.11 to 3.14; names as in `dis`).
_DISCARDING_OPCODES = (
    "POP_",
    "END_FOR",
    "SWAP",
    "RETURN_",
    *(f"{act}_{kind}" for act in ("STORE", "DELETE") for kind in ("FAST", "NAME", "GLOBAL", "DEREF")),
)
#: A comprehension is a separate frame before Python 3.12, and only an exception can leave it.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")


def left_by_exception(frame: FrameType | None, loop: CodeType | None) -> bool:
    """True when `frame` is the loop's and an exception is unwinding it. False when in doubt."""
    if loop is not None and loop.co_name in _COMPREHENSIONS:
        return True
    if frame is None or loop is None or frame.f_code is not loop or frame.f_lasti < 0:
        return False
    return not dis.opname[loop.co_code[frame.f_lasti]].startswith(_DISCARDING_OPCODES)


class LoopGuard:
    """Ends a run when the loop's iterator, the only reference to this object, is dropped.

    It is removed as soon as the run ends in another way. A finalizer that a garbage collection runs
    later, in the middle of another cell, could swallow an interrupt that arrives at that moment.
    """

    __slots__ = ("_end", "_loop")

    def __init__(self, end: Callable[[RunState], None], loop: CodeType) -> None:
        """`end` is called with the kind of exit, unless `disarm` comes first."""
        self._end: Callable[[RunState], None] | None = end
        self._loop = loop

    def disarm(self) -> None:
        """The loop has ended in another way."""
        self._end = None

    def __del__(self) -> None:
        # When the interpreter ends, modules may be deleted before their objects.
        end = self._end
        if sys is None or sys.is_finalizing() or end is None:
            return
        try:
            end("failed" if left_by_exception(sys._getframe(1), self._loop) else "finished")
        except Exception:
            return


def length_of(iterable: Any) -> int | None:
    try:
        length = len(iterable)
    except Exception:
        return None
    return length if isinstance(length, int) and length >= 0 else None


class MeasuredBlock(Generic[R]):
    """The common part of `tpulab.step` and `run.step`: a block that is one step."""

    _tracked: R | None = None

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
        """Names an output of this step, to measure its device time."""
        if self._tracked is not None:
            self._tracked.clock.watch(output)


class MeasuredLoop(Generic[R]):
    """The common part of `tpulab.steps` and `run.steps`: an iterable object for one or several loops."""

    def __init__(self, iterable: Any, total: int | None, watch: Callable[[], Any] | None) -> None:
        self._iterable = iterable
        self._total = total
        self._watch = watch
        self._items: Any = None
        self._tracked: R | None = None
        self._guard: LoopGuard | None = None
        self._exhausted = False

    def __iter__(self) -> Self:
        if self._exhausted:
            # A second loop over the same object is a new pass over the iterable.
            self._exhausted, self._items, self._tracked = False, None, None
        return self

    def __len__(self) -> int:
        length = length_of(self._iterable)
        if length is None:
            # A TypeError, which `list` and `tqdm` interpret as "not known".
            raise TypeError("the length of the iterable of steps is unknown")
        return length

    def __bool__(self) -> bool:
        return True

    def watch(self, output: Any) -> None:
        """Names an output (array or tree of arrays) of the running step, to measure its device time."""
        if self._tracked is not None:
            self._tracked.clock.watch(output)

    def _length(self) -> int | None:
        return self._total if self._total is not None else length_of(self._iterable)

    def _end_step(self, tracked: R) -> None:
        if self._watch is not None:
            try:
                tracked.clock.watch_at_end(self._watch())
            except Exception as error:
                # The user's loop continues without it; one report is enough.
                self._watch = None
                tracked.tracker.warn("the `watch` of steps failed and is not called again: %r", error)
        tracked.clock.end()

    def _disarm(self) -> None:
        """The loop has ended without being left: no finalizer runs late."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.disarm()

    def _disarms(self) -> Callable[[], None]:
        """`_disarm`, without a reference to the loop."""
        method = weakref.WeakMethod(self._disarm)

        def disarm() -> None:
            if (known := method()) is not None:
                known()

        return disarm
