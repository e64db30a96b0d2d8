"""Every use of private parts of jax, in one place, each guarded.

Checked against jax 0.10.2 (Python 3.11) and 0.12.0.1 by `tests/runtimes/test_jax_contract.py`. When a part
has changed, the function here returns None and the feature that needs it is missing; the user's code never
breaks.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from tpulab.runtimes.device_value import all_ready, is_running
from tpulab.telemetry.clocks import now_ns

TRACE_EVENT = "/jax/core/compile/jaxpr_trace_duration"
LOWER_EVENT = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"

DispatchHook = Callable[[Any, Any, Any, Any], object]


def loaded_jax() -> ModuleType | None:
    """jax, when the user has imported it completely."""
    module = sys.modules.get("jax")
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def backends_ready() -> bool:
    """Whether the user's code has initialised a backend. Never initialises one, and never waits for one."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    lock = getattr(bridge, "_backend_lock", None)
    if bridge is None or not bridge.__dict__.get("_backends"):
        return False
    if lock is None:
        return True
    # Held during the initialization of backends, which takes seconds on a TPU.
    if not lock.acquire(blocking=False):
        return False
    lock.release()
    return True


def missing_parts() -> list[str]:
    """The features that are unavailable with the loaded jax, in words: a private part has changed."""
    monitoring: Any = sys.modules.get("jax.monitoring")
    dispatch: Any = sys.modules.get("jax._src.dispatch")
    array: Any = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    phases = [
        getattr(dispatch, name, None)
        for name in ("JAXPR_TRACE_EVENT", "JAXPR_TO_MLIR_MODULE_EVENT", "BACKEND_COMPILE_EVENT")
    ]
    listeners = (
        "register_scalar_listener",
        "register_event_duration_secs_listener",
        "register_event_listener",
    )
    parts = {
        "compilations": phases == [TRACE_EVENT, LOWER_EVENT, COMPILE_EVENT]
        and all(hasattr(monitoring, name) for name in listeners),
        "device time": DispatchHookSlot.find() is not None,
        "programs with effects, such as prints": PythonCalls.patched() is not None,
        "lines that wait for a device value in each step": isinstance(vars(array).get("_value"), property)
        if array is not None
        else False,
    }
    return [what for what, is_there in parts.items() if not is_there]


_PMAP = "jax._src.pmap"


def program_of_transformation(frame: FrameType | None) -> Any:
    """What stays the same from call to call of a jitted function in `jax.grad` or `jax.vmap` outside jit,
    in the hook after a call, whose frame is given."""
    while frame is not None and frame.f_globals.get("__name__") != "jax._src.pjit":
        frame = frame.f_back
    return frame.f_locals.get("jaxpr") if frame is not None else None


