"""Reads traces of jax's profiler in a separate process: `python read_trace.py FILE…` prints JSON.

A trace has up to a million events. Reading it in the training's own process would block the interpreter for
seconds, during the traced steps. Imports nothing of TPULab, so that it runs as a file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

NAME_LENGTH = 120
#: Operations that are reported; the trace has all.
SHOWN = 12


class Event(NamedTuple):
    start_ns: float
    duration_ns: float
    name: str
    module: str


def self_times(events: Iterable[Event]) -> Iterator[tuple[Event, float]]:
    """For one line: each event without its nested events, such as the body of a `while`."""
    open_events: list[tuple[Event, float]] = []

    def close(until_ns: float) -> Iterator[tuple[Event, float]]:
        while open_events and open_events[-1][0].start_ns + open_events[-1][0].duration_ns <= until_ns:
            event, inside_ns = open_events.pop()
            yield event, max(event.duration_ns - inside_ns, 0.0)

    for event in sorted(events, key=lambda one: (one.start_ns, -one.duration_ns)):
        yield from close(event.start_ns)
        if open_events:
            outer, inside_ns = open_events[-1]
            open_events[-1] = (outer, inside_ns + event.duration_ns)
        open_events.append((event, 0.0))
    yield from close(float("inf"))


def summary(timed: Iterable[tuple[Event, float]]) -> tuple[list[dict[str, Any]], float]:
    """The longest operations, by name and program, first; and the milliseconds of all."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for event, self_ns in timed:
        key = (event.name, event.module)
        entry = found.setdefault(
            key, {"name": event.name, "module": event.module, "count": 0, "totalMs": 0.0}
        )
        entry["count"] += 1
        entry["totalMs"] += self_ns / 1e6
    first = sorted(found.values(), key=lambda entry: -entry["totalMs"])[:SHOWN]
    return first, sum(entry["totalMs"] for entry in found.values())


def line_operations(line: Any, *, on_device: bool) -> Iterator[Event]:
    """The operations of a line: on a TPU the events of the line `XLA Ops`, on the CPU the events that name
    an operation."""
    if on_device and line.name != "XLA Ops":
        return
    for event in line.events:
        stats = dict(event.stats)
        # The name on a device is the whole instruction: `%fusion.3 = f32[8]{0} fusion(…)`.
        name = event.name.split(" = ")[0].lstrip("%") if on_device else stats.get("hlo_op")
        if name is not None:
            # `jit_train_step(1234)`: the function, and a fingerprint of the program.
            module = re.sub(r"\(\d+\)$", "", str(stats.get("hlo_module", "")))
            yield Event(event.start_ns, event.duration_ns, _short(str(name)), _short(module))


def _short(text: str) -> str:
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "…"


def main(files: list[str]) -> None:
    from jax.profiler import ProfileData

    timed: list[tuple[Event, float]] = []
    devices = 0
    for file in files:
        planes = list(ProfileData.from_file(file).planes)
        on_devices = [plane for plane in planes if plane.name.startswith("/device:TPU")]
        devices += len(on_devices)
        for plane in on_devices or planes:
            for line in plane.lines:
                timed += self_times(line_operations(line, on_device=bool(on_devices)))
    operations, busy_ms = summary(timed)
    json.dump({"devices": devices, "busyMs": busy_ms, "operations": operations}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
