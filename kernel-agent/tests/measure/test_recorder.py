"""Waiting messages stay within bounds, in order, and dropped ones are counted."""

from __future__ import annotations

from typing import Any

import pytest

from keeper_double import check_message
from tpulab.figures.spans import StepTimes
from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.recorder import MAX_STEPS, STEPS_A_BATCH, Recorder
from tpulab.measure.runs import Run
from tpulab.measure.step_clock import ClosedStep


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(DeviceClock())


def begin(recorder: Recorder, name: str = "run") -> Run:
    run = Run(name, None, None)
    recorder.events.append((run, run.message()))
    return run


def close_steps(recorder: Recorder, run: Run, count: int, **changes: Any) -> None:
    for _ in range(count):
        fields = {"watched": False, "post": 0, "metrics": None, **changes}
        recorder.closed.append(ClosedStep(run, run.next_index(), StepTimes(0, 1_000, 5_000_000), **fields))


def end(recorder: Recorder, run: Run) -> None:
    run.state = "finished"
    recorder.events.append((run, run.message()))


def drain(recorder: Recorder) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    while batch := recorder.collect():
        messages += batch
    for message in messages:
        check_message(message)
    return messages


def test_a_run_that_began_and_ended_between_two_batches_is_reported_in_order(recorder: Recorder) -> None:
    run = begin(recorder)
    close_steps(recorder, run, 3)
    end(recorder, run)
    kinds = [message.get("state", message["type"]) for message in drain(recorder)]
    assert kinds == ["running", "steps", "finished"]


def test_the_oldest_steps_are_dropped_and_counted(recorder: Recorder) -> None:
    run = begin(recorder)
    close_steps(recorder, run, MAX_STEPS + 500)
    end(recorder, run)
    batches = [message for message in drain(recorder) if message["type"] == "steps"]
    assert sum(batch["dropped"] for batch in batches) == 500
    indices = [step["index"] for batch in batches for step in batch["steps"]]
    assert indices == list(range(500, MAX_STEPS + 500))
    assert max(len(batch["steps"]) for batch in batches) <= STEPS_A_BATCH


def test_a_flood_of_steps_displaces_no_run(recorder: Recorder) -> None:
    first = begin(recorder, "first")
    end(recorder, first)
    close_steps(recorder, begin(recorder, "flood"), 3 * MAX_STEPS)
    names = [message["name"] for message in drain(recorder) if message["type"] == "run"]
    assert names == ["first", "flood", "first"]


def test_steps_wait_for_the_start_of_their_run(recorder: Recorder) -> None:
    run = Run("late", None, None)
    close_steps(recorder, run, 1)
    assert recorder.collect() == []
    recorder.events.append((run, run.message()))
    assert [message["type"] for message in drain(recorder)] == ["run", "steps"]


def test_a_step_waits_until_the_device_is_known_unless_it_is_forced(recorder: Recorder) -> None:
    class Never:
        size = 1
        dtype = float

        def block_until_ready(self) -> None:
            import threading

            threading.Event().wait()

    run = begin(recorder)
    number = recorder._device.post(Never())
    close_steps(recorder, run, 1, watched=True, post=number)
    from tpulab.telemetry.clocks import now_ns

    recorder.closed[0].times = StepTimes(now_ns(), now_ns(), now_ns() + 1000)
    assert [message["type"] for message in recorder.collect()] == ["run"]
    [message] = recorder.collect(force=True)
    assert message["type"] == "steps"
    assert not message["steps"][0]["deviceKnown"]


def test_a_metric_is_read_when_its_array_is_ready_and_never_before(recorder: Recorder) -> None:
    class Loss:
        ready = False

        def is_ready(self) -> bool:
            return self.ready

        def __float__(self) -> float:
            assert self.ready, "reading it now would wait for the device"
            return 0.25

    run, loss = begin(recorder), Loss()
    close_steps(recorder, run, 1, metrics={"loss": loss})
    from tpulab.telemetry.clocks import now_ns

    recorder.closed[0].times = StepTimes(now_ns(), now_ns(), now_ns() + 1000)
    assert [message["type"] for message in recorder.collect()] == ["run"]
    loss.ready = True
    [message] = drain(recorder)
    assert message["steps"][0]["metrics"] == {"loss": 0.25}


def test_the_end_of_a_run_is_reported_even_when_an_interrupt_has_lost_a_step(recorder: Recorder) -> None:
    run = begin(recorder)
    close_steps(recorder, run, 2)
    run.next_index()
    end(recorder, run)
    reported = drain(recorder)
    assert [message.get("state", message["type"]) for message in reported] == [
        "running",
        "steps",
        "steps",
        "finished",
    ]
    assert [message["dropped"] for message in reported if message["type"] == "steps"] == [0, 1]


def test_two_runs_at_a_time_get_batches_of_their_own(recorder: Recorder) -> None:
    left, right = begin(recorder, "left"), begin(recorder, "right")
    for _ in range(3):
        close_steps(recorder, left, 1)
        close_steps(recorder, right, 1)
    batches = [message for message in drain(recorder) if message["type"] == "steps"]
    assert {batch["run"]: [step["index"] for step in batch["steps"]] for batch in batches} == {
        left.id: [0, 1, 2],
        right.id: [0, 1, 2],
    }
