"""Advice for loops of torch_xla, with the real package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import torch_xla
import tpulab
from keeper_double import KeeperDouble
from tpulab.measure.sync_watch import STEPS_IN_A_ROW, SUSPICIOUS

pytestmark = pytest.mark.usefixtures("agent")
STEPS = STEPS_IN_A_ROW + SUSPICIOUS + 10
READS = ("item", "__float__", "__int__", "__bool__")


def heavy(x: torch.Tensor) -> torch.Tensor:
    """Nearly all of a step is the device's work, so that a reader of the result waits for it."""
    for _ in range(6):
        x = x @ x / 600.0
    torch_xla.sync()
    return x.mean()


def matrix() -> torch.Tensor:
    made = torch.ones(600, 600, device=torch_xla.device())
    heavy(made).item()  # compiled here, and not in a step
    return made


def advice(keeper: KeeperDouble) -> list[dict[str, Any]]:
    keeper.wait(keeper.ended_runs, "the end")
    return keeper.of_type("advice")


@pytest.mark.parametrize("way", ["item", "float"])
def test_a_loss_that_is_read_in_each_step_is_reported_once_with_its_line(
    way: str, keeper: KeeperDouble
) -> None:
    x = matrix()
    if way == "item":
        for _ in tpulab.steps(range(2 * STEPS), name="reads"):
            heavy(x).item()  # item
    else:
        for _ in tpulab.steps(range(2 * STEPS), name="reads"):
            float(heavy(x))  # float
    [message] = advice(keeper)
    assert message["kind"] == "sync-each-step"
    line = Path(__file__).read_text().splitlines()[message["location"]["line"] - 1]
    assert line.endswith(f"# {way}")
    assert "run.log(loss=loss)" in message["remedy"]
    assert not any(name in vars(torch.Tensor) for name in READS), "the ways to read are as they were"


def test_a_loss_read_occasionally_or_by_the_log_gets_no_advice(keeper: KeeperDouble) -> None:
    x = matrix()
    run = tpulab.run("rarely", log=False)
    for index in run.steps(range(2 * STEPS)):
        loss = heavy(x)
        run.log(loss=loss)
        if index % 10 == 0:
            float(loss)
        assert not any(name in vars(torch.Tensor) for name in READS), "nothing is wrapped without a reason"
    run.finish()
    assert not advice(keeper)
