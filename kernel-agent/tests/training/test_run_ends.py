"""How runs end and what remains of them: last figures, totals, sweeps, many threads (cases T4, T5, F9)."""

from __future__ import annotations

import gc
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import tpulab
from keeper_double import KeeperDouble, wait_until
from tpulab.agent import agent as agent_module
from tpulab.agent import process_agent
from tpulab.agent.agent import Agent
from tpulab.control.hyperparameters import HyperparameterError
from tpulab.measure.recorder import MAX_METRICS
from tpulab.measure.tracked_run import StepRuns, step_runs
from tpulab.telemetry.cells import Cell
from tpulab.training.run import TrainingRun


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def curve(keeper: KeeperDouble, run: str, name: str) -> list[tuple[int, float]]:
    points = {
        step["index"]: step["metrics"][name] for step in keeper.steps(run) if name in step.get("metrics", {})
    }
    for figures in keeper.of_type("figures"):
        if figures["run"] == run and name in figures["metrics"]:
            points[figures["step"]] = figures["metrics"][name]
    return sorted(points.items())


@pytest.mark.usefixtures("agent")
def test_figures_that_are_logged_after_their_step_count_for_it(keeper: KeeperDouble) -> None:
    run = tpulab.run("last", log="last.jsonl")
    run.log(before=1.0)
    value = jnp.float32(1)
    for epoch in range(3):
        for _ in run.steps(range(20)):
            value = value * 0.9
            run.log(loss=value)
        run.log(val_acc=0.5 + 0.1 * epoch)
    run.log(test_accuracy=0.9, final_loss=value)
    run.finish()
    # Immediately, not after the next report.
    entries = [json.loads(line) for line in Path("last.jsonl").read_text().splitlines()]
    newest = [entry for entry in entries if entry["type"] == "metrics"][-1]
    assert sorted(newest["values"]) == ["before", "final_loss", "loss", "test_accuracy", "val_acc"]
    assert (newest["step"], entries[-1]["type"]) == (60, "end")
    [ended] = keeper.wait(keeper.ended_runs, "the end")
    assert curve(keeper, ended["run"], "before") == [(0, 1.0)]
    accuracies = [(19, 0.5), (39, 0.5 + 0.1), (59, 0.5 + 0.1 * 2)]
    assert curve(keeper, ended["run"], "val_acc") == accuracies
    assert curve(keeper, ended["run"], "test_accuracy") == [(59, 0.9)]
    assert curve(keeper, ended["run"], "final_loss")[0][1] == pytest.approx(0.9**60, rel=1e-4)
    # The rate of the last step, and all of it before the end.
    messages = [message for message in keeper.messages if message.get("run") == ended["run"]]
    assert messages[-1] is ended
    assert keeper.of_type("pace")[-1]["step"] == 60

    run.log(afterwards=3.0)
    keeper.wait(lambda: curve(keeper, ended["run"], "afterwards") == [(59, 3.0)], "what came after the end")


def test_a_run_that_ends_before_the_keeper_answers_has_its_metrics_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No listener there: a keeper that connects late.
    agent = Agent(str(tmp_path / "nobody"))
    monkeypatch.setattr(process_agent, "_agent", agent)
    agent.start()
    try:
        run = tpulab.run("early", log="early.jsonl")
        for step in run.steps(range(5)):
            run.log(loss=float(step))
        run.finish()
        entries = [json.loads(line) for line in Path("early.jsonl").read_text().splitlines()]
        [newest] = [entry for entry in entries if entry["type"] == "metrics"][-1:]
        assert newest["values"] == {"loss": 4.0}
    finally:
        agent.close()


