"""A RESOURCE_EXHAUSTED of the runtime as figures: requested bytes, free bytes, and the owners of the rest."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tpulab.memory.owners import arrays_by_owner
from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import CodeLocation, DevicesMessage, MemoryErrorMessage
from tpulab.telemetry.plain import short

TEXT_LENGTH = 2000
#: The part of an error's text that is searched for sizes.
SEARCHED_LENGTH = 10**6
_UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"([0-9.]+)\s*([KMGT]?)i?B?(?:\b|ytes)"

What = Literal["program", "allocation", "other"]


@dataclass(frozen=True, slots=True)
class Exhausted:
    what: What
    requested: int | None = None
    free: int | None = None
    limit: int | None = None


#: torch_xla 2.9 and torch_tpu 0.2 show the text of the runtime without its code.
_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|[Rr]an out of memory|Out of memory (?:while trying to allocate|allocating) \d"
    r"|(?:CUDA|HIP|MPS|XPU)[^.\n]*[Oo]ut of memory|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED"
    r"|can't allocate memory"
    r"|[Aa]ttempting to (?:allocate|reserve) [0-9.]+.* free"
)

#: Wordings of XLA:TPU, XLA:GPU, XLA:CPU (libtpu 0.0.50, jaxlib 0.12) and CUDA, the more precise ones first.
_PROGRAM = (
    re.compile(rf"required for .*?\({_SIZE}\) exceeds available .*?\({_SIZE}\)", re.S),
    re.compile(rf"Used {_SIZE} of {_SIZE}"),
)
_ALLOCATION = (
    # PyTorch's own allocator, on CUDA: "… GPU 0 has a total capacity of 39.39 GiB of which 1.25 GiB is free."
    re.compile(rf"out of memory\. Tried to allocate {_SIZE}.*?of which {_SIZE} is free", re.S),
    re.compile(rf"out of memory\. Tried to allocate {_SIZE}"),
    re.compile(rf"can't allocate memory: you tried to allocate {_SIZE}"),
    re.compile(rf"[Aa]ttempting to (?:allocate|reserve) {_SIZE}.*?There (?:are|is) {_SIZE} free", re.S),
    re.compile(rf"[Aa]ttempting to (?:allocate|reserve) {_SIZE}"),
    re.compile(rf"Failed to allocate request for {_SIZE}"),
    re.compile(rf"Out of memory (?:while trying to allocate|allocating) {_SIZE}"),
)


def parse(text: str) -> Exhausted | None:
    """The figures in a message of the runtime. None for a message about something else."""
    if _OUT_OF_MEMORY.search(text) is None:
        return None
    for pattern in _PROGRAM:
        if found := pattern.search(text):
            needed, limit = _bytes(found[1], found[2]), _bytes(found[3], found[4])
            return Exhausted("program", needed, None, limit)
    for pattern in _ALLOCATION:
        if found := pattern.search(text):
            free = _bytes(found[3], found[4]) if len(found.groups()) > 2 else None
            return Exhausted("allocation", _bytes(found[1], found[2]), free)
    return Exhausted("other")


def _bytes(number: str, unit: str) -> int:
    return int(float(number.rstrip(".")) * _UNITS[unit])


def memory_error(
    error: BaseException,
    number: int,
    location: CodeLocation | None,
    run: str | None,
    read_devices: Callable[[], DevicesMessage | None],
) -> MemoryErrorMessage | None:
    """The message about an exception that ended a cell. None when it is not about memory."""
    text = short(error, SEARCHED_LENGTH, plain=True)
    found = parse(text)
    if found is None:
        return None
    used, limit = _device_memory(read_devices)
    limit = found.limit if found.limit is not None else limit
    free = found.free
    if free is None and used is not None and limit is not None:
        free = max(limit - used, 0)
    arrays, held = arrays_by_owner(found.requested if found.what == "allocation" else None)
    return {
        "type": "memory-error",
        "time": unix_now_ms(),
        "id": f"{int(unix_now_ms())}-{number}",
        "what": found.what,
        "requestedBytes": found.requested,
        "freeBytes": free,
        "limitBytes": limit,
        "text": text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…",
        "arrays": arrays,
        "heldBytes": held,
        "location": location,
        "run": run,
    }


def _device_memory(read_devices: Callable[[], DevicesMessage | None]) -> tuple[int | None, int | None]:
    """Bytes in use and limit of the fullest local device; None where the runtime reports none (XLA:CPU)."""
    fullest: tuple[int | None, int | None] = (None, None)
    with contextlib.suppress(Exception):
        message = read_devices()
        for device in message["devices"] if message is not None else ():
            used = device["memoryUsedBytes"]
            if used is not None and (fullest[0] is None or used > fullest[0]):
                fullest = (used, device["memoryTotalBytes"] or None)
    return fullest


def memory_error_text(message: MemoryErrorMessage) -> str:
    """One line of text for people."""
    words = ["The device has no memory left"]
    if message["requestedBytes"] is not None:
        words.append(f"asked {_mib(message['requestedBytes'])}")
    if message["freeBytes"] is not None:
        words.append(f"free {_mib(message['freeBytes'])}")
    for entry in message["arrays"][:3]:
        name = entry["names"][0] if entry["names"] else "no name"
        words.append(f"{name} holds {_mib(entry['bytes'])}")
    return ", ".join(words) + "."


def _mib(number: int) -> str:
    return f"{number / 2**20:.1f} MiB"
