"""Writes the two updates of GPT-SoVITS, of made-up clips, as one program to the file that it is given; run in
the environment torch-tpu.

    export_gpt_sovits.py FILE                 the notebook's model, a clip for each of eight devices
    export_gpt_sovits.py FILE --full-size     the published sizes, four clips each in their shortest bucket
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from tpulab_recipes.common.command_line import print_result
from tpulab_recipes.compile_ahead.torch_export import LoweringBackend, export_step
from tpulab_recipes.gpt_sovits.checkpoints import make_models
from tpulab_recipes.gpt_sovits.config import FULL_SIZE, Config
from tpulab_recipes.gpt_sovits.data import MARGIN, Clip, spectrogram, train_batches
from tpulab_recipes.gpt_sovits.trainer import Trainer


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("place")
    parser.add_argument("--full-size", action="store_true")
    options = parser.parse_args(argv)
    config = FULL_SIZE if options.full_size else Config(batch_size=8, precision="bfloat16")
    backend = LoweringBackend()
    trainer = Trainer(config, *make_models(config), backend, 1)
    frames = config.buckets[0] - MARGIN
    wave = np.float32(0.3 * np.sin(np.arange(frames * config.hop_length) / 20))
    ssl, spec = np.zeros((config.ssl_channels, frames), np.float32), spectrogram(wave, config)
    clips = [Clip(str(n), np.arange(1, 20), ssl, spec, wave) for n in range(config.batch_size)]
    exported = export_step(
        backend,
        lambda batch: trainer.train_step(batch)["loss/g/total"],
        backend.shard_batch(next(train_batches(clips, config))),
        model=trainer.models,
        optimizer=[trainer.optimizer, trainer.optimizer_d],
        name="gpt_sovits",
    )
    exported.program.save(options.place)
    print_result(exported=options.place, module_bytes=len(exported.program.module))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
