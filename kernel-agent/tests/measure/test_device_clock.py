"""The device clock, with arrays that become ready on a call of the test."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from keeper_double import wait_until
from tpulab.measure.device_clock import POLLS_BEFORE_SLEEP, DeviceClock
from tpulab.runtimes.device_value import smallest_array
from tpulab.telemetry.clocks import now_ns


class ArrayDouble:
    """An array that a device is still computing."""

    def __init__(self, size: int = 1, dtype: str = "float32") -> None:
        self.size = size
        self.dtype = np.dtype(dtype)
        self.done = threading.Event()
        self.waited_on = threading.Event()
        self.deleted = False

    def is_deleted(self) -> bool:
        return self.deleted

    def is_ready(self) -> bool:
        return self.done.is_set()

    def block_until_ready(self) -> ArrayDouble:
        self.waited_on.set()
        assert self.done.wait(60)
        return self


@pytest.fixture
def clock() -> Iterator[DeviceClock]:
    made = DeviceClock()
    yield made
    made.stop()


def settled(clock: DeviceClock, number: int) -> None:
    wait_until(lambda: clock.is_settled(number), f"post {number} to be settled")


def test_the_device_is_busy_from_the_dispatch_until_the_output_is_ready(clock: DeviceClock) -> None:
    array = ArrayDouble()
    before = now_ns()
    number = clock.post(array)
    after = now_ns()
    assert not clock.is_settled(number)
    array.done.set()
    settled(clock, number)
    [(begin, end)] = clock.busy(before, now_ns())
    assert before <= begin <= after < end


def test_dispatches_that_queue_up_make_one_busy_time_without_a_hole(clock: DeviceClock) -> None:
    arrays = [ArrayDouble() for _ in range(5)]
    before = now_ns()
    clock.post(arrays[0])
    assert arrays[0].waited_on.wait(60)
    number = [clock.post(array) for array in arrays[1:]][-1]
    for array in arrays:
        array.done.set()
    settled(clock, number)
    spans = clock.busy(before, now_ns())
    assert all(earlier[1] == later[0] for earlier, later in itertools.pairwise(spans))
    assert not arrays[2].waited_on.is_set(), "only the newest of those that queued up is waited for"


def test_the_device_is_idle_between_programs_that_do_not_overlap(clock: DeviceClock) -> None:
    before = now_ns()
    for _ in range(2):
        array = ArrayDouble()
        array.done.set()
        settled(clock, clock.post(array))
        pause = now_ns()
    first, second = clock.busy(before, now_ns())
    assert first[1] <= second[0]
    assert clock.busy(pause, now_ns()) == []


def test_posting_never_waits_for_the_device(clock: DeviceClock) -> None:
    array = ArrayDouble()
    for _ in range(10_000):
        clock.post(array)
    assert not array.done.is_set()
    array.done.set()


def test_an_output_is_released_as_soon_as_it_is_ready(clock: DeviceClock) -> None:
    array = ArrayDouble(size=1 << 20)
    reference = weakref.ref(array)
    array.done.set()
    settled(clock, clock.post(array))
    del array
    wait_until(lambda: reference() is None, "the output to be released")


def test_an_array_that_fails_counts_as_ready(clock: DeviceClock) -> None:
    class Failing(ArrayDouble):
        def block_until_ready(self) -> Any:
            raise RuntimeError("RESOURCE_EXHAUSTED")

    settled(clock, clock.post(Failing()))


def test_the_scalar_loss_is_preferred_to_a_counter_and_to_big_arrays() -> None:
    big, counter, loss = ArrayDouble(1000), ArrayDouble(1, "int32"), ArrayDouble(1)
    assert smallest_array((big, counter, loss)) is loss
    assert smallest_array([counter, big]) is counter
    assert smallest_array(big) is big


def test_an_output_without_an_array_is_not_waited_for(clock: DeviceClock) -> None:
    assert smallest_array((1, "a", None)) is None
    settled(clock, clock.post((1, "a", None)))


def test_a_stopped_clock_keeps_no_output(clock: DeviceClock) -> None:
    clock.stop()
    array = ArrayDouble()
    reference = weakref.ref(array)
    clock.post(array)
    del array
    assert reference() is None


def asleep(clock: DeviceClock) -> ArrayDouble:
    """The newest program after enough programs in a row that no thread is woken any more."""
    first = ArrayDouble()
    clock.post(first)
    assert first.waited_on.wait(60)
    for _ in range(POLLS_BEFORE_SLEEP + 1):
        clock.post(ArrayDouble())
    assert clock.sleeps
    array = ArrayDouble()
    clock.post(array)
    # Only now, so that the watcher has no new result.
    first.done.set()
    return array


def test_consecutive_programs_wake_no_thread_and_are_busy_without_a_hole(clock: DeviceClock) -> None:
    before = now_ns()
    array = asleep(clock)
    middle = now_ns()
    number = clock.post(ArrayDouble())
    assert not array.waited_on.is_set()
    clock.poll(now_ns())
    assert clock.is_settled(number)
    [(begin, end)] = clock.busy(before, now_ns())
    assert before <= begin < middle < end
    assert clock.is_known(before, now_ns(), 0)


def test_the_users_own_wait_shows_when_a_program_ended(clock: DeviceClock) -> None:
    array = asleep(clock)
    clock.wait_begins()
    array.done.set()
    clock.wait_ends()
    ended = now_ns()
    assert clock.busy(ended - 1, now_ns()) == []
    assert clock.is_known(ended - 1_000_000_000, now_ns(), 0)
    assert clock.sleeps
    assert not array.waited_on.is_set()


def test_a_program_that_ended_unseen_is_called_unknown_and_the_watcher_wakes(clock: DeviceClock) -> None:
    array = asleep(clock)
    posted = now_ns()
    array.done.set()
    clock.poll(now_ns())
    assert not clock.is_known(posted, now_ns(), 0.02)
    assert not clock.sleeps
    newer = ArrayDouble()
    number = clock.post(newer)
    assert newer.waited_on.wait(60)
    newer.done.set()
    settled(clock, number)


def test_a_donated_output_is_not_followed(clock: DeviceClock) -> None:
    asleep(clock)
    donated = ArrayDouble()
    donated.deleted = True
    clock.poll(now_ns())
    clock.post((donated,))
    assert not clock.sleeps
