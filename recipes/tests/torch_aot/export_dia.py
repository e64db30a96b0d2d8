"""Writes Dia's training step, for random codes, to the file that it is given; run in the environment
torch-tpu.

    export_dia.py FILE                              the tiny model
    export_dia.py FILE --layers 2 [--lora 16]       so many layers in each half, of the published widths

Without weights in it: the memory of the published model need not be there.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from tpulab_recipes.compile_ahead.torch_export import LoweringBackend
from tpulab_recipes.dia.config import FULL_SIZE, Config
from tpulab_recipes.dia.data import Clip, train_batches
from tpulab_recipes.dia.model import tiny_model
from tpulab_recipes.dia.trainer import Trainer
from tpulab_recipes.torch_training.export import export
from transformers import DiaConfig, DiaForConditionalGeneration
from transformers.initialization import no_init_weights

CHIPS = 8


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("place")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--lora", type=int, default=0)
    options = parser.parse_args(argv)
    if options.layers:
        sizes = DiaConfig()
        for half in (sizes.encoder_config, sizes.decoder_config):
            half.num_hidden_layers = options.layers
        config = FULL_SIZE.but(model="", batch_size=CHIPS, lora_rank=options.lora)
        # Parameters as the memory has them; buffers, such as the offsets of the channels, with their values.
        with no_init_weights():
            model = DiaForConditionalGeneration(sizes)
    else:
        config, model = Config(batch_size=CHIPS, precision="bfloat16"), tiny_model()
    trainer = Trainer(config, model, LoweringBackend(), 1)
    random = np.random.default_rng(0)
    text = np.full(20, 97, np.int32)
    codes = random.integers(0, 1024, (CHIPS, 200, 9)).astype(np.int16)
    clips = [Clip(str(number), text, each) for number, each in enumerate(codes)]
    batch = next(train_batches(clips, config, trainer.layout))
    return export(options.place, trainer.backend, trainer, batch, "dia")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
