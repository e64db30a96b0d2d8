"""Writes the two updates of GPT-SoVITS, of the small model and made-up clips, as one program to the file that
it is given; run in the environment with PyTorch/XLA."""

from __future__ import annotations

import sys

import numpy as np
from tpulab_recipes.common.command_line import print_result
from tpulab_recipes.gpt_sovits.checkpoints import make_models
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.data import Clip, spectrogram, train_batches
from tpulab_recipes.gpt_sovits.trainer import Trainer
from tpulab_recipes.runtime.selection import make
from tpulab_recipes.runtime.torch_export import export_step


def main(place: str) -> int:
    config, backend = Config(batch_size=8, precision="bfloat16"), make("torch_xla", "cpu")
    trainer = Trainer(config, *make_models(config), backend, 1)
    wave = np.float32(0.3 * np.sin(np.arange(100 * config.hop_length) / 20))
    ssl = np.zeros((config.ssl_channels, 100), np.float32)
    clips = [Clip(str(n), np.arange(1, 20), ssl, spectrogram(wave, config), wave) for n in range(8)]
    exported = export_step(
        backend,
        lambda batch: trainer.train_step(batch)["loss/g/total"],
        backend.shard_batch(next(train_batches(clips, config))),
        model=trainer.models,
        optimizer=[trainer.optimizer, trainer.optimizer_d],
        name="gpt_sovits",
    )
    exported.program.save(place)
    print_result(exported=place, module_bytes=len(exported.program.module))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
