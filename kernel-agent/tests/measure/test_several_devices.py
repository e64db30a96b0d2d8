"""Loops on several devices: a split that is known is true, whatever else computes meanwhile (case F7)."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import tpulab
from keeper_double import KeeperDouble
from tpulab.measure.device_clock import DeviceClock


class OnDevice:
    """An array on devices, done on a call of the test."""

    size, dtype = 1, jnp.float32

    def __init__(self, device: str) -> None:
        self.sharding: Any = type("Placed", (), {"device_set": {device}})()
        self.done = threading.Event()

    def is_ready(self) -> bool:
        return self.done.is_set()

    def is_deleted(self) -> bool:
        return False

    def block_until_ready(self) -> None:
        self.done.wait(30)


def test_a_program_on_another_device_settles_none_on_this_one() -> None:
    clock = DeviceClock()
    slow, quick = OnDevice("a"), OnDevice("b")
    began = time.perf_counter_ns()
    clock.post(slow)
    number = clock.post(quick)
    quick.done.set()
    while not clock.is_settled(number):
        time.sleep(0.001)
    low, high = began, time.perf_counter_ns()
    slow.done.set()
    clock.stop()
    # At least the time between the two posts.
    assert low < clock._posted_ns <= high
    assert not clock.is_known(low, clock._posted_ns, 0.02)
    # Nor the time after the last post: the other device continues to work.
    assert not clock.is_known(clock._posted_ns, high, 0.02)


def test_dropped_unknown_time_stays_unknown() -> None:
    clock = DeviceClock()
    for begin in range(0, 10_000, 10):
        clock.add_unknown(begin, begin + 5)
    assert not clock.is_known(0, 5, 0.02)
    assert clock.is_known(9_996, 10_000, 0.02)


def test_adjacent_spans_are_joined() -> None:
    clock = DeviceClock()
    for begin in range(0, 10_000, 5):
        clock.add_unknown(begin, begin + 5)
    assert len(clock._unknown) == 1
    assert not clock.is_known(0, 5, 0.02)


@pytest.mark.usefixtures("agent")
def test_two_loops_on_two_devices_are_true_or_not_known(keeper: KeeperDouble) -> None:
    """One device works for long, the other for a moment: neither has the times of the other."""
    long, short = jax.devices()[:2]

    def slow(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 60, lambda _, y: jnp.tanh(y @ y), x)

    step = jax.jit(slow)
    big, small = (jax.device_put(jnp.eye(size), device) for size, device in ((400, long), (40, short)))
    for x in (big, small):
        step(x).block_until_ready()
    stop = threading.Event()

    def other() -> None:
        for _ in tpulab.steps(itertools.takewhile(lambda _: not stop.is_set(), itertools.count()), name="b"):
            step(small).block_until_ready()

    thread = threading.Thread(target=other)
    thread.start()
    waits = []
    for _ in tpulab.steps(range(12), name="a"):
        began = time.perf_counter()
        step(big).block_until_ready()
        waits.append((time.perf_counter() - began) * 1e3)
    stop.set()
    thread.join()
    keeper.wait(lambda: len(keeper.ended_runs()) == 2, "both runs")
    [run] = [run["run"] for run in keeper.ended_runs() if run["name"] == "a"]
    for sample, wait in zip(keeper.steps(run), waits, strict=True):
        assert not sample["deviceKnown"] or sample["deviceMs"] == pytest.approx(wait, rel=0.5), sample
