"""A bucket in memory that behaves like Google's: a folder without objects does not exist, and an object
exists once its upload is closed, with the content written until then."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

OBJECTS: dict[str, bytes] = {}


class Bucket(AbstractFileSystem):  # type: ignore[misc]
    protocol = "bucket"
    cachable = False
    #: Raised by every operation when set.
    fault: Exception | None = None

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        self._fail()
        start = self._strip_protocol(path).rstrip("/")
        if start in OBJECTS:
            return [self._entry(start)]
        inside = [name for name in OBJECTS if name.startswith(start + "/")]
        if not inside:
            raise FileNotFoundError(start)
        entries: dict[str, Any] = {}
        for name in inside:
            child, *deeper = name[len(start) + 1 :].split("/")
            full = posixpath.join(start, child)
            entries[full] = {"name": full, "size": 0, "type": "directory"} if deeper else self._entry(full)
        return list(entries.values()) if detail else sorted(entries)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Nothing: a bucket has no folders."""

    def _entry(self, name: str) -> dict[str, Any]:
        return {"name": name, "size": len(OBJECTS[name]), "type": "file"}

    def _fail(self) -> None:
        if self.fault:
            raise self.fault

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        self._fail()
        more.pop("block_size", None)
        if mode == "rb" and path not in OBJECTS:
            raise FileNotFoundError(path)
        return BucketFile(self, path, mode, block_size=64, **more)


class BucketFile(AbstractBufferedFile):  # type: ignore[misc]
    """Uploads in pieces of 64 bytes."""

    def _initiate_upload(self) -> None:
        self.pieces: list[bytes] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        self.pieces.append(self.buffer.getvalue())
        if final:
            OBJECTS[self.path] = b"".join(self.pieces)
        return True

    def _fetch_range(self, start: int, end: int) -> bytes:
        return OBJECTS[self.path][start:end]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """What lies in the bucket, by path; `bucket://…` leads there."""
    fsspec.register_implementation("bucket", Bucket, clobber=True)
    monkeypatch.setattr(Bucket, "fault", None)
    OBJECTS.clear()
    yield OBJECTS
    OBJECTS.clear()
