"""The arithmetic of the five spans."""

from __future__ import annotations

import random

from tpulab.figures.spans import StepSplit, StepTimes, split, union


def test_overlapping_spans_are_joined_and_clipped() -> None:
    assert union([(5, 9), (1, 3), (2, 4), (20, 30)], 2, 22) == [(2, 4), (5, 9), (20, 22)]


def test_a_step_without_device_knowledge_is_input_compile_and_host() -> None:
    times = StepTimes(start=0, body=30, end=100, compiles=[(40, 60)])
    assert split(times, None) == StepSplit(input=30, host=50, compile=20, device=0, gap=0)


def test_a_synchronous_step_is_split_at_its_dispatch_and_at_the_end_of_the_device_work() -> None:
    times = StepTimes(start=0, body=10, end=100, last_dispatch=20)
    assert split(times, [(20, 70)]) == StepSplit(input=10, host=10, compile=0, device=50, gap=30)


def test_device_work_of_the_previous_step_that_overlaps_the_wait_for_input_counts_as_device() -> None:
    times = StepTimes(start=0, body=40, end=100, last_dispatch=50)
    assert split(times, [(-30, 25), (50, 130)]) == StepSplit(input=15, host=10, compile=0, device=75, gap=0)


def test_compiling_counts_as_compile_even_while_the_device_is_busy() -> None:
    times = StepTimes(start=0, body=0, end=100, compiles=[(10, 60)], last_dispatch=70)
    assert split(times, [(-5, 30), (70, 90)]) == StepSplit(input=0, host=10, compile=50, device=30, gap=10)


def test_time_after_a_step_that_the_loader_launched_is_host() -> None:
    """N16: the loader launches the previous step, and the body traces the next one. Nothing is read in it."""
    times = StepTimes(0, 30, 100, waits=[(20, 30)], launches=[(0, 20)], last_dispatch=20)
    assert split(times, [(20, 60)]) == StepSplit(input=0, host=60, compile=0, device=40, gap=0)
    # A read launches too, later: after it the device has nothing to do.
    times = StepTimes(0, 30, 100, waits=[(20, 30)], launches=[(0, 20), (50, 60)], last_dispatch=60)
    assert split(times, [(60, 80)]).gap == 20


def test_the_five_spans_are_never_negative_and_always_add_up_to_the_wall_time() -> None:
    chance = random.Random(7)

    def spans() -> list[tuple[int, int]]:
        begins = [chance.randint(-50, 150) for _ in range(chance.randint(0, 6))]
        return [(begin, begin + chance.randint(0, 60)) for begin in begins]

    for _ in range(3000):
        start = chance.randint(0, 20)
        body = start + chance.randint(0, 40)
        end = body + chance.randint(0, 60)
        dispatch = chance.choice([None, chance.randint(0, 140)])
        busy = chance.choice([None, union(spans(), -50, 250)])
        found = split(StepTimes(start, body, end, spans(), dispatch), busy)
        parts = [found.input, found.host, found.compile, found.device, found.gap]
        assert min(parts) >= 0
        assert sum(parts) == end - start
