"""Checks of files that people bring: what a file really is, its text, and names that stand in it."""

from __future__ import annotations

import codecs
import difflib
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import ConfigError, DataError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CODE_PAGES = ("gb18030", "shift_jis", "euc_kr", "cp1252")
#: How many bytes `foreign_kind` and `unexpected_kind` need.
HEAD = 512
#: First bytes of compressed files.
_COMPRESSED = (
    (b"\x1f\x8b", "is compressed (gzip); decompress it first"),
    (b"BZh", "is compressed (bzip2); decompress it first"),
    (b"\xfd7zXZ\x00", "is compressed (xz); decompress it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed (zstd); decompress it first"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
)


def foreign_kind(head: bytes) -> str:
    """What a file is instead of sound, an image or a checkpoint, by its first bytes, with what to do; "" for
    anything that is not obviously something else."""
    start = head[:HEAD].removeprefix(codecs.BOM_UTF8).lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        return "is an HTML page, such as a download's error page; download the file again"
    return "is empty" if not head else ""


def unexpected_kind(head: bytes) -> str:
    """As `foreign_kind`, also for compressed files, zero bytes and text: for files that are none of these."""
    known = foreign_kind(head) or next((words for mark, words in _COMPRESSED if head.startswith(mark)), "")
    if known:
        return known
    if not any(head[:HEAD]):
        return "holds only zero bytes; copy it again"
    # A character may be cut at the end.
    text = codecs.getincrementaldecoder("utf-8")()
    try:
        return "is a text file" if text.decode(head[:HEAD]).replace("\n", "").isprintable() else ""
    except UnicodeDecodeError:
        return ""


def decoded(data: bytes, shown: str) -> str:
    """The text of a file: UTF-8, or UTF-16 or UTF-32 with a byte order mark. Raises `DataError`, with the
    line, for any other encoding: guessing it would change the text silently."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fits = [page for page in _CODE_PAGES if encoding == "utf-8" and _fits(data, page)]
        perhaps = f" (its bytes fit {' or '.join(fits)})" if fits else ""
        raise DataError(
            f"{shown}, line {line}: byte {error.start} is not {encoding.upper().removesuffix('-SIG')}"
            f"{perhaps}; save the file as UTF-8."
        ) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DataError(
            f"{shown}, line {line}: it has a NUL character, as UTF-16 read without its byte order mark has; "
            "save the file as UTF-8."
        )
    return text


def _fits(data: bytes, page: str) -> bool:
    try:
        data.decode(page)
    except UnicodeDecodeError:
        return False
    return True


def read_lines(file: str | Path) -> list[tuple[int, str]]:
    """Number, from 1, and text of each line that is not blank. Only line feeds and carriage returns end
    lines: other characters that Unicode counts as line ends occur within texts. Raises `DataError`."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    if data and (kind := foreign_kind(data)):
        raise DataError(f"{file} {kind}.")
    rows = re.split(r"\r\n|\n|\r", decoded(data, str(file)))
    return [(number, row) for number, row in enumerate(rows, 1) if row.strip()]


def read_json(file: str | Path, path: str = "") -> dict[str, Any]:
    """The JSON object in a file. Raises `ConfigError`, of the setting `path` that names the file."""
    try:
        text = decoded(Path(file).read_bytes(), str(file))
        written = json.loads(text, object_pairs_hook=_each_key_once)
    except (OSError, ValueError, DataError, RecursionError) as error:
        raise ConfigError(path, f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(written, dict):
        raise ConfigError(path, f"{file} must hold a JSON object.")
    return written


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def require_valid_key(key: str, keys: Collection[str], file: str | Path, section: str = "") -> None:
    """Raises `ConfigError` with the nearest of `keys` for an unknown key."""
    if key in keys:
        return
    nearest = difflib.get_close_matches(key, list(keys), 1)
    meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(keys)}."
    raise ConfigError(f"{section}.{key}".lstrip("."), f"{file}: there is no such key; {meant}")


def name_within(name: str, taken: Collection[str] = (), suffix: str = "") -> str:
    """A name of a file below a folder, without spaces and quotes around it and without `suffix`. Raises
    `DataError` for a name that is empty, in `taken`, or leads out of the folder."""
    plain = name.strip().strip('"').strip()
    if suffix and plain.lower().endswith(suffix):
        plain = plain[: -len(suffix)]
    parts = re.split(r"[/\\]", plain)
    if not plain or "\0" in plain:
        raise DataError(f"{name!r} is not a name.")
    if ".." in parts or not parts[0] or re.match(r"^[A-Za-z]:", plain):
        raise DataError(f"{name!r} leads out of the folder; give a name within it.")
    if plain in taken:
        raise DataError(f"{plain!r} occurs a second time; only the first is used.")
    return plain


def checked_share(path: str, value: float) -> float:
    """`value`, a share from 0 to below 1. Raises `ConfigError`."""
    if not 0 <= value < 1:
        raise ConfigError(path, f"{value} is not from 0 to below 1; give --{path.replace('_', '-')} a share.")
    return value


def checked_count(path: str, value: int, least: int = 1) -> int:
    if value < least:
        raise ConfigError(path, f"{value} is not possible; give --{path.replace('_', '-')} at least {least}.")
    return value
