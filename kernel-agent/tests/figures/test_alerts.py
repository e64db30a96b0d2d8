"""Rules of `tpulab.alert`, and a run that becomes slower without a cause in its program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tpulab
from keeper_double import KeeperDouble
from tpulab.figures.alerts import parse_rule
from tpulab.figures.slower import MAX_REPORTED, Slower, SlowerWatch
from tpulab.figures.spans import StepSplit, StepTimes
from tpulab.figures.totals import RunTotals
from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.recorder import Recorder
from tpulab.measure.runs import Run
from tpulab.measure.step_clock import ClosedStep
from tpulab.telemetry.adviser import Adviser

MS = 1_000_000


@pytest.mark.parametrize(
    ("when", "name", "bound", "steps"),
    [
        ("loss > 5 for 100 steps", "loss", 5.0, 100),
        ("loss>5", "loss", 5.0, 1),
        ("  eval/acc <= .25 for 1 step ", "eval/acc", 0.25, 1),
        ("grad.norm >= -1e-3", "grad.norm", -0.001, 1),
        ("größe < 3.", "größe", 3.0, 1),
        ("val loss > 2 for 3 steps", "val loss", 2.0, 3),
    ],
)
def test_a_rule_is_a_name_a_comparison_a_number_and_a_number_of_steps(
    when: str, name: str, bound: float, steps: int
) -> None:
    rule = parse_rule(when)
    assert (rule.name, rule.bound, rule.steps) == (name, bound, steps)


@pytest.mark.parametrize(
    "when",
    [
        *["", "loss", "loss > x", "loss == 5", "loss > 5 for 10 minutes", "loss > 5 and acc < 1"],
        *[
            "__import__('os').x > 1 or 1",
            "loss > 1e9999",
            "loss > " + "9" * 100_000,
            " " * 100_000,
            5,
            b"a > 5",
        ],
    ],
)
def test_an_invalid_rule_is_refused_with_the_grammar(when: Any) -> None:
    with pytest.raises(ValueError, match="a rule is NAME > NUMBER") as refused:
        parse_rule(when)
    assert len(str(refused.value)) < 300


def alerts_of(values: list[dict[str, Any]], *rules: str) -> list[str]:
    recorder = Recorder(DeviceClock())
    sentences: list[str] = []
    recorder.adviser = Adviser(recorder.events, lambda: None, sentences.append)
    recorder.rules = {rule: parse_rule(rule) for rule in rules}
    run = Run("lm", None, None)
    recorder.events.append((run, run.message()))
    for metrics in values:
        closed = ClosedStep(
            run, run.next_index(), StepTimes(0, 1_000, 5 * MS), watched=False, post=0, metrics=metrics
        )
        recorder.closed.append(closed)
        recorder.collect()
    return sentences


def test_a_rule_raises_one_alert_when_it_has_held_long_enough() -> None:
    values = [{"loss": 6.0}] * 2 + [{"loss": 4.0}] + [{"loss": 6.0}] * 5
    assert alerts_of(values, "loss > 5 for 3 steps") == [
        "At step 5, `loss` is 6. Your rule: `loss > 5 for 3 steps`."
    ]
    assert alerts_of(values, "loss > 5 for 6 steps") == []


def test_a_metric_of_every_tenth_step_counts_the_steps_between() -> None:
    values = [{"loss": 6.0} if step % 10 == 0 else {"other": 1.0} for step in range(25)]
    assert alerts_of(values, "loss > 5 for 15 steps") == [
        "At step 20, `loss` is 6. Your rule: `loss > 5 for 15 steps`."
    ]


def test_nan_breaks_no_rule_and_infinity_does() -> None:
    sentences = alerts_of([{"loss": float("nan")}, {"loss": float("inf")}], "loss > 5")
    assert sentences[-1] == "At step 1, `loss` is inf. Your rule: `loss > 5`."
    assert sum("Your rule" in text for text in sentences) == 1


def test_rules_belong_to_the_process_and_can_be_removed() -> None:
    from tpulab.agent.process_agent import current_agent

    tpulab.alert(when="loss   > 5")
    tpulab.alert(when="loss > 5")
    assert list(current_agent().recorder.rules) == ["loss > 5"]
    tpulab.alert(None)
    for number in range(64):
        tpulab.alert(f"m{number} > 1")
    with pytest.raises(ValueError, match="64 rules"):
        tpulab.alert("loss > 5")
    tpulab.alert(None)
    assert not current_agent().recorder.rules


def watched(
    watch: SlowerWatch,
    totals: RunTotals,
    seconds: float,
    split_ms: tuple[int, int, int, int, int],
    **given: Any,
) -> list[Slower]:
    found = []
    split = StepSplit(*(part * MS for part in split_ms))
    for _ in range(int(seconds * 1000 / sum(split_ms))):
        totals.add(split, True)
        reported = watch.check(totals, **given)
        if reported is not None:
            found.append(reported)
    return found


def test_a_run_that_loses_its_speed_raises_an_alert_with_the_span_that_grew() -> None:
    watch, totals = SlowerWatch(), RunTotals()
    assert watched(watch, totals, 130, (1, 2, 0, 96, 1)) == []
    # Not yet a minute, and 15 percent of the rate are lost after about 50 s of it.
    assert watched(watch, totals, 30, (31, 2, 0, 96, 1)) == []
    [reported] = watched(watch, totals, 200, (31, 2, 0, 96, 1))
    assert reported.before_ms == 100
    assert reported.now_ms > 100 / 0.85
    assert max(reported.longer_ms, key=lambda name: reported.longer_ms[name]) == "input"


def test_noise_a_short_slowdown_and_a_pause_raise_no_alert() -> None:
    watch, totals = SlowerWatch(), RunTotals()
    for _ in range(20):
        assert watched(watch, totals, 10, (1, 2, 0, 90, 1)) == []
        assert watched(watch, totals, 10, (1, 2, 0, 106, 1)) == []
    assert watched(watch, totals, 20, (60, 2, 0, 90, 1)) == []
    totals.add_band("pause", 10**12)
    assert watched(watch, totals, 100, (1, 2, 0, 90, 1)) == []


def test_a_new_program_starts_a_new_baseline() -> None:
    for compile_ms, flops in ((500, 1e9), (0, 2e9)):
        watch, totals = SlowerWatch(), RunTotals()
        assert watched(watch, totals, 120, (1, 2, 0, 96, 1), flops=1e9) == []
        if compile_ms:
            totals.add(StepSplit(0, 0, compile_ms * MS, 0, 0), True)
        assert watched(watch, totals, 300, (1, 2, 0, 196, 1), flops=flops) == []


def test_a_run_whose_speed_alternates_raises_a_few_alerts() -> None:
    watch, totals = SlowerWatch(), RunTotals()
    reported = [
        each
        for _ in range(2 * MAX_REPORTED)
        for ms in (50, 150)
        for each in watched(watch, totals, 150, (1, 2, 0, ms, 1))
    ]
    assert len(reported) == MAX_REPORTED


PROGRAM = """
import time
moment = [time.perf_counter_ns()]
time.perf_counter_ns = lambda: moment[0]
until = time.monotonic() + 200
import tpulab
from tpulab.agent.process_agent import current_agent