class DispatchHookSlot:
    """jax's hook after each call of a compiled function on this thread: `hook(function, args, kwargs,
    output)`.

    jax uses it for `jax_debug_nans`. A function installed there is still called, so that both work.
    It is not called for the call that compiles, nor for the first call of a function compiled ahead of time.
    jax leaves out programs with effects (`jax.debug.print`, references): `PythonCalls` reports them.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._hook: DispatchHook | None = None
        self._wrapped: Callable[..., object] | None = None
        self._previous: Any = None

    @classmethod
    def find(cls) -> DispatchHookSlot | None:
        state = getattr(sys.modules.get("jax._src.api"), "_post_hook_state", None)
        if state is None or not all(
            hasattr(state, name) for name in ("get_local", "swap_local", "set_local")
        ):
            return None
        return cls(state)

    def install(self, hook: DispatchHook) -> None:
        """Installs the hook on this thread, where it stays until `remove`."""
        if self._wrapped is not None and self._state.get_local() is self._wrapped:
            return
        self._hook = hook
        if self not in _slots.installed:
            _slots.installed.append(self)
            _keep_hooks()
        self._wrap(hook)

    def _wrap(self, hook: DispatchHook) -> None:
        state = self._state
        before = state.get_local()

        def chained(function: Any, args: Any, kwargs: Any, output: Any) -> object:
            hook(function, args, kwargs, output)
            other = before if callable(before) else _global_check(state)
            return other(function, args, kwargs, output) if other is not None else None

        self._wrapped, self._previous = chained, before
        state.set_local(chained)

    def remove(self) -> None:
        if self._wrapped is not None and self._state.get_local() is self._wrapped:
            self._state.set_local(self._previous)
        self._hook = self._wrapped = None
        if self in _slots.installed:
            _slots.installed.remove(self)

    def wrap_again(self) -> None:
        if self._hook is not None:
            self._wrap(self._hook)

    def report(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._hook is not None:
            self._hook(function, args, kwargs, output)


class _Slots(threading.local):
    def __init__(self) -> None:
        self.installed: list[DispatchHookSlot] = []


#: of this thread
_slots = _Slots()


def _debug_options() -> list[Any]:
    config = getattr(sys.modules.get("jax._src.api"), "config", None)
    options = [getattr(config, name, None) for name in ("debug_nans", "debug_infs")]
    return [option for option in options if callable(getattr(option, "_update_thread_local_hook", None))]


def _global_check(state: Any) -> Callable[..., object] | None:
    """jax's check of all threads. A thread may switch it off: `jax.debug_nans(False)`."""
    check: Callable[..., object] | None = state.get_global()
    return check if check is not None and any(option.value for option in _debug_options()) else None


def _keep_hooks() -> None:
    """jax clears a thread's hook whenever `debug_nans` or `debug_infs` changes there, as in the derivative
    of a function that calls a jitted one, or in `jnp.percentile`."""
    for option in _debug_options():
        updates = option._update_thread_local_hook
        if getattr(updates, "keeps_hooks", False):
            continue

        def update(value: object, updates: Callable[[object], None] = updates) -> None:
            updates(value)
            for slot in _slots.installed:
                slot.wrap_again()

        update.keeps_hooks = True  # type: ignore[attr-defined]
        option._update_thread_local_hook = update


#: To start a program costs less processor time than this. Programs that run in the call and take less are not
#: looked for.
MIN_RUN_IN_CALL_NS = 2_000_000
#: Retained jitted functions.
MAX_FUNCTIONS = 256


class _Jitted:
    """Stands for a jitted function where jax passes only the function that was jitted. Does not keep it."""

    def __init__(self, function: Any) -> None:
        self._function = weakref.ref(function)
        self.__module__ = getattr(function, "__module__", None) or ""
        self.__name__ = getattr(function, "__name__", "")

    @property
    def _fun(self) -> Any:
        return self._function()


