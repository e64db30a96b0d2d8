"""Chinese texts to the phonemes of GPT-SoVITS, as its `text/chinese.py` (v1) and `chinese2.py` (v2) without
the network g2pW, which is a download: words from jieba, syllables from pypinyin.

Numbers, dates, units and tones follow PaddleSpeech's rules (Apache-2.0), from which the original has them,
and the lists of words are that project's.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from tpulab_recipes.common.errors import ConfigError, MissingPackage

PUNCTUATION = "!?…,.-"
#: Words of two characters, the second without a tone (light), or whose 儿 melts into the character before it
#: (melts), with their exceptions; and measure words: before one of these, 2 is read 两 (measures).
_WORDS = {
    name: frozenset(words)
    for name, *words in (
        line.split()
        for line in (files(__package__) / "chinese_words.txt").read_text("utf-8").splitlines()[1:]
    )
}
(_MEASURES,) = _WORDS["measures"]
_DIGITS = "零一二三四五六七八九"
_PLACES = {1: "十", 2: "百", 3: "千", 4: "万", 8: "亿"}
_POWERS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹ˣʸⁿ", "0123456789xyn", strict=True))
_SIGNS = {"+": "加", "-": "减", "×": "乘", "÷": "除", "=": "等于"}


def _pairs(written: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in written.split())


#: In this order: an `m` that is left is a metre, also in `mm`.
UNITS = _pairs(
    "cm2:平方厘米 cm²:平方厘米 cm3:立方厘米 cm³:立方厘米 cm:厘米 db:分贝 ds:毫秒 kg:千克 km:千米 "
    "m2:平方米 m²:平方米 m³:立方米 m3:立方米 ml:毫升 m:米 mm:毫米 s:秒"
)
_GREEK = (
    "α:阿尔法 β:贝塔 γ:伽玛 Γ:伽玛 δ:德尔塔 Δ:德尔塔 ε:艾普西龙 ζ:捷塔 η:依塔 θ:西塔 Θ:西塔 ι:艾欧塔 "
    "κ:喀帕 λ:拉姆达 Λ:拉姆达 μ:缪 ν:拗 ξ:克西 Ξ:克西 ο:欧米克伦 π:派 Π:派 ρ:肉 ς:西格玛 Σ:西格玛 "
    "σ:西格玛 τ:套 υ:宇普西龙 φ:服艾 Φ:服艾 χ:器 ψ:普赛 Ψ:普赛 ω:欧米伽 Ω:欧米伽"
)
#: Signs that remain after numbers have become words.
_REST = str.maketrans(
    _pairs(_GREEK)
    | dict(zip("①②③④⑤⑥⑦⑧⑨⑩", "一二三四五六七八九十", strict=True))
    | {"/": "每", "+": "加", "-": "减", "×": "乘", "÷": "除", "=": "等"}
)
_PAUSES = str.maketrans("：；，。！？\n·、$/—~～嗯呣", ",,,.!?.,,.,-……恩母")
_NARROW = {
    code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}


def _cardinal(digits: str) -> str:
    """`1005` as 一千零五."""

    def spoken(part: str) -> str:
        rest = part.lstrip("0")
        if len(rest) < 2:
            return ("零" if 0 < len(rest) < len(part) else "") + (_DIGITS[int(rest)] if rest else "")
        place = max(place for place in _PLACES if place < len(rest))
        return spoken(part[:-place]) + _PLACES[place] + spoken(part[-place:])

    words = spoken(digits.lstrip("0"))
    return (words[1:] if words.startswith("一十") else words) or "零"


def _one_by_one(digits: str, one: str = "一") -> str:
    """`119` as 一一九; in the number of a telephone as 幺幺九."""
    return "".join(_DIGITS[int(each)] for each in digits).replace("一", one)


def _number(written: str, minus: str = "负") -> str:
    """`-3.20` as 负三点二零."""
    whole, _, fraction = written.removeprefix("-").partition(".")
    # Of several zeros at the end, only one is spoken.
    fraction = fraction.rstrip("0") + ("0" if fraction.endswith("0") else "")
    spoken = _cardinal(whole) + (f"点{_one_by_one(fraction)}" if fraction else "")
    return minus + spoken if written.startswith("-") else spoken


Found = re.Match[str]


def _date(found: Found) -> str:
    parts = found.groupdict()
    month, day = parts["month"], parts["day"]
    output = f"{_one_by_one(parts['year'])}年" + (f"{_cardinal(month)}月" if month else "")
    return output + (_cardinal(day) + parts.get("mark", "日") if day else "")


def _times(found: Found) -> str:
    """A time or a range, whose second half hour is 三十分 unless the first is 半."""

    def two(digits: str) -> str:
        return ("零" if digits.startswith("0") else "") + _cardinal(digits)

    output, half = [], True
    groups = found.groups()
    for hour, minute, second in zip(groups[::3], groups[1::3], groups[2::3], strict=True):
        half = half and minute == "30"
        output.append(f"{_cardinal(hour)}点" + ("半" if half else f"{two(minute)}分" if int(minute) else ""))
        if second and int(second):
            output[-1] += f"{two(second)}秒"
    return "至".join(output)


def _telephone(found: Found) -> str:
    return "，".join(_one_by_one(part, "幺") for part in found[0].removeprefix("+").split("-"))


def _quantity(found: Found) -> str:
    number = _number(found[1])
    return ("两" if number == "二" else number) + (found[2] or "").replace("+", "多") + found[3]


_N, _RAISED = r"-?\d+(?:\.\d+)?", f"[{''.join(_POWERS)}]"
_CLOCK = r"([0-1]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?"
_UNIT = "|".join(["%", "°C", "℃", "度", "摄氏度", *UNITS])
_TERM = rf"{_N}{_RAISED}*|\.\d+{_RAISED}*|[A-Za-z]{_RAISED}*"
Rule = tuple[str, Callable[[Found], str]]
#: Rules that replace numbers by words, in order. Between these two lists, sums are replaced repeatedly.
_FIRST: tuple[Rule, ...] = (
    (
        r"(?P<year>\d{4}|\d{2})年(?:(?P<month>0?[1-9]|1[0-2])月)?"
        r"(?:(?P<day>0?[1-9]|[12][0-9]|30|31)(?P<mark>[日号]))?",
        _date,
    ),
    (r"(?P<year>\d{4})(?P<by>[- /.])(?P<month>0[1-9]|1[012])(?P=by)(?P<day>0[1-9]|[12][0-9]|3[01])", _date),
    (f"{_CLOCK}[~-]{_CLOCK}", _times),
    (_CLOCK, _times),
    (rf"(?:{_N}|\.\d+)(?:{_UNIT})~(?:{_N}|\.\d+)(?:{_UNIT})", lambda found: found[0].replace("~", "至")),
    (rf"({_N})(?:°C|℃|度|(摄氏度))", lambda found: _number(found[1], "零下") + (found[2] or "度")),
    ("|".join(UNITS), lambda found: UNITS[found[0]]),
)
_SUM: Rule = (rf"({_TERM})([+\-×÷=])({_TERM})", lambda found: found[1] + _SIGNS[found[2]] + found[3])
_LAST: tuple[Rule, ...] = (
    (f"{_RAISED}+", lambda found: f"的{''.join(_POWERS[each] for each in found[0])}次方"),
    (
        r"(-?)(\d+)/(\d+)",
        lambda found: f"{found[1]}{_cardinal(found[3])}分之{_cardinal(found[2])}".replace("-", "负"),
    ),
    (rf"({_N})%", lambda found: ("负" if found[1][0] == "-" else "") + f"百分之{_number(found[1], '')}"),
    (r"(?<!\d)(?:\+?86 ?)?1(?:[38]\d|5[0-35-9]|7[678]|9[89])\d{8}(?!\d)", _telephone),
    (r"(?<!\d)(?:0(?:10|2[1-3]|[3-9]\d{2})-?)?[1-9]\d{6,7}(?!\d)", _telephone),
    (r"400-?\d{3}-?\d{4}", _telephone),
    (
        rf"(?<![\d+\-×÷=])({_N})[-~]({_N})(?![\d+\-×÷=])",
        lambda found: f"{_number(found[1])}到{_number(found[2])}",
    ),
    (r"-\d+", lambda found: _number(found[0])),
    (r"\d+(?:\.\d+){2,}", lambda found: "点".join(map(_one_by_one, found[0].split(".")))),
    (r"-?\d+\.\d+|\.\d+", lambda found: _number(found[0])),
    (rf"(\d+)([多余几+])?([{_MEASURES}百千万亿]|小时|公分|微[克米]|美元|十[吨块])", _quantity),
    (r"\d{3,}", lambda found: _one_by_one(found[0], "幺")),
    (_N, lambda found: _number(found[0])),
)


@cache
def _package(name: str) -> Any:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(name.partition(".")[0], "Reading Chinese texts") from error
    if name.startswith("jieba"):
        importlib.import_module("jieba").setLogLevel(logging.CRITICAL)
    return module


def normalised(text: str) -> str:
    """Chinese characters and the original's six punctuation marks, never two of these in a row: numbers,
    units and signs are words, traditional characters are simplified, and letters and all else are removed."""
    text = re.sub(r"[—《》【】<>{}()（）#&@“”^_|\\ ]", "", text)
    parts = re.sub("([：、，；。？！,;?!]’?)", r"\1\n", text).strip().split("\n")
    output = "".join(_printed(part.strip()) for part in parts)
    return re.sub(rf"([{PUNCTUATION}])[{PUNCTUATION}]+", r"\1", output)


def _printed(part: str) -> str:
    part = _package("opencc").OpenCC("t2s").convert(part).translate(_NARROW)
    for pattern, reading in _FIRST:
        part = re.sub(pattern, reading, part)
    while re.search(_SUM[0], part):
        part = re.sub(*_SUM, part)
    for pattern, reading in _LAST:
        part = re.sub(pattern, reading, part)
    part = re.sub(r"[—《》【】<=>{}()（）#&@“”^_|\\-]", "", part.translate(_REST))
    return re.sub(rf"[^\u4e00-\u9fa5{PUNCTUATION}]+", "", part.replace("...", "…").translate(_PAUSES))


def phonemes_of(text: str, version: str) -> tuple[list[str], list[int]]:
    """Phonemes of a normalised text, and how many each of its characters has. Raises `ConfigError` for a
    character without a reading, and `MissingPackage`."""
    phonemes: list[str] = []
    counts: list[int] = []
    for sentence in re.split(f"(?<=[{PUNCTUATION}])", text):
        for word, kind in _merged(
            [(pair.word, pair.flag) for pair in _package("jieba.posseg").lcut(sentence)]
        ):
            initials, finals = _parts(word, "INITIALS"), _toned(word, kind, _parts(word, "FINALS_TONE3"))
            for initial, final in zip(initials, _melted(word, kind, finals, version), strict=True):
                found = [final] if final in PUNCTUATION else [*_syllable(initial, final[:-1], word)]
                found[-1] += final[-1] if len(found) == 2 else ""
                phonemes += found
                counts.append(len(found))
    return phonemes, counts


def _parts(word: str, style: str) -> list[str]:
    pinyin = _package("pypinyin")
    found: list[str] = pinyin.lazy_pinyin(
        word, neutral_tone_with_five=True, style=getattr(pinyin.Style, style)
    )
    return found


def _syllable(initial: str, final: str, word: str) -> tuple[str, str]:
    """pypinyin's two parts as the original's: `y` and `w` begin a syllable, and a vowel has its own."""
    if not final.isascii() or not final.isalpha():
        raise ConfigError("text", f"{word!r} cannot be read: pypinyin has no syllable for it.")
    if initial:
        short = {"uei": "ui", "iou": "iu", "uen": "un"}.get(final, final)
        if short == "i" and initial in ("z", "c", "s"):
            short = "i0"
        elif short == "i" and initial in ("zh", "ch", "sh", "r"):
            short = "ir"
        return initial, short
    if final[0] in "aeo":
        return final[0].upper() * 2, final
    if final in ("ian", "ie"):
        return "y", {"ian": "En", "ie": "E"}[final]
    whole = final[0] == "v" or final in ("i", "in", "ing", "u")
    return "w" if final[0] == "u" else "y", final if whole else final[1:]


def _merged(words: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """jieba's words with what tones need beside them: 不 and 一 with the next word, 听一听, words that are
    said twice, two short words in the third tone, and 儿 with the word before."""
    joined: list[tuple[str, str]] = []
    before = ""
    for word, kind in words:
        word = "不" + word if before == "不" else word
        if word != "不":
            joined.append((word, kind))
        before = word
    words = [*joined, ("不", "d")] if before == "不" else joined
    joined, place = [], 0
    while place < len(words):
        word, kind = words[place]
        after = words[place + 1 : place + 2]
        if word == "一" and joined and after == joined[-1:] and after[0][1] == "v":
            joined[-1] = (f"{after[0][0]}一{after[0][0]}", "v")
            place += 1
        else:
            joined.append((word, kind))
        place += 1
    words = _joined(joined, lambda last, _: last == "一")
    words = _joined(words, lambda last, word: last == word)
    for whole in (True, False):
        words = _third_tones(words, whole)
    return _joined(words, lambda _, word: word == "儿")


def _joined(words: list[tuple[str, str]], belong: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """Joins each word to the previous one where they belong together."""
    found: list[tuple[str, str]] = []
    for word, kind in words:
        if found and belong(found[-1][0], word):
            found[-1] = (found[-1][0] + word, found[-1][1])
        else:
            found.append((word, kind))
    return found


def _third_tones(words: list[tuple[str, str]], whole: bool) -> list[tuple[str, str]]:
    """Joins two words of three characters at most in the third tone, as a whole or where they meet."""
    finals = [_parts(word, "FINALS_TONE3") for word, _ in words]
    places, joins = iter(range(1, len(words))), False

    def belong(_: str, word: str) -> bool:
        nonlocal joins
        place = next(places)
        last = words[place - 1][0]
        meet = finals[place - 1] + finals[place] if whole else [finals[place - 1][-1], finals[place][0]]
        fit = len(last) + len(word) <= 3 and not (len(last) == 2 and last[0] == last[1])
        joins = not joins and fit and _in_third_tone(meet)
        return joins

    return _joined(words, belong)


def _in_third_tone(finals: list[str]) -> bool:
    return all(each.endswith("3") for each in finals)


def _halves(word: str) -> tuple[str, str]:
    """The word in two parts: its shortest part, and the rest before or after that."""
    jieba = _package("jieba")
    part = min(jieba.cut_for_search(word), key=len)
    return (part, word[len(part) :]) if word.startswith(part) else (word[: -len(part)], part)


def _toned(word: str, kind: str, finals: list[str]) -> list[str]:
    """The tones as they are spoken in the word: 不 and 一, light tones, and third tones before others."""

    def say(place: int, tone: str) -> None:
        finals[place] = finals[place][:-1] + tone

    last, rest, halves = len(word) - 1, word.replace("一", ""), _halves(word)
    if len(word) == 3 and word[1] == "不":
        say(1, "5")
    for place in range(last):
        if word[place] == "不" and not (last == 2 and word[1] == "不") and finals[place + 1][-1] == "4":
            say(place, "2")
    if "一" in word and rest and not rest.isnumeric():
        if len(word) == 3 and word[1] == "一" and word[0] == word[2]:
            say(1, "5")
        elif word.startswith("第一"):
            say(1, "1")
        else:
            for place in range(last):
                if word[place] == "一" and finals[place + 1][-1] == "4":
                    say(place, "2")
                elif word[place] == "一" and word[place + 1] not in "：，；。？！“”‘’':,;.?!":
                    say(place, "4")
    for place in range(1, last + 1):
        if word[place] == word[place - 1] and kind[0] in "nva" and word not in _WORDS["not_light"]:
            say(place, "5")
    counted = word.find("个")
    if _ends_light(word, kind):
        say(-1, "5")
    elif word == "个" or (counted > 0 and (word[counted - 1].isnumeric() or word[counted - 1] in _BEFORE_GE)):
        say(counted, "5")
    elif word[-2:] in _WORDS["light"]:
        say(-1, "5")
    for part, end in ((halves[0], len(halves[0]) - 1), (halves[1], last)):
        if part[-2:] in _WORDS["light"]:
            say(end, "5")
    cut = len(halves[0])
    if len(word) == 3 and _in_third_tone(finals):
        for place in range(2 - cut, 2) if cut < 3 else ():
            say(place, "2")
    elif len(word) == 3:
        for begin, end in ((0, cut), (cut, 3)):
            if end - begin == 2 and _in_third_tone(finals[begin:end]):
                say(begin, "2")
            elif begin and not _in_third_tone(finals[cut:]) and finals[cut][-1] == finals[cut - 1][-1] == "3":
                say(cut - 1, "2")
    elif len(word) in (2, 4):
        for begin in range(0, len(word), 2):
            if _in_third_tone(finals[begin : begin + 2]):
                say(begin, "2")
    return finals


_BEFORE_GE = "几有两半多各整每做是"


def _ends_light(word: str, kind: str) -> bool:
    last, before = word[-1], word[-2:-1]
    return (
        last in "吧呢哈啊呐噻嘛吖嗨哦哒额滴哩哟喽啰耶喔诶的地得"
        or (word in ("了", "着", "过") and kind in ("ul", "uz", "ug"))
        or (bool(before) and last in "们子" and kind in ("r", "n") and word not in _WORDS["not_light"])
        or (bool(before) and last in "上下里" and kind in ("s", "l", "f"))
        or (bool(before) and last in "来去" and before in "上下进出回过起开")
    )


def _melted(word: str, kind: str, finals: list[str], version: str) -> list[str]:
    """儿 in the tone of the character that it melts into; v1 leaves it alone."""
    if version == "v1" or word[-1] != "儿" or not finals[-1].startswith("er"):
        return finals
    if finals[-1] == "er1":
        finals[-1] = "er2"
    apart = word in _WORDS["melts_not"] or kind in ("a", "j", "nr")
    if (apart and word not in _WORDS["melts"]) or len(finals) != len(word) or len(word) < 2:
        return finals
    if finals[-1] in ("er2", "er5") and word[-2:] not in _WORDS["melts_not"]:
        finals[-1] = f"er{finals[-2][-1]}"
    return finals
