"""A reader of journals, written from docs/journal.md alone, which checks page and bridge."""

from __future__ import annotations

import base64
import itertools
import json
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAGIC = bytes.fromhex("89545055 4a0d0a1a")
SEGMENT_HEADER = struct.Struct("<8sIIQII")
RECORD_HEAD = struct.Struct("<IIQQB")
AFTER_CHECKSUM = 17
LONGEST = 536_805_376
CHANNELS = {0: "shell", 1: "control", 2: "stdin", 3: "iopub", 15: "bridge"}
FROM_CLIENT = 0x80


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


class DamagedJournalError(Exception):
    """A segment has invalid content."""


@dataclass(frozen=True)
class Record:
    seq: int
    time_ns: int
    channel: str
    from_client: bool
    payload: bytes

    def as_export(self) -> dict[str, Any]:
        """The object that `tpulab journal export` writes for this record."""
        milliseconds = self.time_ns // 1_000_000
        time = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        base: dict[str, Any] = {
            "seq": self.seq,
            "time": f"{time}.{milliseconds % 1000:03}Z",
            "timeNs": str(self.time_ns),
            "channel": self.channel,
            "fromClient": self.from_client,
        }
        if self.channel == "bridge":
            return base | {"content": json.loads(self.payload)}
        channel, header, parent, metadata, content, *buffers = split(self.payload)
        assert channel.decode() == self.channel
        return base | {
            "header": json.loads(header),
            "parent_header": json.loads(parent),
            "metadata": json.loads(metadata),
            "content": json.loads(content),
            "buffers": [base64.b64encode(buffer).decode() for buffer in buffers],
        }


@dataclass(frozen=True)
class Gap:
    """Records that cannot be read, both included."""

    first: int
    last: int


def split(payload: bytes) -> list[bytes]:
    """The parts of a v1 frame."""
    (count,) = struct.unpack_from("<Q", payload)
    offsets = struct.unpack_from(f"<{count}Q", payload, 8)
    if count < 6 or offsets[-1] != len(payload):
        raise DamagedJournalError(f"a frame of {len(payload)} bytes with {count} offsets")
    return [payload[begin:end] for begin, end in itertools.pairwise(offsets)]


def segments_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if re.fullmatch(r"\d{20}\.seg", path.name))


def read_across(folder: Path) -> Iterator[Record | Gap]:
    """The journal of an ended kernel, with gaps for damage. A loss at its end has an unknown size."""
    segments = segments_of(folder)
    expected = int(segments[0].stem) if segments else 1
    for segment in segments:
        if int(segment.stem) > expected:
            yield Gap(expected, int(segment.stem) - 1)
        expected = int(segment.stem)
        try:
            for record in read_segment(segment):
                if record.seq != expected:
                    raise DamagedJournalError(f"record {record.seq} stands where {expected} should")
                expected += 1
                yield record
        except (DamagedJournalError, struct.error):
            if segment is segments[-1]:
                yield Gap(expected, expected)


def read_journal(folder: Path) -> Iterator[Record]:
    """All records, oldest first. An unfinished one at the end of the newest segment is not there yet."""
    segments = segments_of(folder)
    expected: int | None = None
    for segment in segments:
        if expected is not None and int(segment.stem) != expected:
            raise DamagedJournalError(f"{segment.name} does not begin with record {expected}")
        expected = int(segment.stem)
        for record in read_segment(segment):
            if record.seq != expected:
                raise DamagedJournalError(f"record {record.seq} stands where {expected} should")
            expected += 1
            yield record


def read_segment(file: Path) -> Iterator[Record]:
    data = file.read_bytes()
    magic, version, header_bytes, first_seq, zero, checksum = SEGMENT_HEADER.unpack_from(data)
    if magic != MAGIC or version not in (1, 2) or zero != 0 or checksum != crc32c(data[:28]):
        raise DamagedJournalError(f"{file.name} has no header of version 1 or 2")
    if first_seq != int(file.stem):
        raise DamagedJournalError(f"{file.name} begins with record {first_seq}")
    at = header_bytes
    while at + RECORD_HEAD.size <= len(data):
        length, checksum, seq, time_ns, channel = RECORD_HEAD.unpack_from(data, at)
        if not AFTER_CHECKSUM <= length <= LONGEST:
            raise DamagedJournalError(f"{file.name} has a record of {length} bytes at {at}")
        end = at + 8 + length
        if end > len(data):
            return
        if checksum != zlib.crc32(data[at + 8 : end]) and checksum != crc32c(data[at + 8 : end]):
            raise DamagedJournalError(f"{file.name} has a wrong checksum at {at}")
        name = CHANNELS[channel & ~FROM_CLIENT]
        yield Record(seq, time_ns, name, bool(channel & FROM_CLIENT), data[at + RECORD_HEAD.size : end])
        at = end


def answer(folder: str) -> str:
    """The content read from one journal, as JSON: the numbers of its records, and its gaps."""
    found = list(read_across(Path(folder)))
    seqs = [each.seq for each in found if isinstance(each, Record)]
    gaps = [{"fromSeq": each.first, "toSeq": each.last} for each in found if isinstance(each, Gap)]
    return json.dumps({"seqs": seqs, "gaps": gaps})


if __name__ == "__main__":
    for line in sys.stdin:
        print(answer(line.rstrip("\n")), flush=True)
