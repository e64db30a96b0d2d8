"""TFRecord files: each record is length, masked CRC-32C of the length, data, masked CRC-32C of the data.

Format: the comment in tensorflow/core/lib/io/record_writer.h. Little-endian; lengths have 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

import google_crc32c

from tpulab_recipes.common.errors import DataError

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
#: Bytes of the checksum behind each record's data.
TAIL_BYTES = _TAIL.size
#: A record above this is taken for a damaged length.
MAX_RECORD_BYTES = 1 << 30


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted by a constant, so that a CRC stored within data does no harm."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_record(file: IO[bytes], data: bytes) -> None:
    length = struct.pack("<Q", len(data))
    file.write(length + _TAIL.pack(masked_crc(length)) + data + _TAIL.pack(masked_crc(data)))


def read_records(file: IO[bytes], name: str, start: int = 0) -> Iterator[bytes]:
    """Records from the byte `start` on. Raises `DataError` where one is cut off or damaged, with its
    place."""
    if start:
        file.seek(start)
    place = start
    while head := file.read(_HEAD.size):
        length = _length(head, name, place)
        data = file.read(length)
        tail = file.read(_TAIL.size)
        if len(data) < length or len(tail) < _TAIL.size:
            raise DataError(f"{name} ends within the record at byte {place}; write the shard again.")
        if _TAIL.unpack(tail)[0] != masked_crc(data):
            raise DataError(f"{name}: the record at byte {place} is damaged; write the shard again.")
        yield data
        place += _HEAD.size + length + _TAIL.size


def record_places(file: IO[bytes], name: str) -> list[tuple[int, int]]:
    """(first byte of the data, length) of every record, from the headers alone."""
    places: list[tuple[int, int]] = []
    file.seek(0, 2)
    end = file.tell()
    place = 0
    while place < end:
        file.seek(place)
        length = _length(file.read(_HEAD.size), name, place)
        places.append((place + _HEAD.size, length))
        place += _HEAD.size + length + _TAIL.size
        if place > end:
            raise DataError(f"{name} ends within its last record; write the shard again.")
    return places


def checked_data(piece: bytes, length: int, name: str, place: int) -> bytes:
    """The data of one record that `record_places` found, from its bytes with its checksum behind them."""
    data, tail = piece[:length], piece[length:]
    if len(tail) < TAIL_BYTES or _TAIL.unpack(tail)[0] != masked_crc(data):
        raise DataError(f"{name}: the record at byte {place} is damaged; write the shard again.")
    return data


def _length(head: bytes, name: str, place: int) -> int:
    if len(head) < _HEAD.size:
        raise DataError(f"{name} ends within a record's header at byte {place}; write the shard again.")
    length, crc = _HEAD.unpack(head)
    if crc != masked_crc(head[:8]) or length > MAX_RECORD_BYTES:
        raise DataError(f"{name} is not a TFRecord file, or is damaged at byte {place}.")
    return int(length)
