"""The synthetic corpus: exact durations, formants where they were put, the same bytes for the same seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("librosa")
praatio = pytest.importorskip("praatio")

from scipy.linalg import solve_toeplitz  # noqa: E402
from scipy.signal import resample_poly  # noqa: E402
from tpulab_recipes.audio.corpus import CorpusSettings, utterance, utterances, write_corpus  # noqa: E402
from tpulab_recipes.audio.files import load  # noqa: E402
from tpulab_recipes.audio.formants import VOICES, Voice, synthesise  # noqa: E402
from tpulab_recipes.audio.phonemes import LEXICON, PHONEMES, SILENCE  # noqa: E402
from tpulab_recipes.common.errors import DataError  # noqa: E402

RATE = 22_050
#: Vowels whose formants stay.
STEADY = [name for name, one in PHONEMES.items() if one.voice == 1.0 and one.noise == 0 and one.glide is None]


def formants_of(wave: np.ndarray, rate: int) -> np.ndarray:
    """Hz of the resonances of a wave, by linear prediction: what a phonetician's tool shows."""
    low = resample_poly(np.float64(wave), 10_000, rate)
    windowed = np.diff(low) * np.hamming(len(low) - 1)
    correlation = np.correlate(windowed, windowed, "full")[len(windowed) - 1 :][:13]
    roots = np.roots([1, *-solve_toeplitz(correlation[:-1], correlation[1:])])
    roots = roots[np.imag(roots) > 0]
    hz = np.angle(roots) * 10_000 / (2 * np.pi)
    width = -np.log(np.abs(roots)) * 10_000 / np.pi
    return np.sort(hz[(width < 500) & (hz > 90)])


