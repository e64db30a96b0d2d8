"""The run of a diffusion training: its knobs, and their ranges."""

from __future__ import annotations

from tpulab_recipes.common.steering import PlainRun, Run, SteeredRun
from tpulab_recipes.ddpm.config import Config


def open_run(config: Config, name: str = "ddpm") -> Run:
    """A run that the page steers, with learning rate, average and guidance as its knobs; without `tpulab` a
    plain one."""
    values = {
        "learning_rate": config.train.max_learning_rate,
        "ema_decay": config.train.ema_decay,
        "guidance": 2.0,
    }
    try:
        import tpulab
    except ImportError:
        return PlainRun(values)
    rate = values["learning_rate"]
    run = tpulab.run(
        name,
        {"batch_size": config.train.batch_size, "iterations": config.train.iterations},
        hyperparameters={
            "learning_rate": tpulab.hyper(rate, min=rate / 100, max=rate * 10, scale="log"),
            "ema_decay": tpulab.hyper(values["ema_decay"], min=0.0, max=0.9999),
            "guidance": tpulab.hyper(values["guidance"], min=0.0, max=8.0),
        },
    )
    return SteeredRun(run, values)
