"""The figures of a training: as JSON lines always, in TensorBoard and Weights & Biases where asked, with
equal keys."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from tpulab_recipes.common.errors import MissingPackage
from tpulab_recipes.common.storage import Folder


class LogWriter(Protocol):
    """Takes figures, and pictures as Float[height, width, 3] in [-1, 1]."""

    def figures(self, step: int, values: Mapping[str, float]) -> None: ...
    def picture(self, step: int, name: str, image: np.ndarray) -> None: ...
    def close(self) -> None: ...


class JsonLines:
    """`metrics.jsonl`: one object for each time something was logged. Pictures become PNG files beside it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder.make()

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        # JSON has no infinity: what is not finite is written as null.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._folder.append_line(
            "metrics.jsonl", json.dumps({"step": step, "time": round(time.time(), 3), **finite})
        )

    def picture(self, step: int, name: str, image: np.ndarray) -> None:
        from tpulab_recipes.common.pictures import png

        with self._folder.write(f"{name}_{step:07d}.png") as file:
            file.write(png(image))

    def close(self) -> None:
        return


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

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run at Weights & Biases. Without an account: `WANDB_MODE=offline`."""

    def __init__(self, project: str, run: str | None, folder: str, config: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingPackage("wandb", "Logging to Weights & Biases") from error
        self._wandb: Any = wandb
        self._run: Any = wandb.init(
            project=project, name=run, dir=folder, config=dict(config), resume="allow", id=run
        )

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def picture(self, step: int, name: str, image: np.ndarray) -> None:
        picture = self._wandb.Image(np.uint8(np.clip((image + 1) * 127.5, 0, 255)))
        self._run.log({name: picture}, step=step)

    def close(self) -> None:
        self._run.finish()


def read_json_lines(folder: str) -> list[dict[str, Any]]:
    """What `JsonLines` has written, in order of steps. Where a run was resumed, what it did again counts
    last."""
    with Folder(folder).read("metrics.jsonl") as file:
        rows = [json.loads(line) for line in file.read().decode().splitlines() if line]
    newest = {(row["step"], "frechet" in row): row for row in rows}
    return [newest[key] for key in sorted(newest)]
