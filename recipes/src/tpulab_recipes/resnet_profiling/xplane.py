"""Reads an `.xplane.pb` file, in which XLA's profilers write what they saw. Needs no TensorFlow.

The message types are XSpace, XPlane, XLine, XEvent of the OpenXLA project
(tsl/profiler/protobuf/xplane.proto); only the fields that a summary needs are read, by their numbers there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from tpulab_recipes.common.messages import message_classes

#: Names are bytes: those of events need not be UTF-8.
_CLASSES = message_classes(
    "tpulab_recipes.xplane",
    {
        "Space": ("planes 1 Plane[]",),
        "Plane": ("name 2 bytes", "lines 3 Line[]", "event_metadata 4 Entry[]"),
        "Entry": ("key 1 int64", "value 2 Metadata"),
        "Metadata": ("name 2 bytes", "display_name 4 bytes"),
        "Line": ("name 2 bytes", "timestamp_ns 3 int64", "events 4 Event[]", "display_name 11 bytes"),
        # An aggregate has a count instead of a time.
        "Event": ("metadata_id 1 int64", "offset_ps 2 int64|", "duration_ps 3 int64", "occurrences 5 int64|"),
    },
)


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
    space = _CLASSES["Space"]()
    try:
        space.ParseFromString(Path(file).read_bytes())
    except FileNotFoundError as error:
        raise TraceError(f"There is no trace {file}.") from error
    except DecodeError as error:
        raise TraceError(f"{file} is damaged or not an xplane file; capture it again.") from error
    planes = [Plane(_text(plane.name), _lines(plane)) for plane in space.planes]
    return [plane for plane in planes if plane.lines]


def _lines(plane: Any) -> list[Line]:
    """The lines that have events."""
    shown = [(entry.key, entry.value) for entry in plane.event_metadata]
    names = {key: _text(value.display_name or value.name) for key, value in shown}
    lines = []
    for line in plane.lines:
        events = [
            Event(
                names.get(event.metadata_id, "?"),
                line.timestamp_ns + event.offset_ps / 1e3,
                event.duration_ps / 1e3,
            )
            for event in line.events
            if event.WhichOneof("kind") != "occurrences"
        ]
        if events:
            lines.append(Line(_text(line.display_name or line.name), events))
    return lines


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
