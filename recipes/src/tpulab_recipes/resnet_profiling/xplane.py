"""Reads an `.xplane.pb` file, in which XLA's profilers write what they saw. Needs no TensorFlow and no
protobuf package.

The message types are XSpace, XPlane, XLine, XEvent of the OpenXLA project
(tsl/profiler/protobuf/xplane.proto); only the fields that a summary needs are read, by their numbers there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Field = tuple[int, int | bytes]


class TraceError(ValueError):
    """A trace that is missing or damaged."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    start_ns: float
    """On the profiler's clock."""
    duration_ns: float

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class Line:
    """Events of one thread or one device queue, in the order of the file."""

    name: str
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Plane:
    """A host (`/host:CPU`) or a device (`/device:TPU:0`)."""

    name: str
    lines: list[Line] = field(default_factory=list)


def newest_trace(folder: Path | str) -> Path:
    """The newest `.xplane.pb` below `folder`, where profilers lay them as
    `plugins/profile/<time>/<host>.xplane.pb`."""
    found = sorted(Path(folder).rglob("*.xplane.pb"), key=lambda file: file.stat().st_mtime)
    if not found:
        raise TraceError(
            f"There is no trace below {folder}; capture one while steps run, for long enough to see some."
        )
    return found[-1]


def read_trace(file: Path | str) -> list[Plane]:
    """Every plane of a trace that has events."""
    try:
        content = Path(file).read_bytes()
        planes = [_plane(_bytes(value)) for number, value in _fields(content) if number == 1]
    except FileNotFoundError as error:
        raise TraceError(f"There is no trace {file}.") from error
    except (IndexError, UnicodeDecodeError, TypeError) as error:
        raise TraceError(f"{file} is damaged or not an xplane file; capture it again.") from error
    return [plane for plane in planes if plane.lines]


def _plane(message: bytes) -> Plane:
    name, lines, names = "", [], {}
    for number, value in _fields(message):
        if number == 2:
            name = _bytes(value).decode()
        elif number == 3:
            lines.append(_bytes(value))
        elif number == 4:  # map of event metadata: key 1, value 2 {id 1, name 2, display name 4}
            entry = dict(_fields(_bytes(value)))
            details = dict(_fields(_bytes(entry.get(2, b""))))
            shown = _bytes(details.get(4, b"")) or _bytes(details.get(2, b""))
            names[_number(entry.get(1, details.get(1, 0)))] = shown.decode(errors="replace")
    read = [_line(line, names) for line in lines]
    return Plane(name, [line for line in read if line.events])


def _line(message: bytes, names: dict[int, str]) -> Line:
    name, shown, begin_ns, raw = "", "", 0, []
    for number, value in _fields(message):
        if number == 2:
            name = _bytes(value).decode()
        elif number == 11:
            shown = _bytes(value).decode()
        elif number == 3:
            begin_ns = _number(value)
        elif number == 4:
            raw.append(_bytes(value))
    events = []
    for message_of_event in raw:
        parts = dict(_fields(message_of_event))
        if 2 not in parts and 5 in parts:  # an aggregate without a time
            continue
        offset_ps, duration_ps = _number(parts.get(2, 0)), _number(parts.get(3, 0))
        title = names.get(_number(parts.get(1, 0)), "?")
        events.append(Event(title, begin_ns + offset_ps / 1e3, duration_ps / 1e3))
    return Line(shown or name, events)


def _fields(message: bytes) -> Iterator[Field]:
    """Field numbers and values of a protobuf message: numbers for varints and fixed sizes, bytes for what has
    a length."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
        elif kind == 2:
            length, at = _varint(message, at)
            if at + length > end:
                raise IndexError("a field is longer than its message")
            yield key >> 3, message[at : at + length]
            at += length
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if at + size > end:
                raise IndexError("a field is longer than its message")
            yield key >> 3, int.from_bytes(message[at : at + size], "little")
            at += size
        else:
            raise IndexError(f"wire type {kind} is not of this format")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = message[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise IndexError("a number is too long")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("bytes were expected")
    return value


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise TypeError("a number was expected")
    return value
