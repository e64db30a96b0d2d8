"""Steps and compilations of PyTorch, whatever runs it: eager, `aot_eager`, inductor or `tpu`.

A step ends with an optimizer step. torch.compile reports its begin and end, on the thread and
with the frames of the user; it writes the reason and the time of its parts a moment later, which the
agent's thread reads. Each compiled program is wrapped, so that its launches are seen. Checked against torch
2.9, 2.12 and 2.15 (`tests/pytorch`); a part that has changed is missed, and breaks nothing.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tpulab.compile.compilation import advise_on_batch, compile_message
from tpulab.compile.reason import FIRST, Difference, reason_of
from tpulab.compile.torch_guards import reason_of_guard
from tpulab.figures.throughput import Program
from tpulab.measure.auto_steps import AutoSteps
from tpulab.measure.runs import Run
from tpulab.measure.thread_state import thread_state
from tpulab.measure.tracked_run import current_run
from tpulab.measure.tracker import Tracker
from tpulab.runtimes.import_hook import AfterImport
from tpulab.runtimes.torch_runtime import TorchRuntime
from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.locations import find_location
from tpulab.telemetry.messages import CodeLocation, CompileMessage, CompileReason

MAX_FUNCTIONS = 1024
#: How long to wait for the figures of a compilation; it is then reported without them.
PATIENCE_NS = 2_000_000_000
#: A graph with more operations than this is not counted: going through it takes too long.
MAX_COUNTED = 20_000
_NOT_EAGER = ("xla", "meta")


@dataclass(slots=True, eq=False)
class TorchCompilation:
    id: int
    #: torch's own number ("0/1"), which a backward pass shares with its forward pass
    compile_id: str
    function: str
    key: str
    is_forward: bool
    location: CodeLocation | None
    run: Run | None
    variant: int
    reason: CompileReason
    began_unix_us: float = field(default_factory=lambda: unix_now_ms() * 1e3)
    began: int = field(default_factory=now_ns)
    ended: int = 0
    trace_ms: float = 0.0
    compile_ms: float = 0.0

    def message(self, phase: Any) -> CompileMessage:
        return compile_message(self, phase, self.function, compile_ms=self.compile_ms, trace_ms=self.trace_ms)


class TorchWatch:
    """For one tracker. `next_id` numbers the compilations of the process."""

    def __init__(
        self, runtime: TorchRuntime, tracker: Tracker, auto: AutoSteps, next_id: Callable[[], int]
    ) -> None:
        self._runtime = runtime
        self._tracker = tracker
        self._auto = auto
        self._next_id = next_id
        self._hook = AfterImport("torch._dynamo.output_graph", self._on_dynamo)
        self._handle: Any = None
        self._patched: list[tuple[Any, str, Any]] = []
        #: by thread: its running compilation
        self._open: dict[int, TorchCompilation] = {}
        #: over, and not yet explained by torch
        self._unexplained: list[TorchCompilation] = []
        self._variants: OrderedDict[str, int] = OrderedDict()
        self._functions: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._breaks_seen = 0
        self._eager: tuple[int, float] = (0, 0.0)
        self._finished = 0
        #: run and number of the step in which a compiled program was launched last
        self._launched_in: tuple[str, int] = ("", -1)

    def attach(self) -> bool:
        optimizers: Any = sys.modules.get("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if not callable(register):
            return False
        self._handle = register(_hidden_from_dynamo(self._on_optimizer_step))
        loader = getattr(sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter", None)
        if callable(getattr(loader, "__next__", None)):
            following = loader.__next__  # type: ignore[union-attr]
            self._patch(loader, "__next__", lambda it: self._around_wait(lambda: following(it)))
        self._hook.install()
        return True

    def detach(self) -> None:
        self._hook.remove()
        if self._handle is not None:
            self._handle.remove()
        while self._patched:
            owner, name, original = self._patched.pop()
            setattr(owner, name, original)
        for callbacks, mine in self._callbacks():
            if mine in callbacks:
                callbacks.remove(mine)

    def _patch(self, owner: Any, name: str, value: Any) -> None:
        self._patched.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _around_wait(self, wait: Callable[[], Any]) -> Any:
        state, began = thread_state(), now_ns()
        try:
            return wait()
        finally:
            if state.clocks:
                state.waits.append((began, now_ns()))

    # No error in here may surface in the user's call: each function is guarded as a whole.
    def _on_optimizer_step(self, optimizer: Any, *_: Any) -> None:
        try:
            kind = _device_type(optimizer)
            if kind is None or kind in _NOT_EAGER:
                return
            self._post(kind, launched=False)
            self._auto.tick(sys._getframe(1))
        except Exception as error:
            self._tracker.warn("a step of PyTorch was not measured: %r", error)

    def _post(self, kind: str, *, launched: bool) -> None:
        """All work queued on the device so far belongs to the open steps."""
        mark = self._runtime.mark(kind)
        if mark is None:
            return
        for clock in thread_state().clocks:
            if not clock.is_open or not clock.is_watching:
                continue
            step = (clock.run.id, clock.run.closed)
            if launched or step == self._launched_in:
                clock.watch(mark)
            else:
                # Only eager operations: the device may have had them since the body of the loop began.
                clock.watch_at_end(mark)
            self._launched_in = step if launched else self._launched_in

    def _on_dynamo(self) -> None:
        graph: Any = getattr(sys.modules.get("torch._dynamo.output_graph"), "OutputGraph", None)
        inner = getattr(graph, "call_user_compiler", None)
        if not callable(inner):
            return
        watch = self

        @functools.wraps(inner)
        def call_user_compiler(output: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
            return watch._wrapped(inner(output, module, *args, **kwargs), module)

        self._patch(graph, "call_user_compiler", call_user_compiler)
        handler: Any = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        forget = getattr(handler, "clear", None)
        if callable(forget):
            # `torch._dynamo.reset()` forgets all callbacks.
            def clear() -> None:
                forget()
                self._listen()

            self._patch(handler, "clear", clear)
        self._listen()

    def _callbacks(self) -> list[tuple[list[Any], Any]]:
        handler: Any = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is None:
            return []
        return [(handler.start_callbacks, self._on_start), (handler.end_callbacks, self._on_end)]

    def _listen(self) -> None:
        for callbacks, mine in self._callbacks():
            if mine not in callbacks:
                callbacks.append(mine)

    def _on_start(self, args: Any) -> None:
        try:
            self._start(str(args.compile_id), getattr(args.callback_trigger, "name", "DYNAMO"))
        except Exception as error:
            self._tracker.warn("a compilation of PyTorch was not seen: %r", error)

    def _on_end(self, args: Any) -> None:  # noqa: ARG002 - torch's
        compilation = self._open.pop(threading.get_ident(), None)
        if compilation is None:
            return
        compilation.ended = now_ns()
        thread_state().compiles.append((compilation.began, compilation.ended))
        self._unexplained.append(compilation)
        self._tracker.wake()

    def _start(self, compile_id: str, trigger: str) -> None:
        frame = sys._getframe(2)
        is_forward = trigger == "DYNAMO"
        if is_forward:
            name, key = self._functions[compile_id] = _function_of(frame)
            if " (after line " in name and _is_library(key):
                # The rest of one of torch's own functions (around `Optimizer.step`): no program.
                return
            while len(self._functions) > MAX_FUNCTIONS:
                self._functions.popitem(last=False)
        name, key = self._functions.get(compile_id, ("graph", "graph"))
        if not is_forward:
            name, key = f"{name} (backward)", f"{key} backward"
        variant = self._variants[key] = self._variants.get(key, 0) + 1
        self._variants.move_to_end(key)
        while len(self._variants) > MAX_FUNCTIONS:
            self._variants.popitem(last=False)
        compilation = TorchCompilation(
            self._next_id(),
            compile_id,
            name,
            key,
            is_forward,
            find_location(self._tracker.cells, frame),
            current_run(),
            variant,
            FIRST if variant == 1 else reason_of_guard("", name),
        )
        self._open[threading.get_ident()] = compilation
        self._send(compilation.message("started"))

    def _wrapped(self, program: Any, module: Any) -> Any:
        kind = _device_of(module)
        counted = _count(module, kind)

        @functools.wraps(program)
        def run(*inputs: Any) -> Any:
            made = program(*inputs)
            try:
                for clock in thread_state().clocks[-1:]:
                    if clock.is_open and clock.is_watching and clock.run.throughput is not None:
                        clock.run.throughput.ran(counted)
                if kind not in (None, "cpu", *_NOT_EAGER):
                    self._post(kind, launched=True)
            except Exception as error:
                self._tracker.warn("a program of PyTorch was not measured: %r", error)
            return made

        return run

    def poll(self) -> None:
        """Called by the agent's thread: reports what torch has recorded meanwhile."""
        if self._unexplained:
            self._explain()
        self._report_breaks()
        count, seconds = self._runtime.eager_programs()
        before, self._eager = self._eager, (count, seconds)
        more, self._finished = count - before[0] - self._finished, 0
        if more > 0:
            self._report_eager(more, max(seconds - before[1], 0.0) * 1e3)

    def _explain(self) -> None:
        read = getattr(sys.modules.get("torch._dynamo.utils"), "get_compilation_metrics", None)
        metrics = list(read()) if callable(read) else []
        for compilation in list(self._unexplained):
            figures = next((one for one in reversed(metrics) if _is_of(one, compilation)), None)
            if figures is None and now_ns() - compilation.ended < PATIENCE_NS:
                continue
            self._unexplained.remove(compilation)
            self._finish(compilation, figures)

    def _finish(self, compilation: TorchCompilation, figures: Any) -> None:
        whole_ms = (compilation.ended - compilation.began) / 1e6
        backend_ms = min(1e3 * (getattr(figures, "backend_compile_time_s", None) or 0.0), whole_ms)
        compilation.compile_ms = backend_ms or whole_ms
        compilation.trace_ms = whole_ms - compilation.compile_ms
        guard = getattr(figures, "recompile_reason", None)
        if guard:
            compilation.reason = reason_of_guard(str(guard), compilation.function)
        elif compilation.variant > 1:
            # No guard failed: torch did not know the function, or had forgotten it.
            compilation.reason = {
                **reason_of(Difference("redefined", None, None, None), compilation.function),
                "advice": f"Define and compile `{compilation.function}` once, not in a loop or a rerun cell, "
                "and leave `torch._dynamo.reset()` out between steps.",
            }
        run = compilation.run
        if run is not None:
            run.compilations += 1
            run.compile_ms += whole_ms
        self._finished += 1
        failed = getattr(figures, "fail_type", None) is not None
        self._send(compilation.message("failed" if failed else "finished"))
        advise_on_batch(
            compilation.function, compilation.reason, compilation.location, run, self._tracker.adviser
        )

    def _report_breaks(self) -> None:
        found = getattr(sys.modules.get("torch._dynamo.utils"), "graph_break_reasons", None) or ()
        if len(found) < self._breaks_seen:  # `torch._dynamo.reset()` has emptied it
            self._breaks_seen = 0
        for reason in list(found)[self._breaks_seen :]:
            self._breaks_seen += 1
            where = _broken_at(getattr(reason, "user_stack", None) or ())
            why = str(getattr(reason, "reason", "")).strip().splitlines()
            if where is None or not why:
                continue
            cell = self._tracker.cells.of_file(where.filename)
            location: CodeLocation = {
                "cellId": cell.cell_id if cell is not None else None,
                "executionCount": cell.execution_count if cell is not None else None,
                "line": where.lineno,
                "file": None if cell is not None else os.path.basename(where.filename),
                "function": None if where.name.startswith("<") else where.name,
            }
            clock_run = next(iter(reversed(list(self._tracker.runs.values()))), None)
            self._tracker.adviser.report(
                "graph-break",
                f"`{where.name}` is several programs, as torch.compile stops at this line: {why[0]}.",
                "Keep values on the device until the step is over, and move what cannot be compiled out of "
                "the function; `fullgraph=True` refuses the rest.",
                about=f"{where.filename}:{where.lineno}",
                location=location,
                run=clock_run.id if clock_run is not None else None,
            )

    def _report_eager(self, number: int, lasted_ms: float) -> None:
        run = next(iter(reversed(list(self._tracker.runs.values()))), None)
        if run is not None:
            run.compilations += number
            run.compile_ms += lasted_ms
        made = TorchCompilation(
            self._next_id(), "", "eager operations", "eager", True, None, run, number, FIRST, ended=now_ns()
        )
        made.compile_ms = lasted_ms
        for phase in ("started", "finished"):
            self._send({**made.message(phase), "eager": True})

    def _send(self, message: Any) -> None:
        self._tracker.recorder.events.append(message)
        self._tracker.wake()


