"""The log of a run: JSON lines that record the start, each change with its step, and the progress.

One line is one object: `run` (name, config, hyperparameters), `command` (the result of each command),
`metrics` (the newest ones, once a second at most), `end`. A file may hold several runs, one after the other.
Nothing here ever raises into a training: a full disk is reported once.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.messages import ControlMessage

#: The usual beginnings of a log's lines; such lines do not mention checkpoints.
_FIGURES = '{"type":"metrics"'


@dataclass(frozen=True, slots=True)
class Checkpoint:
    #: Number of finished steps when it was written: the index of the next step.
    step: int
    #: Result of the checkpoint function, as text of at most 500 characters; None: nothing.
    saved: str | None


@dataclass(slots=True)
class _LoggedRun:
    id: str
    resumed: bool
    checkpoints: list[Checkpoint] = field(default_factory=list)
    stopped: bool = False
    finished: bool = False


def checkpoint_of_run(
    given: str | os.PathLike[str] | None, name: str, run: str, step: int
) -> Checkpoint | None:
    """The checkpoint of a run that is in this log, or has this name in the working directory."""
    logged = next((one for one in _newest_first(given, name) if one.id == run), None)
    checkpoints = [] if logged is None else logged.checkpoints
    return next((one for one in reversed(checkpoints) if one.step == step), None)


def last_checkpoint(given: str | os.PathLike[str] | None, name: str) -> Checkpoint | None:
    """The checkpoint of the newest run, or of the run that it resumed. None: that run was completed,
    or none is known. Unreadable lines do not count."""
    for run in _newest_first(given, name):
        if run.finished:
            return None
        if run.checkpoints:
            return run.checkpoints[-1]
        if not run.resumed:
            return None
    return None


def checkpoint_of(given: str | os.PathLike[str], step: int | None) -> tuple[str, Checkpoint] | None:
    """The newest checkpoint of a log, or the one of this step: the id of its run, and its place.

    `given` is the log's file or folder, or the name of a run in the working directory.
    """
    is_name = not log_path(given, "", "").exists()
    for run in _newest_first(None if is_name else given, str(given)):
        for checkpoint in reversed(run.checkpoints):
            if step is None or checkpoint.step == step:
                return run.id, checkpoint
    return None


def _newest_first(given: str | os.PathLike[str] | None, name: str) -> Iterator[_LoggedRun]:
    path = log_path(given, name, "")
    files = [path] if given is not None else sorted(path.parent.glob("*.jsonl"))
    # One file after the other: a year of older files need not be read for the newest checkpoint.
    for file in reversed(files):
        yield from reversed(_runs_of(file))


def _runs_of(file: Path) -> list[_LoggedRun]:
    runs: list[_LoggedRun] = []
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            _read(lines, runs)
    except OSError:
        pass  # the part that was read counts
    return runs


def _read(lines: Iterable[str], runs: list[_LoggedRun]) -> None:
    for line in lines:
        if line.startswith(_FIGURES):
            continue
        try:
            entry: dict[str, Any] = json.loads(line)
            kind = entry["type"]
        except (ValueError, KeyError, TypeError):
            continue  # cut off by the end of its process
        if kind == "run":
            runs.append(_LoggedRun(str(entry.get("run")), entry.get("resumed") is not None))
        elif not runs:
            continue
        elif kind == "end":
            # A stop ends a run as if its items were exhausted, and the user may want to resume it.
            runs[-1].finished = entry.get("state") == "finished" and not runs[-1].stopped
        elif kind == "command" and entry.get("phase") == "applied":
            step, action = entry.get("step"), entry.get("action")
            runs[-1].stopped |= action == "stop"
            if action == "checkpoint" and isinstance(step, int):
                runs[-1].checkpoints.append(Checkpoint(step, entry.get("reason")))


VERSION = 1
DEFAULT_FOLDER = ".tpulab-runs"
FILE_NAME = "tpulab-run.jsonl"
METRICS_PERIOD_S = 1.0
#: Number of lines in the first so many seconds, and then in each period that is 2.7 times as long.
METRICS_LINES = 1000
#: Metrics of one line.
METRICS_NAMED = 64


class RunLog:
    """Appends to one file, which the first line creates. Any thread may write."""

    def __init__(
        self, path: Path, header: Callable[[], Mapping[str, Any]], warn: Callable[..., None]
    ) -> None:
        self.path = path
        self._header = header
        self._warn = warn
        self._file: TextIO | None = None
        self._broken = self._ended = False
        self._next_metrics = 0.0
        self._began_ns = now_ns()
        self._lock = threading.RLock()

    def start(self) -> None:
        """Writes the first line once; does nothing when it exists."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        if self._file is not None or self._broken:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            self._fail(error)
            return
        self._append({"type": "run", "v": VERSION, "time": unix_now_ms(), **self._header()})

    def command(self, message: ControlMessage) -> None:
        self.start()
        self._append({**message, "type": "command"})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Only in a log that exists; at most once a second, and the longer it runs, the more rarely: a
        week takes some megabytes."""
        moment = (now_ns() - self._began_ns) / 1e9
        if self._file is None or not values or moment < self._next_metrics:
            return
        self._next_metrics = moment + max(METRICS_PERIOD_S, moment / METRICS_LINES)
        self._append({"type": "metrics", "time": unix_now_ms(), "step": step, "values": _as_json(values)})

    def goes_on(self) -> None:
        """The run has ended and continues in another cell: if it has a log, the log continues too."""
        if self._ended:
            self.start()

    def end(self, state: str, step: int, values: Mapping[str, float]) -> None:
        """The run is over, with these as its last figures. A log that was not started stays unwritten."""
        with self._lock:
            self._end(state, step, values)

    def _end(self, state: str, step: int, values: Mapping[str, float]) -> None:
        if self._file is None:
            return
        self._ended = True
        if values:
            self._append({"type": "metrics", "time": unix_now_ms(), "step": step, "values": _as_json(values)})
        self._append({"type": "end", "time": unix_now_ms(), "state": state, "step": step})
        file, self._file = self._file, None
        try:
            file.close()
        except OSError as error:
            self._fail(error)

    def _append(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(json.dumps(line, separators=(",", ":"), default=str) + "\n")
                self._file.flush()
            except (OSError, ValueError) as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._broken = True
        self._file = None
        self._warn("the run log cannot be written (%s): %s", self.path, error)


def log_path(given: str | os.PathLike[str] | None, name: str, run_id: str) -> Path:
    """Path of the log: a file that ends in .jsonl, a folder (beside the checkpoints), or the default."""
    if given is not None:
        path = Path(given)
        return path if path.suffix == ".jsonl" else path / FILE_NAME
    folder = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100].strip("-.") or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return Path(DEFAULT_FOLDER) / folder / f"{stamp}-{run_id}.jsonl"


def _as_json(values: Mapping[str, float]) -> dict[str, float | str]:
    """JSON has no NaN and no infinity: these become texts."""
    some = itertools.islice(values.items(), METRICS_NAMED)
    return {name: value if math.isfinite(value) else json.dumps(value) for name, value in some}
