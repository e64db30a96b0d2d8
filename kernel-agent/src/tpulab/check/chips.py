"""Chips that a check compiles for, by the names of their machine types: `v5e-8`, `v5p-8`, `7x-8`."""

from __future__ import annotations

import datetime
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulab.figures.throughput import peak_flops

GIB = 2**30
#: A program that takes more of the memory than this is tight: buffers of other programs need space too.
TIGHT = 0.92


class PreflightError(Exception):
    """Why a check cannot be made, in one sentence with the remedy; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def first_line(error: BaseException) -> str:
    try:
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        return words.strip().splitlines()[0][:400]
    except Exception:
        # The error has no message, or its `__str__` raises.
        return type(error).__name__


@dataclass(frozen=True, slots=True)
class Kind:
    """A generation of chips. Memory and bandwidth are per device, as a program sees them."""

    name: str
    device_kind: str
    #: libtpu's name for it in a topology
    external: str
    #: the limit that the compiler sets for a program (libtpu 0.0.50)
    usable_gib: float
    hbm_gb_s: float
    #: the number in the name of a machine type, for each chip
    counted: int
    devices_a_chip: int
    #: all links of one device, both directions; None where it is not published
    ici_gb_s: float | None
    flat: bool


#: Equal to the bridge's table (`machines/src/chips/chip-data.ts`), which a test checks.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("v2", "TPU v2", "v2", 7.48, 357.5, 2, 2, None, flat=True),
        Kind("v3", "TPU v3", "v3", 15.48, 450, 2, 2, None, flat=True),
        Kind("v4", "TPU v4", "v4", 30.75, 1200, 2, 1, None, flat=False),
        Kind("v5e", "TPU v5 lite", "v5e", 15.75, 819, 1, 1, 400, flat=True),
        Kind("v5p", "TPU v5", "v5p", 95.74, 2765, 2, 1, 1200, flat=False),
        Kind("v6e", "TPU v6 lite", "v6e", 31.25, 1638, 1, 1, 800, flat=True),
        Kind("7x", "TPU7x", "tpu7x", 94.75, 3700, 2, 2, None, flat=False),
    )
}
_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "tpu7x": "7x", "v7x": "7x", "ironwood": "7x"}
_TOPOLOGIES_2D = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_TOPOLOGIES_3D = {1: "1x1x1", 4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8"}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine type: a number of chips of a kind."""

    name: str
    kind: Kind
    chips: int

    @property
    def devices(self) -> int:
        return self.chips * self.kind.devices_a_chip

    @property
    def topology(self) -> str:
        shape = (_TOPOLOGIES_2D if self.kind.flat else _TOPOLOGIES_3D)[self.chips]
        return f"{self.kind.external}:{shape}"

    @property
    def usable_bytes(self) -> int:
        """For each device."""
        return int(self.kind.usable_gib * GIB)

    @property
    def peak_flops(self) -> float | None:
        """For each device, in bf16."""
        return peak_flops(self.kind.device_kind)


def machine_named(text: str) -> Machine:
    """`v5e-8` or, for the usual machine of a kind, `v5e`. Raises `PreflightError`."""
    found = re.fullmatch(r"(?:tpu-)?([a-z]*\d+[a-z]*?)(?:-(\d+))?", text.strip().lower())
    name = _ALIASES.get(found[1], found[1]) if found else ""
    kind = KINDS.get(name)
    if found is None or kind is None:
        raise PreflightError(
            "chip_unknown", f"{text.strip()!r} is no known chip; name one of {', '.join(KINDS)}, as in v5e-8."
        )
    number = int(found[2] or 8)
    chips, rest = divmod(number, kind.counted)
    machine = Machine(f"{name}-{number}", kind, chips)
    if rest or machine not in sizes_of(kind):
        known = ", ".join(size.name for size in sizes_of(kind))
        raise PreflightError("chip_unknown", f"There is no machine {machine.name}; there are {known}.")
    return machine


def sizes_of(kind: Kind) -> list[Machine]:
    """The machine types with these chips."""
    shapes = _TOPOLOGIES_2D if kind.flat else _TOPOLOGIES_3D
    return [Machine(f"{kind.name}-{count * kind.counted}", kind, count) for count in shapes]


def machines_named(text: str) -> list[Machine]:
    """Parses a list with commas or spaces, each once."""
    found = [machine_named(part) for part in re.split(r"[\s,]+", text) if part]
    if not found:
        raise PreflightError("chip_unknown", "Name at least one chip, as in --chips v5e-8,v6e-8.")
    return list({machine.name: machine for machine in found}.values())


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per hour of one chip. A kind that is not listed has no known price."""

    date: str
    hourly: Mapping[str, float]
    source: str
    #: the user's own list, which is read where it exists; None: another list was named
    own: str | None


#: Path of the user's own list.
OWN_PRICES = "~/.config/tpulab/prices.toml"


def read_prices(file: Path | None = None) -> Prices:
    """The named list, else the user's own, else ours. Raises `PreflightError`."""
    own = None
    if file is None:
        file = own = Path(os.environ.get("TPULAB_PRICES", OWN_PRICES)).expanduser()
        if not own.is_file():
            file = Path(__file__).with_name("prices.toml")
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        date, hourly = table["date"], table["chip_hour_usd"]
        if not isinstance(date, datetime.date) or not isinstance(hourly, dict):
            raise TypeError
        prices = {_ALIASES.get(str(name), str(name)): float(price) for name, price in hourly.items()}
        if not all(0 <= price < math.inf for price in prices.values()):
            raise ValueError("a price is no amount")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise PreflightError(
            "prices_unusable",
            f"The price list {file} cannot be used: it needs `date = 2026-11-03` and a table "
            f"[chip_hour_usd] with a number for each chip ({type(error).__name__}: {error}).",
        ) from error
    return Prices(date.isoformat(), prices, str(file), None if own is None else str(own))
