"""Which words are spoken in a sound: a recogniser without a model, for the words of the synthetic corpus.

Each word is matched with templates by dynamic time warping (Sakoe & Chiba 1978, IEEE Trans. ASSP 26).
Templates are the words spoken by the formant synthesiser. The comparison uses the envelope of linear
prediction, whose peaks are the formants, as cepstra (Atal 1974), and the loudness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.audio.files import resample
from tpulab_recipes.audio.formants import VOICES, Voice, synthesise
from tpulab_recipes.audio.phonemes import PHONEMES, PRONUNCIATIONS

_RATE = 16_000
_HOP, _WINDOW, _ORDER, _CEPSTRA = 160, 400, 18, 16
#: The cost of holding or skipping a template state, added to the distance.
_WARP_COST = 0.5
#: Loudness, in powers of e, against the cepstra.
_LOUDNESS = 0.25
WORDS: tuple[str, ...] = tuple(PRONUNCIATIONS)


@dataclass(frozen=True)
class _Templates:
    frames: NDArray[np.float64]
    """Float[state, feature], word after word."""
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    """Int[word]: first state, and the state after the last."""


def recognise(
    wave: NDArray[Any], sample_rate: int, spans: Sequence[tuple[int, int]], voice: Voice = VOICES[1]
) -> list[str]:
    """One of `WORDS` for each span, in samples, of Float[sample]; nothing ("") for a span past its end."""
    mel = features(resample(np.asarray(wave, np.float32), sample_rate, _RATE))
    templates, words = _templates(voice), []
    for begin, end in spans:
        first, last = (_frame_at(each * _RATE / sample_rate) for each in (begin, end))
        part = mel[first : max(last, first + 1)]
        words.append(WORDS[_nearest(part, templates)] if len(part) else "")
    return words


def word_spans(words: Sequence[str], durations: Sequence[int], hop: int = 1) -> list[tuple[int, int]]:
    """The spans of the words of a sentence, in samples, of the durations of its phonemes in frames of `hop`
    samples, silence at both ends."""
    bounds, place, spans = np.cumsum([0, *durations]) * hop, 1, []
    for word in words:
        after = place + len(PRONUNCIATIONS[word])
        spans.append((int(bounds[place]), int(bounds[after])))
        place = after
    return spans


def _frame_at(sample: float) -> int:
    """The first frame whose middle is not before this sample."""
    return max(0, round((sample - _WINDOW / 2) / _HOP))


def features(wave: NDArray[np.float32]) -> NDArray[np.float64]:
    """Float[frame, feature] of Float[sample] at 16 kHz, a frame each 10 ms."""
    count = 1 + (len(wave) - _WINDOW) // _HOP
    if count < 1:
        return np.zeros((0, _CEPSTRA + 1))
    # Pre-emphasis, and a little noise, so that silence has a flat envelope and not an arbitrary one.
    raised = np.append(wave[:1], wave[1:] - 0.95 * wave[:-1]).astype(np.float64)
    raised += 1e-4 * np.random.default_rng(0).standard_normal(len(raised))
    places = np.arange(count)[:, None] * _HOP + np.arange(_WINDOW)
    frames = raised[places] * np.hamming(_WINDOW)
    power = np.abs(np.fft.rfft(frames, 1024)) ** 2
    correlation = np.fft.irfft(power)[:, : _ORDER + 1]
    correlation[:, 0] *= 1 + 1e-4
    cepstra = _cepstra(_levinson(correlation)) * np.sqrt(np.arange(1, _CEPSTRA + 1))
    loudness = np.log(correlation[:, :1] + 1e-6)
    loudness -= np.quantile(loudness, 0.9)
    return np.concatenate([cepstra, _LOUDNESS * np.maximum(loudness, -9)], 1)


def _levinson(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Predictors, Float[frame, order + 1] with a leading 1, by Levinson and Durbin's recursion."""
    count, size = correlation.shape
    a, error = np.zeros((count, size)), correlation[:, 0].copy()
    a[:, 0] = 1
    for order in range(1, size):
        reach = (a[:, :order] * correlation[:, order:0:-1]).sum(1)
        reflection = -reach / error
        a[:, 1 : order + 1] = a[:, 1 : order + 1] + reflection[:, None] * a[:, order - 1 :: -1][:, :order]
        error = error * (1 - reflection**2)
    return a


def _cepstra(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cepstra 1 to `_CEPSTRA` of 1 / |A|."""
    found = np.zeros((len(a), _CEPSTRA + 1))
    for n in range(1, _CEPSTRA + 1):
        value = -a[:, n] if n < a.shape[1] else np.zeros(len(a))
        for k in range(1, n):
            if n - k < a.shape[1]:
                value = value - k / n * found[:, k] * a[:, n - k]
        found[:, n] = value
    return found[:, 1:]


@lru_cache
def _templates(voice: Voice) -> _Templates:
    parts = []
    for number, word in enumerate(WORDS):
        # Between two neutral vowels, so that the word's ends glide as they do inside a sentence.
        labels = ["AH", *PRONUNCIATIONS[word], "AH"]
        lengths = [round(PHONEMES[each].ms / 1000 / voice.rate * _RATE) for each in labels]
        found = features(synthesise(labels, lengths, voice, _RATE, np.random.default_rng(number)))
        parts.append(found[_frame_at(lengths[0]) : _frame_at(sum(lengths[:-1]))])
    sizes = np.array([len(part) for part in parts])
    return _Templates(np.concatenate(parts), sizes.cumsum() - sizes, sizes.cumsum())


def _nearest(mel: NDArray[np.float64], t: _Templates) -> int:
    """The word whose template is nearest to Float[frame, feature]: each frame moves 0, 1 or 2 states on."""
    distance = np.linalg.norm(mel[:, None] - t.frames[None], axis=2)
    states = distance.shape[1]
    inner = np.ones(states, bool)
    inner[t.starts] = False
    twice = inner & np.append(False, inner[:-1])
    cost = np.full(states, np.inf)
    cost[t.starts] = distance[0, t.starts]
    for row in distance[1:]:
        forward = np.where(inner, np.append(np.inf, cost[:-1]), np.inf)
        skipped = np.where(twice, np.append([np.inf, np.inf], cost[:-2]), np.inf)
        cost = row + np.minimum(np.minimum(cost, skipped) + _WARP_COST, forward)
    # The end may be cut off by a frame or two.
    lasts = np.stack([cost[np.maximum(t.ends - back, t.starts)] for back in (1, 2, 3)])
    return int(lasts.min(0).argmin())
