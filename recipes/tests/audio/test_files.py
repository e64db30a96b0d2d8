"""Reading, resampling and writing sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

soundfile = pytest.importorskip("soundfile")

from tpulab_recipes.audio.files import fitted, load, resample, save  # noqa: E402
from tpulab_recipes.common.errors import DataError  # noqa: E402


def sine(hz: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return np.float32(0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate))


def test_what_is_saved_is_loaded_again_to_sixteen_bits(tmp_path: Path) -> None:
    wave = sine(440, 22_050)
    save(tmp_path / "a.wav", wave, 22_050)
    np.testing.assert_allclose(load(tmp_path / "a.wav", 22_050), wave, atol=2**-15)


@pytest.mark.parametrize(("rate", "to"), [(44_100, 22_050), (16_000, 24_000), (48_000, 44_100)])
def test_a_tone_keeps_its_pitch_when_resampled(rate: int, to: int) -> None:
    made = resample(sine(440, rate), rate, to)
    assert made.dtype == np.float32
    assert len(made) == pytest.approx(0.5 * to, abs=1)
    middle = slice(to // 10, -to // 10)
    np.testing.assert_allclose(made[middle], sine(440, to)[: len(made)][middle], atol=1e-3)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, right = sine(440, 8000), sine(660, 8000)
    soundfile.write(tmp_path / "two.flac", np.stack((left, right), axis=1), 8000)
    np.testing.assert_allclose(load(tmp_path / "two.flac", 8000), (left + right) / 2, atol=1e-4)


def test_what_is_no_sound_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("not sound")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 8000)
    for name, said in (
        ("text.wav", "cannot be read"),
        ("none.wav", "cannot be read"),
        ("empty.wav", "no samples"),
    ):
        with pytest.raises(DataError, match=f"{name}.*{said}"):
            load(tmp_path / name, 8000)


def test_a_wave_that_would_clip_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"reaches 1\.5"):
        save(tmp_path / "loud.wav", np.array([0.0, 1.5]), 8000)
    assert not (tmp_path / "loud.wav").exists()


def test_fitted_cuts_or_adds_silence() -> None:
    assert fitted(np.arange(1.0, 6.0), 3).tolist() == [1, 2, 3]
    assert fitted(np.arange(1.0, 3.0), 4).tolist() == [1, 2, 0, 0]
