"""The arguments of a call of a jitted function, as text: shapes, dtypes, tree, static values, settings.

Built only when something compiles. Holds strings, never arrays.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tpulab.runtimes.jax_internals import JitCall, loaded_jax, tracing_context
from tpulab.telemetry.plain import short

_SHORT_DTYPES = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
}
STATIC_TEXT_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array argument. `str(leaf)` is for example `f32[16,512]`."""

    shape: tuple[int, ...]
    dtype: str
    #: a Python number, whose dtype yields to the dtype of an array
    weak: bool
    #: the placement of a committed array; None where jax is free to place it
    sharding: str | None

    def __str__(self) -> str:
        text = f"{_SHORT_DTYPES.get(self.dtype, self.dtype)}[{','.join(map(str, self.shape))}]"
        return f"{text} (weak type)" if self.weak else text


@dataclass(frozen=True, slots=True)
class Signature:
    #: path of each array argument in the function's notation (`state['w']`) to its description
    leaves: dict[str, Leaf]
    #: argument to the structure of its value
    trees: dict[str, str]
    #: static argument to its value, shortened
    statics: dict[str, str]
    #: settings of jax that are part of its cache keys
    context: dict[str, str] = field(default_factory=dict)
    #: the call is evaluated by grad or vmap outside jit
    transformed: bool = False


def signature_of(call: JitCall) -> Signature:
    jax = loaded_jax()
    leaves: dict[str, Leaf] = {}
    trees: dict[str, str] = {}
    statics: dict[str, str] = {}
    transformed = False
    if jax is None:
        return Signature(leaves, trees, statics)
    for name, value, static in arguments_of(call):
        if static:
            statics[name] = short(value, STATIC_TEXT_LENGTH)
            continue
        pairs, tree = jax.tree_util.tree_flatten_with_path(value)
        trees[name] = str(tree)
        for path, leaf in pairs:
            transformed = transformed or isinstance(leaf, jax.core.Tracer)
            leaves[name + jax.tree_util.keystr(path)] = _leaf(jax, leaf)
    return Signature(leaves, trees, statics, tracing_context(), transformed)


def arguments_of(call: JitCall) -> Iterator[tuple[str, Any, bool]]:
    """Name, value and staticness of each argument."""
    names, signature = _parameter_names(call)
    static_numbers = {
        number % max(len(names), 1) for number in getattr(call.jit_info, "static_argnums", ()) or ()
    }
    static_names = set(getattr(call.jit_info, "static_argnames", ()) or ())
    for number, value in enumerate(call.args):
        name = _name_of(number, names, signature)
        yield name, value, number in static_numbers or name in static_names
    for name, value in call.kwargs.items():
        number = names.index(name) if name in names else -1
        yield name, value, name in static_names or number in static_numbers


def _parameter_names(call: JitCall) -> tuple[list[str], inspect.Signature | None]:
    signature = getattr(call.jit_info, "fun_signature", None)
    if signature is None:
        with contextlib.suppress(TypeError, ValueError):
            signature = inspect.signature(call.function)
    return (list(signature.parameters) if signature is not None else []), signature


def _name_of(number: int, names: list[str], signature: inspect.Signature | None) -> str:
    if signature is not None:
        for position, name in enumerate(names):
            if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                if number >= position:
                    return f"{name}[{number - position}]"
                break
    return names[number] if number < len(names) else f"argument {number}"


def _leaf(jax: Any, value: Any) -> Leaf:
    try:
        kind = jax.typeof(value)
        shape = tuple(int(size) if isinstance(size, int) else -1 for size in kind.shape)
        return Leaf(shape, str(kind.dtype), bool(getattr(kind, "weak_type", False)), _placement(value))
    except Exception:
        return Leaf((), type(value).__name__, False, None)


def _placement(value: Any) -> str | None:
    """The placement of a committed array, in words."""
    if not getattr(value, "_committed", False):
        return None
    sharding = getattr(value, "sharding", None)
    spec = getattr(sharding, "spec", None)
    mesh = getattr(sharding, "mesh", None)
    if spec is not None and mesh is not None:
        axes = ", ".join(f"{axis}: {size}" for axis, size in dict(mesh.shape).items())
        return f"{spec} over {{{axes}}}".replace("PartitionSpec", "P")
    devices = sorted(getattr(sharding, "device_set", ()), key=lambda device: int(device.id))
    return ", ".join(f"{device.platform}:{device.id}" for device in devices[:8]) or None
