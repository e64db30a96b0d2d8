"""Which names of a notebook hold its arrays: variables, `Out[]`, and the last traceback's."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Mapping
from typing import Any

from tpulab.memory.hold import traceback_frames
from tpulab.runtimes.jax_internals import backends_ready
from tpulab.runtimes.torch_arrays import gradient_of, held_tensors, tensors_of_module
from tpulab.telemetry.cells import notebook_shell
from tpulab.telemetry.messages import HeldArrays, HeldBytes

SHOWN = 12
NAMES_SHOWN = 4
#: Values looked at altogether, so that a notebook full of small things costs no time.
MOST_VALUES = 50_000
_DEPTH = 6
#: Packages whose objects are not looked into.
_NO_OWNERS = frozenset(
    {"builtins", "types", "functools", "jax", "jaxlib", "IPython", "ipykernel", "traitlets"}
)

Kind = str


def held_arrays(asked: int | None = None) -> tuple[list[HeldArrays], HeldBytes]:
    """The largest live arrays with their owners; and what only a traceback or `Out[]` holds.

    `asked`: bytes that the device has just refused.
    """
    held: HeldBytes = {"traceback": 0, "outputs": 0}
    # Kept alive while their addresses are compared. Views of one tensor are one array.
    live, same = _live_arrays(asked)
    owners: dict[int, dict[Kind, list[str]]] = {}
    for kind, name, value in _roots():
        for path, array in _arrays_in(value, same):
            owners.setdefault(same[id(array)], {}).setdefault(kind, []).append(name + path)
    groups: dict[tuple[tuple[int, ...], str, tuple[str, ...]], HeldArrays] = {}
    for array in live:
        found = owners.get(id(array), {})
        names = [name for kind in ("name", "outputs", "traceback") for name in found.get(kind, ())]
        if "name" not in found:
            for kind in ("traceback", "outputs"):
                held[kind] += int(array.nbytes) if kind in found else 0  # type: ignore[literal-required]
        shape, dtype = tuple(int(size) for size in array.shape), str(array.dtype).removeprefix("torch.")
        # One line for a thousand equal arrays of one list.
        key = (shape, dtype, tuple(name.split("[")[0].split(".")[0] for name in names[:1]))
        entry = groups.setdefault(
            key, {"bytes": 0, "count": 0, "shape": list(shape), "dtype": dtype, "names": []}
        )
        entry["bytes"] += int(array.nbytes)
        entry["count"] += 1
        entry["names"] = list(dict.fromkeys([*entry["names"], *names]))[:NAMES_SHOWN]
    largest = sorted(groups.values(), key=lambda entry: -entry["bytes"])[:SHOWN]
    return largest, held


def _live_arrays(asked: int | None) -> tuple[list[Any], dict[int, int]]:
    """All arrays on devices; and, by the address of each and of its views, the address of the array."""
    jax: Any = sys.modules.get("jax")
    live: list[Any] = []
    # Asking jax without a backend would make it one.
    if jax is not None and backends_ready():
        # The newest come first; the first one made is the first one named.
        live += [array for array in reversed(jax.live_arrays()) if not array.is_deleted()]
    same = {id(array): id(array) for array in live}
    for one in held_tensors(asked):
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


def _arrays_in(root: Any, wanted: Container[int]) -> Iterator[tuple[str, Any]]:
    """Arrays inside containers and objects, with their paths. Bounded in depth and number."""
    stack: list[tuple[str, Any, int]] = [("", root, 0)]
    seen: set[int] = set()
    looked = 0
    while stack and looked < MOST_VALUES:
        path, value, depth = stack.pop()
        looked += 1
        if id(value) in wanted:
            yield path, value
            gradient = gradient_of(value)
            if gradient is not None and id(gradient) in wanted:
                yield f"{path}.grad", gradient
            continue
        if depth >= _DEPTH or id(value) in seen or isinstance(value, (str, bytes, int, float, type)):
            continue
        seen.add(id(value))
        tensors = tensors_of_module(value)
        if tensors is not None:
            inner = [(f"{path}.{name}", item) for name, item in tensors]
        elif isinstance(value, Mapping):
            inner = [(f"{path}[{_key(key)}]", item) for key, item in list(value.items())]
        elif isinstance(value, (list, tuple, set)):
            fields = getattr(value, "_fields", None)
            names = fields if fields is not None else None
            inner = [
                (f"{path}.{names[index]}" if names is not None else f"{path}[{index}]", item)
                for index, item in enumerate(value)
            ]
        elif type(value).__module__.split(".")[0] in _NO_OWNERS:
            continue
        else:
            inner = [(f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()]
        stack.extend((name, item, depth + 1) for name, item in inner)


def _key(key: Any) -> str:
    # The text of a tensor, by which optimizers keep their state, is its value: it would be computed for it.
    plain = isinstance(key, (str, bytes, int, float, type(None)))
    return repr(key) if plain else f"<{type(key).__name__}>"
