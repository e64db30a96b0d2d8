"""Figures that JSON cannot represent: converted, or refused at the call (case T2, F2, F14, N12).

Whatever happens to one, its run is reported completely, and so is the next one.
"""

from __future__ import annotations

import copy
import logging
import math
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tpulab
from keeper_double import KeeperDouble, wait_until
from tpulab.control.command import Command
from tpulab.control.hyperparameters import HyperparameterError
from tpulab.telemetry import plain
from tpulab.telemetry.plain import encode

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TAKEN: dict[str, Callable[[], dict[str, Any]]] = {
    "hyper max inf": lambda: {"hyperparameters": {"rate": tpulab.hyper(3e-4, max=math.inf)}},
    "hyper min -inf": lambda: {"hyperparameters": {"rate": tpulab.hyper(3e-4, min=-math.inf)}},
    "hyper choices": lambda: {
        "hyperparameters": {"width": tpulab.hyper(np.int64(64), choices=[np.int64(64), np.int64(128)])}
    },
    "hyper numpy": lambda: {"hyperparameters": {"rate": tpulab.hyper(np.float32(3e-4), max=np.float64(1))}},
    "hyper array": lambda: {"hyperparameters": {"rate": tpulab.hyper(jnp.linspace(1e-4, 1e-3, 3)[0])}},
    "hyper bool": lambda: {"hyperparameters": {"on": np.bool_(True)}},
    "flops": lambda: {"flops_per_step": np.prod((64, 64)) * 6},
    "peak": lambda: {"peak_flops": np.int64(10**12)},
    "total": lambda: {"total": np.int64(110)},
    "tokens": lambda: {"tokens_per_step": np.int64(128)},
    "array": lambda: {"samples_per_step": jnp.int32(3)},
    "config": lambda: {"config": {"a": math.nan, "b": np.float32(1), "c": np.arange(3), "d": {1, 2}}},
    "huge": lambda: {"config": {"n": 10**400, "m": 2**60, "l": 10**5000, "text": "\ud800"}},
}
REFUSED: dict[str, Callable[[], dict[str, Any]]] = {
    "min": lambda: {"hyperparameters": {"rate": tpulab.hyper(3e-4, min=math.nan)}},
    "flops_per_step": lambda: {"flops_per_step": math.inf},
    "tokens_per_step": lambda: {"tokens_per_step": math.nan},
    "samples_per_step": lambda: {"samples_per_step": "many"},
    "total": lambda: {"total": 1.5},
    "peak_flops": lambda: {"peak_flops": -1},
}


@pytest.mark.parametrize("odd", TAKEN)
def test_an_odd_figure_is_converted(odd: str, keeper: KeeperDouble) -> None:
    run = tpulab.run("odd", **TAKEN[odd]())
    for i in run.steps(range(110)):
        run.log(a=math.nan, b=np.int64(i), c=np.float16(1), d=10**400, e=np.arange(3), f="text", g=True)
    run.finish()
    for _ in tpulab.steps(range(50), name="after", total=np.int64(50)):
        pass
    wait_until(lambda: len(keeper.ended_runs()) == 2, "both runs")
    assert [run["name"] for run in keeper.ended_runs()] == ["odd", "after"]
    assert [run["totalSteps"] for run in keeper.ended_runs()] == [110, 50]
    assert len(keeper.steps()) + sum(steps["dropped"] for steps in keeper.of_type("steps")) == 160
    newest = keeper.steps(keeper.ended_runs()[0]["run"])[-1]
    assert newest["metrics"] == {"b": 109.0, "c": 1.0, "g": 1.0}
    assert newest["nonFinite"] == {"a": "NaN"}
    assert keeper.of_type("pace")


@pytest.mark.parametrize("argument", REFUSED)
def test_a_meaningless_value_is_refused_by_name(argument: str) -> None:
    with pytest.raises(ValueError, match=f"`{argument}` is a"):
        tpulab.run("odd", **REFUSED[argument]())


