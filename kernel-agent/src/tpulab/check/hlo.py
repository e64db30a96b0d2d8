"""Reads the optimized program of a device: its collectives and buffers, with their lines."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

#: Bits of an element.
_BITS = {
    "pred": 8, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32, "u32": 32, "s64": 64,
    "u64": 64, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
}  # fmt: skip
_COLLECTIVE = re.compile(
    r"\s(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|"
    r"collective-broadcast)(-start)?\("
)
#: For operations in a `shard_map`, the operation's name ends with the name of jax's primitive.
_EXPLICIT = re.compile(
    r'op_name="[^"]*/(all_gather\w*|all_to_all|ppermute|pshuffle|reduce_scatter|psum_scatter|ragged_all_to_all)[^"/]*"'
)
#: Names the started computation, and does not run it again.
_ASYNC_CONTINUATION = re.compile(r"\sasync-(update|done)\(")
_SHAPE = re.compile(r"\b([a-z]+\d*(?:e\dm\d\w*)?)\[([\d,<=]*)\](?:\{([\d,]*)((?::[^}]*)?)\})?")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%([\w.\-]+) = (.+)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|branch_computations)=\{?((?:%[\w.\-]+(?:, )?)+)\}?")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_OPERATION = re.compile(r"\s([a-z][a-z0-9\-]*)\(")
#: Results of these operations occupy no additional memory.
_VIEWS = (
    "parameter",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "constant",
    "while",
    "conditional",
    "copy-done",
)

Frame = tuple[str, int]


@dataclass(slots=True)
class Collective:
    kind: str
    #: for one device in one run of the program, over all repetitions of its loop
    bytes: int
    count: int
    #: from the innermost line outwards
    frames: list[Frame]
    #: the user's code requests it: `jax.lax.all_gather` and the like
    explicit: bool = False


@dataclass(slots=True)
class Buffer:
    words: str
    bytes: int
    frames: list[Frame]


@dataclass(slots=True)
class Facts:
    collectives: list[Collective] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    #: bytes of arguments and results as written, and in the layout of the device
    plain_bytes: int = 0
    padded_bytes: int = 0
    worst_padding: str | None = None


@dataclass(slots=True)
class _Line:
    computation: str
    text: str


def read(text: str, most_buffers: int = 5) -> Facts:
    """Parses the text of one module."""
    facts, frames = Facts(), _frames(text)
    lines, entry = _lines(text)
    times = _times(lines, entry)
    found: dict[tuple[str, str], Collective] = {}
    buffers: list[Buffer] = []
    for line in lines:
        repeated = times.get(line.computation, 0)
        if repeated == 0:
            continue
        collective = _COLLECTIVE.search(line.text)
        if collective is not None:
            size = _result_bytes(line.text[: collective.start()], started=collective[2] is not None)
            where = _frames_of(line.text, frames)
            key = (collective[1], str(where))
            known = found.setdefault(key, Collective(collective[1], 0, 0, where))
            known.explicit = known.explicit or _EXPLICIT.search(line.text) is not None
            known.bytes += size * repeated
            known.count += repeated
        buffer = _buffer(line, entry, times, frames)
        if buffer is not None:
            buffers.append(buffer)
    facts.collectives = sorted(found.values(), key=lambda each: -each.bytes)
    facts.buffers = sorted(buffers, key=lambda each: -each.bytes)[:most_buffers]
    _padding(text, facts)
    return facts


def _lines(text: str) -> tuple[list[_Line], str]:
    lines, computation, entry = [], "", ""
    for raw in text.splitlines():
        begins = _COMPUTATION.match(raw)
        if begins is not None:
            computation = begins[2]
            entry = computation if begins[1] else entry
        elif raw.startswith("}"):
            computation = ""
        elif computation and (instruction := _INSTRUCTION.match(raw)):
            lines.append(_Line(computation, " " + instruction[2]))
    return lines, entry


def _times(lines: list[_Line], entry: str) -> dict[str, int]:
    """How often each computation runs in one run of the program. A loop of unknown length counts once."""
    called: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in lines:
        if _ASYNC_CONTINUATION.search(line.text):
            continue
        trips = _TRIPS.search(line.text)
        for group in _CALLED.finditer(line.text):
            for name in re.findall(r"%([\w.\-]+)", group[1]):
                called[line.computation].append((name, int(trips[1]) if trips else 1))
    times: dict[str, int] = defaultdict(int)
    waiting = [(entry, 1)]
    # A program calls no computation in a cycle; the bound is for an invalid text.
    for _ in range(1_000_000):
        if not waiting:
            break
        name, number = waiting.pop()
        times[name] += number
        waiting += [(inner, number * trips) for inner, trips in called.get(name, ())]
    return times


def _frames(text: str) -> dict[int, list[Frame]]:
    """By the number of a frame: its line, and the lines that led there."""
    tables: dict[str, dict[int, str]] = {}
    table: dict[int, str] | None = None
    for raw in text.splitlines():
        if raw in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = tables.setdefault(raw, {})
        elif table is not None:
            row = re.match(r"(\d+) (.*)$", raw)
            if row is None:
                table = None
            else:
                table[int(row[1])] = row[2]
    files = {number: name.strip('"') for number, name in tables.get("FileNames", {}).items()}
    places: dict[int, Frame] = {}
    for number, row_text in tables.get("FileLocations", {}).items():
        file, line = _number(row_text, "file_name_id"), _number(row_text, "line")
        places[number] = (files.get(file, ""), line)
    stack = tables.get("StackFrames", {})
    parents = {number: _number(row_text, "parent_frame_id") for number, row_text in stack.items()}
    # Parent ids count from 1 if a frame would otherwise be its own parent.
    shift = 1 if any(number == parent for number, parent in parents.items()) else 0
    found: dict[int, list[Frame]] = {}
    for number in stack:
        chain: list[Frame] = []
        at = number
        while at in stack and len(chain) < 100:
            chain.append(places.get(_number(stack[at], "file_location_id"), ("", 0)))
            at = parents[at] - shift
        found[number] = chain
    return found


def _number(text: str, name: str) -> int:
    value = re.search(rf"\b{name}=(\d+)", text)
    return int(value[1]) if value else 0


def _frames_of(text: str, frames: dict[int, list[Frame]]) -> list[Frame]:
    number = re.search(r"stack_frame_id=(\d+)", text)
    if number is not None:
        return frames.get(int(number[1]), [])
    file = re.search(r'source_file="([^"]+)" source_line=(\d+)', text)
    return [(file[1], int(file[2]))] if file else []


def _result_bytes(shapes: str, *, started: bool) -> int:
    """Bytes of the result; an asynchronous start has its operands in front of the result."""
    sizes = [_plain_size(each) for each in _SHAPE.finditer(shapes)]
    return max(sizes, default=0) if started else sum(sizes)


def _buffer(line: _Line, entry: str, times: dict[str, int], frames: Any) -> Buffer | None:
    """The result of an instruction with its own memory in HBM: of the program, or of a loop in it."""
    operation = _OPERATION.search(line.text)
    if operation is None or operation[1] in _VIEWS or "fused" in line.computation:
        return None
    if line.computation != entry and not line.computation.startswith(("region", "while", "body", "wide")):
        return None
    shapes = [each for each in _SHAPE.finditer(line.text[: operation.start()]) if "S(" not in (each[4] or "")]
    if not shapes or times.get(line.computation, 0) == 0:
        return None
    largest = max(shapes, key=_padded_size)
    words = f"{largest[1]}[{largest[2]}]"
    return Buffer(words, _padded_size(largest), _frames_of(line.text, frames))


def _padding(text: str, facts: Facts) -> None:
    header = text.partition("\n")[0]
    layout = re.search(r"entry_computation_layout=\{(.*?)\}(?:,\s\w+=|$)", header)
    worst = 1.0
    for each in _SHAPE.finditer(layout[1] if layout else ""):
        plain, padded = _plain_size(each), _padded_size(each)
        facts.plain_bytes += plain
        facts.padded_bytes += padded
        # Small arrays do not matter.
        if padded - plain > 2**20 and padded / max(plain, 1) > worst:
            worst, facts.worst_padding = padded / max(plain, 1), f"{each[1]}[{each[2]}]"


def _dimensions(shape: re.Match[str]) -> list[int]:
    return [int(size.lstrip("<=")) for size in shape[2].split(",") if size]


def _plain_size(shape: re.Match[str]) -> int:
    bits = _BITS.get(shape[1], 8 if shape[1].startswith("f8") else 0)
    return math.prod(_dimensions(shape)) * bits // 8


def _padded_size(shape: re.Match[str]) -> int:
    """Bytes with the layout's tiles: the minor dimensions are rounded up to the first tile."""
    dimensions = _dimensions(shape)
    order = [int(number) for number in (shape[3] or "").split(",") if number]
    tile = re.search(r"T\(([\d,]+)\)", shape[4] or "")
    bits = _BITS.get(shape[1], 8 if shape[1].startswith("f8") else 0)
    if tile is None or len(order) != len(dimensions):
        return _plain_size(shape)
    sizes = [dimensions[number] for number in order] or [1]
    for position, step in enumerate(reversed([int(number) for number in tile[1].split(",")])):
        if position < len(sizes):
            sizes[position] = -(-sizes[position] // step) * step
    return math.prod(sizes) * bits // 8
