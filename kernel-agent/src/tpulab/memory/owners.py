"""Which names of a notebook hold its arrays: variables, `Out[]`, and the last traceback's.

The search runs beside the loop, whose containers it must neither copy nor read in the middle of a change.
So they are read lazily, a few items of each in turn, within one budget of time and memory for everything.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tpulab.memory.retained import traceback_frames
from tpulab.runtimes.device_value import byte_size, is_freed
from tpulab.runtimes.jax_internals import backends_ready
from tpulab.runtimes.torch_arrays import device_storages, gradient_of, tensors_of_module
from tpulab.telemetry.cells import notebook_shell
from tpulab.telemetry.messages import HeldArrays, HeldBytes

SHOWN = 12
NAMES_SHOWN = 4
#: Processor time of a whole search. The loop waits for the interpreter that long at most, in slices of 5 ms.
BUDGET_S = 0.02
#: Containers and objects that are inspected: 8 MiB in all.
MAX_CONTAINERS = 30_000
#: Items read of one container before it is the turn of the others. Read in one call of C, during which no
#: other thread changes it.
TURN = 256
_DEPTH = 6
#: Packages whose objects are not inspected.
_NO_OWNERS = frozenset(
    {"builtins", "types", "functools", "jax", "jaxlib", "IPython", "ipykernel", "traitlets", "numpy"}
)
#: Packages whose mappings are plain memory. Other mappings may read files or a network on access.
_PLAIN_MAPPINGS = frozenset({"builtins", "collections", "types", "flax", "haiku", "ml_collections", "optax"})
_LEAVES = (str, bytes, bytearray, int, float, complex, type, type(None))

Kind = str


class _Budget:
    """The state of one search."""

    def __init__(self) -> None:
        self._until = time.thread_time() + BUDGET_S
        self.containers = MAX_CONTAINERS

    @property
    def spent(self) -> bool:
        return self.containers <= 0 or time.thread_time() > self._until


class _Place(NamedTuple):
    """The place of a value; its path is assembled only for an array."""

    above: _Place | None
    step: str
    kind: Kind
    depth: int

    def path(self) -> str:
        return (self.above.path() if self.above is not None else "") + self.step


def arrays_by_owner(requested: int | None = None) -> tuple[list[HeldArrays], HeldBytes]:
    """The largest live arrays with their owners; and the arrays that only a traceback or `Out[]` holds.

    `requested`: bytes that the device has just refused.
    """
    held: HeldBytes = {"traceback": 0, "outputs": 0}
    # References keep the arrays alive while their addresses are compared. Views of one tensor are one array.
    live, same = _live_arrays(requested)
    owners: dict[int, dict[Kind, list[str]]] = {}
    for place, array in _find(_roots(), same):
        names = owners.setdefault(same[id(array)], {}).setdefault(place.kind, [])
        if len(names) < NAMES_SHOWN:
            names.append(place.path())
    found = [(array, owners.get(id(array), {})) for array in live]
    # An array that is the last item of a list, and has its own name, belongs to the other items of the list.
    items = Counter(owner for _, by_kind in found for owner in set(_lists(_names(by_kind))))
    groups: dict[tuple[tuple[int, ...], str, str], HeldArrays] = {}
    for array, by_kind in found:
        try:
            shape, dtype = tuple(int(size) for size in array.shape), str(array.dtype).removeprefix("torch.")
        except Exception:  # freed meanwhile
            continue
        size = byte_size(array)
        names = _names(by_kind)
        if "name" not in by_kind:
            for kind in ("traceback", "outputs"):
                held[kind] += size if kind in by_kind else 0
        # One line for a thousand equal arrays of one list.
        owner = max(_lists(names), key=items.__getitem__, default=_owner(names[0]) if names else "")
        key = (shape, dtype, owner)
        entry = groups.setdefault(
            key, {"bytes": 0, "count": 0, "shape": list(shape), "dtype": dtype, "names": []}
        )
        entry["bytes"] += size
        entry["count"] += 1
        entry["names"] = list(dict.fromkeys([*entry["names"], *names]))[:NAMES_SHOWN]
    largest = sorted(groups.values(), key=lambda entry: -entry["bytes"])[:SHOWN]
    return largest, held


def _names(by_kind: Mapping[Kind, list[str]]) -> list[str]:
    return [name for kind in ("name", "outputs", "traceback") for name in by_kind.get(kind, ())]


def _owner(name: str) -> str:
    return name.split("[")[0].split(".")[0]


def _lists(names: Iterable[str]) -> list[str]:
    """The lists of which these names are an item, such as `history` of `history[3]`."""
    parts = [name.partition("[") for name in names]
    return [owner for owner, _, rest in parts if rest.removesuffix("]").isdigit()]


def _live_arrays(requested: int | None) -> tuple[list[Any], dict[int, int]]:
    """All arrays on devices; and, by the address of each and of its views, the address of the array."""
    jax: Any = sys.modules.get("jax")
    live: list[Any] = []
    # A query to jax without a backend would create one.
    if jax is not None and backends_ready():
        # The newest come first; the first one created is the first one named.
        live += [array for array in reversed(jax.live_arrays()) if not is_freed(array)]
    same = {id(array): id(array) for array in live}
    for one in device_storages(requested):
        live.append(one.tensor)
        same |= {id(view): id(one.tensor) for view in one.views}
    return live, same


def _roots() -> Iterator[tuple[Kind, str, Any]]:
    shell = notebook_shell()
    space: Mapping[str, Any] = shell.user_ns if shell is not None else vars(sys.modules["__main__"])
    outputs = space.get("_oh") if shell is not None else None
    # `In`, `Out`, `exit` and the like are IPython's own.
    hidden = getattr(shell, "user_ns_hidden", ())
    for name, value in list(space.items()):
        if not name.startswith("_") and name not in hidden:
            yield "name", name, value
    if isinstance(outputs, dict):
        for number, value in list(outputs.items()):
            yield "outputs", f"Out[{number}]", value
    for frame in traceback_frames():
        if frame.f_globals is space and frame.f_locals is space:
            continue
        function = frame.f_code.co_name
        if function == "<module>":
            continue
        for name, value in list(frame.f_locals.items()):
            yield "traceback", f"last traceback: {function}, {name}", value


def _find(roots: Iterable[tuple[Kind, str, Any]], wanted: Container[int]) -> Iterator[tuple[_Place, Any]]:
    """Arrays among the roots, and in their containers and objects. Breadth first."""
    budget = _Budget()
    seen: set[int] = set()
    turns: deque[tuple[_Place, Any, int]] = deque()

    def visit(place: _Place, value: Any) -> Iterator[tuple[_Place, Any]]:
        if isinstance(value, _LEAVES):
            return
        if id(value) in wanted:
            yield place, value
            gradient = gradient_of(value)
            if gradient is not None and id(gradient) in wanted:
                yield place._replace(above=place, step=".grad"), gradient
        elif place.depth < _DEPTH and id(value) not in seen:
            seen.add(id(value))
            budget.containers -= 1
            turns.append((place, value, 0))

    for kind, name, value in roots:
        yield from visit(_Place(None, name, kind, 0), value)
    while turns and not budget.spent:
        place, value, start = turns.popleft()
        items, more = _items(value, start)
        for step, item in items:
            yield from visit(_Place(place, step, place.kind, place.depth + 1), item)
        if more:
            turns.append((place, value, start + TURN))


def _items(value: Any, start: int) -> tuple[list[tuple[str, Any]], bool]:
    """The next items of a container, or the attributes of an object; and whether there are more."""
    kind = type(value)
    package = (kind.__module__ or "").split(".")[0]
    try:
        # Not through the methods of a subclass, which may do anything.
        if issubclass(kind, (list, tuple)):
            base = list if issubclass(kind, list) else tuple
            part = base.__getitem__(value, slice(start, start + TURN))
            fields = getattr(kind, "_fields", None)
            names = fields if isinstance(fields, tuple) and len(fields) == len(value) else None
            return [
                (f"[{number}]" if names is None else f".{names[number]}", item)
                for number, item in enumerate(part, start)
                if not isinstance(item, _LEAVES)
            ], len(part) == TURN
        if kind in (set, frozenset, deque):
            part = list(itertools.islice(value, start, start + TURN))
            inner = [(f"[{number}]", item) for number, item in enumerate(part, start)]
            return [pair for pair in inner if not isinstance(pair[1], _LEAVES)], len(part) == TURN
        tensors = tensors_of_module(value)
        if tensors is not None:
            return [(f".{name}", item) for name, item in tensors], False
        if issubclass(kind, dict) or (package in _PLAIN_MAPPINGS and issubclass(kind, Mapping)):
            every = dict.items(value) if issubclass(kind, dict) else value.items()
            pairs = list(itertools.islice(every, start, start + TURN))
            inner = [(f"[{_key(key)}]", item) for key, item in pairs if not isinstance(item, _LEAVES)]
            return inner, len(pairs) == TURN
        if package not in _NO_OWNERS and kind.__dictoffset__:
            pairs = list(itertools.islice(vars(value).items(), TURN))
            return [(f".{name}", item) for name, item in pairs], False
    except Exception:  # it changed meanwhile, or is not a container after all: the rest of it is left out
        return [], False
    return [], False


def _key(key: Any) -> str:
    # Optimizers key their state by tensors, whose text is their value: converting it would compute the value.
    plain = isinstance(key, (str, bytes, int, float, type(None)))
    return repr(key) if plain else f"<{type(key).__name__}>"
