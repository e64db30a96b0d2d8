"""When the device was busy: a thread waits for outputs, so that the user's thread never does.

Each dispatch of a watched step is posted here. The watcher takes the newest post, waits for one small output
of it and notes the time; programs of one thread run in order, so everything posted before has then finished
too. The device counts as busy from the first post that found the watcher waiting for nothing until that
moment.

Waking a thread for each output costs the user's thread a hand-over of the interpreter lock, and most
loops can do without (`_follow`). A program that is not ready at the end of its step, or when the next one
is dispatched, has kept the device busy until then. Where the user's own thread waits for it, it is ready
when that wait ends. So while every recent program was known in one of these ways, no thread is woken. A
program that was already ready when polled has ended at some moment before: the time since is called unknown,
and the watcher is woken again.

Precision: a note is late by the time the watcher waits for the interpreter lock, at most
`sys.getswitchinterval()` (5 ms) while the user's thread runs pure Python, microseconds when that thread
waits. An output is not referenced longer than the program that computes it runs.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from tpulab.figures.spans import Span
from tpulab.runtimes.device_value import is_freed, is_running, placement_of, quick_array, wait_until_ready
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.guarded import start_thread

#: Retained intervals. A step requests its own within a second or so; 8192 are minutes of separate programs.
MAX_INTERVALS = 8192
#: The assumed cost of one wait before it has been measured.
FIRST_WATCH_COST_NS = 20_000
#: The watcher sleeps once so many polls in a row would have been as precise.
POLLS_BEFORE_SLEEP = 64
LONG_NS = 1_000_000_000
#: Device sets with a post within this time count as busy at the same time.
TURNS_NS = 2_000_000_000


class ClaimedPost(NamedTuple):
    """A post that is waited for."""

    number: int
    #: the first dispatch since the post before
    began: int
    #: emptied by the waiting thread, so that the output lives no longer than that
    output: list[Any]
    #: to be polled, if that is quick
    array: Any


class DeviceClock:
    """Busy intervals of the device. `post` may be called on any thread and never blocks."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._posts: deque[tuple[int, int]] = deque(maxlen=4096)
        #: the newest post; its output is in a box that the watcher empties
        self._slot: tuple[int, list[Any]] = (0, [])
        self._external: deque[tuple[int, int]] = deque(maxlen=4096)
        self._intervals: deque[Span] = deque(maxlen=MAX_INTERVALS)
        self._work = threading.Lock()
        self._work.acquire()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._settled = 0
        self._last_end = 0
        #: the user's thread and the watcher both note; reentrant, as a finalizer may dispatch a program
        self._guard = threading.RLock()
        self._claimed: ClaimedPost | None = None
        #: the newest program, while the watcher sleeps, and the time until which it is not reported as busy
        self._followed: Any = None
        self._followed_since = 0
        self._polls = 0
        #: the newest post when the user's thread began to wait; the last post whose end such a wait has shown
        self._awaited = self._reported = 0
        #: a post after which came programs that were not posted
        self._left = 0
        self._unknown: deque[Span] = deque(maxlen=256)
        #: of earlier time, unknown spans were dropped
        self._unknown_before = 0
        #: device sets, and the time of the last post on each; the time of the last post on any
        self._placed: dict[Any, int] = {}
        self._posted_ns = 0
        #: whether devices took turns at the last post: programs of earlier posts may still run
        self._in_turns = False
        #: waits so far, and their mean processor time, which the user's code loses where cores are few
        self.waits = 0
        self.watch_cost_ns = FIRST_WATCH_COST_NS

    def post(self, output: Any, since: int | None = None) -> int:
        """Notes that `output` (any tree of arrays) has been dispatched, just now or at `since`.

        Returns the number of the post.
        """
        number = next(self._numbers)
        if self._stopped:
            return number
        moment = now_ns()
        with self._guard:
            self._note_devices(output, moment)
            self.poll(moment)
            began = moment if since is None else since
            if self._polls >= POLLS_BEFORE_SLEEP and self._follow(output, number, began):
                return number
            self._posts.append((number, began))
            # After the deque, so that the watcher finds the time of every post up to the newest one it reads.
            self._slot = (number, [output])
        if self._thread is None:
            self._start()
        self._wake()
        return number

    def _note_devices(self, output: Any, moment: int) -> None:
        """A ready program shows nothing about programs on other devices: while several device sets receive
        posts, the state of the devices is unknown."""
        placed = placement_of(output)
        since, self._posted_ns = self._posted_ns, moment
        if placed is None:
            return
        were_in_turns = self._in_turns
        self._in_turns = any(one != placed and moment - when < TURNS_NS for one, when in self._placed.items())
        if self._in_turns or were_in_turns:
            self.add_unknown(since, moment)
        if len(self._placed) > 16:
            self._placed.clear()
        self._placed[placed] = moment

    def add_unknown(self, begin: int, end: int) -> None:
        """Programs that were not posted may have run in this time."""
        with self._guard:
            if self._unknown and self._unknown[-1][1] >= begin:
                begin = min(begin, self._unknown.pop()[0])
            elif len(self._unknown) == self._unknown.maxlen:
                self._unknown_before = self._unknown[0][1]
            self._unknown.append((begin, end))

    def poll(self, moment: int) -> None:
        """Notes the state of the newest program at `moment`, which is now."""
        with self._guard:
            if self._followed is not None:
                self._poll_followed(moment, ready_is_news=False)
                return
            number = self._slot[0]
            if number > self._settled:
                array = self._newest()
                if is_running(array):
                    self._polls += 1
                elif array is None:
                    self._polls = 0
            elif number == self._reported:
                self._polls += 1
            elif number != self._left:
                self._polls = 0

    def wait_begins(self) -> None:
        """The user's thread is about to wait for an array that is not ready."""
        with self._guard:
            self.poll(now_ns())
            self._awaited = self._slot[0] if is_running(self._newest()) else 0

    def wait_ends(self) -> None:
        """The wait is over."""
        moment = now_ns()
        with self._guard:
            if self._followed is not None:
                self._poll_followed(moment, ready_is_news=True)
            elif self._awaited == self._slot[0] and not is_running(self._newest()):
                self._reported = self._awaited

    def _newest(self) -> Any:
        """The array of the newest post, while it is not known to be ready."""
        number, box = self._slot
        if number <= self._settled:
            return None
        if box:
            return quick_array(box[0])
        return self._claimed.array if self._claimed is not None else None

    @property
    def sleeps(self) -> bool:
        """Whether the next post will likely wake no thread."""
        return self._polls >= POLLS_BEFORE_SLEEP

    def forget(self) -> None:
        """Programs run that are not posted: the end of the newest post is no longer known."""
        if self._left == self._slot[0]:
            return
        with self._guard:
            self._left = self._slot[0]
            if self._followed is not None:
                self._followed = None
                self._settled = self._left

    def tidy(self) -> None:
        """Releases an output that was not polled for long. Not sooner: waiting for it is more precise."""
        if self._followed is not None and now_ns() - self._followed_since > LONG_NS:
            self.poll(now_ns())

    def is_known(self, low: int, high: int, unsure: float) -> bool:
        """Whether the device's state is known for all of [low, high] except this share."""
        with self._guard:
            if low < self._unknown_before:
                return False
            unknown = sum(
                min(end, high) - max(begin, low) for begin, end in self._unknown if begin < high and end > low
            )
            if self._in_turns:
                unknown += max(0, high - max(self._posted_ns, low))
        return unknown <= unsure * (high - low)

    def _follow(self, output: Any, number: int, began: int) -> bool:
        """Polls the newest program without waking a thread. False where its end would be too imprecise."""
        array = quick_array(output)
        if array is None or not is_running(array):
            self._polls = 0
            return False
        number_before, box = self._slot
        if self._followed is None and number_before > self._settled:
            if not is_running(self._newest()):
                return False
            # The watcher's result for it, or for one before it, is already recorded here.
            first = self._claimed.began if self._claimed is not None else self._first_post(number_before)
            self._busy(first, began)
            box.clear()
        self._followed, self._followed_since = array, began
        self._slot = (number, [])
        return True

    def _poll_followed(self, moment: int, *, ready_is_news: bool) -> None:
        number = self._slot[0]
        since, self._followed_since = self._followed_since, moment
        self._settled = number
        if is_running(self._followed):
            self._busy(since, moment)
            return
        freed, self._followed = is_freed(self._followed), None
        if ready_is_news and not freed:
            self._reported = number
            self._busy(since, moment)
        elif moment > since:
            self.add_unknown(since, moment)
            self._polls = 0

    def _busy(self, began: int, ended: int) -> None:
        began = max(began, self._last_end)
        if ended <= began:
            return
        if self._intervals and self._intervals[-1][1] == began:
            began = self._intervals.pop()[0]
        self._intervals.append((began, ended))
        self._last_end = ended

    def post_external(self, moment: int) -> int:
        """Records a launch at `moment`; a runtime reports its end (`add_external`). Returns its number."""
        number = next(self._numbers)
        self._external.append((number, moment))
        return number

    def add_external(self, spans: Iterable[Span], settled_until: int) -> None:
        """Busy intervals from a runtime, oldest first; launches before `settled_until` are over."""
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
        found: list[Span] = []
        with self._guard:
            for span in reversed(self._intervals):
                if span[1] <= low:
                    break
                if span[0] < high:
                    found.append(span)
        found.reverse()
        return found

    def abandon(self) -> None:
        """In a forked child: the watcher no longer exists, and nothing must be kept for it."""
        self._stopped = True
        self._thread = None
        self._guard = threading.RLock()
        self._followed = None
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
        self._thread = start_thread("tpulab-device-clock", self._watch)

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
                claimed = self.take()
                if claimed is None:
                    break
                self.note(claimed, known=wait_until_ready(claimed.output.pop()))
                self.watch_cost_ns += (time.thread_time_ns() - spent - self.watch_cost_ns) // 8
            if self._stopped:
                return

    def take(self) -> ClaimedPost | None:
        """The newest post to wait for; None when everything has settled."""
        with self._guard:
            number, box = self._slot
            if number <= self._settled or not box:
                return None
            output = box.pop()
            self._claimed = ClaimedPost(number, self._first_post(number), [output], quick_array(output))
            return self._claimed

    def note(self, claimed: ClaimedPost, *, known: bool = True) -> None:
        """The claimed output is ready now; with `known=False` it was freed, so its end is unknown."""
        ended = now_ns()
        with self._guard:
            self._claimed = None
            # Otherwise the polling thread has recorded it while this thread waited for the interpreter.
            if self._followed is None and claimed.number > self._settled:
                if known:
                    self._intervals.append((max(claimed.began, self._last_end), ended))
                    self._last_end = ended
                else:
                    self.add_unknown(claimed.began, ended)
            self._settled = max(self._settled, claimed.number)
        self.waits += 1

    def _first_post(self, number: int) -> int:
        first: int | None = None
        while self._posts and self._posts[0][0] <= number:
            moment = self._posts.popleft()[1]
            first = moment if first is None else first
        return first if first is not None else now_ns()
