"""N4: a value that is read outside a launch compiles, with the real torch_xla."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import torch_xla
import tpulab
from keeper_double import KeeperDouble

pytestmark = pytest.mark.usefixtures("agent")


def test_an_evaluation_with_item_is_compiled_at_its_own_line(keeper: KeeperDouble) -> None:
    device = torch_xla.device()
    # Many, so that the compilation takes some of the agent's rounds of 0.1 s: only then is its line seen.
    layers = [torch.randn(97, 97, device=device) for _ in range(96)]

    def train(x: torch.Tensor) -> None:
        for layer in layers[:2]:
            x = torch.tanh(x @ layer)
        torch_xla.sync()

    def evaluate(x: torch.Tensor) -> float:
        for layer in layers:
            x = torch.tanh(x @ layer)
        return float((x**2).sum().item())  # read

    x = torch.ones(7, 97, device=device)
    run = tpulab.run("epochs", log=False)
    for _epoch in range(2):
        for _ in run.steps(range(4)):
            train(x)
        evaluate(x)
    run.finish()
    keeper.wait(keeper.ended_runs, "the end of the run")

    def finished() -> list[dict[str, Any]]:
        return [one for one in keeper.of_type("compile") if one["phase"] == "finished"]

    reported = keeper.wait(
        lambda: [one for one in finished() if one["function"] != "train"], "the evaluation's"
    )
    lines = Path(__file__).read_text().splitlines()
    [read] = [one for one in reported if one["function"] == "evaluate"]
    assert lines[read["location"]["line"] - 1].endswith("# read")
    for one in finished():
        assert one["reason"]["argument"] is None, one["reason"]