def loader():
    # Two minutes at 10 ms, three at 13 ms.
    for number in range(26000):
        moment[0] += 8_000_000 if number < 12000 else 11_000_000
        yield number

run = tpulab.run("lm", log=False)
for number in run.steps(loader()):
    moment[0] += 2_000_000
    if number % 100 == 0:
        run.log(loss=1 / (number + 1))
        current_agent().settle()
        # Five minutes in a second: the exit of the process does not wait for so many messages.
        while current_agent()._collected + current_agent()._unsent and time.monotonic() < until:
            time.sleep(0.01)
run.finish()
"""


def test_steps_of_a_loop_that_slows_down_raise_one_alert_with_what_grew(
    keeper: KeeperDouble, tmp_path: Path
) -> None:
    """The clock is faked: five minutes of real steps of a loop take a second."""
    env = {**os.environ, "TPULAB_AGENT_SOCKET": str(keeper.path)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=240, cwd=tmp_path, env=env)
    keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    [reported] = [advice for advice in keeper.of_type("advice") if advice["kind"] == "slower"]
    assert reported["message"].startswith("lm became slower by itself: ")
    assert "instead of 10 ms, over a minute, and nothing was compiled" in reported["message"]
    assert reported["message"].endswith("ms longer for input.")
    assert len(keeper.steps()) == 26000
