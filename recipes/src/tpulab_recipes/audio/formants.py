"""Speech-like sound from a source and a filter (Fant 1960; Klatt 1980, J. Acoust. Soc. Am. 67): pulses of the
vocal folds and friction noise through resonators at the formants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpulab_recipes.audio.phonemes import PHONEMES

#: Bandwidths of the four resonators in Hz; the fourth formant is the same for all phonemes.
_BANDWIDTHS = (60.0, 90.0, 150.0, 250.0)
_FOURTH = 3500.0
#: Duration of the transition of formants and loudness from one phoneme to the next.
_TRANSITION_S = 0.03
#: How often the resonators change: formants move more slowly than that.
_BLOCKS_A_SECOND = 125


@dataclass(frozen=True)
class Speaker:
    name: str


@dataclass(frozen=True)
class Voice(Speaker):
    pitch_hz: float
    tract: float = 1.0
    """Factor on the table's formants: above 1 for a shorter vocal tract."""
    rate: float = 1.0
    """Speed of speaking; 1 gives the table's durations."""
    breath: float = 0.02
    """Noise of the glottis, beside the pulses."""


VOICES: tuple[Voice, ...] = (
    Voice("anna", 205.0, tract=1.16),
    Voice("ben", 110.0),
    Voice("chris", 135.0, tract=1.06, rate=1.15, breath=0.05),
    Voice("dora", 180.0, tract=1.12, rate=0.9),
)


def synthesise(
    phonemes: Sequence[str],
    durations: Sequence[int],
    voice: Voice,
    sample_rate: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Float32[sample] in (-1, 1): the phonemes for so many samples each, exactly `sum(durations)` samples.

    Raises `KeyError` for a phoneme that `PHONEMES` lacks.
    """
    from scipy.signal import lfilter

    samples = int(sum(durations))
    block = max(1, sample_rate // _BLOCKS_A_SECOND)
    track = _targets(phonemes, durations, voice, block)
    formants = np.minimum(track[:, :4], 0.45 * sample_rate)
    friction_hz = np.minimum(track[:, 6], 0.42 * sample_rate)
    loudness = np.repeat(track[:, 4:6], block, axis=0)[:samples]
    breath = random.standard_normal(samples).astype(np.float32)
    hiss = random.standard_normal(samples).astype(np.float32)
    source = (_pulses(samples, voice, sample_rate, random) + voice.breath * breath) * loudness[:, 0]
    hiss *= loudness[:, 1]
    bandwidths = np.array(_BANDWIDTHS) * voice.tract
    through_tract = _resonators(formants, bandwidths, sample_rate)
    through_teeth = _resonators(friction_hz[:, None], np.array([1200.0]), sample_rate)
    wave, tract_state, teeth_state = np.empty(samples), np.zeros(8), np.zeros(2)
    for number in range(len(track)):
        part = slice(number * block, min((number + 1) * block, samples))
        wave[part], tract_state = lfilter(*through_tract[number], source[part], zi=tract_state)
        if track[number, 5] > 0:
            hissed, teeth_state = lfilter(*through_teeth[number], hiss[part], zi=teeth_state)
            wave[part] += hissed
    loudest = max(float(np.abs(wave).max(initial=0)), 1e-9)
    return (0.7 * wave / loudest).astype(np.float32)


def _targets(phonemes: Sequence[str], durations: Sequence[int], voice: Voice, block: int) -> np.ndarray:
    """Float[block, 7]: four formants, loudness of the voice and of the friction, and the friction's place."""
    blocks = -(-int(sum(durations)) // block)
    middles = (np.arange(blocks) + 0.5) * block
    ends = np.cumsum(durations)
    which = np.minimum(np.searchsorted(ends, middles, side="right"), len(durations) - 1)
    spoken = [PHONEMES[each] for each in phonemes]
    done = np.clip(1 - (ends[which] - middles) / np.array(durations)[which], 0, 1)
    start = np.array([each.formants for each in spoken])[which]
    end = np.array([each.glide or each.formants for each in spoken])[which]
    closed = done < np.array([each.closure for each in spoken])[which]
    track = np.empty((blocks, 7))
    track[:, :3] = voice.tract * (start + (end - start) * done[:, None])
    track[:, 3] = voice.tract * _FOURTH
    track[:, 4] = np.array([each.voice for each in spoken])[which] * np.where(closed, 0.5, 1.0)
    track[:, 5] = np.where(closed, 0.0, np.array([each.noise for each in spoken])[which])
    track[:, 6] = np.array([each.noise_hz for each in spoken])[which]
    width = max(1, round(_TRANSITION_S * _BLOCKS_A_SECOND))
    kernel = np.ones(width) / width
    # The formants glide; the friction's place and its start stay sharp.
    for column in range(5):
        padded = np.pad(track[:, column], (width // 2, (width - 1) // 2), mode="edge")
        track[:, column] = np.convolve(padded, kernel, mode="valid")
    return track


def _pulses(samples: int, voice: Voice, sample_rate: int, random: np.random.Generator) -> np.ndarray:
    """The derivative of the glottal flow: one Rosenberg pulse a period, with a pitch that falls through the
    sentence and trembles a little."""
    time = np.arange(samples + 1) / sample_rate
    seconds = max(time[-1], 1e-9)
    pitch = voice.pitch_hz * (1.08 - 0.16 * time / seconds)
    pitch = pitch * (1 + 0.02 * np.sin(2 * np.pi * (3 * time + random.random())))
    phase = np.cumsum(pitch / sample_rate) % 1.0
    rising, falling = phase < 0.4, (phase >= 0.4) & (phase < 0.56)
    flow = np.where(rising, 0.5 * (1 - np.cos(np.pi * phase / 0.4)), 0.0)
    flow = np.where(falling, np.cos(np.pi * (phase - 0.4) / 0.32), flow)
    return np.diff(flow) * sample_rate / (voice.pitch_hz * 16)


def _resonators(
    centres: np.ndarray, bandwidths: np.ndarray, sample_rate: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each block the numerator and denominator of resonators in series, Float[block, resonator] in Hz,
    each with gain 1 at 0 Hz (Klatt 1980, equation 2)."""
    radius = np.exp(-np.pi * bandwidths / sample_rate)
    first = -2 * radius * np.cos(2 * np.pi * centres / sample_rate)
    second = np.broadcast_to(radius**2, first.shape)
    gain = np.prod(1 + first + second, axis=1, keepdims=True)
    denominators = np.ones((len(centres), 1))
    for each in range(centres.shape[1]):
        longer = np.pad(denominators, ((0, 0), (0, 2)))
        longer[:, 1:-1] += first[:, each, None] * denominators
        longer[:, 2:] += second[:, each, None] * denominators
        denominators = longer
    return list(zip(gain, denominators, strict=True))
