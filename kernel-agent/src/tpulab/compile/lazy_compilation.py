"""Why a lazy graph was compiled again. The runtime gives no reason, so the user's variables are compared.

At each compilation the tensors, numbers, modules and optimizers among the local variables of the line that
launched the graph are recorded, as shapes and text, and compared with the previous launch. Names
that change from step to step without a compilation (a counter) are no reason.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from tpulab.compile.compilation import advise_on_batch, compile_message
from tpulab.compile.reason import (
    FIRST,
    UNKNOWN,
    Difference,
    Shape,
    bucket_advice,
    find_differences,
    reason_of,
    weight_of,
)
from tpulab.compile.signatures import Leaf, Signature
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.locations import find_location, is_user_frame
from tpulab.telemetry.messages import CodeLocation, CompileMessage, CompileReason
from tpulab.telemetry.plain import is_number

if TYPE_CHECKING:
    from tpulab.measure.runs import Run
    from tpulab.telemetry.adviser import Adviser

MAX_PLACES = 256
#: Launches inspected after a compilation, to learn which names change without one.
POLLS = 20
MAX_NAMES = 200
MAX_SHAPES = 64
MIN_REPEATS = 2
_ANOTHER_GRAPH = (
    "The graph itself has changed: state that the optimizer created in its first step, a branch not "
    "taken before, or a Python number inside a function. Make such numbers tensors on the device."
)


@dataclass(slots=True, eq=False)
class LazyCompilation:
    id: int
    function: str
    location: CodeLocation | None
    run: Run | None
    reason: CompileReason
    variant: int
    #: how often the reason was this argument
    repeated: int = 0
    compile_ns: int = 0
    programs: int = 1

    def finish(self, lasted_ns: int, programs: int) -> None:
        self.compile_ns, self.programs = lasted_ns, programs

    def message(self, phase: Any) -> CompileMessage:
        return compile_message(self, phase, self.function, compile_ms=self.compile_ns / 1e6)

    def advise(self, adviser: Adviser) -> None:
        """A smaller last batch, or a Python number that became part of the graph, is reported once."""
        advise_on_batch(self.function, self.reason, self.location, self.run, adviser)
        name, after = self.reason["argument"], self.reason["after"]
        if self.reason["verdict"] != "static" or name is None or after is None or not is_number(after):
            return
        # Once may be a coincidence: the reason comes from a comparison, not from the runtime.
        if self.repeated < MIN_REPEATS:
            return
        adviser.report(
            "constant-hyperparameter",
            f"`{name}` is a Python number inside a lazy graph: its new value {after} recompiled it.",
            "Make it a tensor on the device: run.hyper.NAME, or run.apply_to(optimizer) for a learning rate.",
            about=name,
            location=self.location,
            run=self.run.id if self.run is not None else None,
        )


@dataclass(slots=True)
class _Place:
    compiled: int = 0
    before: Signature | None = None
    polls: int = 0
    volatile: set[str] = field(default_factory=set)
    #: by number or setting: the number of compilations in which it had changed
    statics: Counter[str] = field(default_factory=Counter)
    #: by argument that was the reason: its shapes so far
    shapes: dict[str, dict[Shape, None]] = field(default_factory=dict)

    def remember_shapes(self, argument: str, now: Signature) -> list[Shape]:
        """All shapes of an argument, with the shapes of the previous launch and of this one. Bounded."""
        seen = self.shapes.setdefault(argument, {})
        for signature in (self.before, now):
            leaf = signature.leaves.get(argument) if signature is not None else None
            if leaf is not None:
                seen[leaf.shape] = None
        while len(seen) > MAX_SHAPES:
            del seen[next(iter(seen))]
        return list(seen)


class LazyReasons:
    """Remembers the values at each line that launches a graph. Bounded."""

    def __init__(self, cells: CellRegister) -> None:
        self._cells = cells
        self._places: OrderedDict[tuple[CodeType, int], _Place] = OrderedDict()

    def launched(self, frame: FrameType) -> None:
        """A launch that compiled nothing. Cheap, except for the first few after a compilation."""
        user = _user_frame(frame)
        if user is None:
            return
        place = self._place(user)
        if place.polls >= POLLS:
            return
        place.polls += 1
        now = signature_of_frame(user)
        if place.before is not None:
            place.volatile |= {
                found.argument
                for found in find_differences(place.before, now)
                if found.argument is not None and found.verdict in ("static", "other", "config")
            }
        place.before = now

    def unexplained(self, frame: FrameType, number: int, run: Run | None) -> LazyCompilation:
        """A running compilation on another thread. Inspects no value."""
        user = _user_frame(frame)
        place = self._places.get((user.f_code, user.f_lineno)) if user is not None else None
        compiled = place.compiled if place is not None else 0
        reason = FIRST if compiled == 0 else reason_of(Difference("other", None, None, None), "graph")
        location = find_location(self._cells, frame)
        return LazyCompilation(
            number, _function_name(user), location, run, {**reason, "advice": None}, compiled + 1
        )

    def of_read(self, frame: FrameType | None, number: int, run: Run | None) -> LazyCompilation:
        """A compilation by the read of a value, at `frame` if known. Inspects no value."""
        if frame is None:
            return LazyCompilation(number, "value read", None, run, UNKNOWN, 1)
        reported = self.unexplained(frame, number, run)
        user = _user_frame(frame)
        if user is not None:
            self._place(user).compiled += 1
        return reported

    def explain(self, frame: FrameType, number: int, run: Run | None) -> LazyCompilation:
        """The reason of a compilation that the launch at `frame` causes."""
        user = _user_frame(frame)
        location = find_location(self._cells, frame)
        if user is None:
            return LazyCompilation(number, "graph", location, run, FIRST, 1)
        place = self._place(user)
        function = _function_name(user)
        now = signature_of_frame(user)
        # A graph that an earlier loop has compiled was launched here without a compilation.
        reason = FIRST if place.before is None else self._compare(place, now, function)
        place.compiled += 1
        place.before, place.polls = now, 0
        repeated = place.statics[reason["argument"] or ""]
        return LazyCompilation(number, function, location, run, reason, place.compiled, repeated)

    def _place(self, user: FrameType) -> _Place:
        key = (user.f_code, user.f_lineno)
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        while len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)
        return place

    def _compare(self, place: _Place, now: Signature, function: str) -> CompileReason:
        found = [
            difference
            for difference in (find_differences(place.before, now) if place.before else [])
            if difference.argument not in place.volatile
        ]
        statics = [difference.argument or "" for difference in found if difference.verdict == "static"]
        place.statics.update(statics)
        # A user's counter that differs at a compilation is no reason, unless it happens again.
        passing = {name for name in statics if "." not in name and place.statics[name] < MIN_REPEATS}
        found = [difference for difference in found if difference.argument not in passing]
        if not found:
            return {**reason_of(Difference("other", None, None, None), function), "advice": _ANOTHER_GRAPH}
        chosen = min(found, key=lambda difference: weight_of(difference.verdict))
        reason = reason_of(chosen, function)
        if chosen.verdict == "shape" and chosen.argument is not None:
            seen = place.remember_shapes(chosen.argument, now)
            reason["advice"] = bucket_advice(chosen.argument, function, seen) or reason["advice"]
        if chosen.verdict == "static" and (chosen.argument or "").endswith((".training", "_enabled()")):
            reason["advice"] = "Training and evaluation are two programs, each compiled once."
        elif chosen.verdict == "static":
            reason["advice"] = (
                f"`{chosen.argument}` became part of the graph, which is recompiled for each value: make it "
                "a tensor on the device, for example with run.hyper."
            )
        return reason


def signature_of_frame(frame: FrameType) -> Signature:
    """The local variables of a frame, as far as they can be part of a graph."""
    leaves: dict[str, Leaf] = {}
    statics: dict[str, str] = {}
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return Signature(leaves, {}, statics)
    statics["torch.is_grad_enabled()"] = str(torch.is_grad_enabled())
    for name, value in list(frame.f_locals.items())[:MAX_NAMES]:
        if name.startswith("_"):
            continue
        for path, part in _parts(name, value, 0):
            if isinstance(part, torch.Tensor):
                shape = tuple(int(size) for size in part.shape)
                leaves[path] = Leaf(shape, str(part.dtype).removeprefix("torch."), False, None)
            elif isinstance(part, torch.nn.Module):
                statics[f"{path}.training"] = str(part.training)
            elif isinstance(getattr(part, "param_groups", None), list):
                for number, group in enumerate(part.param_groups):
                    for setting, held in group.items():
                        if isinstance(held, (int, float)):
                            statics[f"{path}.param_groups[{number}]['{setting}']"] = repr(held)
            elif isinstance(part, (int, float, bool)):
                statics[path] = repr(part)
    return Signature(leaves, {}, statics)


def _parts(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if depth < 2 and isinstance(value, dict):
        for key, item in list(value.items())[:32]:
            yield from _parts(f"{path}[{key!r}]", item, depth + 1)
    elif depth < 2 and isinstance(value, (list, tuple)):
        for index, item in enumerate(list(value)[:32]):
            yield from _parts(f"{path}[{index}]", item, depth + 1)
    else:
        yield path, value


def _function_name(user: FrameType | None) -> str:
    return "graph" if user is None or user.f_code.co_name.startswith("<") else user.f_code.co_name


def _user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_user_frame(frame):
        frame = frame.f_back
    return frame
