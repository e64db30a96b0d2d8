"""The idx file format, in which MNIST and its relatives are published, read from a folder or a bucket.

Format: two zero bytes, a byte for the element type, a byte for the number of axes, each axis as a big-endian
u32, then the elements. Files may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import posixpath
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.common.errors import DataError, RecipeError
from tpulab_recipes.common.storage import Folder

_UNSIGNED_BYTE = 0x08


class IdxError(DataError):
    """A file that is missing, cut off or not in the idx format."""


def read_idx(place: str) -> NDArray[np.uint8]:
    """The array of bytes in `place`: a path, or an address that fsspec understands
    (`gs://bucket/file.gz`)."""
    data = _read_bytes(place)
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError) as error:
            raise IdxError(f"{place} is cut off or damaged; fetch it again.") from error
    if len(data) < 4 or data[:2] != b"\0\0":
        raise IdxError(f"{place} is not an idx file: it does not begin with two zero bytes.")
    if data[2] != _UNSIGNED_BYTE:
        raise IdxError(
            f"{place} holds elements of type {data[2]:#04x}; only bytes ({_UNSIGNED_BYTE:#04x}) are images "
            f"or labels."
        )
    axes = data[3]
    start = 4 + 4 * axes
    if len(data) < start:
        raise IdxError(f"{place} is cut off within its header; fetch it again.")
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) - start != int(np.prod(shape)):
        raise IdxError(f"{place} should hold {shape} bytes and has {len(data) - start}; fetch it again.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def write_idx(place: Path, array: NDArray[np.uint8]) -> None:
    """Writes bytes as an idx file, compressed when the name ends with `.gz`. Equal arrays give equal
    files."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, _UNSIGNED_BYTE, array.ndim, *array.shape)
    data = header + np.ascontiguousarray(array, np.uint8).tobytes()
    place.write_bytes(gzip.compress(data, mtime=0) if place.suffix == ".gz" else data)


def _read_bytes(place: str) -> bytes:
    folder, name = posixpath.split(place)
    try:
        return Folder(folder or ".").get(name)
    except RecipeError as error:  # it has the remedy: what to install, or how to get access
        if isinstance(error.__cause__, FileNotFoundError):
            raise IdxError(f"There is no file {place}.") from error
        raise IdxError(str(error)) from error
