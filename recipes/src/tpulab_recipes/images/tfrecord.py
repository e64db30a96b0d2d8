"""TFRecord files: each record is length, masked CRC-32C of the length, data, masked CRC-32C of the data.

Format: the comment in tensorflow/core/lib/io/record_writer.h. Little-endian; lengths have 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO

import google_crc32c

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.inputs import unexpected_kind

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
#: Bytes of the checksum behind each record's data.
TAIL_BYTES = _TAIL.size
#: A longer record counts as one with a damaged length.
MAX_RECORD_BYTES = 1 << 30


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted by a constant, so that a CRC stored within data does no harm."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_record(file: IO[bytes], data: bytes) -> None:
    length = struct.pack("<Q", len(data))
    file.write(length + _TAIL.pack(masked_crc(length)) + data + _TAIL.pack(masked_crc(data)))


def read_records(file: IO[bytes], name: str) -> Iterator[bytes]:
    """All records. Raises `DataError` where one is cut off or damaged, with its place."""
    place = 0
    while head := file.read(_HEAD.size):
        length = _length(head, name, place, file)
        yield checked_data(file.read(length + TAIL_BYTES), length, name, place)
        place += _HEAD.size + length + TAIL_BYTES


def record_places(file: IO[bytes], name: str) -> list[tuple[int, int]]:
    """(first byte of the data, length) of every record, from the headers alone."""
    places: list[tuple[int, int]] = []
    file.seek(0, 2)
    end = file.tell()
    place = 0
    while place < end:
        file.seek(place)
        length = _length(file.read(_HEAD.size), name, place, file)
        places.append((place + _HEAD.size, length))
        place += _HEAD.size + length + _TAIL.size
        if place > end:
            raise DataError(f"{name} ends within its last record; write the shard again.")
    return places


def places_of(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(first byte of the data, length) of records of these lengths, one after the other."""
    places, place = [], 0
    for length in lengths:
        places.append((place + _HEAD.size, length))
        place += _HEAD.size + length + TAIL_BYTES
    return places


def checked_data(piece: bytes, length: int, name: str, place: int) -> bytes:
    """The data of one record, from its bytes with its checksum behind them."""
    data, tail = piece[:length], piece[length:]
    if len(tail) < TAIL_BYTES:
        raise DataError(f"{name} ends within the record at byte {place}; write the shard again.")
    if _TAIL.unpack(tail)[0] != masked_crc(data):
        raise DataError(f"{name}: the record at byte {place} is damaged; write the shard again.")
    return data


def _length(head: bytes, name: str, place: int, file: IO[bytes]) -> int:
    """The length that a record's header states; `file` stands behind the header."""
    whole = len(head) == _HEAD.size
    length, crc = _HEAD.unpack(head) if whole else (0, 0)
    if whole and crc == masked_crc(head[:8]) and length <= MAX_RECORD_BYTES:
        return int(length)
    kind = unexpected_kind(head + file.read(500)) if place == 0 else ""
    if kind:
        raise DataError(f"{name} is not a TFRecord file: it {kind}.")
    if not whole:
        raise DataError(f"{name} ends within a record's header at byte {place}; write the shard again.")
    raise DataError(f"{name} is not a TFRecord file, or is damaged at byte {place}.")