@pytest.mark.usefixtures("agent")
def test_the_total_of_each_loop_is_reported_when_it_begins(keeper: KeeperDouble) -> None:
    run = tpulab.run("epochs")
    for epoch in range(3):
        for step in run.steps(range(60)):
            if step == 0:
                reported = keeper.wait(
                    lambda: [message["totalSteps"] for message in keeper.of_type("run")], "the total"
                )
                wait_until(lambda: keeper.of_type("run")[-1]["totalSteps"] == 60 * (epoch + 1), str(reported))  # noqa: B023
                assert keeper.of_type("run")[-1].get("openEnded", False) is (epoch > 0)
    run.finish()


@pytest.mark.usefixtures("agent")
def test_a_long_evaluation_is_reported_while_it_runs(
    keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case T6: otherwise the page reports that the loop hangs."""
    monkeypatch.setattr(agent_module, "LONG_BAND_NS", 50_000_000)

    def newest() -> Any:
        return (keeper.of_type("run") or [{}])[-1].get("inBand", False)

    run = tpulab.run("evaluated", log=False)
    for _ in run.steps(range(2)):
        with run.band("evaluate"):
            with run.band("sample"):
                wait_until(newest, "the open band")
            assert newest()
        wait_until(lambda: not newest(), "its end")
    run.finish()


def test_each_trial_of_a_sweep_ends_with_the_next_one(keeper: KeeperDouble, agent: Agent) -> None:
    for number in range(20):
        trial = tpulab.run(f"sweep {number}", {"n": number}, log=False)
        for _ in trial.steps(range(5)):
            trial.log(loss=1.0)
            assert len(agent.tracker.runs) == 1
        trial.log(final=number / 20)
    trial.finish()
    ended = keeper.wait(lambda: keeper.ended_runs() if len(keeper.ended_runs()) == 20 else None, "all trials")
    assert [run["state"] for run in ended] == ["finished"] * 20
    finals = [curve(keeper, run["run"], "final") for run in ended]
    assert finals == [[(4, number / 20)] for number in range(20)]


def test_finished_runs_are_released(agent: Agent) -> None:
    runs = []
    for number in range(50):
        run = tpulab.run(f"kept {number}", log=False)
        runs.append(run)
        for _ in run.steps(range(2)):
            pass
        run.finish()
    for _ in range(50):
        for _ in tpulab.steps(range(2)):
            pass
    agent.settle(1.0)
    assert step_runs.of_this_cell() == []
    assert agent.tracker.runs == {}


def test_a_stop_holds_until_the_cell_is_over(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [Cell("a", 1), Cell("b", 2)]
    monkeypatch.setattr(agent.cells, "running", lambda: cells[0])
    run = tpulab.run("stopped", log=False)
    for _ in run.steps(range(10)):
        run.stop()
    assert run.step_index == 1
    assert list(run.steps(range(10))) == []
    del cells[0]
    assert len(list(run.steps(range(10)))) == 10
    run.finish()


@pytest.mark.parametrize("name", [None, "named"])
@pytest.mark.usefixtures("agent")
def test_runs_of_many_threads_never_raise_into_a_loop(keeper: KeeperDouble, name: str | None) -> None:
    """Case T4: runs begin and end on other threads while this one measures blocks and loops."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    stop, problems = threading.Event(), []

    def churn() -> None:
        for _ in range(100):
            if stop.is_set():
                return
            try:
                with tpulab.step(name):
                    pass
                with tpulab.run("trial", log=False) as trial:
                    for _ in trial.steps(range(2)):
                        pass
            except Exception as error:
                problems.append(error)
                return

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        run = tpulab.run("main", log=False)
        for _ in range(1500):
            with run.step():
                pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    run.finish()
    assert problems == []
    main = keeper.wait(lambda: [r for r in keeper.ended_runs() if r["name"] == "main"], "the run")[0]["run"]
    batches = [message for message in keeper.of_type("steps") if message["run"] == main]
    assert sum(len(batch["steps"]) + batch["dropped"] for batch in batches) == 1500


def test_the_runs_of_a_cell_are_read_while_other_threads_change_theirs() -> None:
    """F3: a table that changed in size during the iteration raised into the training loop."""
    runs, stop = StepRuns(), threading.Event()

    def churn() -> None:
        while not stop.is_set():
            tracked: Any = object()
            runs.keep(tracked)
            runs.forget(tracked)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    mine: Any = object()
    runs.keep(mine)
    try:
        assert all(runs.of_this_cell() == [mine] for _ in range(100_000))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)