class PythonCalls:
    """The calls that jax makes through Python: the first of each program, and all of programs with effects.

    The CPU runs some programs on the calling thread, such as those with callbacks and long loops of small
    operations: the output is ready when the call returns. Which ones is known from here, and of programs
    with effects also how long each call took.
    """

    def __init__(self) -> None:
        #: by the id of a jitted function whose program ran in its last call through Python: the time; 0 if
        #: only the first call was seen, which takes longer than the others
        self._in_call: dict[int, int] = {}
        self._jitted: dict[int, _Jitted] = {}
        self._called: weakref.WeakSet[Any] = weakref.WeakSet()
        self._of_thread = threading.local()

    @staticmethod
    def patched() -> tuple[Any, Any] | None:
        """The module and the class whose functions `install` wraps; None where jax has changed."""
        pjit = sys.modules.get("jax._src.pjit")
        program = getattr(sys.modules.get("jax._src.interpreters.pxla"), "ExecuteReplicated", None)
        return (pjit, program) if hasattr(pjit, "_run_python_pjit") and program is not None else None

    def install(self) -> None:
        """Does nothing where it is installed, or where jax has changed."""
        parts = self.patched()
        if parts is None or getattr(parts[0]._run_python_pjit, "is_watched", False):
            return
        pjit, program = parts
        run, execute = pjit._run_python_pjit, program.__call__

        @functools.wraps(execute)
        def executed(program: Any, *args: Any) -> Any:
            # Processor time too: on a busy machine, a short program may be over before a slow call returns.
            began, began_cpu = now_ns(), time.process_time_ns()
            output = execute(program, *args)
            took, cpu = now_ns() - began, time.process_time_ns() - began_cpu
            with contextlib.suppress(Exception):
                devices = program._local_devices
                on_one_cpu = len(devices) == 1 and devices[0].platform == "cpu"
                if not on_one_cpu or any(map(is_running, output)):
                    took = cpu = 0
                self._of_thread.last = (weakref.ref(program), took, cpu)
            return output

        @functools.wraps(run)
        def watched(params: Any, flat: Any, function: Any, args: Any, kwargs: Any) -> Any:
            result = run(params, flat, function, args, kwargs)
            with contextlib.suppress(Exception):
                self._note(result[5].unsafe_call, function, args, kwargs, result[0])
            return result

        watched.is_watched = True  # type: ignore[attr-defined]
        program.__call__, pjit._run_python_pjit = executed, watched

    def _note(self, program: Any, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        last, took, cpu = self._of_thread.last
        if last() is not program:
            return
        has_effects = program.ordered_effects or program.has_unordered_effects or program.mut is not None
        # The first call of a function sets its entry, so the id of an earlier one does no harm.
        self._in_call.pop(id(function), None)
        if took if has_effects else min(took, cpu) > MIN_RUN_IN_CALL_NS:
            _set_bounded(self._in_call, id(function), took if has_effects else 0)
        if has_effects and program in self._called:
            jitted = self._jitted.get(id(function))
            if jitted is None or jitted._fun is not function:
                jitted = _Jitted(function)
                _set_bounded(self._jitted, id(function), jitted)
            for slot in reversed(_slots.installed):
                slot.report(jitted, args, kwargs, output)
        self._called.add(program)

    def time_in_call(self, jitted: Any, output: Any) -> int | None:
        """How long the program of a call that has just returned ran in it; 0: not known. None: it did not."""
        if not self._in_call:
            return None
        function = id(getattr(jitted, "_fun", None))
        took = self._in_call.get(function)
        if took is not None and not all_ready(output):
            self._in_call.pop(function, None)  # Another thread may have removed it.
            return None
        return took


def _set_bounded(entries: dict[int, Any], key: int, value: Any) -> None:
    if len(entries) >= MAX_FUNCTIONS:
        del entries[next(iter(entries))]
    entries[key] = value


python_calls = PythonCalls()


@dataclass(frozen=True, slots=True)
class JitCall:
    """A call of a jitted function, found on the stack while it compiles."""

    function: Any
    jit_info: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: a real call; False: traced ahead of time (`lower`, `eval_shape`), where no compilation need follow
    executes: bool


def function_of_jit(jitted: Any) -> Any:
    """The function that was jitted; None for one compiled ahead of time, or by a transformation."""
    return getattr(jitted, "_fun", None)


def is_of_jax(jitted: Any) -> bool:
    """A single operation outside jit, or a function that jax itself has jitted."""
    return function_of_jit(jitted) is not None and is_module_of_jax(jitted.__module__)


def is_module_of_jax(module: str | None) -> bool:
    """A function jitted by `pmap` has jax's module, but is the user's."""
    return (module or "jax").split(".")[0] == "jax" and module != _PMAP


def written_function(function: Any) -> Any:
    """The function as the user wrote it; a `pmap` wrapper has it in a closure."""
    written = inspect.unwrap(function)
    if getattr(written, "__module__", None) == _PMAP:
        for name, cell in zip(written.__code__.co_freevars, written.__closure__ or (), strict=True):
            if name == "fun":
                return getattr(cell.cell_contents, "f", written)
    return written


def find_jit_call(
    frame: FrameType | None,
    folder: str,
    is_user_frame: Callable[[FrameType], bool],
    names: tuple[str, ...] = ("cache_miss", "jit_trace"),
) -> JitCall | None:
    """The innermost call of a jitted function above the first frame of the user; `names` are jax's functions
    that make one."""
    pjit = os.path.join(folder, "_src", "pjit.py")
    while frame is not None and not is_user_frame(frame):
        if frame.f_code.co_filename == pjit and frame.f_code.co_name in names:
            return _jit_call_of(frame)
        frame = frame.f_back
    return None


def _jit_call_of(frame: FrameType) -> JitCall | None:
    seen = frame.f_locals
    wrapper = seen.get("jit_func")
    function = function_of_jit(wrapper) if wrapper is not None else seen.get("fun")
    info = getattr(wrapper, "_jit_info", None) if wrapper is not None else seen.get("jit_info")
    args, kwargs = seen.get("args"), seen.get("kwargs")
    if function is None or not isinstance(args, tuple) or not isinstance(kwargs, dict):
        return None
    return JitCall(function, info, args, kwargs, executes=wrapper is None)


def under_transformation(
    frame: FrameType | None, folder: str, is_user_frame: Callable[[FrameType], bool]
) -> bool:
    """Whether a jitted function compiles because `grad` or `vmap` outside jit evaluates it."""
    pjit = os.path.join(folder, "_src", "pjit.py")
    while frame is not None and not is_user_frame(frame):
        if frame.f_code.co_filename == pjit and frame.f_code.co_name == "call_impl_cache_miss":
            return True
        frame = frame.f_back
    return False


def find_lowered(frame: FrameType | None) -> tuple[Any, int] | None:
    """The traced program that is being lowered and its number of devices, from jax's own frame."""
    for _ in range(8):
        if frame is None:
            return None
        jaxpr = frame.f_locals.get("closed_jaxpr")
        if jaxpr is not None and hasattr(jaxpr, "jaxpr"):
            devices = frame.f_locals.get("num_devices")
            return jaxpr, devices if isinstance(devices, int) and devices > 0 else 1
        frame = frame.f_back
    return None


def program_fingerprint(frame: FrameType | None) -> str | None:
    """A fingerprint of the program that is being compiled, from jax's own frame; the same in another run.

    Without its places in the source, which change with each edit of a cell, and its large constants. Takes
    about a hundredth of the compilation (2 MB of text: 0.12 s, on the thread that then compiles for 19 s).
    """
    for _ in range(8):
        if frame is None:
            return None
        operation = getattr(frame.f_locals.get("computation"), "operation", None)
        if operation is not None:
            text = operation.get_asm(enable_debug_info=False, large_elements_limit=16, assume_verified=True)
            return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        frame = frame.f_back
    return None


def phase_error(frame: FrameType | None) -> type[BaseException] | None:
    """The exception with which a compile phase ended, from the frame of jax's timing context manager."""
    while frame is not None and frame.f_code.co_name in ("record_event_duration_secs", "__exit__"):
        if frame.f_code.co_name == "__exit__":
            kind = frame.f_locals.get("exc_type")
            return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None
        frame = frame.f_back
    return None


def before_compile(look: Callable[[Any, Any], None]) -> bool:
    """Calls `look(module, devices)` before a program is compiled, or loaded from the compilation cache.

    Exceptions of `look` surface where the user called the function. False: this jax compiles differently.
    """
    compiler: Any = sys.modules.get("jax._src.compiler")
    compile_program = getattr(compiler, "compile_or_get_cached", None)
    if compile_program is None:
        return False
    if list(inspect.signature(compile_program).parameters)[:3] != ["backend", "computation", "devices"]:
        return False

    @functools.wraps(compile_program)
    def inspected(backend: Any, computation: Any, devices: Any, *args: Any, **kwargs: Any) -> Any:
        look(computation, devices)
        return compile_program(backend, computation, devices, *args, **kwargs)

    compiler.compile_or_get_cached = inspected
    return True


def tracing_context() -> dict[str, str]:
    """The settings that are part of jax's cache keys (x64, matmul precision, mesh, …), as text."""
    config = sys.modules.get("jax._src.config")
    names: Any = getattr(config, "trace_context_names", None)
    values: Any = getattr(config, "trace_context", None)
    if names is None or values is None:
        return {}
    return {str(name): repr(value)[:200] for name, value in zip(names(), values(), strict=False)}
