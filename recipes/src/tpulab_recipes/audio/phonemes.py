"""The phonemes of the small corpus: ARPABET without stress, each with what a formant synthesiser needs.

Vowel formants are the averages of men in Peterson & Barney 1952 (J. Acoust. Soc. Am. 24, table II);
consonants have rough targets that distinguish them. Durations are plausible for careful speech.
"""

from __future__ import annotations

from dataclasses import dataclass

SILENCE = "sil"


@dataclass(frozen=True)
class Phoneme:
    formants: tuple[float, float, float]
    """Hz, for a vocal tract of 17.5 cm."""
    ms: float
    """Mean duration."""
    voice: float = 1.0
    """How loud the vocal folds are, from 0 to 1."""
    noise: float = 0.0
    """How loud the friction is."""
    noise_hz: float = 4000.0
    """Where the friction is loudest."""
    glide: tuple[float, float, float] | None = None
    """Formants at the end of a diphthong."""
    closure: float = 0.0
    """Share of the duration for which the mouth is closed, before a burst of friction."""


_IY, _UH, _AA, _AO, _EH = (
    (270, 2290, 3010),
    (440, 1020, 2240),
    (730, 1090, 2440),
    (570, 840, 2410),
    (530, 1840, 2480),
)

PHONEMES: dict[str, Phoneme] = {
    SILENCE: Phoneme((500, 1500, 2500), 150, voice=0),
    "IY": Phoneme(_IY, 120),
    "IH": Phoneme((390, 1990, 2550), 90),
    "EH": Phoneme(_EH, 110),
    "AE": Phoneme((660, 1720, 2410), 130),
    "AA": Phoneme(_AA, 140),
    "AO": Phoneme(_AO, 130),
    "UH": Phoneme(_UH, 90),
    "UW": Phoneme((300, 870, 2240), 120),
    "AH": Phoneme((640, 1190, 2390), 90),
    "ER": Phoneme((490, 1350, 1690), 120),
    "EY": Phoneme(_EH, 150, glide=_IY),
    "AY": Phoneme(_AA, 170, glide=_IY),
    "OW": Phoneme(_AO, 150, glide=_UH),
    "AW": Phoneme(_AA, 170, glide=_UH),
    "M": Phoneme((250, 1000, 2200), 70, voice=0.4),
    "N": Phoneme((250, 1600, 2500), 65, voice=0.4),
    "NG": Phoneme((250, 2000, 2700), 75, voice=0.4),
    "L": Phoneme((360, 1100, 2600), 70, voice=0.6),
    "R": Phoneme((350, 1150, 1500), 70, voice=0.6),
    "W": Phoneme((300, 700, 2200), 70, voice=0.6),
    "Y": Phoneme((280, 2250, 3000), 60, voice=0.6),
    "S": Phoneme((400, 1700, 2600), 110, voice=0, noise=0.7, noise_hz=6000),
    "SH": Phoneme((400, 1900, 2600), 110, voice=0, noise=0.8, noise_hz=3000),
    "F": Phoneme((400, 1200, 2300), 100, voice=0, noise=0.3, noise_hz=7500),
    "TH": Phoneme((400, 1400, 2500), 90, voice=0, noise=0.3, noise_hz=7000),
    "HH": Phoneme((500, 1500, 2500), 70, voice=0, noise=0.4, noise_hz=1500),
    "Z": Phoneme((300, 1700, 2600), 90, voice=0.4, noise=0.5, noise_hz=6000),
    "V": Phoneme((300, 1200, 2300), 70, voice=0.5, noise=0.2, noise_hz=7500),
    "DH": Phoneme((300, 1400, 2500), 60, voice=0.5, noise=0.15, noise_hz=7000),
    "P": Phoneme((400, 900, 2300), 90, voice=0, noise=0.6, noise_hz=900, closure=0.6),
    "T": Phoneme((400, 1700, 2600), 90, voice=0, noise=0.7, noise_hz=4500, closure=0.6),
    "K": Phoneme((300, 1900, 2400), 95, voice=0, noise=0.7, noise_hz=2000, closure=0.6),
    "B": Phoneme((250, 900, 2300), 75, voice=0.3, noise=0.4, noise_hz=900, closure=0.7),
    "D": Phoneme((250, 1700, 2600), 75, voice=0.3, noise=0.5, noise_hz=4500, closure=0.7),
    "G": Phoneme((250, 1900, 2400), 80, voice=0.3, noise=0.5, noise_hz=2000, closure=0.7),
    "CH": Phoneme((400, 1900, 2600), 120, voice=0, noise=0.8, noise_hz=3200, closure=0.4),
}

#: The words of the sentences, with part of speech and phonemes.
LEXICON: dict[str, dict[str, str]] = {
    "determiner": {"the": "DH AH", "a": "AH", "one": "W AH N", "my": "M AY"},
    "adjective": {
        "small": "S M AO L",
        "red": "R EH D",
        "green": "G R IY N",
        "quick": "K W IH K",
        "cheap": "CH IY P",
        "warm": "W AO R M",
        "good": "G UH D",
        "new": "N UW",
    },
    "noun": {
        "bird": "B ER D",
        "house": "HH AW S",
        "fish": "F IH SH",
        "king": "K IH NG",
        "boat": "B OW T",
        "moon": "M UW N",
        "path": "P AE TH",
        "cat": "K AE T",
        "car": "K AA R",
        "voice": "V OW S",
        "road": "R OW D",
    },
    "verb": {
        "sees": "S IY Z",
        "finds": "F AY N D Z",
        "likes": "L AY K S",
        "made": "M EY D",
        "gave": "G EY V",
        "took": "T UH K",
        "has": "HH AE Z",
        "uses": "Y UW Z IH Z",
    },
    "preposition": {"near": "N IH R", "with": "W IH TH", "from": "F R AH M", "under": "AH N D ER"},
}

#: The phonemes of each word, whatever its part of speech.
PRONUNCIATIONS: dict[str, tuple[str, ...]] = {
    word: tuple(spoken.split()) for words in LEXICON.values() for word, spoken in words.items()
}