def test_a_band_has_one_of_the_known_kinds() -> None:
    run = tpulab.run("odd")
    with pytest.raises(ValueError, match="a band is one of checkpoint, evaluate"), run.band("warm-up"):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (lambda: tpulab.hyper(64), 3_000_000_000),
        (lambda: tpulab.hyper(64), 10**400),
        (lambda: tpulab.hyper(64, dtype="uint8"), 256),
        (lambda: tpulab.hyper(64, dtype="uint8"), -1),
        (lambda: tpulab.hyper(1.0), 1e39),
        (lambda: tpulab.hyper(1.0, dtype="float16"), 1e5),
    ],
)
def test_a_value_that_its_array_cannot_hold_never_reaches_the_loop(
    made: Callable[[], tpulab.Hyper], value: float, keeper: KeeperDouble
) -> None:
    run = tpulab.run("odd", hyperparameters={"size": made()})
    for _ in run.steps([0]):
        command = keeper.command("set", name="size", value=value)
        [reason] = [keeper.outcome(command, "refused")["reason"]]
        assert "must fit into" in reason or "finite number" in reason
    assert float(run.hyper.size) in (64, 1)
    with pytest.raises(HyperparameterError):
        run.set("size", value)


def test_a_message_that_cannot_be_encoded_is_dropped_alone_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "_dropped", set())

    class Bad(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise RuntimeError("changed size")

    with caplog.at_level(logging.WARNING):
        lines = [encode({"type": "odd", "value": value}) for value in (1, Bad(a=math.nan), Bad(a={1}), 2)]
    assert lines == [b'{"type":"odd","value":1}\n', b"", b"", b'{"type":"odd","value":2}\n']
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (math.inf, "null"),
        (np.float32(0.5), "0.5"),
        (np.int64(3), "3"),
        (jnp.float32(0.25), "0.25"),
        ({1}, "[1]"),
        ((np.nan, np.bool_(True)), "[null,true]"),
        (np.arange(2), '"array([0, 1])"'),
    ],
)
def test_numbers_of_a_framework_are_made_plain(value: Any, sent: str) -> None:
    assert encode({"value": value}).decode() == f'{{"value":{sent}}}\n'


