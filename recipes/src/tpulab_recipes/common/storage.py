"""Folders here or in a bucket (`gs://…`), through fsspec; a failure is a `StorageError` with a
remedy."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import posixpath
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tpulab_recipes.common.errors import MissingPackage, StorageError

#: What fsspec needs for buckets and hubs, by the scheme of their addresses.
PACKAGES = {"gs": "gcsfs", "hf": "huggingface_hub", "s3": "s3fs"}


class Folder:
    """A folder that may be remote. Names are relative to it."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        with explained(self.url):
            import fsspec

            # gcsfs logs a traceback for each attempt, and its errors are explained here.
            logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
            try:
                self._fs, self._root = fsspec.core.url_to_fs(self.url)
            except ValueError as error:
                raise StorageError(f"{self.url} cannot be opened: {error}") from error

    def path(self, name: str) -> str:
        return posixpath.join(str(self._root), name)

    def same_as(self, url: str | os.PathLike[str]) -> bool:
        """Whether another name means the same folder."""
        other = Folder(url)
        if self.remote or other.remote:
            return self.remote == other.remote and str(self._root) == str(other._root)
        return os.path.realpath(self._root) == os.path.realpath(other._root)

    def names(self, suffix: str = "", *, may_be_absent: bool = False, kind: str = "file") -> list[str]:
        """Files (or `kind` "directory") directly in the folder whose names have this ending, sorted. Raises
        `StorageError` when the folder does not exist, unless it `may_be_absent`: a bucket has no folder
        without files, even after `make`."""
        with explained(self.url):
            try:
                entries = self._fs.ls(self._root, detail=True, refresh=True) if self.remote else self._local()
            except FileNotFoundError:
                if not may_be_absent:
                    raise
                entries = []
        files = (posixpath.basename(str(e["name"])) for e in entries if e["type"] == kind)
        return sorted(name for name in files if name.endswith(suffix) and not name.startswith("."))

    def tree(self) -> dict[str, int]:
        """Bytes of each file in the folder and in all folders below it, by their paths relative to it,
        sorted. Raises `StorageError` when it does not exist."""
        with explained(self.url):
            root = self._fs._strip_protocol(self._root).rstrip("/")
            if not self._fs.isdir(root):
                kind = NotADirectoryError if self._fs.exists(root) else FileNotFoundError
                raise kind(errno.ENOENT, "there is no such folder", self.url)
            found = sorted(self._fs.find(root, detail=True).items())
            seen = ((str(path), about) for path, about in found if self.remote or _readable(str(path)))
            return {path[len(root) + 1 :]: int(about["size"] or 0) for path, about in seen}

    def exists(self, name: str) -> bool:
        with explained(self.url):
            return bool(self._fs.exists(self.path(name)))

    def make(self) -> Folder:
        with explained(self.url):
            self._fs.makedirs(self._root, exist_ok=True)
        return self

    @contextlib.contextmanager
    def read(self, name: str) -> Iterator[IO[bytes]]:
        with explained(posixpath.join(self.url, name)), self._fs.open(self.path(name), "rb") as file:
            yield file

    def get(self, name: str) -> bytes:
        """A whole file."""
        with self.read(name) as file:
            return file.read()

    def get_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Whole files by name. A bucket gets one request for all of them."""
        if not self.remote:
            return {name: self.get(name) for name in names}
        with explained(self.url):
            found = self._fs.cat([self.path(name) for name in names], on_error="raise") if names else {}
            # A single file is not returned as a dictionary.
            pieces = found if isinstance(found, dict) else {self.path(names[0]): found}
            by_path = {str(path): bytes(data) for path, data in pieces.items()}
            return {name: by_path[self._fs._strip_protocol(self.path(name))] for name in names}

    def require_room(self, needed: int, purpose: str) -> None:
        """Raises `StorageError` when a local disk has fewer bytes left than `purpose` needs, before a write
        fails halfway."""
        if self.remote:
            return
        place = os.path.abspath(self._root)
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        free = shutil.disk_usage(place).free
        if free < needed:
            raise StorageError(
                f"{self.url} has {free / 2**20:.0f} MiB left and {purpose} needs {needed / 2**20:.0f}; "
                "free some space, then run the same command again."
            )

    def size(self, name: str) -> int:
        """Bytes of a file."""
        with explained(posixpath.join(self.url, name)):
            return int(self._fs.size(self.path(name)))

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
        """The bytes of (file, first byte, length) for each; fewer where a file ends. A bucket gets all
        requests at once: it answers each in tens of milliseconds, however many are under way. A local folder
        is read one by one: allocating memory for all of them takes longer than the reading."""
        with explained(self.url):
            if self.remote:
                paths, firsts, lengths = zip(*((self.path(n), a, k) for n, a, k in ranges), strict=True)
                ends = [first + length for first, length in zip(firsts, lengths, strict=True)]
                found = self._fs.cat_ranges(list(paths), list(firsts), ends, on_error="raise")
                yield from map(bytes, found)
                return
            # fsspec would take four times as long as the reading itself.
            for name, first, length in ranges:
                with open(self.path(name), "rb", buffering=0) as file:
                    file.seek(first)
                    piece = file.read(length)
                yield piece
                del piece

    @contextlib.contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Writes a file completely or not at all."""
        shown = posixpath.join(self.url, name)
        if self.remote:
            # Object stores show an object only when its upload is complete, and closing the file completes
            # it, however much has been written.
            with explained(shown):
                file = self._fs.open(self.path(name), "wb")
                try:
                    yield file
                except BaseException:
                    _give_up(file)
                    raise
                file.close()
            return
        unfinished = self.path(f".{name}.{uuid.uuid4().hex[:8]}")
        try:
            with explained(shown):
                with open(unfinished, "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(unfinished, self.path(name))
        finally:
            # Its own error would hide the first one, as on a disk that is read-only.
            with contextlib.suppress(OSError):
                os.remove(unfinished)

    def put(self, name: str, data: bytes | str) -> None:
        """Writes a whole file. Bytes in a text that are not UTF-8, as of a file name, become `\\udcff`."""
        with self.write(name) as file:
            file.write(data.encode(errors="backslashreplace") if isinstance(data, str) else data)

    def append_line(self, name: str, line: str) -> None:
        """Adds a line. In a bucket the whole object is rewritten, so keep such files small."""
        if self.remote:
            old = b""
            if self.exists(name):
                with self.read(name) as file:
                    old = file.read()
            self.put(name, old + line.encode() + b"\n")
            return
        with explained(posixpath.join(self.url, name)), open(self.path(name), "a", encoding="utf-8") as text:
            text.write(line + "\n")

    def remove(self, name: str) -> None:
        """Deletes a file, if it is there."""
        with explained(posixpath.join(self.url, name)), contextlib.suppress(FileNotFoundError):
            self._fs.rm(self.path(name))

    def remove_unfinished(self, start: str) -> None:
        """Deletes partial files with this prefix that `write` left in a process that was killed."""
        if self.remote:
            return
        for name in os.listdir(self._root):
            if re.fullmatch(rf"\.{re.escape(start)}.*\.[0-9a-f]{{8}}", name):
                self.remove(name)

    @property
    def remote(self) -> bool:
        return not isinstance(self._fs.protocol, tuple) or "file" not in self._fs.protocol

    def _local(self) -> list[dict[str, Any]]:
        if not os.path.isdir(self._root):
            kind = NotADirectoryError if os.path.exists(self._root) else FileNotFoundError
            raise kind(errno.ENOENT, "there is no such folder", self.url)
        return [
            entry | {"type": "directory" if os.path.isdir(entry["name"]) else "file"}
            for entry in self._fs.ls(self._root, detail=True)
            if _readable(entry["name"])
        ]


def _readable(path: str) -> bool:
    """Not a pipe or a device, which reading could wait for. A link counts as its target; a broken link
    counts as a file, so that reading it reports its name."""
    return os.path.isdir(path) or os.path.isfile(path) or not os.path.exists(path)


@contextlib.contextmanager
def only_writer(url: str | os.PathLike[str]) -> Iterator[None]:
    """Raises `StorageError` where another process trains into this local folder: they would delete each
    other's checkpoints."""
    folder = Folder(url)
    if folder.remote:
        yield
        return
    handle = os.open(folder.make()._root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"{url}: another training writes to this folder; wait for it, or choose another folder."
            ) from error
        except OSError:
            pass  # A file system without locks.
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def written_folder(url: str | os.PathLike[str]) -> Iterator[Path]:
    """A local folder to write to: `url` itself or, for a bucket, a temporary one that is uploaded at the
    end."""
    folder = Folder(url)
    if not folder.remote:
        folder.make()
        yield Path(url)
        return
    with tempfile.TemporaryDirectory() as local:
        yield Path(local)
        with explained(folder.url):
            folder._fs.put(f"{local}/", f"{str(folder._root).rstrip('/')}/", recursive=True)


def store_fault(what: str, error: Exception) -> StorageError | None:
    """A sentence for an error of the libraries below fsspec; None for any other error. Identified by module
    names, because none of the libraries need be installed.
    """
    reason = " ".join(str(error).split()).rstrip(".")
    module = type(error).__module__
    if module.startswith("google.auth"):
        return StorageError(
            f"{what}: Google refuses to say who you are ({reason}); run `gcloud auth application-default "
            "login`, or give the machine a service account that may use the bucket."
        )
    if module.startswith("gcsfs"):
        code = str(getattr(error, "code", "") or "")
        remedy = {
            "400": "check the name of the bucket and the path",
            "401": "run `gcloud auth application-default login`, or give the machine a service account that "
            "may use the bucket",
        }.get(code, "run the same command again, and if it stays, check the bucket in the Cloud console")
        return StorageError(f"{what}: the bucket answers {code or 'with an error'} ({reason}); {remedy}.")
    if module.startswith("aiohttp"):
        return StorageError(f"{what}: the connection failed ({reason}); run the same command again.")
    if isinstance(error, ValueError) and reason.startswith("Bad Request"):
        return StorageError(f"{what}: {reason}; check the name of the bucket and the path.")
    return None


def _give_up(file: Any) -> None:
    """Ends an upload without creating an object. Closing the file, or dropping it, would create one."""
    with contextlib.suppress(Exception):
        file.discard()
    file.closed = True


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Errors of a folder, a bucket or the libraries below become a `StorageError` or `MissingPackage`."""
    try:
        yield
    except ImportError as error:
        package = PACKAGES.get(what.partition("://")[0]) or error.name or "fsspec"
        raise MissingPackage(package, f"Reading or writing {what}") from error
    except FileNotFoundError as error:
        raise StorageError(f"{what} does not exist; check the path, or the name of the bucket.") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(
            f"{what} is no folder: it, or a name before it, is a file; name another folder."
        ) from error
    except PermissionError as error:
        raise StorageError(
            f"{what}: no permission; check who owns it, or the bucket's access rights."
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"{what}: no space is left; free some, then run the same command again."
            ) from error
        reason = " ".join((error.strerror or str(error)).split()).rstrip(".")
        where = f" ({error.filename})" if error.filename and str(error.filename) not in what else ""
        raise StorageError(f"{what}: {reason}{where}.") from error
    except Exception as error:
        fault = store_fault(what, error)
        if fault is None:
            raise
        raise fault from error
