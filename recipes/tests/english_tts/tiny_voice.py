"""A tiny voice, and utterances that are made up."""

from __future__ import annotations

import numpy as np
from tpulab_recipes.english_tts.config_english import get_lesson_config
from tpulab_recipes.english_tts.data import Utterance

STATISTICS = {"mel_mean": [0.0] * 20, "mel_std": [1.0] * 20}
TINY = get_lesson_config().but(
    n_mels=20,
    hidden_dim=16,
    n_heads=2,
    n_encoder_layers=1,
    n_decoder_layers=2,
    encoder_ff_dim=16,
    decoder_ff_dim=16,
    postnet_dim=8,
    relative_positions=4,
    frame_buckets=(32, 48),
    frames_per_phoneme=3,
    batch_size=4,
    validation_split=0.2,
    learning_rate=1e-2,
    warmup_steps=2,
    num_epochs=3,
    num_workers=0,
)


def made_up(number: int, frames: int = 0) -> Utterance:
    """An utterance whose bands follow its phonemes."""
    random = np.random.default_rng(number)
    durations = random.integers(2, 7, 7).astype(np.int32)
    if frames:
        durations[-1] += frames - durations.sum()
    phonemes = random.integers(3, 40, 7).astype(np.int32)
    bands = np.random.default_rng(0).standard_normal((96, 20))
    mel = np.repeat(bands[phonemes], durations, axis=0).astype(np.float32)
    return Utterance(f"utt_{number:04d}", "", phonemes, durations, mel)