class Hostile:
    """Raises at every access except to its type."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__
    __len__ = __bool__ = __float__ = __eq__ = __getattr__  # type: ignore[assignment]


class HostileError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError

    __repr__ = __str__


def test_an_unreadable_configuration_value_costs_only_its_own_entry() -> None:
    freed = jnp.ones(3)
    freed.delete()
    config = tpulab.run(
        "odd", {"a": Hostile(), "b": [Hostile()], "freed": freed, "lr": 0.1}, log=False
    ).config
    assert config == {"a": "a Hostile", "b": "a list", "freed": "a ArrayImpl", "lr": 0.1}


def test_a_metric_that_cannot_be_read_does_not_affect_the_others(keeper: KeeperDouble) -> None:
    with tpulab.run("odd", log=False) as run:
        for step in run.steps(range(4)):
            run.log(a=Hostile(), b=[Hostile()], c=step)
        run.log(a=Hostile(), d=1)
    keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert [step["metrics"] for step in keeper.steps()] == [{"c": step} for step in range(4)]
    assert [message["metrics"] for message in keeper.of_type("figures")] == [{"d": 1}]


def test_metrics_are_named_by_a_mapping_too(keeper: KeeperDouble) -> None:
    with tpulab.run("named", log=False) as run:
        for step in run.steps(range(2)):
            run.log({"train/loss": step, 3: 1.5}, self=2.0)
            tpulab.metric({"eval/loss": step})
    keeper.wait(keeper.ended_runs, "the end of the run")
    assert [step["metrics"] for step in keeper.steps()] == [
        {"train/loss": step, "3": 1.5, "self": 2.0, "eval/loss": step} for step in range(2)
    ]
    with pytest.raises(TypeError, match=r"metrics have names: run.log\(loss=loss\).*, not 3"):
        run.log(3)  # type: ignore[arg-type]


def test_an_action_whose_result_or_error_cannot_be_printed_ends_no_training(keeper: KeeperDouble) -> None:
    def fails() -> None:
        raise HostileError

    with tpulab.run("odd", log=False) as run:
        run.on_checkpoint(Hostile, every=2)
        run.on_evaluate(fails)
        for step in run.steps(range(5)):
            if step == 1:
                run.controller.submit(Command("evaluate"))
    assert run.step_index == 5
    keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    found = {(m["action"], m["phase"]): m["reason"] for m in keeper.of_type("control")}
    assert found["checkpoint", "applied"] == "a Hostile"
    assert "HostileError" in found["evaluate", "failed"]


def test_a_copy_of_a_trainer_reports_to_the_same_run() -> None:
    run = tpulab.run("one", hyperparameters={"lr": 1.0}, log=False)
    trainer = {"run": run, "history": [1, 2]}
    for _ in run.steps(range(2)):
        copied = copy.deepcopy(trainer)
        assert copied["run"] is run is copy.copy(run)
        assert copied["history"] is not trainer["history"]
        assert copy.deepcopy(run.hyper)["lr"] == 1.0
        del copied
    assert run.step_index == 2
    assert run.state == "running"


def test_a_run_is_not_pickled_and_has_a_name_of_text() -> None:
    run = tpulab.run("one", log=False)
    with pytest.raises(TypeError, match="'one' belongs to this process and cannot be pickled"):
        pickle.dumps({"run": run})
    with pytest.raises(TypeError, match="the name of a run is text, not 5"):
        tpulab.run(5)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
def test_complex_metrics_are_dropped_and_a_long_name_has_a_log(
    keeper: KeeperDouble, caplog: pytest.LogCaptureFixture
) -> None:
    run = tpulab.run("x" * 5_000)
    for n in run.steps(range(12)):
        run.log(
            loss=n, numpy=np.complex64(1 + 2j), jax=jnp.complex64(1j), python=1 + 2j, big=np.clongdouble(1)
        )
    run.finish()
    keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    names = {name for batch in keeper.of_type("steps") for step in batch["steps"] for name in step["metrics"]}
    assert names == {"loss"}
    assert "cannot be written" not in caplog.text


def test_steps_of_something_that_is_no_iterable_are_refused_as_by_a_for_loop() -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        list(tpulab.run("count", log=False).steps(5))  # type: ignore[arg-type]


def test_a_run_begins_in_a_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert list(tpulab.run("without a folder").steps(range(3))) == [0, 1, 2]


@pytest.mark.parametrize("clock", ["time", "time_ns", "monotonic", "perf_counter_ns"])
def test_a_clock_that_was_replaced_changes_no_loop(
    clock: str, monkeypatch: pytest.MonkeyPatch, keeper: KeeperDouble
) -> None:
    monkeypatch.setattr(time, clock, lambda: "never")
    run = tpulab.run("frozen", log="log.jsonl")
    for _ in run.steps(range(3)):
        run.log(loss=1.0, sample=np.zeros((2, 2)))
    run.finish()
    assert run.step_index == 3
    monkeypatch.undo()
    wait_until(lambda: any(run["state"] == "finished" for run in keeper.of_type("run")), "the end of the run")


@pytest.mark.parametrize("log", ["\0", "\ud800/x", "x" * 5000])
def test_a_log_that_no_file_can_be_ends_no_training(log: str) -> None:
    run = tpulab.run("odd log", log=log)
    assert len(list(run.steps(range(3)))) == 3
    run.finish()


def test_arguments_of_the_wrong_kind_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="`log` is the path"):
        tpulab.run("log", log=5)  # type: ignore[arg-type]
    for every in ("often", 1.5, math.nan, 0):
        with pytest.raises(ValueError, match="`every`"):
            tpulab.run("every").on_checkpoint(lambda: None, every=every)  # type: ignore[arg-type]
