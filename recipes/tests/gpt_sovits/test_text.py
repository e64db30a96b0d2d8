"""Texts as the original reads and cuts them: its own results are in `golden/text.json`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.gpt_sovits import chinese
from tpulab_recipes.gpt_sovits.text import parts_of, phonemes_of, read, split

TABLE: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "golden" / "text.json").read_text("utf-8")
)
needs_jieba = pytest.mark.skipif(find_spec("jieba") is None, reason="jieba is not installed")
needs_jtalk = pytest.mark.skipif(
    find_spec("pyopenjtalk") is None,
    reason="pyopenjtalk-plus is not installed (330 MB): npm run test:real has it",
)
#: Parts that the original's detector of languages calls Japanese; here, kana and Japan's characters are.
DETECTED = {"这个词的意思是ありがとう，很常用。", "2023年。"}


def _rows(language: str) -> list[dict[str, Any]]:
    found = [row for row in TABLE["sentences"] if row["language"] == language]
    assert len(found) >= 60
    return found


@needs_jieba
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_chinese_sentences_have_the_original_s_phonemes_and_word2ph(version: str) -> None:
    for row in _rows("zh"):
        normal = chinese.normalised(row["text"])
        phonemes, counts = chinese.phonemes_of(normal, version)
        wanted = row.get(version, row["v2"]).split(" ")
        found = (row["text"], normal, phonemes, "".join(map(str, counts)))
        assert found == (row["text"], row["normal"], wanted, row["word2ph"])
        assert (len(counts), sum(counts)) == (len(normal), len(phonemes))


@needs_jtalk
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_japanese_sentences_have_the_original_s_phonemes(version: str) -> None:
    for row in _rows("ja"):
        found = read(row["text"], "ja", version)
        wanted = row.get(version, row["v2"]).split(" ")
        assert (row["text"], found.text, found.phonemes) == (row["text"], row["normal"], wanted)
        assert (found.counts, found.chinese) == (None, [])


def test_parts_of_a_mixed_text_have_the_original_s_languages() -> None:
    assert len(TABLE["parts"]) >= 30
    for row in TABLE["parts"]:
        found = [list(part) for part in parts_of(row["text"], row["language"])]
        assert "".join(part for _, part in found) == row["text"]
        assert (found == row["parts"]) == (row["text"] not in DETECTED), row["text"]


def test_texts_are_cut_as_the_original_cuts_them() -> None:
    assert {row["method"] for row in TABLE["pieces"]} == {f"cut{number}" for number in range(6)}
    for row in TABLE["pieces"]:
        found = split(row["text"], row["method"], row["language"])
        assert (row["text"], row["method"], found) == (row["text"], row["method"], row["pieces"])
    assert split(" ... ", "cut5") == []
    with pytest.raises(ConfigError, match="'cut9' is not one of cut0"):
        split("Hello.", "cut9")
    assert max(map(len, split("春天的早晨，" * 400, "cut0", "zh"))) <= 510


@needs_jieba
def test_a_longest_piece_keeps_no_mark_as_a_separate_piece() -> None:
    (piece,) = split("word " * 400)
    assert piece.strip() == ("word " * 400).strip()


def test_only_chinese_parts_have_characters_for_bert() -> None:
    pytest.importorskip("hibari")
    found = read("你好，world！很好。", "zh")
    (first, second) = found.chinese
    assert (first, second[1:]) == ((0, "你好,", [2, 2, 1]), ("很好.", [2, 2, 1]))
    assert found.phonemes[first[0] : 5] == ["n", "i2", "h", "ao3", ","]
    assert found.phonemes[second[0] :] == ["h", "en2", "h", "ao3", "."]
    assert found.counts is None
    assert read("你好，世界。", "zh").counts == [2, 2, 1, 2, 2, 1]
    # A short sentence begins with a full stop, as the original speaks it, and only there.
    assert read("好。", "zh").phonemes == ["h", "ao3", "."]
    assert read("好。", "zh", complete=True).phonemes == [".", "h", "ao3", "."]
    assert phonemes_of("停￥一下^", "zh").count("SP2") == 1
    assert phonemes_of("{HH AH0}停", "zh") == ["HH", "AH0", "t", "ing2"]
    with pytest.raises(ConfigError, match="no letter of ko"):
        read("안녕", "auto")
