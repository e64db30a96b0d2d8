"""Folders here or in a bucket (`gs://…`), through fsspec; what fails is said as a `StorageError` with a
remedy."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import uuid
from collections.abc import Iterator
from typing import IO, Any

from tpulab_recipes.ddpm.errors import MissingPackage, StorageError


class Folder:
    """A folder that may be remote. Names are relative to it."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        try:
            import fsspec

            self._fs, self._root = fsspec.core.url_to_fs(self.url)
        except ImportError as error:
            package = "gcsfs" if self.url.startswith("gs://") else (error.name or "fsspec")
            raise MissingPackage(package, f"Reading or writing {self.url}") from error
        except (ValueError, OSError) as error:
            raise StorageError(f"{self.url} cannot be opened: {error}") from error

    def path(self, name: str) -> str:
        return posixpath.join(str(self._root), name)

    def names(self, suffix: str = "") -> list[str]:
        """Files directly in the folder whose names end so, sorted. Raises `StorageError` when it does not
        exist."""
        with _explained(self.url):
            entries = self._fs.ls(self._root, detail=True, refresh=True) if self._remote else self._local()
        files = (posixpath.basename(str(e["name"])) for e in entries if e["type"] == "file")
        return sorted(name for name in files if name.endswith(suffix) and not name.startswith("."))

    def exists(self, name: str) -> bool:
        with _explained(self.url):
            return bool(self._fs.exists(self.path(name)))

    def make(self) -> Folder:
        with _explained(self.url):
            self._fs.makedirs(self._root, exist_ok=True)
        return self

    @contextlib.contextmanager
    def read(self, name: str) -> Iterator[IO[bytes]]:
        with _explained(posixpath.join(self.url, name)), self._fs.open(self.path(name), "rb") as file:
            yield file

    @contextlib.contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """A file that is there whole, or not at all."""
        shown = posixpath.join(self.url, name)
        if self._remote:
            # Object stores show an object only when its upload is complete.
            with _explained(shown), self._fs.open(self.path(name), "wb") as file:
                yield file
            return
        unfinished = self.path(f".{name}.{uuid.uuid4().hex[:8]}")
        try:
            with _explained(shown):
                with open(unfinished, "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(unfinished, self.path(name))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(unfinished)

    def append_line(self, name: str, line: str) -> None:
        """Adds a line. In a bucket the object is written anew, so keep such files small."""
        if self._remote:
            old = b""
            if self.exists(name):
                with self.read(name) as file:
                    old = file.read()
            with self.write(name) as file:
                file.write(old + line.encode() + b"\n")
            return
        with _explained(posixpath.join(self.url, name)), open(self.path(name), "a", encoding="utf-8") as text:
            text.write(line + "\n")

    @property
    def _remote(self) -> bool:
        return not isinstance(self._fs.protocol, tuple) or "file" not in self._fs.protocol

    def _local(self) -> list[dict[str, Any]]:
        if not os.path.isdir(self._root):
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", self.url)
        return list(self._fs.ls(self._root, detail=True))


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise StorageError(f"{what} does not exist; check the path, or the name of the bucket.") from error
    except PermissionError as error:
        raise StorageError(
            f"{what}: no permission; check who owns it, or the bucket's access rights."
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"{what}: no space is left; free some, then run the same command again."
            ) from error
        raise StorageError(f"{what}: {error}") from error
