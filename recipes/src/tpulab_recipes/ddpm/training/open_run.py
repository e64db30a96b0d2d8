"""The run of a diffusion training: its knobs, and their ranges."""

from __future__ import annotations

from tpulab_recipes.common import steering
from tpulab_recipes.common.steering import Run, around
from tpulab_recipes.ddpm.config import Config


def open_run(config: Config, name: str = "ddpm") -> Run:
    """A run that the page steers, with learning rate, average and guidance as its knobs; without `tpulab` a
    plain one."""
    values = {
        "learning_rate": config.train.max_learning_rate,
        "ema_decay": config.train.ema_decay,
        "guidance": 2.0,
    }
    ranges = {
        "learning_rate": around(values["learning_rate"]),
        "ema_decay": {"min": 0.0, "max": 0.9999},
        "guidance": {"min": 0.0, "max": 8.0},
    }
    shown = {"batch_size": config.train.batch_size, "iterations": config.train.iterations}
    return steering.open_run(name, shown, values, ranges)
