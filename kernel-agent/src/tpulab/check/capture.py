"""Captures every jitted call of a process that computes on the CPU, and lowers each program for a TPU.

Uses private parts of jax (tested with 0.10.2 and 0.12.0.1). Used only in the process of a
check, or during one `tpulab.preflight` call: nothing here is loaded otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from tpulab.check.chips import PreflightError, first_line
from tpulab.check.compiler import module_bytes
from tpulab.compile.flop_count import count_flops
from tpulab.runtimes.jax_internals import JitCall, find_jit_call, written_function
from tpulab.telemetry.locations import is_user_frame, jax_folder

#: Upper bound of captured programs; a notebook with more has another problem, which is reported.
MAX_PROGRAMS = 200
#: A library's function with fewer is an operation of its own, as are all of jax.
MIN_EQUATIONS = 30
#: Calls to Python on the host, for which the TPU compiler has no code.
CALLBACKS = ("debug_callback", "debug_print", "pure_callback", "io_callback")
#: Large results that are named for each program.
MAX_VALUES = 5
#: Operations that are fused into their users, or that call a separate program that is inspected.
_NO_BUFFERS = (
    "broadcast_in_dim",
    "iota",
    "jit",
    "pjit",
    "scan",
    "while",
    "cond",
    "custom_jvp_call",
    "remat2",
    "custom_vjp_call",
    "closed_call",
    "checkpoint",
    "reshape",
    "squeeze",
    "convert_element_type",
)
#: jax's functions in which a call begins.
_CALLS = ("cache_miss", "jit_trace", "jit_lower")
CELL_FILE = re.compile(r"<cell (\d+)>$")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code: of a cell (by its position, from 1) or of a file."""

    file: str
    line: int
    cell: int | None = None

    def __str__(self) -> str:
        return f"cell [{self.cell}]:{self.line}" if self.cell is not None else f"{self.file}:{self.line}"


#: Turns a code file's name and a line number into a place.
Placer = Callable[[str, int], Place]


def place_of(file: str, line: int) -> Place:
    """The cell, for code of a cell that a check runs; else the file's name without its folders."""
    cell = CELL_FILE.search(file)
    return Place("", line, int(cell[1])) if cell else Place(Path(file).name, line)


@dataclass(slots=True)
class Argument:
    name: str
    shape: tuple[int, ...]
    dtype: str
    weak: bool
    #: of all devices together
    bytes: int
    donated: bool
    #: how it is divided among the devices, as jax writes it; empty where the program leaves it to jax
    sharding: str


@dataclass(slots=True)
class Callback:
    kind: str
    place: Place | None


@dataclass(slots=True)
class Value:
    """A large result inside a program, over all devices together; the compiler may never store it whole."""

    words: str
    bytes: int
    place: Place | None


@dataclass(slots=True)
class Program:
    """The content of one compilation of a jitted function. `module` is StableHLO for a TPU."""

    name: str
    #: where the function is defined; where it is called when its source is a library's
    place: Place
    called: Place
    devices: int
    arguments: list[Argument]
    outputs: list[Argument]
    callbacks: list[Callback]
    flops: float
    flops_exact: bool
    x64: list[Place]
    largest: list[Value]
    refused: str | None = None
    #: jitted by a library, which also decides what is donated
    of_library: bool = False
    calls: int = 0
    #: indices of arguments that hold results of the previous call
    carried: list[int] = field(default_factory=list)
    #: part of its name in the folder that the compilers read
    number: int = 0


@dataclass(slots=True, eq=False)
class _RecordedProgram:
    program: Program
    jaxpr: Any
    module: bytes | None
    #: how it was called, with shapes for arrays, so that it can be lowered with another batch
    call: JitCall | None = None


