"""When the device was busy: a thread that waits for outputs, so that the user's thread never does.

Each dispatch of a watched step is posted here. The watcher takes the newest post, waits for one small output
of it and notes the time; programs of one thread run in order, so everything posted before has then finished
too. The device counts as busy from the first post that found the watcher waiting for nothing until that
moment.

Precision: a note is late by the time the watcher waits for the interpreter lock, at most
`sys.getswitchinterval()` (5 ms) while the user's thread runs pure Python, microseconds when that thread
waits. An output is held no longer than the program that computes it runs.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from tpulab.measure.spans import Span
from tpulab.telemetry.clocks import now_ns

#: Intervals kept. A step asks for its own within a second or so; 8192 are minutes of separate programs.
KEPT_INTERVALS = 8192
#: What one wait is taken to cost before it has been measured.
FIRST_WATCH_COST_NS = 20_000


class Taken(NamedTuple):
    """A post that is waited for."""

    number: int
    #: the first dispatch since the post before
    began: int
    #: emptied by who waits, so that the output lives no longer than that
    output: list[Any]


class DeviceClock:
    """Busy intervals of the device. `post` may be called on any thread and never blocks."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._posts: deque[tuple[int, int]] = deque(maxlen=4096)
        #: the newest post; its output lies in a box that the watcher empties
        self._slot: tuple[int, list[Any]] = (0, [])
        self._external: deque[tuple[int, int]] = deque(maxlen=4096)
        self._intervals: deque[Span] = deque(maxlen=KEPT_INTERVALS)
        self._work = threading.Lock()
        self._work.acquire()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._settled = 0
        self._last_end = 0
        #: waits so far, and the processor time that one takes (averaged): where cores are few, the user pays
        self.waits = 0
        self.watch_cost_ns = FIRST_WATCH_COST_NS

    def post(self, output: Any, since: int | None = None) -> int:
        """Notes that `output` (any tree of arrays) has been dispatched, just now or at `since`.

        Answers the number of the post.
        """
        number = next(self._numbers)
        if self._stopped:
            return number
        self._posts.append((number, now_ns() if since is None else since))
        # After the deque, so that the watcher finds the time of every post up to the one it takes.
        self._slot = (number, [output])
        if self._thread is None:
            self._start()
        self._wake()
        return number

    def post_external(self, moment: int) -> int:
        """Notes a launch at `moment` whose end a runtime tells (`add_external`). Answers its number."""
        number = next(self._numbers)
        self._external.append((number, moment))
        return number

    def add_external(self, spans: Iterable[Span], settled_until: int) -> None:
        """Busy intervals that a runtime told, oldest first; launches before `settled_until` are over."""
        last = self._intervals[-1][1] if self._intervals else 0
        for begin, end in spans:
            if end > max(begin, last):
                self._intervals.append((max(begin, last), end))
                last = end
        while self._external and self._external[0][1] < settled_until:
            self._external.popleft()

    def is_settled(self, number: int) -> bool:
        """Whether it is known until when the device ran for the posts up to `number`."""
        if self._external and self._external[0][0] <= number:
            return False
        return self._settled >= number or self._slot[0] <= self._settled

    def busy(self, low: int, high: int) -> list[Span]:
        """Busy intervals in [low, high], oldest first; complete once the posts before `high` are settled."""
        while True:
            found: list[Span] = []
            try:
                for span in reversed(self._intervals):
                    if span[1] <= low:
                        break
                    if span[0] < high:
                        found.append(span)
            except RuntimeError:
                continue  # the watcher has added one meanwhile
            found.reverse()
            return found

    def abandon(self) -> None:
        """In a forked child: there is no watcher any more, and nothing is to be kept for it."""
        self._stopped = True
        self._thread = None
        self._slot = (self._settled, [])

    def stop(self, timeout_s: float = 0.5) -> None:
        """Ends the watcher. It may be inside a wait of the runtime; it is left behind after `timeout_s`."""
        self._stopped = True
        self._wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _start(self) -> None:
        if self._stopped:
            return
        self._thread = threading.Thread(target=self._watch, name="tpulab-device-clock", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        # A lock as a binary semaphore: unlike an Event it can be signalled from a finalizer at any point.
        if self._work.locked():
            with contextlib.suppress(RuntimeError):
                self._work.release()

    def _watch(self) -> None:
        while True:
            self._work.acquire()
            while not self._stopped:
                spent = time.thread_time_ns()
                taken = self.take()
                if taken is None:
                    break
                wait_until_ready(taken.output.pop())
                self.note(taken)
                self.watch_cost_ns += (time.thread_time_ns() - spent - self.watch_cost_ns) // 8
            if self._stopped:
                return

    def take(self) -> Taken | None:
        """The newest post, to be waited for; None when everything has settled."""
        number, box = self._slot
        if number <= self._settled:
            return None
        return Taken(number, self._first_post(number), [box.pop()])

    def note(self, taken: Taken) -> None:
        """What was taken is ready now."""
        ended = now_ns()
        self._intervals.append((max(taken.began, self._last_end), ended))
        self._last_end = ended
        self._settled = taken.number
        self.waits += 1

    def _first_post(self, number: int) -> int:
        first: int | None = None
        while self._posts and self._posts[0][0] <= number:
            moment = self._posts.popleft()[1]
            first = moment if first is None else first
        return first if first is not None else now_ns()


def wait_until_ready(output: Any) -> None:
    """Waits for one small array of a tree. A deleted (donated) one counts as ready: a newer post follows."""
    array = smallest_array(output)
    if array is None:
        return
    try:
        array.block_until_ready()
    except Exception:  # whatever the program failed with, the user's own wait tells it
        return


def all_ready(output: Any) -> bool:
    """Whether the array that would be waited for is there already."""
    array = smallest_array(output)
    ready = getattr(array, "is_ready", None)
    return bool(ready()) if callable(ready) else array is None


def smallest_array(output: Any) -> Any | None:
    """The array of a tree that is cheapest to wait for, floats first.

    A loss is a float and lives on; a small integer is likely a counter in a state that the next step donates.
    """
    if _is_array(output):
        return output
    if isinstance(output, (tuple, list)):
        top = [leaf for leaf in output if _is_array(leaf)]
        if top and min(leaf.size for leaf in top) <= 1:
            return min(top, key=_cost)
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    with contextlib.suppress(Exception):
        leaves = [leaf for leaf in jax.tree_util.tree_leaves(output)[-64:] if _is_array(leaf)]
        return min(leaves, key=_cost, default=None)
    return None


_waitable: dict[type, bool] = {}


def _is_array(value: Any) -> bool:
    kind = type(value)
    known = _waitable.get(kind)
    if known is None:
        # A tracer stands for an array while a function is traced; there is nothing to wait for.
        tracer = any(base.__name__ == "Tracer" for base in kind.__mro__)
        known = _waitable[kind] = not tracer and all(
            hasattr(kind, name) for name in ("block_until_ready", "is_deleted")
        )
    return known and not value.is_deleted()


def _cost(array: Any) -> tuple[int, bool]:
    return int(array.size), getattr(array.dtype, "kind", "f") in "iub"
