"""English texts to ARPABET, offline: hibari's front end (misaki's lexicon and rules; Apache-2.0) reads
numbers, dates, money, abbreviations, homographs and unknown words; a table turns its phonemes into ARPABET
with the stress marks of CMUdict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tpulab_recipes.common.errors import MissingPackage


def _table(pairs: str) -> dict[str, str]:
    """`A:EY I:AY` as a dictionary."""
    return dict(pair.split(":") for pair in pairs.split())


#: Misaki's vowels (one character each) and ARPABET's. A reduced vowel is AH0 or IH0, as in CMUdict.
_VOWELS = _table(
    "A:EY I:AY O:OW W:AW Y:OY a:AA i:IY u:UW ɑ:AA ɐ:AH ɒ:AA æ:AE ɔ:AO ə:AH ɚ:ER ɛ:EH ɜ:ER ɪ:IH "
    "ʊ:UH ʌ:AH ᵊ:AH ᵻ:IH e:EH o:OW"
)
_CONSONANTS = _table("T:T ɾ:T ʔ:T ŋ:NG ɹ:R r:R ʃ:SH θ:TH ð:DH j:Y ʒ:ZH ʧ:CH ʤ:JH ɡ:G h:HH x:K") | {
    each: each.upper() for each in "bdfklmnpstvwz"
}
_STRESS = {"ˈ": "1", "ˌ": "2"}
#: The marks that are pauses, as GPT-SoVITS and LJSpeech write them.
_MARKS = {each: each for each in ".,!?;:"} | {"…": ".", "—": ","}
#: Phones of the Montreal Forced Aligner's IPA models (`english_mfa`), without diacritics, that misaki lacks.
_MFA = _table("aj:AY aw:AW ej:EY ow:OW əw:OW ɔj:OY dʒ:JH tʃ:CH ɝ:ER ʉ:UW ɫ:L ɱ:M ɲ:N ʎ:L c:K ɟ:G ç:HH g:G")
_LONG_NUMBER = re.compile(r"\d(?:,?\d){15,}")
_DIACRITICS = re.compile("[ʰʲʷː\u0303\u0306\u0325\u0329\u032a\u032f]")


def symbols_of(phonemes: str) -> Iterator[tuple[str, int]]:
    """ARPABET's symbols of misaki's phonemes, `həlˈO.` → `HH AH0 L OW1 .`, each with the place of its last
    character. Punctuation stays; spaces, quotes and brackets do not."""
    stress = "0"
    for place, each in enumerate(phonemes):
        if each in _STRESS:
            stress = _STRESS[each]
        elif each in "ɜə" and phonemes[place + 1 : place + 2] == "ɹ":
            pass  # The r that colours a vowel (bird, letter) is one symbol with it.
        elif each == "ɹ" and phonemes[place - 1 : place] in ("ɜ", "ə"):
            yield f"ER{stress}", place
            stress = "0"
        elif each in _VOWELS:
            yield _VOWELS[each] + stress, place
            stress = "0"
        elif each in _CONSONANTS:
            yield _CONSONANTS[each], place
        elif each in _MARKS:
            yield _MARKS[each], place
        elif each == " ":
            stress = "0"


def arpabet_of_phone(phone: str) -> str:
    """`tʰ` → `T`, `ɑː` → `AA`: a phone of an IPA alignment, without stress; other labels stay as they are."""
    plain = _DIACRITICS.sub("", phone.replace("ɾ\u0303", "n"))
    return _MFA.get(plain) or _VOWELS.get(plain) or _CONSONANTS.get(plain) or phone


def phonemes_of(text: str) -> list[str]:
    """ARPABET with stress (0, 1, 2) and punctuation of an English text, `{HH AH0 L OW1}` as written; nothing
    for what English letters cannot spell. Raises `MissingPackage`."""
    found: list[str] = []
    for braces, plain in re.findall(r"\{([^}]*)\}|([^{}]+)", text):
        found += braces.split()
        if plain:
            # A long number is read digit by digit: the front end has names for 36 digits.
            spaced = _LONG_NUMBER.sub(lambda number: " ".join(number[0]), plain)
            found += (symbol for symbol, _ in symbols_of(front_end()(" ".join(spaced.split()))))
    return found


@cache
def front_end() -> Any:
    """A function from an English text to misaki's phonemes."""
    try:
        from hibari.g2p import G2P  # type: ignore[import-not-found]
    except ImportError as error:
        raise MissingPackage("hibari-tts", "Reading English texts") from error
    return G2P()
