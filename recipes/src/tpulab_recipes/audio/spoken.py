"""A corpus that sounds like a person, without a download: plain English sentences, spoken by hibari (a small
voice distilled from Kokoro-82M, Apache-2.0, its weights inside the package), with the durations that it gave
each phoneme. It writes the same files as the synthetic corpus (`audio.corpus`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tpulab_recipes.audio.corpus import Interval, Utterance, write_utterances
from tpulab_recipes.audio.english import front_end, symbols_of
from tpulab_recipes.audio.files import resample
from tpulab_recipes.audio.formants import Speaker
from tpulab_recipes.audio.phonemes import SILENCE
from tpulab_recipes.common.errors import DataError, MissingPackage

#: The model counts durations in frames of 25 ms, at 24 kHz.
_FRAME, _RATE = 600, 24_000
#: The model's tensor of durations, which the published file does not output.
_DURATIONS = b"/Round_output_0"
_WORDS = {
    "person": (
        "my uncle|the captain|a young nurse|our neighbor|the old farmer|her brother|the lawyer|"
        "a tired driver|his teacher|the judge|my daughter|a famous singer|the baker|their cousin|"
        "the doctor|an honest clerk|the children|two strangers|George|Martha|the engineer|a soldier|"
        "the queen|every student|nobody|the guide|our chief|the washer|a shepherd"
    ),
    "did": (
        "bought|carried|found|painted|lost|repaired|measured|hid|sold|dropped|remembered|brought|"
        "chose|watched|pushed|borrowed|cleaned|described|opened|covered|loved|noticed|fetched|judged|"
        "sketched|weighed|guarded|enjoyed|polished"
    ),
    "thing": (
        "a broken chair|the yellow envelope|three fresh apples|an empty bottle|the heavy luggage|some warm "
        "bread|a leather jacket|the silver watch|an orange umbrella|thirty small stones|the wooden bridge|a "
        "measure of oil|the garage door|a bowl of soup|the first page|an unusual picture|the blue "
        "curtain|nine sharp knives|a piece of cheese|the machine|a box of matches|the thin thread|both "
        "mirrors|a huge statue|the television|an old azure vase|the church clock|a jug of juice|the youngest "
        "horse|four white feathers|the treasure|a good book"
    ),
    "place": (
        "in the kitchen|near the harbor|behind the school|under the stairs|at the station|"
        "on the beach|beside the river|across the valley|outside the theater|in a quiet village|"
        "by the fire|above the shop|in the north|over there|on the roof|through the forest|"
        "in the garage|at the edge of town|between two hills|in the usual place"
    ),
    "time": (
        "yesterday|before breakfast|in July|last Thursday|at half past eight|every winter|"
        "after the storm|this morning|twice a year|for an hour|without a word|on the fifth of May|"
        "by chance|long ago|with great pleasure|again"
    ),
    "state": (
        "looked strange|seemed quite small|proved worth the trouble|sounded very loud|"
        "became thick with age|tasted of ginger|must be measured|could not move|smelled like smoke|"
        "had vanished|gave joy to everyone|may be dangerous|felt rough|will be enough|"
        "showed a clear path|made a cheerful noise|should never be there"
    ),
}
_PATTERNS = (
    "person did thing place",
    "person did thing time",
    "thing state",
    "thing place state",
    "time , person did thing",
    "person did thing , and thing state",
    "person did the adjective noun place",
    "the adjective nouns state",
    "the noun does adjective nouns time",
    "every noun does the noun of thing",
    "thing does nouns , and the nouns state",
    "adjective nouns place state",
)
#: Common words of one kind only, from the tagger of hibari's front end: they say more than a short list can.
_TAGS = {"noun": "NN", "nouns": "NNS", "adjective": "JJ", "does": "VBZ"}


@dataclass(frozen=True)
class SpokenSettings:
    count: int = 200
    """Utterances."""
    seed: int = 0
    sample_rate: int = 22_050


def sentences(settings: SpokenSettings) -> Iterator[str]:
    """The texts, of 3 to 14 words, each once."""
    random, before = np.random.default_rng(settings.seed), set[str]()
    words = {kind: choices.split("|") for kind, choices in _WORDS.items()}
    tagged = front_end().tagger.tagdict.items()
    for kind, tag in _TAGS.items():
        words[kind] = sorted(each for each, own in tagged if own == tag and re.fullmatch("[a-z]{3,8}", each))
    while len(before) < settings.count:
        pattern = _PATTERNS[int(random.integers(len(_PATTERNS)))]
        parts = [random.choice(words[kind]) if kind in words else kind for kind in pattern.split()]
        text = " ".join(parts).replace(" ,", ",")
        text = f"{text[0].upper()}{text[1:]}."
        if text not in before:
            before.add(text)
            yield text


class SpokenVoice:
    """hibari's voice and its durations. Raises `MissingPackage`."""

    def __init__(self) -> None:
        """Repeated parts of a protobuf message are merged, so bytes appended to the file (ModelProto.graph =
        7, GraphProto.output = 12, ValueInfoProto.name = 1) add an output to the network."""
        try:
            from hibari import Hibari, dsp  # type: ignore[import-not-found]
            from hibari.voices import DEFAULT, voice_path  # type: ignore[import-not-found]
        except ImportError as error:
            raise MissingPackage("hibari-tts", "A corpus of real-sounding speech") from error
        durations = _field(7, _field(12, _field(1, _DURATIONS)))
        self._voice = Hibari(model=Path(voice_path(DEFAULT)).read_bytes() + durations, threads=1)
        self._sound_of = dsp.synth
        self.speaker = Speaker(DEFAULT)

    def utterance(self, name: str, text: str, sample_rate: int, seed: int = 0) -> Utterance:
        """One sentence and when each of its phonemes is spoken. Raises `DataError` for several sentences."""
        written = self._voice.phonemize(text)
        if len(written) != 1:
            raise DataError(f"{text!r}: give one sentence at a time.")
        phonemes = "".join(each for each in written[0] if each in self._voice.vocab)
        ids = np.asarray([self._voice.ids(phonemes)], np.int64)
        *parts, planned = self._voice.sess.run(None, {"ids": ids, "speed": np.ones(1, np.float32)})
        ends = planned.ravel().cumsum() * _FRAME
        sound = self._sound_of(*(part[0] for part in parts), np.random.default_rng(seed))
        wave = resample(sound.clip(-1, 1), _RATE, sample_rate)
        phones: list[Interval] = []

        def add(label: str, end: float) -> None:
            label = label if label[0].isalpha() else SILENCE
            start, stop = phones[-1].end if phones else 0, round(end * sample_rate / _RATE)
            if phones and phones[-1].label == label == SILENCE:
                start = phones.pop().start
            phones.append(Interval(label, start, stop))

        add(SILENCE, ends[0])
        for symbol, place in symbols_of(phonemes):
            add(symbol, ends[place + 1])
        add(SILENCE, len(wave) * _RATE / sample_rate)
        words = tuple(text.rstrip(".").split())
        return Utterance(name, self.speaker, words, tuple(phones), (), wave.clip(-1, 1), sample_rate)


def write_spoken_corpus(folder: str | Path, settings: SpokenSettings) -> int:
    """Writes the corpus into `folder` and returns its length in samples.

    Raises `DataError` and `MissingPackage`.
    """
    voice = SpokenVoice()
    made = (
        voice.utterance(f"utt_{number:04d}", text, settings.sample_rate)
        for number, text in enumerate(sentences(settings))
    )
    return write_utterances(folder, made, asdict(settings))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message, of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content
