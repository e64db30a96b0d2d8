"""One compilation on its way through its phases, and its properties at the start."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tpulab.compile.cache import HIT_EVENT, outcome
from tpulab.compile.programs import CallKey, call_key
from tpulab.compile.reason import FIRST, ReasonFinder, reference_to
from tpulab.compile.signatures import Signature, signature_of
from tpulab.figures.throughput import Program
from tpulab.measure.runs import Run
from tpulab.runtimes.jax_internals import (
    COMPILE_EVENT,
    LOWER_EVENT,
    TRACE_EVENT,
    JitCall,
    find_jit_call,
    is_module_of_jax,
    under_transformation,
    written_function,
)
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.locations import find_location, is_user_frame, jax_folder
from tpulab.telemetry.messages import CodeLocation, CompileMessage, CompileReason

if TYPE_CHECKING:
    from tpulab.measure.runs import Run


_SHAPE = re.compile(r"\[(\d+)((?:,\d+)*)\]")
#: Earlier steps of the same run: a loop that has just started has no last batch.
MIN_STEPS = 2


def advise_on_batch(
    name: str, reason: CompileReason, location: CodeLocation | None, run: Run | None, adviser: Adviser
) -> None:
    """Reports a step that compiled only because the first axis of an argument became smaller."""
    if reason["verdict"] != "shape" or run is None or run.closed < MIN_STEPS:
        return
    before, after = (_SHAPE.search(reason[side] or "") for side in ("before", "after"))
    if before is None or after is None or before[2] != after[2] or int(after[1]) >= int(before[1]):
        return
    adviser.report(
        "ragged-batch",
        f"A batch of {after[1]} came after batches of {before[1]}: `{name}` was compiled for it.",
        "Drop the last batch (drop_remainder, drop_last) or pad it to the full size and mask the rest.",
        about=name,
        location=location,
        run=run.id,
    )


@dataclass(slots=True, eq=False)
class Compilation:
    id: int
    name: str
    #: module and qualified name: the identity of a function
    key: str
    #: weak reference to the jitted function
    function: Callable[[], Any] = lambda: None
    signature: Signature | None = None
    #: settings of its jit, and the key that separates its calls from those of other variants
    jit_info: Any = None
    call_key: CallKey | None = None
    location: CodeLocation | None = None
    eager: bool = False
    #: part of a call, so that a compilation follows the tracing unless it fails
    executes: bool = False
    reason: CompileReason = field(default_factory=lambda: FIRST)
    variant: int = 1
    run: Run | None = None
    #: jax's name for it, where it differs from the user's
    name_in_jax: str = ""
    #: names of the events of the persistent cache during the compilation
    cache_events: set[str] = field(default_factory=set)
    #: the operations of the program, once it has been lowered
    program: Program | None = None
    fingerprint: str | None = None
    started_ns: int = field(default_factory=now_ns)
    phase_ns: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((TRACE_EVENT, LOWER_EVENT, COMPILE_EVENT), 0)
    )
    # One token: popping is atomic, and two threads may want to announce.
    _unclaimed: list[bool] = field(default_factory=lambda: [True])

    @property
    def claimed(self) -> bool:
        return not self._unclaimed

    def claim(self) -> bool:
        """True once: the caller that gets it announces the start."""
        try:
            return self._unclaimed.pop()
        except IndexError:
            return False

    def message(self, phase: Any) -> CompileMessage:
        message = compile_message(
            self,
            phase,
            self.name,
            trace_ms=self.phase_ns[TRACE_EVENT] / 1e6,
            lower_ms=self.phase_ns[LOWER_EVENT] / 1e6,
            compile_ms=self.phase_ns[COMPILE_EVENT] / 1e6,
            cache_hit=HIT_EVENT in self.cache_events,
            eager=self.eager,
        )
        if phase == "finished":
            message["cache"] = outcome(self.cache_events, message["compileMs"], self.name)
        if self.fingerprint is not None:
            message["fingerprint"] = self.fingerprint
        return message


class Explained(Protocol):
    """A compilation of any framework, with its cause."""

    id: int
    variant: int
    location: CodeLocation | None
    run: Run | None
    reason: CompileReason


def compile_message(
    compilation: Explained,
    phase: Any,
    function: str,
    *,
    compile_ms: float,
    trace_ms: float = 0.0,
    lower_ms: float = 0.0,
    cache_hit: bool = False,
    eager: bool = False,
) -> CompileMessage:
    return {
        "type": "compile",
        "time": unix_now_ms(),
        "id": compilation.id,
        "phase": phase,
        "function": function,
        "variant": compilation.variant,
        "traceMs": trace_ms,
        "lowerMs": lower_ms,
        "compileMs": compile_ms,
        "cacheHit": cache_hit,
        "eager": eager,
        "location": compilation.location,
        "run": compilation.run.id if compilation.run is not None else None,
        "reason": compilation.reason,
    }


def describe(
    name: str, number: int, cells: CellRegister, reasons: ReasonFinder, frame: FrameType | None
) -> Compilation:
    """Where a compilation that starts at `frame` comes from, by the stack."""
    folder = jax_folder() or ""
    call = find_jit_call(frame, folder, is_user_frame)
    location = find_location(cells, frame)
    transformed = False
    if call is None:
        compilation = Compilation(number, name, key=name, location=location)
        transformed = under_transformation(frame, folder, is_user_frame)
        if transformed:
            compilation.key = f"{name} (transformed)"
            compilation.executes = True
    else:
        compilation = _of_call(name, number, call)
        compilation.location = location
    compilation.reason = reasons.explain(
        compilation.key,
        name,
        call.function if call is not None else None,
        compilation.signature,
        eager=compilation.eager,
        transformed=transformed,
    )
    compilation.name_in_jax = name
    is_first = compilation.reason["verdict"] == "first"
    compilation.variant = 1 if is_first else reasons.variants(compilation.key) + 1
    return compilation


def _of_call(name: str, number: int, call: JitCall) -> Compilation:
    written = written_function(call.function)
    if written is not inspect.unwrap(call.function):
        name = getattr(written, "__name__", name)
    module = getattr(written, "__module__", None) or ""
    qualified = getattr(written, "__qualname__", None) or name
    code = getattr(written, "__code__", None)
    key = f"{module}.{qualified}"
    if "<lambda>" in qualified and code is not None:
        # Two lambdas of one line are two functions.
        key += f":{code.co_filename}:{code.co_firstlineno}:{hash(code)}"
    try:
        signature: Signature | None = signature_of(call)
    except Exception:
        signature = None
    return Compilation(
        number,
        name,
        key,
        function=reference_to(call.function),
        signature=signature,
        jit_info=call.jit_info,
        call_key=call_key(call),
        eager=bool(getattr(call.function, "_apply_primitive", False))
        or (module != "" and is_module_of_jax(module)),
        executes=call.executes,
    )