class Recorder:
    """Stores the captured calls. `with recorder.recording():` around the user's code."""

    def __init__(self, placer: Placer = place_of) -> None:
        self._placer = placer
        self._seen: list[_RecordedProgram] = []
        self._by_jaxpr: dict[int, _RecordedProgram] = {}
        self._returned: dict[tuple[str, Place], dict[int, Callable[[], Any]]] = {}
        self._lock = threading.Lock()
        self._busy = threading.local()
        #: operations outside any jitted function; each is a separate program
        self.eager = 0
        self.dropped = 0
        self._batches: dict[tuple[int, int], Program | None] = {}
        #: the user has named the function: it is inspected, whoever wrote it
        self.named = False
        #: of the last lowering; None: a library's operation
        self.latest: Program | None = None

    @property
    def programs(self) -> list[Program]:
        return [seen.program for seen in self._seen]

    def write(self, folder: Path) -> list[Program]:
        """The modules, as `N.mlirbc`; programs without a module are in the list too."""
        for number, seen in enumerate(self._seen):
            seen.program.number = number
            if seen.module is not None:
                (folder / f"{number}.mlirbc").write_bytes(seen.module)
        return self.programs

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        pxla, pjit = _parts()
        lower, fastpath = pxla.lower_sharding_computation, pjit._get_fastpath_data
        pxla.lower_sharding_computation = self._lowering(lower)
        pjit._get_fastpath_data = self._calling
        try:
            with callbacks_as_nothing("tpu"):
                yield
        finally:
            pxla.lower_sharding_computation, pjit._get_fastpath_data = lower, fastpath
            _interpret_kernels(False)

    def _calling(self, _executable: Any, _tree: Any, args: Any, outs: Any, *_: Any, **__: Any) -> None:
        """jax calls this after each call that Python sees. After None, Python sees the next call too."""
        with contextlib.suppress(Exception):
            jaxpr = sys._getframe(1).f_locals.get("jaxpr")
            seen = self._by_jaxpr.get(id(jaxpr))
            if seen is not None and seen.jaxpr is jaxpr:
                self.count(seen.program, args, outs)

    def count(self, program: Program, args: Any, outs: Any) -> None:
        """One more call, with its arguments and results in order."""
        with self._lock:
            program.calls += 1
            key = (program.name, program.place)
            before = self._returned.get(key, {})
            for number, value in enumerate(args):
                returned = before.get(id(value))
                if returned is not None and returned() is value and number not in program.carried:
                    program.carried.append(number)
            self._returned[key] = {id(value): _reference(value) for value in outs}

    def _lowering(self, lower: Callable[..., Any]) -> Callable[..., Any]:
        def lowering(*args: Any, **kwargs: Any) -> Any:
            _interpret_kernels(True)
            result = lower(*args, **kwargs)
            if not getattr(self._busy, "now", False):
                self._busy.now = True
                try:
                    self._record(lower, args, kwargs)
                except PreflightError:
                    raise
                except Exception as error:
                    sys.stderr.write(f"tpulab check: a program was not captured: {error!r}"[:300] + "\n")
                finally:
                    self._busy.now = False
            return result

        return lowering

    def _record(self, lower: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.latest = None
        jaxpr, name = args[0], str(args[2])
        debug = jaxpr.jaxpr.debug_info if hasattr(jaxpr, "jaxpr") else jaxpr.debug_info
        frames = list(_user_places(sys._getframe(1)))
        call = find_jit_call(sys._getframe(1), jax_folder() or "", is_user_frame, _CALLS)
        defined = _code_of(call) or _source_of(str(debug.func_src_info))
        of_library = (
            not self.named and is_library(defined) and not (frames and _is_jitted_by(frames[0], name))
        )
        if of_library and not _is_step_of_library(defined, name, jaxpr):
            self.eager += 1
            return
        if len(self._seen) >= MAX_PROGRAMS:
            self.dropped += 1
            return
        if call is not None and name == "_fun":
            # The name that jax gives to the calls under `pmap`.
            name = str(getattr(written_function(call.function), "__name__", name))
        called = self._placer(*frames[0]) if frames else Place(name, 1)
        place = called if is_library(defined) or defined is None else self._placer(*defined)
        number_of_devices = 1
        module, refused = None, None
        try:
            lowered = lower(*args, **{**kwargs, "lowering_platforms": ("tpu",)})
            number_of_devices = int(lowered.compile_args["num_devices"])
            module = module_bytes(lowered)
        except PreflightError:
            raise
        except Exception as error:
            refused = first_line(error)
        twin = next((seen for seen in self._seen if module is not None and seen.module == module), None)
        if twin is not None:
            # jax requests it again for reasons that create no other program, and then finds it in its cache.
            self._by_jaxpr[id(jaxpr)] = _RecordedProgram(twin.program, jaxpr, None)
            self.latest = twin.program
            return
        program = Program(
            name=_plain(name),
            place=place,
            called=called,
            devices=number_of_devices,
            arguments=_arguments(jaxpr.in_avals, debug.arg_names, args[3], args[7]),
            outputs=_arguments(jaxpr.out_avals, getattr(debug, "result_paths", None) or (), args[4], None),
            callbacks=list(self._callbacks(jaxpr)),
            flops=(count := count_flops(jaxpr)).flops,
            flops_exact=count.exact,
            x64=list(self._wide(jaxpr)),
            largest=self._largest(jaxpr),
            refused=refused,
            of_library=of_library,
        )
        seen = _RecordedProgram(program, jaxpr, module, _as_shapes(call))
        with self._lock:
            self._seen.append(seen)
            self._by_jaxpr[id(jaxpr)] = seen
            self.latest = program

    def lower(self, step: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Captures one function without running it; `step` may have run before."""
        import jax
        from jax._src import pjit

        function, info = getattr(step, "_fun", None), getattr(step, "_jit_info", None)
        if function is None or info is None:
            function, info = step, jax.jit(step)._jit_info

        # jax caches lowered functions, and would not lower it again.
        @functools.wraps(function)
        def again(*values: Any, **named: Any) -> Any:
            return function(*values, **named)

        self.named = True
        with self.recording():
            pjit._cpp_pjit(again, info).lower(*args, **kwargs)

    def with_batch(self, number: int, rows: int) -> Program | None:
        """Lowers the program again for another batch, as the newest program; None where it cannot be traced.

        Rows are the first dimension of the arguments that have it and are not carried from step to step.
        """
        from jax._src import pjit

        # Another machine may have requested it, and jax lowers nothing twice.
        if (number, rows) in self._batches:
            return self._batches[number, rows]
        seen = self._seen[number]
        now = batch_of(asdict(seen.program))
        if seen.call is None or now is None:
            return None
        before = len(self._seen)
        call = _with_rows(seen.call, rows, now)
        with self.recording():
            pjit._cpp_pjit(call.function, call.jit_info).trace(*call.args, **call.kwargs).lower()
        found = self._seen[-1].program if len(self._seen) > before else None
        self._batches[number, rows] = found
        return found

    def call_of(self, number: int) -> JitCall | None:
        """How a program was called, with shapes for arrays."""
        return self._seen[number].call

    def half_precision(self, number: int) -> bool:
        narrow = ("bfloat16", "float16")
        return any(
            str(getattr(out.aval, "dtype", "")) in narrow
            for equation in equations(self._seen[number].jaxpr)
            for out in equation.outvars
        )

    def _callbacks(self, jaxpr: Any) -> Iterator[Callback]:
        for equation in equations(jaxpr):
            if str(equation.primitive) in CALLBACKS:
                yield Callback(str(equation.primitive), self._line_of(equation))

    def _wide(self, jaxpr: Any) -> Iterator[Place]:
        """Lines where 64-bit floating-point numbers are made from something narrower."""
        places: dict[Place, None] = {}
        for equation in equations(jaxpr):
            wide_in = any(_is_wide(value.aval) for value in equation.invars if hasattr(value, "aval"))
            if not wide_in and any(_is_wide(value.aval) for value in equation.outvars):
                place = self._line_of(equation)
                if place is not None:
                    places[place] = None
        yield from places

    def _largest(self, jaxpr: Any) -> list[Value]:
        found = [
            (_bytes(out.aval), number, out.aval, equation)
            for number, equation in enumerate(equations(jaxpr))
            if str(equation.primitive) not in _NO_BUFFERS
            for out in equation.outvars
        ]
        largest = sorted(found, key=lambda each: -each[0])[:MAX_VALUES]
        return [
            Value(f"{aval.dtype}[{','.join(map(str, aval.shape))}]", size, self._line_of(equation))
            for size, _, aval, equation in largest
            if size > 0
        ]

    def _line_of(self, equation: Any) -> Place | None:
        with contextlib.suppress(Exception):
            from jax._src import source_info_util

            for frame in source_info_util.user_frames(equation.source_info.traceback):
                if not is_library((frame.file_name, frame.start_line)):
                    return self._placer(frame.file_name, frame.start_line)
        return None


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        # A shape, which holds no memory.
        return lambda: value


def _as_shapes(call: JitCall | None) -> JitCall | None:
    """Stores shapes, no arrays."""
    if call is None:
        return None
    import jax

    args, kwargs = jax.tree.map(_shape_of, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)


def _with_rows(call: JitCall, rows: int, now: int) -> JitCall:
    """The call with this number of rows."""
    import jax

    def scaled(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct) or leaf.shape[:1] != (now,):
            return leaf
        return leaf.update(shape=(rows, *leaf.shape[1:]))

    args, kwargs = jax.tree.map(scaled, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)


def _code_of(call: JitCall | None) -> tuple[str, int] | None:
    """The place where the user wrote the jitted function."""
    code = getattr(written_function(call.function), "__code__", None) if call is not None else None
    return (code.co_filename, code.co_firstlineno) if code is not None else None


def batch_of(program: Mapping[str, Any]) -> int | None:
    """Rows of a step as written: the first dimension of most arguments that are not passed on to the
    next step."""
    results = [(each["shape"], each["dtype"]) for each in program["outputs"]]
    rows = [
        argument["shape"][0]
        for number, argument in enumerate(program["arguments"])
        if argument["shape"]
        and number not in program["carried"]
        and not argument["donated"]
        and (argument["shape"], argument["dtype"]) not in results
    ]
    return max(set(rows), key=lambda size: (rows.count(size), size)) if rows else None


def _shape_of(leaf: Any) -> Any:
    import jax

    if isinstance(leaf, jax.ShapeDtypeStruct) or not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        return leaf
    committed = getattr(leaf, "committed", False)
    sharding = leaf.sharding if committed else None
    weak = bool(getattr(leaf, "weak_type", False))
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding, weak_type=weak)


def equations(jaxpr: Any) -> Iterator[Any]:
    """For a program, and all programs inside it."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(inner, "eqns") or hasattr(getattr(inner, "jaxpr", None), "eqns"):
                    yield from equations(inner)


def _parts() -> tuple[Any, Any]:
    try:
        from jax._src import pjit
        from jax._src.interpreters import mlir, pxla

        found = (pxla.lower_sharding_computation, pjit._get_fastpath_data, mlir._platform_specific_lowerings)
    except (ImportError, AttributeError) as error:
        raise PreflightError(
            "jax_unknown",
            f"The jax of this environment cannot be checked ({error}); use jax 0.10.2 or 0.12.0.1.",
        ) from error
    del found
    return pxla, pjit


@contextlib.contextmanager
def callbacks_as_nothing(platform: str) -> Iterator[None]:
    """Lowers calls to the host as results of zeros: the rest of the program compiles, and the calls are
    reported from the program itself."""
    from jax._src import callback, debugging
    from jax._src.interpreters import mlir
    from jax._src.interpreters.mlir import ir_constant

    def nothing(context: Any, *_: Any, **__: Any) -> Any:
        import numpy as np

        return [ir_constant(np.zeros(aval.shape, aval.dtype)) for aval in context.avals_out]

    table = mlir._platform_specific_lowerings[platform]
    before: dict[Any, Any] = {}
    for module in (callback, debugging):
        for name in CALLBACKS:
            primitive = getattr(module, f"{name}_p", None)
            if primitive is not None:
                before[primitive] = table.get(primitive)
                mlir.register_lowering(primitive, nothing, platform=platform)
    try:
        yield
    finally:
        for primitive, rule in before.items():
            if rule is None:
                table.pop(primitive, None)
            else:
                table[primitive] = rule


def _interpret_kernels(wanted: bool) -> None:
    """Lets the CPU interpret Pallas kernels for TPUs, which it cannot run; the TPU's module contains them."""
    from jax._src.interpreters import mlir

    pallas, table = sys.modules.get("jax._src.pallas.pallas_call"), mlir._platform_specific_lowerings["cpu"]
    if pallas is None:
        return
    if not wanted:
        table.pop(pallas.pallas_call_p, None)
    elif pallas.pallas_call_p not in table:

        def interpreted(context: Any, *values: Any, interpret: Any, **options: Any) -> Any:
            return pallas._pallas_call_lowering(context, *values, interpret=interpret or True, **options)

        mlir.register_lowering(pallas.pallas_call_p, interpreted, platform="cpu")


def _arguments(avals: Any, names: Any, shardings: Any, donated: Any) -> list[Argument]:
    found = []
    for number, aval in enumerate(avals):
        shape = tuple(getattr(aval, "shape", ()))
        sharding = shardings[number] if shardings is not None and number < len(shardings) else None
        found.append(
            Argument(
                name=str(names[number]) if number < len(names) else f"#{number}",
                shape=shape,
                dtype=str(getattr(aval, "dtype", "")),
                weak=bool(getattr(aval, "weak_type", False)),
                bytes=_bytes(aval),
                donated=bool(donated[number]) if donated is not None else False,
                sharding=_spec_words(sharding),
            )
        )
    return found


def _bytes(aval: Any) -> int:
    import math

    size = getattr(getattr(aval, "dtype", None), "itemsize", 0)
    return int(math.prod(getattr(aval, "shape", ())) * size)


def _spec_words(sharding: Any) -> str:
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return ""
    axes = dict(getattr(getattr(sharding, "mesh", None), "shape", {}))
    entries = list(spec)
    while entries and entries[-1] is None:
        entries.pop()
    return f"({', '.join(map(str, entries))}) on {axes}" if entries else "replicated"


def _is_wide(aval: Any) -> bool:
    return str(getattr(aval, "dtype", "")) in ("float64", "complex128")


def _source_of(text: str) -> tuple[str, int] | None:
    """`step at /a/train.py:8`, as jax describes a function."""
    found = re.search(r" at (.+):(\d+)$", text)
    return (found[1], int(found[2])) if found else None


def is_library(source: tuple[str, int] | None) -> bool:
    if source is None:
        return True
    file = source[0]
    if CELL_FILE.search(file) or file.startswith("<ipython-input"):
        return False
    return (
        f"{'/'}site-packages/" in file
        or file.startswith((sys.prefix, sys.base_prefix + "/lib"))
        or (file.startswith("<"))
        or _is_tpulab_file(file)
    )


def _is_tpulab_file(file: str) -> bool:
    return file.startswith(str(Path(__file__).resolve().parents[1]))


def _user_places(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        file = frame.f_code.co_filename
        if CELL_FILE.search(file) or (is_user_frame(frame) and not is_library((file, 1))):
            yield file, frame.f_lineno or 1
        frame = frame.f_back


def _is_jitted_by(place: tuple[str, int], name: str) -> bool:
    """Whether the user's line calls jit by name: `jax.jit(jnp.linalg.solve)(a, b)` counts as the user's."""
    return "jit" in linecache.getline(*place) and name in linecache.getline(*place)


def _is_step_of_library(defined: tuple[str, int] | None, name: str, jaxpr: Any) -> bool:
    """Whether this is a step that a library has jitted, such as those of Keras and Equinox, or a loop of jax
    outside jit, and not an operation."""
    is_of_jax = defined is None or defined[0].startswith(jax_folder() or "jax")
    if is_of_jax and name not in ("scan", "while", "cond"):
        return False
    return sum(1 for _ in itertools.islice(equations(jaxpr), MIN_EQUATIONS)) == MIN_EQUATIONS


def _plain(name: str) -> str:
    return name if name.isidentifier() else (re.sub(r"\W+", "_", name).strip("_") or "function")
