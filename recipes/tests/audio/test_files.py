"""Reading, resampling and writing sound."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest

soundfile = pytest.importorskip("soundfile")

from tpulab_recipes.audio.files import fitted, load, resample, save  # noqa: E402
from tpulab_recipes.common.errors import DataError  # noqa: E402


def sine(hz: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return np.float32(0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate))


def test_saved_sound_is_loaded_with_sixteen_bits(tmp_path: Path) -> None:
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


def test_a_file_without_sound_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("not sound")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 8000)
    for name, output in (
        ("text.wav", "cannot be read"),
        ("none.wav", "cannot be read"),
        ("empty.wav", "no samples"),
    ):
        with pytest.raises(DataError, match=f"{name}.*{output}"):
            load(tmp_path / name, 8000)


def test_silence_is_named_also_of_channels_that_cancel_each_other_out(tmp_path: Path) -> None:
    tone = np.sin(np.arange(1600)) / 3
    for name, wave in (("silent", 0 * tone), ("opposite", np.stack([tone, -tone], 1))):
        soundfile.write(tmp_path / f"{name}.wav", wave, 16_000)
    with pytest.raises(DataError, match=r"silent\.wav is silent\.$"):
        load(tmp_path / "silent.wav", 16_000)
    with pytest.raises(DataError, match=r"opposite\.wav: its channels cancel each other out; save one"):
        load(tmp_path / "opposite.wav", 16_000)
    assert load(tmp_path / "opposite.wav", 16_000, channels=2).shape == (2, 1600)


def test_a_wave_that_would_clip_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"reaches 1\.5"):
        save(tmp_path / "loud.wav", np.array([0.0, 1.5]), 8000)
    assert not (tmp_path / "loud.wav").exists()


def test_fitted_cuts_or_adds_silence() -> None:
    assert fitted(np.arange(1.0, 6.0), 3).tolist() == [1, 2, 3]
    assert fitted(np.arange(1.0, 3.0), 4).tolist() == [1, 2, 0, 0]


def _wav(samples: bytes, says: int | None = None, riff: int | None = None) -> bytes:
    """A WAV of 16 bits at 8 kHz whose header says these sizes."""
    head = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16_000, 2, 16)
    size = len(samples) if says is None else says
    body = b"WAVEfmt " + head + b"data" + struct.pack("<I", size) + samples
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


def test_a_wav_that_is_cut_off_is_named_and_a_stream_is_read_to_its_end(tmp_path: Path) -> None:
    """Case D07."""
    samples = struct.pack("<4000h", *range(4000))
    for name, size in (("zero", 0), ("ff", 0xFFFFFFFF)):
        (tmp_path / f"{name}.wav").write_bytes(_wav(samples, size, size))
        assert len(load(tmp_path / f"{name}.wav", 8000)) == 4000
    (tmp_path / "cut.wav").write_bytes(_wav(samples)[:-2000])
    with pytest.raises(
        DataError, match=r"cut\.wav is cut off: its header says 0\.50 s and the file has 0\.38 s"
    ):
        load(tmp_path / "cut.wav", 8000)
    (tmp_path / "claims.wav").write_bytes(_wav(samples, 16_000))
    with pytest.raises(DataError, match=r"says 1\.00 s and the file has 0\.50 s"):
        load(tmp_path / "claims.wav", 8000)
    (tmp_path / "none.wav").write_bytes(_wav(b""))
    with pytest.raises(DataError, match="has no samples"):
        load(tmp_path / "none.wav", 8000)


def test_a_file_without_sound_is_named_with_its_kind_and_path(tmp_path: Path) -> None:
    """Case D07: an open file was called `<... object at 0x...>`."""
    page = io.BytesIO(b"<!doctype html><title>404</title>")
    with pytest.raises(DataError, match=r"^audio/a\.wav is an HTML page"):
        load(page, 8000, shown="audio/a.wav")
    with pytest.raises(DataError, match=r"^audio/a\.wav cannot be read as sound: [^<]*$"):
        load(io.BytesIO(bytes(2000)), 8000, shown="audio/a.wav")
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(DataError, match=r"folder\.wav cannot be read as sound: Is a directory"):
        load(tmp_path / "folder.wav", 8000)
    with pytest.raises(DataError, match=r"cannot be read as sound: .*surrogates not allowed"):
        load(tmp_path / "\ud800.wav", 8000)
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), 8000, subtype="FLOAT")
    with pytest.raises(DataError, match="not finite"):
        load(tmp_path / "nan.wav", 8000)


def test_a_file_that_is_no_sound_is_named_with_its_kind(tmp_path: Path) -> None:
    """Siblings of case D07."""
    whole = _wav(struct.pack("<4000h", *range(4000)))
    for name, data, output in (
        ("gz", b"\x1f\x8b" + bytes(100), "is compressed"),
        ("text", b"hello there\n" * 30, "is a text file"),
        ("zeros", bytes(4000), "only zero bytes"),
        ("no rate", whole[:24] + bytes(4) + whole[28:], "impossible sample rate"),
        ("most", whole[:24] + b"\xff" * 4 + whole[28:], "impossible sample rate"),
        ("one", whole[:24] + struct.pack("<I", 1) + whole[28:], "says 1 Hz, too few"),
    ):
        (tmp_path / f"{name}.wav").write_bytes(data)
        with pytest.raises(DataError, match=rf"{name}\.wav.*{output}"):
            load(tmp_path / f"{name}.wav", 8000)


def test_floats_with_the_values_of_integers_are_named(tmp_path: Path) -> None:
    """Siblings of case D07."""
    soundfile.write(tmp_path / "loud.wav", sine(440, 8000) * 2, 8000, subtype="FLOAT")
    soundfile.write(tmp_path / "int16.wav", sine(440, 8000) * 32768, 8000, subtype="FLOAT")
    assert np.abs(load(tmp_path / "loud.wav", 8000)).max() == pytest.approx(1, abs=0.01)
    with pytest.raises(DataError, match=r"int16\.wav has samples up to 1\.6\de\+04, and full scale is 1"):
        load(tmp_path / "int16.wav", 8000)


@pytest.mark.parametrize("tag", [b"", b"ID3\x04\0\0\0\0\x02\0" + bytes(256)])
def test_an_mp3_that_is_cut_off_is_named_whatever_its_name(tag: bytes, tmp_path: Path) -> None:
    """Siblings of case D07: it was read without its end."""
    sound = io.BytesIO()
    soundfile.write(sound, sine(440, 16_000, 3.0), 16_000, format="MP3")
    whole = tag + sound.getvalue()
    for name in ("a.mp3", "a.wav"):
        (tmp_path / name).write_bytes(whole)
        assert len(load(tmp_path / name, 16_000)) >= 3 * 16_000
        (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
        with pytest.raises(DataError, match=rf"{name} is cut off: its header says [\d,]+ bytes"):
            load(tmp_path / name, 16_000)


def test_eight_channels_of_24_bits_are_read(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([sine(440, 8000)] * 8, axis=1), 8000, subtype="PCM_24")
    np.testing.assert_allclose(load(tmp_path / "a.wav", 8000), sine(440, 8000), atol=1e-5)
