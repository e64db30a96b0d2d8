"""Files that people bring: their encoding, their lines, and the names in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpulab_recipes.common.errors import ConfigError, DataError
from tpulab_recipes.common.inputs import (
    checked_count,
    checked_share,
    decoded,
    name_within,
    read_json,
    read_lines,
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_in_unicode_is_read_and_its_byte_order_mark_is_removed(encoding: str, tmp_path: Path) -> None:
    """Cases D01 and D02."""
    (tmp_path / "a").write_bytes("one é\r\ntwo 😀\n".encode(encoding))
    assert read_lines(tmp_path / "a") == [(1, "one é"), (2, "two 😀")]


def test_text_in_another_encoding_is_named_with_its_line_and_never_changed() -> None:
    """Case D02."""
    for code, hint in (("cp1252", "cp1252"), ("gbk", "gb18030")):
        words = {"cp1252": "café", "gbk": "你好世界"}[code]
        with pytest.raises(
            DataError, match=rf"list, line 2: byte \d+ is not UTF-8 .*{hint}.*save .* as UTF-8"
        ):
            decoded(f"one\n{words} two".encode(code), "list")
    with pytest.raises(DataError, match="line 1: it has a NUL character, as UTF-16"):
        decoded("plain".encode("utf-16-le"), "list")
    with pytest.raises(DataError, match=r"line 1: byte \d+ is not UTF-16"):
        decoded(b"\xff\xfea\0b", "list")


def test_only_line_feeds_and_returns_end_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("a\x0bb\x0c\u2028c\x85d\re\r\n\r\n f\n".encode())
    assert read_lines(tmp_path / "a") == [(1, "a\x0bb\x0c\u2028c\x85d"), (2, "e"), (4, " f")]


def test_names_stay_in_their_folder_and_occur_once() -> None:
    """Case D04."""
    assert name_within("spk1/clip1") == "spk1/clip1"
    assert [name_within(each, suffix=".wav") for each in (" clip3 ", '"clip6"', "clip2.WAV")] == [
        "clip3",
        "clip6",
        "clip2",
    ]
    for name in ("../clip5", "a/../../b", "/etc/clip7", "C:\\voice\\a", "..\\a"):
        with pytest.raises(DataError, match="leads out of the folder"):
            name_within(name)
    for name in ("", " ", '""', "a\0b"):
        with pytest.raises(DataError, match="is not a name"):
            name_within(name)
    with pytest.raises(DataError, match="occurs a second time"):
        name_within(" clip4", {"clip4"})


def test_shares_and_counts_have_a_range() -> None:
    """Case D09."""
    for value in (float("nan"), -0.5, 1.0, 2.0, float("inf")):
        with pytest.raises(ConfigError, match=r"held_out: .* 0 to below 1; give --held-out"):
            checked_share("held_out", value)
    assert checked_share("held_out", 0.0) == 0.0
    with pytest.raises(ConfigError, match=r"save_every_epoch: 0 .* give --save-every-epoch at least 1"):
        checked_count("save_every_epoch", 0)


def test_json_is_read_in_any_unicode_and_must_be_an_object(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes('{"é": 1}'.encode("utf-16"))
    assert read_json(tmp_path / "a.json") == {"é": 1}
    for written in ("[1]", '{"a": ', ""):
        (tmp_path / "a.json").write_text(written)
        with pytest.raises(ConfigError, match=r"a\.json (cannot be read as JSON|must hold a JSON object)"):
            read_json(tmp_path / "a.json", "voice")


def test_json_with_a_key_twice_or_nested_without_end_is_named(tmp_path: Path) -> None:
    """Of two values one would be used silently; the nesting ended with a RecursionError."""
    for written, output in (
        ('{"a": {"b": 1, "b": 2}}', "the key 'b' occurs twice"),
        ("[" * 5000, "recursion"),
    ):
        (tmp_path / "a.json").write_text(written)
        with pytest.raises(ConfigError, match=rf"voice: \S+a\.json cannot be read as JSON: .*{output}"):
            read_json(tmp_path / "a.json", "voice")


def test_a_table_that_is_a_pointer_or_a_page_is_named_with_its_kind(tmp_path: Path) -> None:
    """Each of its lines was left out by itself."""
    for written, output in (
        ("version https://git-lfs.github.com/spec/v1\noid sha256:11\n", "is a Git LFS pointer"),
        ("<!DOCTYPE html>\n<title>404</title>\n", "is an HTML page"),
    ):
        (tmp_path / "metadata.csv").write_text(written)
        with pytest.raises(DataError, match=rf"metadata\.csv {output}"):
            read_lines(tmp_path / "metadata.csv")
