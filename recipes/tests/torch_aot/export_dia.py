"""Writes Dia's training step, of the tiny model and random codes, to the file that it is given; run in the
environment with PyTorch/XLA."""

from __future__ import annotations

import sys

import numpy as np
from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.data import Clip, train_batches
from tpulab_recipes.dia.model import tiny_model
from tpulab_recipes.dia.trainer import Trainer
from tpulab_recipes.runtime.selection import make
from tpulab_recipes.torch_training.export import export


def main(place: str) -> int:
    config = Config(batch_size=8, precision="bfloat16")
    trainer = Trainer(config, tiny_model(), make("torch_xla", "cpu"), 1)
    random = np.random.default_rng(0)
    text = np.full(20, 97, np.int32)
    codes = random.integers(0, 1024, (8, 200, 9)).astype(np.int16)
    clips = [Clip(str(number), text, each) for number, each in enumerate(codes)]
    batch = next(train_batches(clips, config, trainer.layout))
    return export(place, trainer.backend, trainer, batch, "dia")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
