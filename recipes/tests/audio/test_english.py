"""English texts to ARPABET against CMUdict, and exact times of a corpus that sounds like a person."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("hibari")

from tpulab_recipes.audio.english import phonemes_of
from tpulab_recipes.audio.spoken import SpokenSettings, SpokenVoice, sentences, write_spoken_corpus
from tpulab_recipes.english_tts.data import SYMBOLS

#: From CMUdict 0.7b (BSD).
CMUDICT = {
    "birch": "B ER1 CH",
    "canoe": "K AH0 N UW1",
    "thrown": "TH R OW1 N",
    "measure": "M EH1 ZH ER0",
    "azure": "AE1 ZH ER0",
    "joy": "JH OY1",
    "church": "CH ER1 CH",
    "judge": "JH AH1 JH",
    "colonel": "K ER1 N AH0 L",
    "Wednesday": "W EH1 N Z D EY2",
    "island": "AY1 L AH0 N D",
    "knight": "N AY1 T",
    "around": "ER0 AW1 N D",
    "letter": "L EH1 T ER0",
    "question": "K W EH1 S CH AH0 N",
    "yesterday": "Y EH1 S T ER0 D EY2",
    "machine": "M AH0 SH IY1 N",
    "Thursday": "TH ER1 Z D EY2",
    "enough": "IH0 N AH1 F",
    "book": "B UH1 K",
    "the": "DH AH0",
    "think": "TH IH1 NG K",
    "house": "HH AW1 S",
    "garage": "G ER0 AA1 ZH",
}


def test_words_are_read_as_in_cmudict() -> None:
    assert {word: " ".join(phonemes_of(word)) for word in CMUDICT} == CMUDICT


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Dr. Smith paid $3.50.", "Doctor Smith paid three dollars and fifty cents."),
        ("At 10:30 on May 5th, 1998!", "At ten thirty on May fifth, nineteen ninety eight!"),
        ("3/4 cup & 50%?", "Three quarters cup and fifty percent?"),
    ],
)
def test_numbers_and_abbreviations_are_spoken(written: str, spoken: str) -> None:
    plain = [each.rstrip("012") for each in phonemes_of(written)]
    assert plain == [each.rstrip("012") for each in phonemes_of(spoken)]


def test_a_homograph_is_read_by_its_sentence() -> None:
    read = phonemes_of("I read the book; I will read more.")
    assert "".join(read).count("REH1D") == "".join(read).count("RIY1D") == 1
    assert phonemes_of("你好") == phonemes_of("") == []
    assert set(phonemes_of("Zebulonium isn't well-known, at https://x.com.")) <= set(SYMBOLS)


def test_the_times_of_a_spoken_sentence_fill_it(tmp_path: Path) -> None:
    voice, text = SpokenVoice(), "Before breakfast, George found a good book."
    made = voice.utterance("one", text, 16_000)
    assert made.text == text
    starts, ends = ([getattr(each, side) for each in made.phones] for side in ("start", "end"))
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == len(made.wave)
    spoken = [each for each in phonemes_of(text) if each[0].isalpha()]
    assert [each.label for each in made.phones if each.label != "sil"] == spoken
    # Silent where it says so: at the ends, and where the comma is.
    quiet = [made.wave[each.start : each.end] for each in made.phones if each.label == "sil"]
    assert len(quiet) == 3
    loudness = np.sqrt(np.mean(made.wave**2))
    assert all(np.sqrt(np.mean(part**2)) < 0.5 * loudness for part in quiet)
    settings = SpokenSettings(count=2, sample_rate=16_000)
    assert write_spoken_corpus(tmp_path, settings) == sum(
        len(voice.utterance("", each, 16_000).wave) for each in sentences(settings)
    )


def test_long_numbers_are_read_digit_by_digit() -> None:
    assert phonemes_of("9" * 40) == phonemes_of("nine " * 40)
    assert phonemes_of("12,000") == phonemes_of("twelve thousand")


def test_sentences_differ_and_depend_on_the_seed() -> None:
    found = list(sentences(SpokenSettings(count=300)))
    assert len(set(found)) == 300
    assert found[:50] == list(sentences(SpokenSettings(count=50)))
    assert found[:50] != list(sentences(SpokenSettings(count=50, seed=1)))
