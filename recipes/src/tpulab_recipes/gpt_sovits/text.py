"""The phonemes of GPT-SoVITS and their numbers, v1 and v2 (RVC-Boss/GPT-SoVITS 48b1a01, `text/symbols*.py`).

English texts are read here (`audio.english`). Other languages need the original's first step, which has a
dictionary for each: its result (`2-name2text.txt`) is read if it exists. Texts may hold phonemes in braces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tpulab_recipes.audio import english
from tpulab_recipes.common.errors import ConfigError, DataError

_PUNCTUATION = "! ? … , . -"
_INITIALS = "AA EE OO b c ch d f g h j k l m n p q r s sh t w x y z zh"
_FINALS = (
    "E En a ai an ang ao e ei en eng er i i0 ia ian iang iao ie in ing iong ir iu o ong ou u ua uai uan uang "
    "ui un uo v van ve vn"
)
_JAPANESE = "I N U a b by ch cl d dy e f g gy h hy i j k ky m my n ny o p py r ry s sh t ts u v w y z"
_ARPA_VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
_ARPA_OTHER = "ER IH B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
_KOREAN = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎㄲㄸㅃㅆㅉㅏㅓㅗㅜㅡㅣㅐㅔ空停"
#: Cantonese, each with Y before it; those with a tone have six, those marked * also stand without one.
_CANTONESE_PLAIN = "b c d f gw h j kw l ng s w z"
_CANTONESE = (
    "a* aa* aai aak aam aan aang aap aat aau ai* ak* am an ang ap at au* e* ei ek eng eoi eon eot g* i ik im "
    "in ing ip it iu k* m* n* o* oe oek oeng oi* ok* on* ong ot ou* p* t* u ui uk* un ung ut yu yun yut"
)


@cache
def symbols(version: str) -> tuple[str, ...]:
    """All phonemes of v1 or v2, in the order of their numbers; those of v1 begin those of v2."""
    tones = {f"{final}{tone}" for final in _FINALS.split() for tone in range(1, 6)}
    stressed = {f"{vowel}{stress}" for vowel in _ARPA_VOWELS.split() for stress in range(3)}
    plain = f"_ SP SP2 SP3 UNK {_PUNCTUATION} {_INITIALS} {_JAPANESE} {_ARPA_OTHER}".split()
    first = sorted({*plain, *tones, *stressed})
    if version == "v1":
        return tuple(first)
    cantonese = {f"Y{each}" for each in _CANTONESE_PLAIN.split()}
    for each in _CANTONESE.split():
        base = each.removesuffix("*")
        cantonese |= {f"Y{base}{tone}" for tone in range(1, 7)} | ({f"Y{base}"} if base != each else set())
    return (*first, "[", "]", *sorted(_KOREAN), *sorted(cantonese))


def numbers_of(phonemes: Sequence[str], version: str) -> list[int]:
    """Raises `DataError` for what is no phoneme of that version."""
    table = _numbers(version)
    unknown = [each for each in phonemes if each not in table]
    if unknown:
        raise DataError(f"{', '.join(unknown[:5])}: no phoneme of {version} (`gpt_sovits.text.symbols`).")
    return [table[each] for each in phonemes]


@cache
def _numbers(version: str) -> dict[str, int]:
    return {symbol: number for number, symbol in enumerate(symbols(version))}


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text; a title as in `Mr. Smith` ends none."""
    parts = re.split(r"(?<=[.!?…])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)\s+|\n+", text)
    return [part.strip() for part in parts if re.search(r"\w", part)]


def phonemes_of(text: str) -> list[str]:
    """The phonemes of an English text, read by `audio.english`, and `{HH AH0 L OW1}` as written.

    Raises `ConfigError` for a text without words, and for letters that are not English.
    """
    plain = re.sub(r"\{[^}]*\}", " ", text)
    if foreign := re.search(r"[^\W\d_\u0000-\u024f]", plain):
        raise ConfigError(
            "text",
            f"{foreign[0]!r} is no English letter; write phonemes in braces, as {{HH AH0 L OW1}}. For "
            "prepare, the original's 2-name2text.txt in the output folder has other languages too.",
        )
    found = ["," if each in (";", ":") else each for each in english.phonemes_of(text)]
    if not any(each[0].isalnum() for each in found):
        raise ConfigError("text", f"{text!r} has no phonemes.")
    return found
