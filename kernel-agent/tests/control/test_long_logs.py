"""The log of a run stays small over a week, and only its required part is read (F23)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tpulab.control import run_log
from tpulab.control import run_log as reading
from tpulab.control.run_log import RunLog, last_checkpoint


def test_a_week_of_metrics_takes_some_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_log, "now_ns", lambda: int(clock[0] * 1e9))
    log = RunLog(tmp_path / "log.jsonl", dict, lambda *_: None)
    log.start()
    for second in range(7 * 24 * 3600):
        clock[0] = float(second)
        log.metrics(second, {"loss": 0.123456, "accuracy": 0.5, "rate": 3e-4, "norm": 1.5})
    log.end("finished", second, {"loss": 0.1})
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert (tmp_path / "log.jsonl").stat().st_size < 4 * 2**20
    steps = [entry["step"] for line in lines if (entry := json.loads(line))["type"] == "metrics"]
    assert steps[:900] == list(range(900))
    gaps = [later - earlier for earlier, later in itertools.pairwise(steps)]
    assert max(gaps) <= 7 * 24 * 3600 / 900


def test_only_the_newest_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".tpulab-runs" / "mine"
    folder.mkdir(parents=True)
    command = {"type": "command", "action": "checkpoint", "phase": "applied", "step": 7, "reason": "here"}
    for number in range(20):
        lines = [{"type": "run", "v": 1}, {"type": "metrics", "step": 1, "values": {}}, command]
        (folder / f"{number:02}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    read: list[str] = []
    whole = reading._runs_of
    monkeypatch.setattr(reading, "_runs_of", lambda file: read.append(file.name) or whole(file))
    found = last_checkpoint(None, "mine")
    assert found is not None
    assert (found.step, found.saved) == (7, "here")
    assert read == ["19.jsonl"]
