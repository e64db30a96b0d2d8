"""The truth of the step clock: loops of known splits (`known-splits.json`) on a simulated device.

The split that the clock reports as known is within five points of the truth. The panel's sentence and shares
checked against the same cases and the steps recorded here (`extension/src/steps/known-splits.spec.ts`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fifo_device import SPANS, Loop, Simulation

TABLE = Path(__file__).parents[1] / "known-splits.json"
CASES: dict[str, dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
POINTS = 0.05
#: Number of steps that the page gets of each case.
SHOWN = 400


def simulate(patch: pytest.MonkeyPatch, case: dict[str, Any]) -> tuple[list[Loop], list[dict[str, Any]]]:
    """The loops of a case, and the recorded steps of the first one."""
    simulation = Simulation(patch, watch_cost_us=case.get("watchCostUs", 30))
    loops = [Loop(simulation, f"loop {at}", case) for at in range(case.get("threads", 1))]
    simulation.run(*loops)
    steps: list[dict[str, Any]] = []
    while messages := simulation.recorder.collect():
        for message in messages:
            if message["type"] == "steps" and message["run"] == loops[0].run.id:
                steps += message["steps"]
    return loops, steps


def encoded(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The newest steps, small: unlike rows once, and in which order they came (row, times)."""
    rows: list[list[float]] = []
    order: list[list[int]] = []
    for step in steps[-SHOWN:]:
        row = [round(step[f"{span}Ms"], 2) for span in SPANS] + [int(step["deviceKnown"])]
        if row not in rows:
            rows.append(row)
        at = rows.index(row)
        if order and order[-1][0] == at:
            order[-1][1] += 1
        else:
            order.append([at, 1])
    return {"rows": rows, "order": order}


@pytest.mark.parametrize("name", CASES)
def test_splits_reported_as_known_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    loops, steps = simulate(monkeypatch, case)
    truth = loops[0].truth()
    assert truth == pytest.approx({**dict.fromkeys(SPANS, 0.0), **case["split"]}, abs=0.01), "the case itself"
    known = {step["index"] for step in steps if step["deviceKnown"]}
    assert bool(known) == case.get("known", True)
    if known:
        of_known = loops[0].truth(known)
        wall = sum(step["wallMs"] for step in steps if step["index"] in known)
        seen = {
            span: sum(step[f"{span}Ms"] for step in steps if step["index"] in known) / wall for span in SPANS
        }
        assert seen == pytest.approx(of_known, abs=POINTS)
    assert len(known) >= case.get("atLeast", 0) * len(steps)
    assert encoded(steps) == case["recorded"], "run: python tests/make_known_splits.py"
