"""Writes `known-splits.json`: loops of known splits, and the agent's records of each.

Run it after a change of the clock.

The splits are computed here by hand, from the durations of the parts of a case.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fifo_device import CALL_NS, MS
from measure.test_known_splits import TABLE, encoded, simulate

CALL = CALL_NS / MS


def cases() -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for length in (0.5, 1, 1.5, 3, 6, 20):
        for ahead in (1, 2, 8, 32):
            made[f"device-bound, {length} ms, {ahead} ahead"] = {
                "ahead": ahead,
                "turn": [["run", length]],
                "split": {"device": 1},
                "limit": ["device"],
                **({"atLeast": 0.9} if length >= 6 else {}),
            }

    def add(name: str, turn: list[Any], split: dict[str, float], *limit: str, **more: Any) -> None:
        whole = sum(split.values())
        shares = {span: part / whole for span, part in split.items()}
        made[name] = {"turn": turn, "split": shares, "limit": list(limit), **more}

    for scale in (1, 5):
        ms = f"{scale * 2} ms"
        run, small = ["run", scale * 1.0], scale * 0.3
        add(f"input-bound, {ms}", [["input", scale * 3], run, ["sync"]],
            {"input": scale * 3, "host": CALL, "device": scale}, "input")  # fmt: skip
        add(f"host-bound, {ms}", [["host", scale * 3], run, ["sync"]],
            {"host": scale * 3 + CALL, "device": scale}, "host")  # fmt: skip
        add(f"gap-bound, {ms}", [run, ["sync"], ["gap", scale]],
            {"host": CALL, "device": scale, "gap": scale}, "gap")  # fmt: skip
        add(f"input behind the device, {ms}", [["input", small], run], {"device": 1}, "device", ahead=2)
        add(f"host ahead of the device, {ms}", [["host", small], run], {"device": 1}, "device", ahead=8)
    add("mixed, 8 ms", [["input", 1], ["host", 1], ["run", 5], ["sync"], ["gap", 1]],
        {"input": 1, "host": 1 + CALL, "device": 5, "gap": 1}, "host", "input", "gap", "mixed")  # fmt: skip
    add("reads the loss every tenth step, 2 ms", [["run", 2], ["every", 10, [["sync"], ["gap", 2]]]],
        {"host": CALL, "device": 20, "gap": 2}, "device", ahead=8)  # fmt: skip
    add("saves every tenth step, 1 ms", [["run", 1], ["every", 10, [["sync"], ["gap", 10]]]],
        {"host": CALL, "device": 10, "gap": 10}, "gap", ahead=8)  # fmt: skip
    add("four programs a step, 4 ms", [["run", 1]] * 4, {"device": 1}, "device", ahead=8)
    add("a program every fourth step, 1 ms", [["host", 1], ["every", 4, [["run", 3.5]]]],
        {"host": 0.5 + CALL, "device": 3.5}, "device", ahead=4)  # fmt: skip
    add("compile-bound", [["compile", 20, 1], ["sync"]], {"compile": 20, "device": 1}, "compile", known=False)
    add("compiles every tenth step, 3 ms",
        [["every", 10, [["compile", 10, 3], ["sync"]]], ["run", 3], ["sync"]],
        {"compile": 10, "host": 10 * CALL, "device": 33}, "compile")  # fmt: skip
    add("compiles, and the program outlasts the step",
        [["input", 2], ["every", 8, [["compile", 4, 6]]], ["run", 2]],
        {"device": 18, "compile": 4}, "compile", ahead=4)  # fmt: skip
    add("steps that fail now and then, 2 ms", [["run", 2], ["sync"], ["every", 5, [["fail"]]], ["gap", 1]],
        {"host": CALL, "device": 2, "gap": 1}, "gap")  # fmt: skip
    add("two threads on one device, 3 ms", [["run", 3]], {"device": 1}, "device", threads=2, ahead=2)
    add("an inner loop, 3 ms", [["loop", 4, [["run", 3]]]], {"device": 1}, "device", ahead=8, steps=100)
    add("an inner loop of short steps, 0.5 ms", [["loop", 40, [["run", 0.5]]], ["sync"], ["gap", 20]],
        {"host": CALL, "device": 20, "gap": 20}, "gap", ahead=8, steps=60)  # fmt: skip
    return made


def main() -> None:
    table = cases()
    with pytest.MonkeyPatch.context() as patch:
        for case in table.values():
            case.setdefault("steps", 1_000)
            _, steps = simulate(patch, case)
            case["recorded"] = encoded(steps)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in table.items())
    TABLE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
