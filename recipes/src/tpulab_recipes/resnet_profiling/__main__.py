"""Trains ResNet18 on made-up data: `python -m tpulab_recipes.resnet_profiling --help`. With `--trace` it
profiles itself."""

from __future__ import annotations

import sys
import time

from tpulab_recipes.command_line import backend_for, chosen, parser_for
from tpulab_recipes.resnet_profiling.config import FULL_SIZE, Config
from tpulab_recipes.runtime import DeviceRuntimeError


def main(argv: list[str]) -> int:
    parser = parser_for(
        "resnet_profiling", "Trains ResNet18 for 32 x 32 images on zeros, to be profiled.", Config
    )
    parser.add_argument("--steps", type=int, help="default: one epoch")
    parser.add_argument("--trace", help="folder to write a profile of five steps to, from the sixth step on")
    options = parser.parse_args(argv)
    try:
        config = chosen(options, Config(), FULL_SIZE)
        backend = backend_for(options)
    except (DeviceRuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    from tpulab_recipes.resnet_profiling.capture import Capture
    from tpulab_recipes.resnet_profiling.summary import summarize
    from tpulab_recipes.resnet_profiling.trainer import Trainer, made_up_batches, steps_in_epoch
    from tpulab_recipes.resnet_profiling.xplane import read_trace

    print(backend.describe(), flush=True)
    trainer = Trainer(config, backend)
    capture = Capture(backend, options.trace, steps=5) if options.trace else None
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
            print(f"step {number}: loss {value:.5f}, {rate:.1f} images/s", flush=True)
    if capture is not None:
        capture.close()
        for file in capture.done:
            print(summarize(read_trace(file)).as_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