@pytest.mark.parametrize("name", STEADY)
def test_the_formants_of_a_vowel_are_where_they_were_put(name: str) -> None:
    voice = Voice("monotone", pitch_hz=100, breath=0.0)
    wave = synthesise([name], [RATE // 2], voice, RATE, np.random.default_rng(0))
    found = formants_of(wave[RATE // 8 : -RATE // 8], RATE)
    for requested in PHONEMES[name].formants:
        # A voice of 100 Hz has a harmonic every 100 Hz, between which a resonance cannot be placed exactly.
        assert np.abs(found - requested).min() < 60, f"{requested} Hz is not among {found.round()}"


def test_a_shorter_vocal_tract_has_higher_formants() -> None:
    def second(tract: float) -> float:
        voice = Voice("monotone", pitch_hz=100, tract=tract, breath=0.0)
        wave = synthesise(["IY"], [RATE // 2], voice, RATE, np.random.default_rng(0))
        found = formants_of(wave[RATE // 8 : -RATE // 8], RATE)
        return float(found[np.abs(found - 2290 * tract).argmin()])

    assert second(1.16) / second(1.0) == pytest.approx(1.16, abs=0.05)


def test_friction_is_loudest_where_it_was_put() -> None:
    for name in ("S", "SH"):
        wave = synthesise([name], [RATE], VOICES[1], RATE, np.random.default_rng(0))
        power = np.abs(np.fft.rfft(wave)) ** 2
        smooth = np.convolve(power, np.ones(400) / 400, mode="same")
        assert smooth.argmax() * RATE / len(wave) == pytest.approx(PHONEMES[name].noise_hz, abs=400)


def test_the_durations_are_whole_frames_and_sum_to_the_samples() -> None:
    settings = CorpusSettings(count=8, hop=256)
    for each in utterances(settings):
        assert sum(each.durations) == len(each.wave)
        assert all(duration > 0 and duration % settings.hop == 0 for duration in each.durations)
        assert each.phonemes[0] == each.phonemes[-1] == SILENCE
        assert [one.end for one in each.phones[:-1]] == [one.start for one in each.phones[1:]]
        assert each.wave.dtype == np.float32
        assert 0.5 < np.abs(each.wave).max() <= 0.7


def test_the_phonemes_match_the_words() -> None:
    spoken = {word: phonemes.split() for part in LEXICON.values() for word, phonemes in part.items()}
    each = utterance(CorpusSettings(), 3)
    assert each.text.lower().rstrip(".").split() == list(each.words)
    for word, span in zip(each.words, each.word_spans, strict=True):
        inside = [one.label for one in each.phones if span.start <= one.start and one.end <= span.end]
        assert span.label == word
        assert inside == spoken[word]


def test_every_phoneme_of_the_lexicon_is_known_and_silence_is_number_zero() -> None:
    used = {label for part in LEXICON.values() for phonemes in part.values() for label in phonemes.split()}
    assert used | {SILENCE} == set(PHONEMES)


def test_silence_is_quiet() -> None:
    each = utterance(CorpusSettings(), 0)
    middle = each.wave[: each.phones[0].end // 2]
    assert np.abs(middle).max() < 1e-3 * np.abs(each.wave).max()


def test_speakers_differ_and_take_turns() -> None:
    names = [each.voice.name for each in utterances(CorpusSettings(count=6, speakers=3))]
    assert names == ["anna", "ben", "chris"] * 2


def test_an_utterance_depends_on_the_seed_and_its_number_alone() -> None:
    one = utterance(CorpusSettings(count=1, seed=5), 7)
    same = utterance(CorpusSettings(count=50, seed=5), 7)
    assert np.array_equal(one.wave, same.wave)
    assert one.phones == same.phones
    other = utterance(CorpusSettings(seed=6), 7)
    assert other.phones != one.phones
    assert other.wave.tobytes() != one.wave.tobytes()


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    settings = CorpusSettings(count=4)
    for name in ("one", "two"):
        write_corpus(tmp_path / name, settings)
    first = digests(tmp_path / "one")
    assert first == digests(tmp_path / "two")
    assert len(first) == 4 * 3 + 3
    write_corpus(tmp_path / "two", CorpusSettings(count=4, seed=1))
    assert first["audio/utt_0000.wav"] != digests(tmp_path / "two")["audio/utt_0000.wav"]


def test_the_written_files_are_read_by_the_voice_recipes(tmp_path: Path) -> None:
    from praatio import textgrid

    settings = CorpusSettings(count=3, sample_rate=32_000, hop=640)
    total = write_corpus(tmp_path, settings)
    assert sum(sum(each.durations) for each in utterances(settings)) == total
    for listed, table, each in zip(
        (tmp_path / "corpus.list").read_text().splitlines(),
        (tmp_path / "metadata.csv").read_text().splitlines(),
        utterances(settings),
        strict=True,
    ):
        path, speaker, language, text = listed.split("|")
        assert (speaker, language, text) == (each.voice.name, "EN", each.text)
        assert table == f"{each.name}|{text}|{text}"
        assert (tmp_path / "audio_prompts" / f"{each.name}_prompt.txt").read_text() == f"[S1] {text}\n"
        wave = load(tmp_path / path, 32_000)
        np.testing.assert_allclose(wave, each.wave, atol=2**-15)
        assert sum(each.durations) == len(wave)
        grid = textgrid.openTextgrid(str(tmp_path / "TextGrid" / f"{each.name}.TextGrid"), True)
        read = [
            (one.label, round(one.start * 32_000), round(one.end * 32_000))
            for one in grid.getTier("phones").entries
        ]
        assert read == [(one.label, one.start, one.end) for one in each.phones]
        assert [one.label for one in grid.getTier("words").entries if one.label] == list(each.words)


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong, output in (
        ({"speakers": 9}, "between 1 and 4"),
        ({"count": 0}, "at least 1"),
        ({"sample_rate": 4000}, "8000 Hz"),
    ):
        with pytest.raises(ValueError, match=output):
            CorpusSettings(**wrong)


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        write_corpus(tmp_path / "file", CorpusSettings(count=1))
