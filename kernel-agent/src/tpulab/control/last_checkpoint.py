"""Where a run that was cut off can go on: the last checkpoint in the logs of the runs before it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulab.control.run_log import log_path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    #: Steps that were finished when it was written: the index of the step to go on with.
    step: int
    #: What the checkpoint function returned, as text of at most 500 characters; None: nothing.
    saved: str | None


@dataclass(slots=True)
class _LoggedRun:
    resumed: bool
    checkpoint: Checkpoint | None = None
    finished: bool = False


def last_checkpoint(given: str | os.PathLike[str] | None, name: str) -> Checkpoint | None:
    """That of the newest run, or, if it had none, of the one that it resumed. None: that run finished, was
    stopped, or none is known. What cannot be read does not count."""
    for run in _newest_first(given, name):
        if run.finished:
            return None
        if run.checkpoint is not None:
            return run.checkpoint
        if not run.resumed:
            return None
    return None


def _newest_first(given: str | os.PathLike[str] | None, name: str) -> list[_LoggedRun]:
    path = log_path(given, name, "")
    files = [path] if given is not None else sorted(path.parent.glob("*.jsonl"))
    return [run for file in reversed(files) for run in reversed(_runs_of(file))]


def _runs_of(file: Path) -> list[_LoggedRun]:
    runs: list[_LoggedRun] = []
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return runs
    for line in text.splitlines():
        try:
            entry: dict[str, Any] = json.loads(line)
            kind = entry["type"]
        except (ValueError, KeyError, TypeError):
            continue  # torn by the end of its process
        if kind == "run":
            runs.append(_LoggedRun(entry.get("resumed") is not None))
        elif not runs:
            continue
        elif kind == "end":
            runs[-1].finished = entry.get("state") == "finished"
        elif kind == "command" and entry.get("action") == "checkpoint" and entry.get("phase") == "applied":
            step = entry.get("step")
            if isinstance(step, int):
                runs[-1].checkpoint = Checkpoint(step, entry.get("reason"))
    return runs