def _hidden_from_dynamo(hook: Callable[..., None]) -> Callable[..., None]:
    """A function that torch.compile calls unchanged and does not inspect."""

    def call(*args: Any) -> None:
        hook(*args)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call


def _device_type(optimizer: Any) -> str | None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            return str(parameter.device.type)
    return None


def _device_of(module: Any) -> str | None:
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if node.op == "placeholder" and getattr(value, "device", None) is not None:
            return str(value.device.type)
    return None


def _count(module: Any, kind: str | None) -> Program | None:
    """Floating-point operations of a graph, including its backward pass if it has one. None: not known."""
    try:
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        nodes = list(module.graph.nodes)
        if len(nodes) > MAX_COUNTED:
            return None
        inputs = [node.meta["example_value"] for node in nodes if node.op == "placeholder"]
        modes = [one.fake_mode for one in inputs if getattr(one, "fake_mode", None) is not None]
        trains = any(getattr(one, "requires_grad", False) for one in inputs)
        with modes[0], FlopCounterMode(display=False) as counter:
            made = torch.fx.Interpreter(module).run(*inputs)
            forward = counter.get_total_flops()
            # Autograd on shapes alone ends the process where torch_tpu finds no device.
            if trains and kind in ("cpu", "cuda") and torch.is_grad_enabled():
                leaves = [one for one in made if getattr(one, "requires_grad", False)]
                torch.autograd.backward([one.sum() for one in leaves])
        return Program(float(counter.get_total_flops()), not trains or counter.get_total_flops() > forward, 1)
    except Exception:
        return None


