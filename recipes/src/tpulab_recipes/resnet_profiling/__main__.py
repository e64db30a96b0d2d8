"""Trains ResNet18 on made-up data: `python -m tpulab_recipes.resnet_profiling --help`. With `--trace` it
profiles itself."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import tyro

from tpulab_recipes.common.command_line import (
    Command,
    exit_status,
    print_training_result,
    read_command,
)
from tpulab_recipes.resnet_profiling.config import FULL_SIZE, Config
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.torch_training.export import export


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Trains ResNet18 for 32 x 32 images on zeros, to be profiled."""

    config: tyro.conf.OmitArgPrefixes[Config]
    steps: int = 0
    """0: one epoch."""
    trace: str = ""
    """Folder to write a profile of five steps to, from the sixth step on."""
    export: str = ""
    """File to write the training step to, as StableHLO; nothing is trained. `tpulab check
    FILE --chips v5e-8,v6e-8` reports what the step needs on each kind of TPU."""


def main(argv: list[str]) -> int:
    options = read_command(Train, "resnet_profiling", {"small": Config(), "full-size": FULL_SIZE}, argv)
    config = options.config
    try:
        backend = options.use_backend()
    except (DeviceRuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    from tpulab_recipes.resnet_profiling.capture import Capture
    from tpulab_recipes.resnet_profiling.summary import summarize
    from tpulab_recipes.resnet_profiling.trainer import Trainer, made_up_batches, steps_in_epoch
    from tpulab_recipes.resnet_profiling.xplane import read_trace

    trainer = Trainer(config, backend)
    if options.export:
        example = next(made_up_batches(config, 1))
        return export(options.export, backend, trainer, example, "resnet_profiling")
    capture = Capture(backend, options.trace, steps=5) if options.trace else None
    result: dict[str, object] = {}
    steps, began, seen = options.steps or steps_in_epoch(config), time.perf_counter(), 0
    for number, batch in enumerate(backend.batches(made_up_batches(config, steps)), start=1):
        if capture is None:
            loss = trainer.train_step(batch)
        else:
            if number == 6:
                capture.request()
            with capture.step():
                loss = trainer.train_step(batch)
        if number % config.log_every == 0 or number == steps:
            value = backend.reduce_metrics({"loss": loss})["loss"]
            now = time.perf_counter()
            rate, began, seen = config.batch_size * (number - seen) / (now - began), now, number
            result = {"steps": number, "loss": value, "images_per_second": rate}
            print(f"step {number}: loss {value:.5f}, {rate:.1f} images/s", flush=True)
    if capture is not None:
        capture.close()
        for file in capture.done:
            print(summarize(read_trace(file)).as_text())
    print_training_result(backend, **result)
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
