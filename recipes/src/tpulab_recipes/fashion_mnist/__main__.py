"""Trains AlexNet on Fashion-MNIST from the command line: `python -m tpulab_recipes.fashion_mnist --help`."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import fields

from tpulab_recipes import runtime
from tpulab_recipes.fashion_mnist.config import FULL_SIZE, Config
from tpulab_recipes.fashion_mnist.data import load, synthetic_folder, train_batches
from tpulab_recipes.fashion_mnist.idx import IdxError


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tpulab_recipes.fashion_mnist",
        description="Trains AlexNet on Fashion-MNIST, on whatever device there is.",
    )
    parser.add_argument(
        "--backend", help="torch_tpu, torch_xla or cpu (default: what this environment is for)"
    )
    parser.add_argument("--platform", choices=("cpu", "tpu"), help="insist on the processor or on a chip")
    parser.add_argument("--spmd", action="store_true", help="torch_xla: one program over all devices")
    parser.add_argument(
        "--data", default="", help="folder or gs:// address with the idx files (default: drawn images)"
    )
    parser.add_argument("--full-size", action="store_true", help="224 pixels and all channels, as published")
    parser.add_argument(
        "--checkpoints", help="folder to write a checkpoint to after each epoch, and to go on from"
    )
    for each in fields(Config):
        kind = {"int": int, "float": float}.get(str(each.type), str)
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=kind, help=f"default {each.default}")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    given = {each.name: getattr(options, each.name) for each in fields(Config)}
    config = (FULL_SIZE if options.full_size else Config()).but(
        **{k: v for k, v in given.items() if v is not None}
    )
    try:
        backend = runtime.use(
            options.backend, platform=options.platform, **({"spmd": True} if options.spmd else {})
        )
        folder = options.data or synthetic_folder()
        train, test = load(folder, "train"), load(folder, "test")
    except (runtime.DeviceRuntimeError, IdxError) as error:
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