@pytest.mark.usefixtures("agent")
def test_the_steps_of_many_short_runs_are_all_reported_or_counted(keeper: KeeperDouble) -> None:
    for number in range(300):
        for _ in tpulab.steps(range(30), name=f"short {number}"):
            tpulab.metric(loss=1.0)
    keeper.wait(lambda: len(keeper.ended_runs()) == 300, "all runs")
    reported: dict[str, int] = {}
    for batch in keeper.of_type("steps"):
        reported[batch["run"]] = reported.get(batch["run"], 0) + len(batch["steps"]) + batch["dropped"]
    assert list(reported.values()) == [30] * 300


@pytest.mark.usefixtures("agent")
def test_names_of_metrics_have_a_bound_that_is_reported(keeper: KeeperDouble) -> None:
    run = tpulab.run("names", log=False)
    for number in run.steps(range(MAX_METRICS + 50)):
        run.log(**{f"m{number}": 1.0})
    run.finish()
    keeper.wait(keeper.ended_runs, "the end")
    names = {name for step in keeper.steps() for name in step.get("metrics", {})}
    assert len(names) == MAX_METRICS
    [advice] = keeper.wait(
        lambda: [advice for advice in keeper.of_type("advice") if advice["kind"] == "too-many-metrics"],
        "the advice",
    )
    assert f"more than {MAX_METRICS} names" in advice["message"]


@pytest.mark.usefixtures("agent")
def test_a_name_of_a_metric_that_a_page_cannot_use_is_left_out_and_reported(keeper: KeeperDouble) -> None:
    refused, longest = ["__proto__", "constructor", "toString", "m" * 201], "n" * 200
    run = tpulab.run("names", {"__proto__": 1, "toString": 2, "k" * 201: 3, "rate": 4}, log=False)
    for _ in run.steps(range(3)):
        run.log(**dict.fromkeys([*refused, longest, "loss"], 1.0))
    run.finish()
    keeper.wait(keeper.ended_runs, "the end")
    assert [sorted(step["metrics"]) for step in keeper.steps()] == [["loss", longest]] * 3
    advice = keeper.wait(
        lambda: found if len(found := keeper.of_type("advice")) == len(refused) else [], "the advice"
    )
    assert [each["kind"] for each in advice] == ["unusable-value"] * 4
    messages = [each["message"] for each in advice]
    assert "`__proto__` of names is left out: every object of JavaScript" in messages[0]
    assert "names have at most 200 characters" in messages[3]
    configs = [one["control"]["config"] for one in keeper.of_type("run") if "control" in one]
    assert configs
    assert all(config == {"rate": 4} for config in configs)
    for name in ("constructor", "toString", "h" * 201):
        with pytest.raises(HyperparameterError, match="cannot be the name of a hyperparameter"):
            tpulab.run("names", hyperparameters={name: 1.0}, log=False)


def test_a_run_without_references_is_collected_with_its_log(agent: Agent) -> None:
    def train() -> Any:
        run = tpulab.run("mine", log="mine.jsonl")
        for _ in run.steps(range(3)):
            pass

    train()
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is TrainingRun and one.name == "mine"]
    assert agent.tracker.runs == {}


def test_trials_in_a_pool_end_with_their_blocks(keeper: KeeperDouble, agent: Agent) -> None:
    def trial(number: int) -> None:
        with tpulab.run(f"trial {number}", log=False) as run:
            for _ in run.steps(range(3)):
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(trial, range(100)))
    assert agent.tracker.runs == {}
    keeper.wait(lambda: len(keeper.ended_runs()) == 100, "all trials")
