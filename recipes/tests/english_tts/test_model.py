"""The network against transformers' FastSpeech2Conformer, dense loops and published sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers.models.fastspeech2_conformer")

import torch
from english_tts.tiny_voice import TINY, made_up
from tpulab_recipes.english_tts.config_english import (
    EnglishTrainingConfig,
    get_default_config,
    get_large_config,
    get_small_config,
)
from tpulab_recipes.english_tts.data import SYMBOLS, batch_of
from tpulab_recipes.english_tts.model import KokoroModel, Predictions, RelativeAttention, losses, regulate
from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as reference


@pytest.mark.parametrize(
    ("config", "millions"),
    [(get_default_config(), 57.29), (get_small_config(), 9.65), (get_large_config(), 171.2)],
)
def test_sizes_are_the_published_ones(config: EnglishTrainingConfig, millions: float) -> None:
    with torch.device("meta"):
        model = KokoroModel(config, len(SYMBOLS))
    sizes = {name: sum(each.numel() for each in part.parameters()) for name, part in model.named_children()}
    assert (sum(sizes.values()) - sizes["postnet"]) / 1e6 == pytest.approx(
        millions, abs=0.005 * millions / 10
    )
    assert sizes["postnet"] == 4_347_984


def test_the_length_regulator_equals_fastspeech2s() -> None:
    torch.manual_seed(0)
    encoded, durations = torch.randn(3, 6, 5), torch.randint(0, 5, (3, 6))
    durations[1] = 0
    durations[1, 2] = 1
    expected = reference.length_regulator(encoded, durations.clone())
    assert torch.equal(regulate(encoded, durations, expected.shape[1]), expected)
    # A longer bucket is followed by zeros, a shorter one is a beginning.
    longer = regulate(encoded, durations, expected.shape[1] + 9)
    assert torch.equal(longer[:, : expected.shape[1]], expected)
    assert longer[:, expected.shape[1] :].abs().sum() == 0


def test_losses_equal_fastspeech2s_and_a_loops() -> None:
    torch.manual_seed(1)
    frames, count = torch.tensor([9, 5]), torch.tensor([4, 3])
    mel, before, after = (torch.randn(2, 12, 20) for _ in range(3))
    durations, guessed, logits = torch.randint(1, 9, (2, 6)), torch.randn(2, 6), torch.randn(2, 12)
    batch = {"mel": mel, "mel_lengths": frames, "durations": durations, "phoneme_lengths": count}
    c = TINY.but(stop_positive_weight=3.0, duration_loss_weight=0.02, stop_token_loss_weight=0.1)
    found = losses(c, Predictions(before, after, logits, guessed, mel), batch)

    masks = [torch.arange(size)[None] < each[:, None] for size, each in ((12, frames), (6, count))]
    config = reference.FastSpeech2ConformerConfig(use_masking=True, use_weighted_masking=False)
    zero = torch.zeros(2, 6, 1)
    # transformers uses logarithms of frames + 1.
    theirs = reference.FastSpeech2ConformerLoss(config)(
        after, before, guessed, zero, zero, mel, durations - 1, zero, zero, masks[1], masks[0][..., None]
    )
    torch.testing.assert_close(found.mel + found.postnet + found.duration, theirs)

    stop = 0.0
    for row in range(2):
        for frame in range(int(frames[row])):
            chance, ends = 1 / (1 + math.exp(-float(logits[row, frame]))), frame == int(frames[row]) - 1
            stop += -3 * math.log(chance) if ends else -math.log(1 - chance)
    assert float(found.stop) == pytest.approx(stop / 14, rel=1e-5)
    total = found.mel + found.postnet + 0.02 * found.duration + 0.1 * found.stop
    torch.testing.assert_close(found.total, total)


def test_relative_attention_equals_a_dense_loop() -> None:
    torch.manual_seed(2)
    heads, width, reach, length = 2, 4, 3, 9
    own = RelativeAttention(heads * width, heads, reach)
    x = torch.randn(2, length, heads * width)
    query, key, value = (own.split(each(x)) for each in (own.query, own.key, own.value))
    expected = torch.zeros(2, heads, length, width)
    for batch in range(2):
        for head in range(heads):
            for at in range(length):
                scores, values = [], []
                for other in range(at + 1):
                    row = max(-reach, other - at) + reach
                    scores.append(query[batch, head, at] @ (key[batch, head, other] + own.key_offsets[row]))
                    values.append(value[batch, head, other] + own.value_offsets[row])
                weights = (torch.stack(scores) / math.sqrt(width)).softmax(0)
                expected[batch, head, at] = (weights[:, None] * torch.stack(values)).sum(0)
    torch.testing.assert_close(own(x), own.joined(expected), rtol=1e-4, atol=1e-5)


def _losses_of(model: Any, rows: list[Any], frames: int) -> list[float]:
    batch = {name: torch.from_numpy(value) for name, value in batch_of(rows, frames, TINY).items()}
    names = ("phonemes", "phoneme_lengths", "durations", "mel", "mel_lengths")
    with torch.no_grad():
        return [float(each) for each in losses(TINY, model(*(batch[name] for name in names)), batch)]


def test_padding_buckets_and_padding_rows_change_no_loss() -> None:
    torch.manual_seed(3)
    model = KokoroModel(TINY, 96).eval()
    rows = [made_up(each, frames=28) for each in range(3)]
    plain = _losses_of(model, rows, 32)
    np.testing.assert_allclose(_losses_of(model, rows, 48), plain, rtol=2e-5)
    np.testing.assert_allclose(_losses_of(model, [*rows, None], 48), plain, rtol=2e-5)


def test_gradients_are_finite_and_reach_every_parameter() -> None:
    torch.manual_seed(4)
    model = KokoroModel(TINY.but(encoder_dropout=0.1, decoder_dropout=0.1), 96)
    batch = {name: torch.from_numpy(each) for name, each in batch_of([made_up(0)], 48, TINY).items()}
    names = ("phonemes", "phoneme_lengths", "durations", "mel", "mel_lengths")
    losses(TINY, model(*(batch[name] for name in names)), batch).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name
