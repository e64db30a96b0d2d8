"""Mel spectrograms against librosa and against what GPT-SoVITS computes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
librosa = pytest.importorskip("librosa")

from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram  # noqa: E402

GOLDEN = np.load(Path(__file__).parent / "golden" / "mel.npz", allow_pickle=False)
CASES: dict[str, list[float]] = json.loads(str(GOLDEN["meta"]))["config"]


@pytest.mark.parametrize("case", CASES)
def test_the_log_mel_equals_gpt_sovits(case: str) -> None:
    n_fft, n_mels, rate, hop, window, f_min, f_max = CASES[case]
    settings = MelSettings(
        int(rate), int(n_fft), int(hop), int(window), int(n_mels), f_min, f_max, center=False
    )
    made = MelSpectrogram(settings)
    waves = torch.from_numpy(GOLDEN[f"in/wave_{case}"])
    magnitude, expected = made.magnitude(waves), GOLDEN[f"out/{case}/spec"]
    np.testing.assert_allclose(made.filters, GOLDEN[f"out/{case}/basis"], atol=1e-7)
    np.testing.assert_allclose(magnitude, expected, atol=1e-5 * max(1, np.abs(expected).max()))
    np.testing.assert_allclose(made(waves), GOLDEN[f"out/{case}/mel_spectrogram"], atol=5e-5)


@pytest.mark.parametrize(
    "settings",
    [
        MelSettings(),
        MelSettings(16_000, 512, 160, 400, 64, 50.0, 7600.0),
        MelSettings(44_100, 2048, 512, 2048, 128),
    ],
    ids=["tts", "short window", "44.1 kHz"],
)
def test_the_power_mel_equals_librosas(settings: MelSettings) -> None:
    wave = np.random.default_rng(0).uniform(-1, 1, 9000).astype(np.float32)
    made = MelSpectrogram(settings)
    ours = made.mel(made.magnitude(torch.from_numpy(wave)[None], floor=0.0) ** 2)[0].numpy()
    theirs = librosa.feature.melspectrogram(
        y=wave,
        sr=settings.sample_rate,
        n_fft=settings.n_fft,
        hop_length=settings.hop,
        win_length=settings.window,
        n_mels=settings.n_mels,
        fmin=settings.f_min,
        fmax=settings.f_max,
    )
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.max())


def test_the_gradient_of_silence_is_finite() -> None:
    waves = torch.zeros(1, 2048, requires_grad=True)
    MelSpectrogram(MelSettings(center=False))(waves).sum().backward()
    assert waves.grad is not None
    assert bool(torch.isfinite(waves.grad).all())


def test_the_tables_follow_the_module_and_are_not_saved() -> None:
    made = MelSpectrogram(MelSettings())
    assert made.state_dict() == {}
    assert made.to(torch.float64).filters.dtype == torch.float64


def test_a_wave_shorter_than_its_reflection_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 384 samples"):
        MelSpectrogram(MelSettings(center=False))(torch.zeros(1, 384))


def test_a_window_longer_than_the_transform_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window \(2048\)"):
        MelSettings(n_fft=1024, window=2048)
