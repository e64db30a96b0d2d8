"""Conversion by linear regression: the fit, its file, long recordings, and the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus  # noqa: E402
from tpulab_recipes.audio.mel import MelSpectrogram  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError, DataError  # noqa: E402
from tpulab_recipes.gpt_sovits import linear  # noqa: E402
from tpulab_recipes.gpt_sovits.__main__ import main  # noqa: E402
from tpulab_recipes.gpt_sovits.config import Config  # noqa: E402
from tpulab_recipes.gpt_sovits.data import Clip, small_features  # noqa: E402

C = Config(ssl_channels=6)
WIDTH = 2 * linear.CONTEXT + 1
ROWS = WIDTH * C.ssl_channels + 1


def _clips(weight: np.ndarray, noise: float = 0.0, count: int = 8, frames: int = 400) -> list[Clip]:
    """Clips of random features whose log-mels are exactly `weight` times the normalised features."""
    random, clips = np.random.default_rng(0), []
    inverse = np.linalg.pinv(np.float64(MelSpectrogram(C.mel).filters.numpy()))
    for number in range(count):
        ssl = random.normal(3.0, 2.0, (C.ssl_channels, frames))
        even, beyond = (ssl - ssl.mean(1)[:, None]) / ssl.std(1)[:, None], (linear.CONTEXT, linear.CONTEXT)
        padded = np.pad(even, ((0, 0), beyond), mode="edge")
        near = [padded[:, first : first + frames] for first in range(WIDTH)]
        log_mel = weight.T @ np.concatenate([*near, np.ones((1, frames))])
        log_mel += noise * random.normal(size=log_mel.shape)
        spec = inverse @ np.exp(log_mel)
        wave = np.zeros(frames * C.hop_length, np.float32)
        clips.append(Clip(f"{number}.wav", np.zeros(1, np.int64), np.float32(ssl), np.float32(spec), wave))
    return clips


def test_a_fit_finds_the_map_that_made_the_clips_and_noise_is_not_learned() -> None:
    weight = 0.1 * np.random.default_rng(1).normal(size=(ROWS, C.n_mel_channels))
    found = linear.fit(_clips(weight), C)
    assert np.abs(found.weight - weight).max() < 2e-3
    assert found.explained > 0.999
    assert found.penalty == linear.PENALTIES[0]
    assert found.seconds == 8 * 400 * C.hop_length / C.sampling_rate
    weight[:-1] = 0
    noisy = linear.fit(_clips(weight, noise=0.3), C)
    assert noisy.penalty == linear.PENALTIES[-1]
    assert noisy.explained < 0.01
    assert np.abs(noisy.weight[:-1]).max() < 0.05


def test_too_few_clips_or_seconds_are_refused() -> None:
    weight = np.zeros((ROWS, C.n_mel_channels))
    for clips in (_clips(weight, count=3), _clips(weight, count=4, frames=249)):
        with pytest.raises(DataError, match="too few to learn from; 4 clips with 20 s are the least"):
            linear.fit(clips, C)


def _weight() -> np.ndarray:
    return np.float32(0.1 * np.random.default_rng(2).normal(size=(ROWS, C.n_mel_channels)))


def test_a_long_recording_is_converted_in_parts_that_end_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "PIECE_S", 1.5)
    monkeypatch.setattr(linear, "AROUND_S", 0.2)
    random, rate, longest = np.random.default_rng(3), C.sampling_rate, 0
    # Of equal loudness, with a pause that is not quite in the middle.
    loud = [np.float32(0.3 * random.uniform(-1, 1, int(seconds * rate))) for seconds in (1.1, 0.9)]
    loud[1][: C.hop_length] = 0
    for each in loud:
        each[-1] = 0.3

    def features(wave: np.ndarray) -> np.ndarray:
        nonlocal longest
        longest = max(longest, len(wave))
        return small_features(C)(wave)

    voice = linear.LinearVoice(_weight(), C, features)
    whole = voice.convert(np.concatenate(loud))
    assert longest == 1.1 * rate
    np.testing.assert_array_equal(whole, np.concatenate([voice.convert(each) for each in loud]))
    assert len(whole) == 2 * rate
    assert len(voice.convert(np.tile(loud[0], 6))) == 6.6 * rate
    assert longest <= 1.5 * rate


def test_a_long_silence_around_a_recording_changes_nothing_in_it() -> None:
    random, hop, given = np.random.default_rng(4), C.hop_length, []
    wave = np.float32(random.uniform(-0.3, 0.3, 50 * hop))
    states = np.float32(random.normal(size=(C.ssl_channels, 50)))
    for around in (20, 200):
        ssl = np.pad(states, ((0, 0), (around, around)), constant_values=9)
        given.append(linear._inputs(ssl, np.pad(wave, around * hop), hop)[around : around + 50])
    np.testing.assert_allclose(*given, rtol=1e-4, atol=1e-5)


def test_a_saved_voice_is_the_same_and_another_s_is_refused(tmp_path: Path) -> None:
    weight, file = _weight(), tmp_path / "linear.safetensors"
    linear.save(weight, file)
    np.testing.assert_array_equal(linear.load(file, C), weight)
    with pytest.raises(CheckpointError, match="is no linear voice with 8 ssl_channels and 40 mel channels"):
        linear.load(file, C.but(ssl_channels=8))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="it is cut off"):
        linear.load(file, C)


def test_from_prepared_clips_to_a_converted_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def result() -> dict[str, Any]:
        return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))

    write_corpus(tmp_path / "corpus", CorpusSettings(count=12, sample_rate=8000, hop=160, speakers=1))
    exp, wav = str(tmp_path / "exp"), tmp_path / "converted.wav"
    assert main(["prepare", "--inp-text", str(tmp_path / "corpus/corpus.list"), "--exp-dir", exp]) == 0
    assert main(["train-linear", "--exp-dir", exp]) == 0
    fitted = result()
    assert (fitted["clips"], fitted["left_out"]) == (12, 0)
    assert fitted["explained"] > 0.5
    source = tmp_path / "corpus/audio/utt_0000.wav"
    convert = ["convert", "--voice", fitted["voice"], "--source", str(source), "--output", str(wav)]
    assert main(convert) == 0
    length = len(files.load(source, 8000)) // 160 * 160
    assert len(files.load(wav, 8000)) == length
    assert result()["seconds"] == pytest.approx(length / 8000, abs=1e-3)
    files.save(tmp_path / "click.wav", np.full(100, 0.5, np.float32), 8000)
    for more, message in (
        (["--ref-wav", str(source)], "a linear voice takes no --ref-wav and no --text"),
        (["--source", str(tmp_path / "click.wav")], "source: 100 samples are too short"),
        (["--voice", str(tmp_path / "voice.pth")], "ref_wav: give a sound file of the target voice"),
        (["--voice", str(tmp_path / "none.safetensors")], "No such file"),
        (["--features", "whisper"], "give the folder or name of a Whisper"),
    ):
        assert main([*convert, *more]) == 1
        printed = capsys.readouterr().err
        assert message in printed
        assert "Traceback" not in printed
