"""Cached decoding against the whole decoder, Griffin-Lim and HiFi-GAN, and what does not fit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from english_tts.tiny_voice import TINY, made_up
from needs_torch_xla import NEEDS_TORCH_XLA
from tpulab_recipes.audio.vocoders import load_vocoder
from tpulab_recipes.common.errors import ConfigError, DataError
from tpulab_recipes.english_tts.generation import SLACK, speak
from tpulab_recipes.english_tts.model import KokoroModel, Predictions, losses
from tpulab_recipes.runtime.selection import make


def _model(stop_bias: float = -9.0, **changes: Any) -> KokoroModel:
    torch.manual_seed(5)
    model = KokoroModel(TINY.but(**changes), 96).eval()
    model.mel_mean += 0.3
    model.mel_std *= 2
    torch.nn.init.constant_(model.stop_out.bias, stop_bias)
    return model


@pytest.mark.parametrize(
    ("name", "guided", "dropout"),
    [
        ("cpu", True, 1.0),
        ("cpu", False, 0.5),
        pytest.param("torch_xla", True, 1.0, marks=[pytest.mark.long, NEEDS_TORCH_XLA]),
        pytest.param("torch_xla", False, 0.5, marks=[pytest.mark.long, NEEDS_TORCH_XLA]),
    ],
)
def test_cached_decoding_equals_the_whole_decoder_over_its_output(
    name: str, guided: bool, dropout: float
) -> None:
    changes: dict[str, Any] = {"guided": guided, "frame_dropout": dropout}
    backend: Any = make(name, "cpu")
    words_of = backend.prepare(_model(**changes))
    rows = [made_up(1), made_up(2)]
    spoken = speak(
        words_of, backend, [each.phonemes for each in rows], durations=[each.durations for each in rows]
    )
    model = _model(**changes)
    for one, row in zip(spoken, rows, strict=True):
        # Nothing stopped it: it ends a little after its last phoneme.
        assert (one.planned, len(one.mel), one.stopped) == (
            row.durations.sum(),
            row.durations.sum() + SLACK,
            False,
        )
        frames, count = 48, TINY.phonemes_of(48)
        length = torch.tensor([one.planned])
        phonemes, durations = (torch.zeros(1, count, dtype=torch.int32) for _ in range(2))
        phonemes[0, : len(row.phonemes)] = torch.from_numpy(row.phonemes)
        durations[0, : len(row.phonemes)] = torch.from_numpy(row.durations)
        mel, shown = torch.zeros(1, frames, TINY.n_mels), torch.full((1, frames), dropout < 1)
        with torch.no_grad():
            # Frame by frame without any cache: each time one more frame of the whole decoder.
            for frame in range(len(one.mel)):
                found = model(phonemes, torch.tensor([len(row.phonemes)]), durations, mel, length, shown)
                mel[:, frame] = found.mel_before[:, frame]
            valid = torch.arange(frames)[None] < len(one.mel)
            expected = model.log_mel(model.postnet(mel, valid))  # type: ignore[misc]
        np.testing.assert_allclose(one.mel, expected[0, : len(one.mel)], rtol=2e-4, atol=2e-4)


def test_a_stop_token_ends_an_utterance(host: Any) -> None:
    (output,) = speak(_model(stop_bias=9.0), host, [made_up(1).phonemes])
    assert (len(output.mel), output.stopped) == (1, True)


@pytest.mark.parametrize(("share", "frames"), [(0.1, 7), (0.2, 4), (0.4, 2), (0.6, 1)])
def test_an_utterance_ends_where_it_has_more_likely_ended_than_not(
    host: Any, share: float, frames: int
) -> None:
    """The head's bias has the value that it learns where this share of utterances ends at each frame."""
    c, rows = TINY.but(postnet_dim=0), torch.arange(10) < 10 * share
    learned = torch.tensor(math.log(share / (1 - share) * c.stop_positive_weight), requires_grad=True)
    mel, phonemes = torch.zeros(10, 2, 20), torch.ones(10, 1)
    batch = {"mel": mel, "mel_lengths": torch.where(rows, 1, 2), "durations": phonemes}
    batch["phoneme_lengths"] = torch.ones(10)
    logits = torch.stack([learned.expand(10), torch.zeros(10)], 1)
    losses(c, Predictions(mel, mel, logits, phonemes, mel), batch).stop.backward()
    assert learned.grad is not None
    assert abs(float(learned.grad)) < 1e-6

    model = _model(stop_bias=learned.item())
    torch.nn.init.zeros_(model.stop_out.weight)
    (output,) = speak(model, host, [made_up(1).phonemes])
    assert (len(output.mel), output.stopped) == (frames, True)
    assert (1 - share) ** frames <= 0.5 < (1 - share) ** (frames - 1)


def test_durations_are_whole_frames_of_at_least_one_and_follow_the_rate(host: Any) -> None:
    model = _model()
    torch.nn.init.constant_(model.durations[-1].bias, np.log(4))  # type: ignore[arg-type]
    torch.nn.init.zeros_(model.durations[-1].weight)  # type: ignore[arg-type]
    for rate, frames in ((1.0, 4), (2.0, 2), (9.0, 1)):
        (output,) = speak(model, host, [made_up(1).phonemes], rate=rate)
        assert output.durations.tolist() == [frames] * 7
    with pytest.raises(DataError, match="shorter sentences"):
        speak(model, host, [made_up(1).phonemes], rate=0.1)
    for odd in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=r"is not from 0\.1 to 10"):
            speak(model, host, [made_up(1).phonemes], rate=odd)
    (output,) = speak(model, host, [made_up(1).phonemes], rate=0.1, fit=True)
    assert output.durations.min() >= 1
    assert len(output.durations) < output.planned <= max(model.config.frame_buckets)


def test_a_hifigan_of_transformers_is_the_vocoder(tmp_path: Path) -> None:
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    torch.manual_seed(0)
    sizes = {"model_in_dim": 20, "sampling_rate": 16_000, "upsample_initial_channel": 8}
    config = SpeechT5HifiGanConfig(**sizes, upsample_rates=[8, 8, 5], upsample_kernel_sizes=[16, 16, 11])
    model = SpeechT5HifiGan(config).eval()
    model.save_pretrained(tmp_path / "gan")
    mel = np.random.default_rng(0).standard_normal((7, 20)).astype(np.float32)
    wave = load_vocoder(str(tmp_path / "gan"), TINY.mel)(mel)
    with torch.no_grad():
        expected = model(torch.from_numpy(np.log10(np.exp(mel))))
    np.testing.assert_allclose(wave, expected, rtol=1e-3, atol=1e-5)
    assert len(wave) == 7 * TINY.hop_length
    with pytest.raises(ConfigError, match="this voice has 20, 22050"):
        load_vocoder(str(tmp_path / "gan"), TINY.but(sample_rate=22_050).mel)
    with pytest.raises(ConfigError, match="neither a folder"):
        load_vocoder(str(tmp_path / "nothing"), TINY.mel)
