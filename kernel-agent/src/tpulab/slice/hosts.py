"""Which hosts a cell runs on, and how hosts are written: `0`, `1-3`, `0,2-3`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpulab.slice.errors import HostSelectionError

MAGIC = "%%host"
#: Names of devices of all hosts, as the last name of a call.
_WHOLE_SLICE = frozenset(
    {
        "devices",
        "device_count",
        "make_mesh",
        "process_allgather",
        "sync_global_devices",
        "broadcast_one_to_all",
        "assert_equal",
        "make_array_from_process_local_data",
        "create_device_mesh",
        "create_hybrid_device_mesh",
    }
)


@dataclass(frozen=True, slots=True)
class Cell:
    """The code of a cell without its first line `%%host …`, and the hosts it runs on, ascending."""

    code: str
    hosts: tuple[int, ...]


def read_cell(source: str, count: int) -> Cell:
    """Raises `HostSelectionError` when the first line names hosts that do not exist."""
    first, _, rest = source.lstrip("\n").partition("\n")
    words = first.split(None, 1)
    if not words or words[0] not in (MAGIC, MAGIC + "s"):
        return Cell(source, tuple(range(count)))
    return Cell(rest, parse_hosts(words[1] if len(words) > 1 else "", count))


def parse_hosts(text: str, count: int) -> tuple[int, ...]:
    chosen: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise HostSelectionError(f"{MAGIC} takes numbers and ranges such as 0 or 1-3, not {part!r}.")
        low, high = int(first), int(last or first)
        if low > high or high >= count:
            raise HostSelectionError(f"{part!r} is not in this slice: its hosts are 0-{count - 1}.")
        chosen.update(range(low, high + 1))
    if not chosen:
        raise HostSelectionError(f"{MAGIC} needs the hosts to run on, for example {MAGIC} 0 or {MAGIC} 1-3.")
    return tuple(sorted(chosen))


def name_hosts(hosts: Iterable[int]) -> str:
    """`host 2`, `hosts 0-3`, `hosts 0, 2-3`."""
    numbers = sorted(hosts)
    return f"{'host' if len(numbers) == 1 else 'hosts'} {', '.join(_ranges(numbers))}"


def _ranges(numbers: Sequence[int]) -> list[str]:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return [str(low) if low == high else f"{low}-{high}" for low, high in ranges]


def touches_whole_slice(code: str) -> str | None:
    """The first call in a cell that refers to devices of all hosts; None: none is visible."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None  # magics, or a mistake that the hosts report
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in _WHOLE_SLICE:
                return ast.unparse(function)
    return None
