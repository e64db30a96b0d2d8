"""Trains AlexNet on Fashion-MNIST from the command line: `python -m tpulab_recipes.fashion_mnist --help`."""

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
from tpulab_recipes.common.errors import RecipeError
from tpulab_recipes.fashion_mnist.config import FULL_SIZE, Config
from tpulab_recipes.fashion_mnist.data import load, synthetic_folder, train_batches
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.torch_training.export import export


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Trains AlexNet on Fashion-MNIST."""

    config: tyro.conf.OmitArgPrefixes[Config]
    data: str = ""
    """Folder or gs:// address with the idx files. Empty: drawn images."""
    checkpoints: str = ""
    """Folder to write a checkpoint to after each epoch, and to resume from."""
    export: str = ""
    """File to write the training step to, as StableHLO; nothing is trained. `tpulab check
    FILE --chips v5e-8,v6e-8` reports what the step needs on each kind of TPU."""


def main(argv: list[str]) -> int:
    options = read_command(Train, "fashion_mnist", {"small": Config(), "full-size": FULL_SIZE}, argv)
    config = options.config
    try:
        backend = options.use_backend()
        folder = options.data or synthetic_folder()
        train, test = load(folder, "train"), load(folder, "test")
    except (DeviceRuntimeError, RecipeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    from tpulab_recipes.fashion_mnist.trainer import Trainer
    from tpulab_recipes.torch_training import CheckpointError, load_checkpoint, save_checkpoint

    trainer, first = Trainer(config, backend), 0
    if options.export:
        example = next(train_batches(train, config.batch_size, 0, 0))
        return export(options.export, backend, trainer, example, "fashion_mnist")
    result: dict[str, object] = {}
    found = load_checkpoint(options.checkpoints) if options.checkpoints else None
    if found is not None:
        first = found[0]
        try:
            trainer.load_state(found[1])
        except CheckpointError as error:
            print(error, file=sys.stderr)
            return 2
        print(f"resuming after epoch {first}", flush=True)
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
        result = {"epochs": epoch + 1, "loss": loss, "accuracy": accuracy, "step_ms": step_ms}
        if options.checkpoints:
            save_checkpoint(backend, options.checkpoints, epoch + 1, trainer.state())
    print_training_result(backend, **result)
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
