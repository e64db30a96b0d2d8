"""Writes the training step of a small English voice, of made-up utterances, to the file that it is given; run
in the environment torch-tpu."""

from __future__ import annotations

import sys

import numpy as np
from tpulab_recipes.compile_ahead.torch_export import LoweringBackend
from tpulab_recipes.english_tts.config_english import get_lesson_config
from tpulab_recipes.english_tts.data import Utterance, batch_of
from tpulab_recipes.english_tts.trainer import KokoroTrainer
from tpulab_recipes.torch_training.export import export


def main(place: str) -> int:
    config = get_lesson_config().but(
        batch_size=8,
        frame_buckets=(160,),
        encoder_dropout=0.1,
        decoder_dropout=0.1,
        gradient_checkpointing=True,
        enable_adaptive_memory=False,
    )
    random = np.random.default_rng(0)
    rows = [
        Utterance(
            str(number),
            "",
            random.integers(3, 90, 20).astype(np.int32),
            np.full(20, 7, np.int32),
            random.standard_normal((140, config.n_mels)).astype(np.float32),
        )
        for number in range(8)
    ]
    statistics = {"mel_mean": [0.0] * config.n_mels, "mel_std": [1.0] * config.n_mels}
    backend = LoweringBackend()
    trainer = KokoroTrainer(config, backend, rows, [], statistics, amp="bfloat16")
    return export(place, backend, trainer, batch_of(rows, 160, config), "english_tts")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
