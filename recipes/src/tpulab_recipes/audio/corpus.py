"""A small corpus without a download: sentences, phonemes with exact durations, sound made from formants.

Not speech, but learnable like it: each phoneme sounds the same wherever it stands, and speakers differ in
pitch, vocal tract and speed. An utterance depends on the seed and its number alone. `write_corpus` writes
what the voice recipes read, around one folder of sound:

    audio/utt_0000.wav                        16 bits, mono
    audio_prompts/utt_0000_prompt.txt         [S1] the text (Dia)
    corpus.list                               audio/utt_0000.wav|speaker|EN|text (GPT-SoVITS)
    metadata.csv, TextGrid/utt_0000.TextGrid  LJSpeech's table, and tiers `words` and `phones` (English TTS)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tpulab_recipes.audio.files import save
from tpulab_recipes.audio.formants import VOICES, Speaker, synthesise
from tpulab_recipes.audio.phonemes import LEXICON, PHONEMES, SILENCE
from tpulab_recipes.common.errors import DataError


@dataclass(frozen=True)
class CorpusSettings:
    count: int = 200
    """Utterances."""
    seed: int = 0
    sample_rate: int = 22_050
    hop: int = 256
    """Each phoneme lasts a whole number of frames of so many samples: durations are exact in both units."""
    speakers: int = 4
    """How many of `VOICES` speak, in turn."""

    def __post_init__(self) -> None:
        if not 1 <= self.speakers <= len(VOICES):
            raise ValueError(f"speakers must be between 1 and {len(VOICES)}, not {self.speakers}.")
        if self.count < 1 or self.hop < 1:
            raise ValueError("count and hop must be at least 1.")
        if self.sample_rate < 8000:
            raise ValueError(f"formants need at least 8000 Hz, not {self.sample_rate}.")


@dataclass(frozen=True)
class Interval:
    """A word or phoneme and where it stands, in samples."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Utterance:
    name: str
    voice: Speaker
    words: tuple[str, ...]
    phones: tuple[Interval, ...]
    """Without gaps, from 0 to the last sample, silence at both ends."""
    word_spans: tuple[Interval, ...]
    wave: np.ndarray
    """Float32[sample]."""
    sample_rate: int

    @cached_property
    def text(self) -> str:
        sentence = " ".join(self.words)
        return f"{sentence[0].upper()}{sentence[1:]}."

    @property
    def phonemes(self) -> tuple[str, ...]:
        return tuple(each.label for each in self.phones)

    @property
    def durations(self) -> tuple[int, ...]:
        """Samples of each phoneme; together all samples."""
        return tuple(each.end - each.start for each in self.phones)


def utterance(settings: CorpusSettings, number: int) -> Utterance:
    """The utterance with that number; it does not depend on the other utterances."""
    random = np.random.default_rng([settings.seed, number])
    voice = VOICES[number % settings.speakers]
    words = _sentence(random)
    phones, spans, now = [], [], 0

    def add(label: str) -> None:
        nonlocal now
        seconds = PHONEMES[label].ms / 1000 / voice.rate * random.uniform(0.85, 1.2)
        frames = max(1, round(seconds * settings.sample_rate / settings.hop))
        phones.append(Interval(label, now, now + frames * settings.hop))
        now += frames * settings.hop

    add(SILENCE)
    for word, labels in words:
        began = now
        for label in labels:
            add(label)
        spans.append(Interval(word, began, now))
    add(SILENCE)
    wave = synthesise(
        [each.label for each in phones],
        [each.end - each.start for each in phones],
        voice,
        settings.sample_rate,
        random,
    )
    return Utterance(
        f"utt_{number:04d}",
        voice,
        tuple(word for word, _ in words),
        tuple(phones),
        tuple(spans),
        wave,
        settings.sample_rate,
    )


def utterances(settings: CorpusSettings) -> Iterator[Utterance]:
    """All utterances, generated one at a time."""
    return (utterance(settings, number) for number in range(settings.count))


def write_corpus(folder: str | Path, settings: CorpusSettings) -> int:
    """Writes the corpus into `folder` and returns its length in samples. Existing files are overwritten.

    Raises `DataError` when the folder cannot be written.
    """
    return write_utterances(folder, utterances(settings), asdict(settings))


def write_utterances(folder: str | Path, corpus: Iterable[Utterance], settings: Mapping[str, Any]) -> int:
    """Writes these utterances, and last `corpus.json` with the settings; returns their length in samples.

    Raises `DataError` when the folder cannot be written.
    """
    root, total = Path(folder), 0
    try:
        for place in ("audio", "audio_prompts", "TextGrid"):
            (root / place).mkdir(parents=True, exist_ok=True)
        listed, table = [], []
        for each in corpus:
            save(root / "audio" / f"{each.name}.wav", each.wave, each.sample_rate)
            (root / "audio_prompts" / f"{each.name}_prompt.txt").write_text(f"[S1] {each.text}\n")
            _write_text_grid(root / "TextGrid" / f"{each.name}.TextGrid", each)
            listed.append(f"audio/{each.name}.wav|{each.voice.name}|EN|{each.text}")
            table.append(f"{each.name}|{each.text}|{each.text}")
            total += len(each.wave)
        for name, lines in (
            ("corpus.list", listed),
            ("metadata.csv", table),
            ("corpus.json", [json.dumps(dict(settings))]),
        ):
            (root / name).write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise DataError(f"the corpus cannot be written to {root}: {error}") from error
    return total


def _sentence(random: np.random.Generator) -> list[tuple[str, list[str]]]:
    """Words with their phonemes, for example "the red bird finds a boat near my house"."""
    pattern = ["determiner", "adjective", "noun", "verb", "determiner", "noun"]
    if random.random() < 0.5:
        pattern += ["preposition", "determiner", "noun"]
    words = []
    for part in pattern:
        choices = list(LEXICON[part].items())
        word, phonemes = choices[int(random.integers(len(choices)))]
        words.append((word, phonemes.split()))
    return words


def _write_text_grid(path: Path, each: Utterance) -> None:
    """Tiers `words` and `phones` in seconds, as forced aligners write them."""
    from praatio import textgrid
    from praatio.utilities.constants import Interval as PraatInterval

    end = len(each.wave) / each.sample_rate
    grid = textgrid.Textgrid(0, end)
    for tier, intervals in (("words", each.word_spans), ("phones", each.phones)):
        entries = [
            PraatInterval(one.start / each.sample_rate, one.end / each.sample_rate, one.label)
            for one in intervals
        ]
        grid.addTier(textgrid.IntervalTier(tier, entries, 0, end))
    grid.save(str(path), format="long_textgrid", includeBlankSpaces=True)
