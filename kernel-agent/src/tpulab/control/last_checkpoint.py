"""Where a run that was cut off can go on: the last checkpoint in the logs of the runs before it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulab.control.run_log import log_path

#: How most lines of a log begin; they say nothing of checkpoints.
_FIGURES = '{"type":"metrics"'


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
    stopped: bool = False
    finished: bool = False


def last_checkpoint(given: str | os.PathLike[str] | None, name: str) -> Checkpoint | None:
    """That of the newest run, or, if it had none, of the one that it resumed. None: that run came to its end,
    or none is known. What cannot be read does not count."""
    for run in _newest_first(given, name):
        if run.finished:
            return None
        if run.checkpoint is not None:
            return run.checkpoint
        if not run.resumed:
            return None
    return None


def _newest_first(given: str | os.PathLike[str] | None, name: str) -> Iterator[_LoggedRun]:
    path = log_path(given, name, "")
    files = [path] if given is not None else sorted(path.parent.glob("*.jsonl"))
    # One file after the other: those of a year need not be read for the newest.
    for file in reversed(files):
        yield from reversed(_runs_of(file))


def _runs_of(file: Path) -> list[_LoggedRun]:
    runs: list[_LoggedRun] = []
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            _read(lines, runs)
    except OSError:
        pass  # what was read of it counts
    return runs


def _read(lines: Iterable[str], runs: list[_LoggedRun]) -> None:
    for line in lines:
        if line.startswith(_FIGURES):
            continue
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
            # A stop ends a run as if its items were exhausted, and somebody may want to go on with it.
            runs[-1].finished = entry.get("state") == "finished" and not runs[-1].stopped
        elif kind == "command" and entry.get("phase") == "applied":
            step, action = entry.get("step"), entry.get("action")
            runs[-1].stopped |= action == "stop"
            if action == "checkpoint" and isinstance(step, int):
                runs[-1].checkpoint = Checkpoint(step, entry.get("reason"))
