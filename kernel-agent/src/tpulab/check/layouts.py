"""A captured step again in other layouts: a mesh of all devices, a place for each group of parameters, other
rows, and a forward pass that stores only its matrix products. Traces and lowers; computes nothing."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpulab.check.capture import MAX_PROGRAMS, Recorder, callbacks_as_nothing
from tpulab.check.chips import PreflightError, first_line
from tpulab.check.compiler import module_bytes

#: Smaller arrays stay whole on every device: their slices save nothing.
SMALL_ELEMENTS = 4096
#: Names between the root of a state and the parameter: the optimizer's moments of `up` are placed as `up` is.
_CONTAINERS = {
    "params", "opt_state", "state", "value", "mu", "nu", "trace", "momentum", "moments", "ema", "model",
    "optimizer", "inner_state", "inner_opt_state",
}  # fmt: skip
AXES = ("data", "model")
REMAT_LINE = "loss = jax.checkpoint(loss, policy=jax.checkpoint_policies.dots_saveable)"

#: Axes of the mesh by dimension, `None` where a dimension is not divided.
Place = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """`mesh`: devices along `data` and `model`. `places`: of the groups that are divided."""

    mesh: tuple[int, int]
    places: tuple[tuple[str, Place], ...]
    rows: int
    remat: bool = False

    def facts(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Layout:
        places = tuple((name, tuple(place)) for name, place in facts["places"])
        return cls((facts["mesh"][0], facts["mesh"][1]), places, facts["rows"], facts["remat"])


@dataclass(slots=True)
class Group:
    """Arrays of the state with one name and shape, in all layers, and what the optimizer stores for them."""

    name: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class _Leaf:
    root: str
    path: str
    shape: tuple[int, ...]
    dtype: Any

    @property
    def group(self) -> str:
        names = [name for name in re.findall(r"[A-Za-z_]\w*", self.path) if name not in _CONTAINERS]
        return f"{(names or ['array'])[-1]}[{','.join(map(str, self.shape))}]"

    @property
    def bytes(self) -> int:
        return int(math.prod(self.shape) * self.dtype.itemsize)


class Step:
    """A program of a recorder. Raises `PreflightError` (`step_unusable`) where it cannot be traced again."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        import jax

        call, program = recorder.call_of(number), recorder.programs[number]
        if call is None:
            raise PreflightError("step_unusable", f"{program.name} cannot be traced again.")
        self._function, self.name = call.function, program.name
        args, kwargs = call.args, call.kwargs
        self._values, self._tree = jax.tree.flatten((args, kwargs))
        self._dynamic = [n for n, leaf in enumerate(self._values) if isinstance(leaf, jax.ShapeDtypeStruct)]
        self._inputs = self._named(args, kwargs)
        outputs = jax.eval_shape(
            lambda *values: self._call(values), *(self._values[n] for n in self._dynamic)
        )
        self._outputs = {(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(outputs)}
        carried = {_root(program.arguments[n].name) for n in program.carried if n < len(program.arguments)}
        #: names of the arguments that are donated, and of those that are the state
        self.donated = {_root(argument.name) for argument in program.arguments if argument.donated}
        self.state = self._state_roots(carried | self.donated)
        rest = [leaf for leaf in self._inputs if leaf.root not in self.state and leaf.shape]
        sizes = Counter(leaf.shape[0] for leaf in rest)
        self.rows = max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0
        self.groups: dict[str, Group] = {}
        for leaf in self._inputs:
            if leaf.root in self.state and math.prod(leaf.shape) >= SMALL_ELEMENTS:
                group = self.groups.setdefault(leaf.group, Group(leaf.group, leaf.shape, 0))
                group.bytes += leaf.bytes

    def _named(self, args: Any, kwargs: Any) -> list[_Leaf]:
        import jax

        bound: dict[str, Any] = {}
        try:
            signature = inspect.signature(self._function)
            for name, value in signature.bind_partial(*args).arguments.items():
                several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                bound |= {f"{name}{n}": each for n, each in enumerate(value)} if several else {name: value}
        except (TypeError, ValueError):
            bound = {f"argument{number}": value for number, value in enumerate(args)}
        # jax sorts the names of keyword arguments.
        bound |= dict(sorted(kwargs.items()))
        return [
            _Leaf(name, jax.tree_util.keystr(path), leaf.shape, leaf.dtype)
            for name, tree in bound.items()
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
            if isinstance(leaf, jax.ShapeDtypeStruct)
        ]

    def _state_roots(self, known: set[str]) -> set[str]:
        roots: dict[str, list[_Leaf]] = {}
        for leaf in self._inputs:
            roots.setdefault(leaf.root, []).append(leaf)
        found = {root for root in roots if root in known}
        returned = {
            root
            for root, leaves in roots.items()
            if all((leaf.shape, str(leaf.dtype)) in self._outputs for leaf in leaves)
        }
        found |= {root for root in returned if len(roots[root]) > 1}
        # A function that returns no state has its parameters where most arrays are.
        several = [root for root, leaves in roots.items() if len(leaves) > 1]
        first = max(several, key=lambda root: len(roots[root]), default=None)
        return found or returned or ({first} if first is not None else set())

    def _call(self, values: Sequence[Any]) -> Any:
        import jax

        filled = list(self._values)
        for number, value in zip(self._dynamic, values, strict=True):
            filled[number] = value
        args, kwargs = jax.tree.unflatten(self._tree, filled)
        return self._function(*args, **kwargs)

    def module(self, layout: Layout) -> bytes:
        """StableHLO for a TPU. Raises the error of jax where a layout is impossible."""
        jitted, shapes = self._jitted(layout)
        with _remat(layout.remat), callbacks_as_nothing("tpu"):
            return module_bytes(jitted.trace(*shapes).lower(lowering_platforms=("tpu",)))

    def write_proof(self, layout: Layout, file: Path) -> dict[str, Any]:
        """The program for CPUs, which `tpulab.check.proof` runs; its arrays, with their places."""
        import jax

        jitted, shapes = self._jitted(layout)
        unchecked = [jax.export.DisabledSafetyCheck.platform()]
        with _remat(layout.remat), callbacks_as_nothing("cpu"):
            export = jax.export.export(jitted, platforms=("cpu",), disabled_checks=unchecked)(*shapes)
        file.write_bytes(export.mlir_module_serialized)
        return {
            "file": file.name,
            "mesh": list(layout.mesh),
            "inputs": [[list(each.shape), str(each.dtype), list(each.sharding.spec)] for each in shapes],
            "outputs": [[list(each.shape), str(each.dtype)] for each in export.out_avals],
        }

    def _jitted(self, layout: Layout) -> tuple[Any, list[Any]]:
        """Keys of random numbers go in and out as plain numbers, which a program of another process takes."""
        import jax
        from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

        count = math.prod(layout.mesh)
        mesh: Any = AbstractMesh(layout.mesh, AXES)
        if jax.device_count() >= count:
            kinds = (AxisType.Auto,) * 2
            mesh = jax.make_mesh(layout.mesh, AXES, axis_types=kinds, devices=jax.devices()[:count])
        places = dict(layout.places)
        shapes, impls = [], []
        for number, leaf in zip(self._dynamic, self._inputs, strict=True):
            is_batch = self._is_batch(leaf)
            place = ("data",) if is_batch else places.get(leaf.group, ()) if leaf.root in self.state else ()
            plain, impl = _without_key(self._values[number])
            shape = (layout.rows, *plain.shape[1:]) if is_batch else plain.shape
            impls.append(impl)
            shapes.append(
                jax.ShapeDtypeStruct(shape, plain.dtype, sharding=NamedSharding(mesh, PartitionSpec(*place)))
            )

        def flat(*values: Any) -> Any:
            made = [
                value if impl is None else jax.random.wrap_key_data(value, impl=impl)
                for value, impl in zip(values, impls, strict=True)
            ]
            return tuple(_as_numbers(leaf) for leaf in jax.tree.leaves(self._call(made)))

        flat.__name__ = self.name
        donated = [number for number, leaf in enumerate(self._inputs) if leaf.root in self.donated]
        return jax.jit(flat, donate_argnums=donated, keep_unused=True), shapes

    def ordered(self, roots: set[str]) -> list[str]:
        return [root for root in dict.fromkeys(leaf.root for leaf in self._inputs) if root in roots]

    @property
    def batch(self) -> list[str]:
        return self.ordered({leaf.root for leaf in self._inputs if self._is_batch(leaf)})

    def _is_batch(self, leaf: _Leaf) -> bool:
        return leaf.root not in self.state and leaf.shape[:1] == (self.rows,)


def _without_key(leaf: Any) -> tuple[Any, str | None]:
    import jax

    if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf, None
    return jax.eval_shape(jax.random.key_data, leaf), leaf.dtype._impl.name


def _as_numbers(leaf: Any) -> Any:
    import jax

    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf


@contextlib.contextmanager
def _remat(wanted: bool) -> Iterator[None]:
    """Gradients in the block store the matrix products of the forward pass and recompute the rest."""
    import jax
    from jax._src import api

    whole = api.vjp

    def less(function: Callable[..., Any], *primals: Any, **options: Any) -> Any:
        policy = jax.checkpoint_policies.dots_saveable
        return whole(jax.checkpoint(function, policy=policy), *primals, **options)

    api.vjp = less if wanted else whole
    try:
        yield
    finally:
        api.vjp = whole


def _root(name: str) -> str:
    return re.split(r"[.\[]", name)[0]


class Answers:
    """Answers the requests of a search about recorded programs; modules go into `folder`."""

    def __init__(self, recorder: Recorder, folder: Path) -> None:
        self._recorder, self._folder = recorder, folder
        self._steps: dict[int, Step] = {}
        self._written: dict[tuple[int, Layout], int] = {}

    def answer(self, requested: Mapping[str, Any]) -> dict[str, Any]:
        """For `number` with `rows`: the number of the program with another batch. With `layout`: the number
        of the program in it. With `proofs`: the folder with those layouts for `tpulab.check.proof`. Else the
        facts of the step. `refused` where jax cannot do it."""
        try:
            return self._answer(requested)
        except Exception as error:
            return {"refused": first_line(error)[:300]}

    def _answer(self, requested: Mapping[str, Any]) -> dict[str, Any]:
        number = requested["number"]
        if "rows" in requested:
            program = self._recorder.with_batch(number, requested["rows"])
            if program is None or program.refused is not None:
                return {"refused": program.refused if program is not None else "it cannot be traced again"}
            self._recorder.write(self._folder)
            size = sum(argument.bytes for argument in program.arguments)
            return {"number": program.number, "bytes": size}
        if number not in self._steps:
            self._steps[number] = Step(self._recorder, number)
        step = self._steps[number]
        if "layout" in requested:
            layout = Layout.of(requested["layout"])
            if (number, layout) not in self._written:
                written = len(self._written) + 10 * MAX_PROGRAMS
                (self._folder / f"{written}.mlirbc").write_bytes(step.module(layout))
                self._written[number, layout] = written
            return {"number": self._written[number, layout], "bytes": 0}
        if "proofs" in requested:
            place = Path(tempfile.mkdtemp(prefix="proof-", dir=self._folder))
            layouts = [Layout.of(each) for each in requested["proofs"]]
            programs = [step.write_proof(each, place / f"{n}.mlir") for n, each in enumerate(layouts)]
            (place / "proofs.json").write_text(json.dumps(programs), encoding="utf-8")
            return {"folder": str(place)}
        return {
            "rows": step.rows,
            "groups": [asdict(group) for group in step.groups.values()],
            "state": step.ordered(step.state),
            "donated": step.ordered(step.donated),
            "batch": step.batch,
            "half": self._recorder.half_precision(number),
        }
