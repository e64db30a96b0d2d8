"""Errors inside TPULab end none of its threads: commands are answered, steps arrive (F1)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import tpulab
from keeper_double import KeeperDouble, wait_until
from tpulab.agent import kernel_requests
from tpulab.agent.agent import Agent
from tpulab.telemetry import guarded
from tpulab.telemetry.guarded import start_thread


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(guarded, "_logged", set())
    monkeypatch.setattr(guarded, "PAUSE_S", 0.001)


def fails(*_: object, **__: object) -> Any:
    raise RuntimeError("a fault of ours")


def test_a_command_that_raises_is_answered_and_so_are_those_after_it(
    keeper: KeeperDouble, agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_requests, "arrays_by_owner", fails)
    run = tpulab.run("steered")
    for step in run.steps(range(3)):
        for _ in range(3):
            failed = keeper.outcome(keeper.command("memory"), "failed")
            assert failed["reason"] == "It failed inside TPULab: RuntimeError: a fault of ours"
        if step == 0:
            with monkeypatch.context() as broken:
                broken.setattr(agent.commands, "_find", fails)
                keeper.outcome(keeper.command("pause", fence=True), "failed")
                keeper.outcome(keeper.command("stop"), "failed")
    run.finish()
    sent = [record.message for record in caplog.records if "a command failed" in record.message]
    assert len(sent) == 1


def test_a_report_that_fails_is_reported_once_and_the_next_ones_arrive(
    keeper: KeeperDouble, agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        with monkeypatch.context() as broken:
            broken.setattr(agent.devices, "poll", fails)
            for _ in tpulab.steps(range(3), name="first"):
                pass
            wait_until(lambda: "a report failed" in caplog.text, "the log")
            agent.wake()
        for _ in tpulab.steps(range(3), name="second"):
            pass
        wait_until(lambda: len(keeper.ended_runs()) == 2, "both runs")
    assert sum("a report failed" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("place", ["take", "note"])
def test_a_device_clock_that_fails_once_continues(
    place: str, agent: Agent, keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda x: (x @ x).sum())
    array = jnp.ones((64, 64))
    whole, failures = getattr(agent.device, place), []

    def once(*arguments: Any, **named: Any) -> Any:
        if not failures:
            failures.append(place)
            raise RuntimeError("a fault of ours")
        return whole(*arguments, **named)

    monkeypatch.setattr(agent.device, place, once)
    for _ in tpulab.steps(range(20), name="loop"):
        step(array).block_until_ready()
    [run] = keeper.wait(keeper.ended_runs, "the run")
    assert failures
    assert len(keeper.steps(run["run"])) == 20


def test_a_hook_that_fails_costs_no_other(
    agent: Agent, keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    for watch in (agent.compiles, agent.syncs, agent.auto):
        for name in ("attach", "follow_jax"):
            if hasattr(watch, name):
                monkeypatch.setattr(watch, name, fails)
    agent._on_jax()
    keeper.outcome(keeper.command("free"), "applied")


def test_a_thread_that_cannot_start_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("threading.Thread.start", fails)
    assert start_thread("tpulab-test", fails) is None
    assert "cannot start" in caplog.text
