"""Trains AlexNet on Fashion-MNIST from the command line: `python -m tpulab_recipes.fashion_mnist --help`."""

from __future__ import annotations

import sys
import time

from tpulab_recipes.command_line import backend_for, chosen, parser_for
from tpulab_recipes.fashion_mnist.config import FULL_SIZE, Config
from tpulab_recipes.fashion_mnist.data import load, synthetic_folder, train_batches
from tpulab_recipes.fashion_mnist.idx import IdxError
from tpulab_recipes.runtime import DeviceRuntimeError


def main(argv: list[str]) -> int:
    parser = parser_for(
        "fashion_mnist", "Trains AlexNet on Fashion-MNIST, on whatever device there is.", Config
    )
    parser.add_argument(
        "--data", default="", help="folder or gs:// address with the idx files (default: drawn images)"
    )
    parser.add_argument(
        "--checkpoints", help="folder to write a checkpoint to after each epoch, and to go on from"
    )
    options = parser.parse_args(argv)
    try:
        config = chosen(options, Config(), FULL_SIZE)
        backend = backend_for(options)
        folder = options.data or synthetic_folder()
        train, test = load(folder, "train"), load(folder, "test")
    except (DeviceRuntimeError, IdxError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    from tpulab_recipes.fashion_mnist.trainer import Trainer
    from tpulab_recipes.torch_training import load_checkpoint, save_checkpoint

    print(backend.describe(), flush=True)
    trainer, first = Trainer(config, backend), 0
    found = load_checkpoint(options.checkpoints) if options.checkpoints else None
    if found is not None:
        first = found[0]
        trainer.load_state(found[1])
        print(f"going on after epoch {first}", flush=True)
    for epoch in range(first, config.epochs):
        began, losses = time.perf_counter(), []
        for batch in backend.batches(train_batches(train, config.batch_size, config.seed, epoch)):
            losses.append(trainer.train_step(batch))
        backend.sync()
        step_ms = 1e3 * (time.perf_counter() - began) / max(1, len(losses))
        accuracy = trainer.evaluate(test).accuracy
        loss = backend.reduce_metrics({"loss": losses[-1]})["loss"]
        print(
            f"epoch {epoch + 1}: loss {loss:.3f}, accuracy {accuracy:.1%}, {step_ms:.0f} ms a step",
            flush=True,
        )
        if options.checkpoints:
            save_checkpoint(backend, options.checkpoints, epoch + 1, trainer.state())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
