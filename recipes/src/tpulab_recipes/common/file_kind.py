"""Names what a file is when it is not what its name promises."""

from __future__ import annotations

#: First bytes, and what a person calls such a file.
_SIGNATURES = (
    (
        b"version https://git-lfs.github.com/spec/",
        "is a Git LFS pointer, not the file itself; run `git lfs pull`",
    ),
    (b"\x1f\x8b", "is compressed (gzip); decompress it first"),
    (b"BZh", "is compressed (bzip2); decompress it first"),
    (b"\xfd7zXZ\x00", "is compressed (xz); decompress it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed (zstd); decompress it first"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
)


def unexpected_kind(head: bytes) -> str | None:
    """What a file with these first bytes is and what to do about it: the end of a sentence that begins with
    the file's name. None when the bytes do not tell. Pass the first 512 bytes."""
    if not head:
        return "is empty"
    for signature, words in _SIGNATURES:
        if head.startswith(signature):
            return words
    text = head[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<?xml")):
        return "is a web page (HTML or XML); the download probably failed, so download it again"
    if not any(head[:512]):
        return "holds only zero bytes; copy it again"
    try:
        words = head[:512].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head[:512]) - 3:
            return None
        words = head[: error.start].decode("utf-8")
    return "is a text file" if words.isprintable() or words.replace("\n", "").isprintable() else None
