"""The lesson's codec: what it encodes can be heard again, and each codebook refines."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("librosa")

from tpulab_recipes.audio.corpus import CorpusSettings, utterances  # noqa: E402
from tpulab_recipes.audio.files import fitted  # noqa: E402
from tpulab_recipes.audio.mel_codec import MelCodec, fit_mel_codec  # noqa: E402


@pytest.fixture(scope="module")
def waves() -> list[np.ndarray]:
    made = utterances(CorpusSettings(count=4, sample_rate=16_000))
    return [fitted(each.wave, 32_000) for each in made]


@pytest.fixture(scope="module")
def codec(waves: list[np.ndarray]) -> MelCodec:
    return fit_mel_codec(waves)


def _error(codec: MelCodec, found: torch.Tensor, wave: torch.Tensor) -> float:
    """Of the log-mel spectrogram, as a share of its spread."""
    wanted = codec.features(wave)
    return float((codec.features(found) - wanted).pow(2).mean().sqrt() / wanted.std())


def test_sound_comes_back_with_its_spectrogram_and_each_codebook_adds_to_it(
    codec: MelCodec, waves: list[np.ndarray]
) -> None:
    wave = torch.from_numpy(waves[0])[None]
    codes = codec.encode(wave)
    assert codes.shape == (1, 9, codec.frames(32_000))
    assert codes.max() < 64
    sound = codec.decode(codes)
    assert sound.shape == wave.shape
    assert sound.abs().max() <= 1
    assert _error(codec, sound, wave) < 0.5
    left = codec.features(wave)
    before = left.pow(2).sum()
    for book, ids in zip(codec.books, codes[0], strict=True):
        left = left - book[ids]
        assert left.pow(2).sum() < before
        before = left.pow(2).sum()


def test_the_same_sound_gives_the_same_codec_and_a_clip_the_same_codes_in_any_batch(
    codec: MelCodec, waves: list[np.ndarray]
) -> None:
    assert torch.equal(fit_mel_codec(waves).books, codec.books)
    batch = torch.from_numpy(np.stack(waves))
    assert torch.equal(codec.encode(batch)[2], codec.encode(batch[2:3])[0])


def test_too_little_sound_is_refused(waves: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="50 frames are too few for 64 entries"):
        fit_mel_codec([waves[0][:16_000]])