def _function_of(frame: Any) -> tuple[str, str]:
    """The function that torch.compile started with: its name, and the key that identifies it."""
    for _ in range(24):
        if frame is None:
            break
        code = frame.f_locals.get("code")
        if frame.f_code.co_name in ("compile_inner", "_compile") and hasattr(code, "co_name"):
            return _plain_name(code.co_name), f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"
        frame = frame.f_back
    return "graph", "graph"


def _plain_name(name: str) -> str:
    """`torch_dynamo_resume_in_step_at_12` is the rest of `step` after a graph break at line 12."""
    if name.startswith("torch_dynamo_resume_in_"):
        function, _, line = name.removeprefix("torch_dynamo_resume_in_").rpartition("_at_")
        return f"{function} (after line {line})"
    return name


def _is_of(figures: Any, compilation: TorchCompilation) -> bool:
    if str(getattr(figures, "compile_id", "")) != compilation.compile_id:
        return False
    if bool(getattr(figures, "is_forward", True)) != compilation.is_forward:
        return False
    # After a reset torch counts from the beginning.
    return float(getattr(figures, "start_time_us", 0) or time.time() * 1e6) >= compilation.began_unix_us - 1e6


def _broken_at(stack: Any) -> Any:
    """The user's line at which torch.compile stops. None where it stops in torch itself, as it does
    in every `Optimizer.step`, and at `backward`: these cannot be avoided."""
    innermost = stack[-1] if stack else None
    if innermost is None or _is_library(innermost.filename) or ".backward(" in (innermost.line or ""):
        return None
    return innermost


def _is_library(place: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in place or place.startswith("<")
