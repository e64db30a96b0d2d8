"""The errors of a cell's hosts as one: the same error of several hosts stands once, with their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tpulab.slice.hosts import name_hosts

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def merge_errors(errors: Mapping[int, dict[str, Any]], hosts: Sequence[int]) -> dict[str, Any]:
    """`errors`: by host the content of a reply with `ename`, `evalue` and `traceback`; at least one."""
    groups: dict[tuple[str, str], list[int]] = {}
    for host in sorted(errors):
        error = errors[host]
        text = _ADDRESS.sub("0x", "\n".join(error["traceback"]))
        groups.setdefault((error["ename"], text), []).append(host)
    traceback: list[str] = []
    for alike in groups.values():
        fine = [host for host in hosts if host not in errors]
        rest = f"; {name_hosts(fine)} finished" if fine and len(groups) == 1 else ""
        traceback += [f"\x1b[1m{name_hosts(alike)}{rest}\x1b[0m", *errors[alike[0]]["traceback"]]
    first = errors[min(errors)]
    return {"ename": first["ename"], "evalue": first["evalue"], "traceback": traceback}


def error_content(error: BaseException) -> dict[str, Any]:
    """An error of the slice itself, without a traceback through code that is not the user's."""
    name = type(error).__name__
    return {"ename": name, "evalue": str(error), "traceback": [f"\x1b[31m{name}\x1b[0m: {error}"]}
