"""Why torch.compile has compiled a function again: the failed guard, in the form of the other reasons."""

from __future__ import annotations

import re

from tpulab.compile.reason import Difference, reason_of
from tpulab.telemetry.messages import CompileReason

LENGTH = 160
_NUMBER = re.compile(r"^\s*\d+/\d+:\s*")
_SIZE = re.compile(r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)")
_RANK = re.compile(r"tensor '(.+?)' rank mismatch\. expected (\d+), actual (\d+)")
_DTYPE = re.compile(r"tensor '(.+?)' dtype mismatch\. expected (\w+), actual (\w+)")
_TENSOR = re.compile(r"tensor '(.+?)' (.+?) mismatch(?:[^.]*)\. expected (.+?), actual (.+)")
_LENGTH = re.compile(r"^(?:not )?len\((.+?)\) == (\S+)|^not (\S+)$")
_VALUE = re.compile(r"^(.+?) == (\S+)")
_OBJECT = re.compile(
    r"___check_obj_id\((.+?), ?\d+\)|^(.+?) is (?:not )?(?:None|True|False)\b|^(.+?) got deallocated"
)
_STATE = re.compile(r"GLOBAL_STATE changed: ?(.*)")


def reason_of_guard(text: str, function: str) -> CompileReason:
    """`0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6` and the like. Other text is
    returned unchanged."""
    guard = _NUMBER.sub("", text.strip().splitlines()[0] if text.strip() else "")
    plain = guard.split("  # ")[0].strip()
    found = _difference(plain)
    reason = reason_of(found, function)
    match found.verdict:
        case "static":
            reason["advice"] = (
                f"`{found.argument}` is a Python value inside the program, which is compiled for each one: "
                "make it a tensor, for example with run.hyper."
            )
        case "dtype":
            reason["advice"] = (
                f"Give `{found.argument}` one dtype, for example with `.to(dtype)` before the call."
            )
        case "config":
            reason["advice"] = (
                f"The setting {found.argument} differs between calls: set it once, outside of the loop."
            )
        case "redefined":
            reason["advice"] = (
                f"`{function}` uses another object than before: make it once, not in a loop or a rerun cell."
            )
        case "other":
            reason["advice"] = f"This guard of torch.compile failed: {plain[:LENGTH]}" if plain else None
    return reason


def _difference(guard: str) -> Difference:
    if found := _SIZE.search(guard):
        name, axis, before, after = found.groups()
        # The other axes are unchanged; only this one is reported.
        held = [f"[{','.join(['?'] * int(axis) + [size])}]" for size in (before, after)]
        return Difference("shape", _argument(name), held[0], held[1])
    if found := _RANK.search(guard):
        return Difference("shape", _argument(found[1]), f"{found[2]} axes", f"{found[3]} axes")
    if found := _DTYPE.search(guard):
        return Difference("dtype", _argument(found[1]), found[2].lower(), found[3].lower())
    if found := _TENSOR.search(guard):
        return Difference("other", _argument(found[1]), f"{found[2]} {found[3]}", found[4][:LENGTH])
    if found := _STATE.search(guard):
        return Difference("config", found[1].strip() or "global state", None, None)
    if found := _LENGTH.search(guard):
        return Difference("tree", _argument(found[1] or found[3]), found[2] and f"{found[2]} entries", None)
    if found := _OBJECT.search(guard):
        name = _argument(next(one for one in found.groups() if one))
        return Difference("static" if name.endswith(".training") else "redefined", name, None, None)
    if found := _VALUE.search(guard):
        return Difference("static", _argument(found[1]), found[2], None)
    return Difference("other", None, None, None)


def _argument(text: str) -> str:
    """`L['self'].training` as `self.training`."""
    return re.sub(r"^[LG]\['(\w+)'\]", r"\1", text.strip())[:LENGTH]
