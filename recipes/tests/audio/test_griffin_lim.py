"""Griffin-Lim against librosa's, and the recogniser of words."""

from __future__ import annotations

import numpy as np
import pytest

librosa = pytest.importorskip("librosa")

import torch  # noqa: E402
from tpulab_recipes.audio.corpus import CorpusSettings, utterance  # noqa: E402
from tpulab_recipes.audio.formants import VOICES  # noqa: E402
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram  # noqa: E402
from tpulab_recipes.audio.recognition import WORDS, recognise, word_spans  # noqa: E402
from tpulab_recipes.audio.vocoders import griffin_lim, wave_of  # noqa: E402

CORPUS = CorpusSettings(speakers=1, seed=5, sample_rate=16_000, hop=320)


@pytest.mark.parametrize("window", [512, 400])
def test_it_equals_librosas_with_the_same_first_phases(window: int) -> None:
    settings = MelSettings(16_000, 512, 128, window)
    magnitude = np.abs(np.random.default_rng(0).standard_normal((257, 30))).astype(np.float32)
    ours = griffin_lim(
        torch.from_numpy(magnitude)[None], settings, rounds=4, momentum=9.0, seed=None, pad_mode="constant"
    )
    theirs = librosa.griffinlim(
        magnitude, n_iter=4, hop_length=128, win_length=window, n_fft=512, momentum=9.0, init=None
    )
    np.testing.assert_allclose(ours[0], theirs, atol=2e-4 * np.abs(theirs).max())


def test_words_are_recognised_in_sound_and_not_in_other_sound() -> None:
    mel = MelSpectrogram(MelSettings(16_000, 1024, 320, 1024, f_max=8000, center=False))
    output, received, guessed, other = [], [], [], None
    for number in range(8):
        one = utterance(CORPUS, number)
        spans = word_spans(one.words, one.durations)
        assert spans == [(span.start, span.end) for span in one.word_spans]
        wave = wave_of(mel(torch.from_numpy(one.wave)[None]), mel)[0].numpy()
        output += one.words
        received += recognise(wave, 16_000, spans, VOICES[0])
        # The words of one sentence in the sound of another.
        guessed += recognise(wave if other is None else other, 16_000, spans, VOICES[0])
        other = wave
    first = len(utterance(CORPUS, 0).words)
    assert np.mean([a == b for a, b in zip(output, received, strict=True)]) > 0.8
    assert np.mean([a == b for a, b in zip(output[first:], guessed[first:], strict=True)]) < 0.2
    assert recognise(np.zeros(100, np.float32), 16_000, [(0, 50), (90, 100)]) in ([""] * 2, [WORDS[0]] * 2)
