"""The figures of a training: as JSON lines always, in TensorBoard and Weights & Biases on request, with
equal keys."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from tpulab_recipes.common.errors import ConfigError, MissingPackage
from tpulab_recipes.common.storage import Folder

#: Seconds between two writes of figures to a bucket.
_BUCKET_SECONDS = 60
_WANDB_MODES = ("online", "offline", "shared", "disabled", "dryrun", "run")


class LogWriter(Protocol):
    """Takes figures, and pictures as Float[height, width, 3] in [-1, 1]."""

    def figures(self, step: int, values: Mapping[str, float]) -> None: ...
    def picture(self, step: int, name: str, image: np.ndarray) -> None: ...
    def flush(self) -> None:
        """Writes the buffered lines."""
        ...

    def close(self) -> None: ...


class JsonLines:
    """`metrics.jsonl`: one object for each time something was logged. Pictures become PNG files beside it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder.make()
        self._lines: list[str] = []
        self._written = time.monotonic()

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        # JSON has no infinity: a number that is not finite is written as null.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._lines.append(json.dumps({"step": step, "time": round(time.time(), 3), **finite}))
        # An object in a bucket is written again as a whole.
        if not self._folder.remote or time.monotonic() - self._written > _BUCKET_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._folder.append_line("metrics.jsonl", "\n".join(self._lines))
        self._lines, self._written = [], time.monotonic()

    def picture(self, step: int, name: str, image: np.ndarray) -> None:
        from tpulab_recipes.common.pictures import png

        with self._folder.write(f"{name}_{step:07d}.png") as file:
            file.write(png(image))

    def close(self) -> None:
        self.flush()


class TensorBoard:
    """Event files, for `tensorboard --logdir`."""

    def __init__(self, folder: str) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise MissingPackage("tensorboardX", "Logging for TensorBoard") from error
        self._writer: Any = SummaryWriter(folder)

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def picture(self, step: int, name: str, image: np.ndarray) -> None:
        self._writer.add_image(name, np.clip((image + 1) / 2, 0, 1), step, dataformats="HWC")

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run at Weights & Biases. Without an account: `WANDB_MODE=offline`."""

    def __init__(self, project: str, run: str | None, folder: str, config: Mapping[str, Any]) -> None:
        self._wandb: Any = checked_wandb()
        # An id has fewer characters than a name; the same name continues its run.
        made = run and f"{re.sub('[^A-Za-z0-9_-]+', '-', run)[:50]}-{zlib.crc32(run.encode()):08x}"
        if run and re.fullmatch("[A-Za-z0-9_-]{1,60}", run):
            made = run
        try:
            self._run: Any = self._wandb.init(
                project=project,
                name=run,
                dir=folder,
                config=dict(config),
                resume="allow",
                id=made,
                # Read again: the package read it when it was imported.
                mode=os.environ.get("WANDB_MODE"),
            )
        except self._wandb.errors.Error as error:
            reason = " ".join(str(error).split())
            raise ConfigError(
                "wandb", f"Weights & Biases refuses the run ({reason}); WANDB_MODE=offline logs without it."
            ) from error

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def picture(self, step: int, name: str, image: np.ndarray) -> None:
        picture = self._wandb.Image(np.uint8(np.clip((image + 1) * 127.5, 0, 255)))
        self._run.log({name: picture}, step=step)

    def flush(self) -> None:
        return

    def close(self) -> None:
        self._run.finish()


def checked_wandb() -> Any:
    """The package, able to log; at a terminal it is installed where the user agrees. Raises `MissingPackage`
    or `ConfigError` otherwise: before hours of work."""
    try:
        import wandb
    except ImportError as error:
        missing = MissingPackage("wandb", "Logging to Weights & Biases")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise missing from error
        sys.stderr.write(
            f"Logging to Weights & Biases needs the package wandb. {shlex.join(missing.install)}\n"
        )
        sys.stderr.write("Run this command now? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise missing from error
        if subprocess.run(missing.install, check=False).returncode:
            raise ConfigError("wandb", "its installation failed; the reason is above.") from error
        importlib.invalidate_caches()
        import wandb
    mode = os.environ.get("WANDB_MODE", "online")
    if mode not in _WANDB_MODES:
        raise ConfigError("WANDB_MODE", f"{mode!r} is none of {', '.join(_WANDB_MODES)}.")
    try:
        signed_in = mode != "online" or wandb.login()
    except Exception:  # UsageError without a terminal; others where the server is not reached.
        signed_in = False
    if not signed_in:
        raise ConfigError(
            "wandb",
            "Weights & Biases has no key here: run `wandb login`, or set WANDB_API_KEY, or set "
            "WANDB_MODE=offline to log without an account.",
        )
    return wandb


def open_writers(
    place: str, tensorboard: bool, wandb_project: str | None, wandb_run: str | None, config: Any
) -> list[LogWriter]:
    """JSON lines always, and the requested others, in the folder `place`, which may be in a bucket. Raises
    `MissingPackage`, `ConfigError`."""
    logs = Folder(place)
    writers: list[LogWriter] = [JsonLines(logs)]
    if tensorboard:
        if logs.remote:
            raise ConfigError("tensorboard", f"event files cannot be written to {place}; metrics.jsonl is.")
        writers.append(TensorBoard(place))
    if wandb_project:
        local = tempfile.mkdtemp(prefix="wandb-") if logs.remote else place
        values = dataclasses.asdict(config) if dataclasses.is_dataclass(config) else dict(config)  # type: ignore[arg-type]
        writers.append(WeightsAndBiases(wandb_project, wandb_run or None, local, values))
    return writers


def read_json_lines(folder: str) -> list[dict[str, Any]]:
    """What `JsonLines` has written, in order of steps. Where a resumed run repeated steps, its later values
    count."""
    with Folder(folder).read("metrics.jsonl") as file:
        rows = [json.loads(line) for line in file.read().decode().splitlines() if line]
    newest = {(row["step"], "frechet" in row): row for row in rows}
    return [newest[key] for key in sorted(newest)]
