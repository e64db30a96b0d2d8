"""Hyperparameters that may be changed while a run continues.

`run.hyper.learning_rate` is a zero-dimensional array of the framework in use, so that it enters a compiled
step as an argument: changing it never compiles the step again. `run.hyper["learning_rate"]` is the plain
value. A value changes between two steps only.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

from tpulab.telemetry.messages import HyperparameterDescription, HyperValue
from tpulab.telemetry.plain import plain_value, refusal_of_name, short

Backend = Literal["jax", "torch", "torch_xla", "python"]
_SPECIAL_SCALARS = (0.0, 1.0)
_NUMBER_TYPES = r"bool|bfloat16|float(16|32|64)|float8_\w+|u?int(8|16|32|64)"
_DTYPES = {"number": "float32", "integer": "int32", "boolean": "bool"}


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def array_limits(kind: str, dtype: str | None) -> tuple[str, float, float] | None:
    """The type of the array that a number becomes, and its least and greatest value. None: no limit."""
    name = dtype or _DTYPES.get(kind)
    if name is None or (dtype is None and loaded_backend() == "python"):
        return None
    if name in _LARGEST:
        return name, -_LARGEST[name], _LARGEST[name]
    whole = re.fullmatch(r"(u?)int(8|16|32|64)", name)
    if whole is None:
        return None
    bits = int(whole[2])
    return (name, 0, 2**bits - 1) if whole[1] else (name, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def loaded_backend() -> Backend:
    """The framework that the user has imported; of both, jax, unless torch_xla is imported: it uses jax."""
    if "torch_xla" in sys.modules:
        return "torch_xla"
    if "jax" in sys.modules:
        return "jax"
    return "torch" if "torch" in sys.modules else "python"


def _lazy_scalar(torch_xla: Any, made: Any) -> Any:
    """A scalar that is data of the graph, as `torch.full(…, device='xla')` would not be."""
    device = torch_xla.device()
    if float(made) not in _SPECIAL_SCALARS:
        return made.to(device)
    # A copied 0 or 1 would still be a constant of the graph; an element of a vector is not.
    scalar = made.reshape(1).to(device).squeeze(0)
    torch_xla._XLAC._xla_sync_multi([scalar], [str(device)], True, True)
    return scalar


def make_array(value: HyperValue, kind: str, dtype: str | None, backend: Backend | None) -> Any:
    """Shape (). The value itself where it is not a number, or where there is no framework."""
    if kind not in _DTYPES:
        return value
    chosen = backend or loaded_backend()
    name = dtype or _DTYPES[kind]
    if chosen == "jax":
        import jax
        import numpy as np

        # Through numpy, so that nothing is compiled and the type is not weak. It stays for later steps, so
        # while a function is traced it must be no tracer; a transfer guard refuses all but `device_put`.
        with jax.ensure_compile_time_eval():
            return jax.device_put(np.asarray(value, jax.numpy.dtype(name)))
    if chosen in ("torch", "torch_xla"):
        torch: Any = importlib.import_module("torch")
        # A tensor of inference mode could not enter a training step later.
        with torch.inference_mode(False):
            made = torch.tensor(value, dtype=getattr(torch, name))
        if chosen == "torch_xla":
            torch_xla: Any = importlib.import_module("torch_xla")
            return _lazy_scalar(torch_xla, made)
        return made
    return value


Kind = Literal["number", "integer", "boolean", "choice", "text"]
Scale = Literal["linear", "log"]
TEXT_LENGTH = 1000


class HyperparameterError(ValueError):
    """The definition of a hyperparameter is invalid, or a value does not fit it."""

    code = "HYPERPARAMETER"


@dataclass(frozen=True, slots=True)
class Hyper:
    """A hyperparameter: its initial value and its allowed values. Created by `hyper`."""

    value: HyperValue
    kind: Kind
    min: float | None = None
    max: float | None = None
    scale: Scale = "linear"
    choices: tuple[HyperValue, ...] | None = None
    description: str | None = None
    dtype: str | None = None

    def check(self, name: str, value: object) -> HyperValue:
        """The value converted for this hyperparameter. Raises `HyperparameterError` for an invalid value."""
        value = plain_value(value)
        if self.kind == "boolean":
            if isinstance(value, bool):
                return value
            raise HyperparameterError(f"{name} is true or false, not {value!r}.")
        if self.kind == "choice":
            for choice in self.choices or ():
                if type(choice) is type(value) and choice == value:
                    return choice
            allowed = ", ".join(repr(choice) for choice in self.choices or ()) or "no choices"
            raise HyperparameterError(f"{name} is one of {allowed}, not {value!r}.")
        if self.kind == "text":
            if isinstance(value, str) and len(value) <= TEXT_LENGTH:
                return value
            raise HyperparameterError(f"{name} is text of at most {TEXT_LENGTH} characters.")
        return self._number(name, value)

    def _number(self, name: str, value: object) -> HyperValue:
        if not _is_finite(value):
            raise HyperparameterError(f"{name} is a finite number, not {short(value)}.")
        if self.kind == "integer" and value != int(value):
            raise HyperparameterError(f"{name} is a whole number, not {value!r}.")
        if (self.min is not None and value < self.min) or (self.max is not None and value > self.max):
            low = "-∞" if self.min is None else f"{self.min:g}"
            high = "∞" if self.max is None else f"{self.max:g}"
            raise HyperparameterError(f"{name} must be between {low} and {high}, not {value:g}.")
        limits = array_limits(self.kind, self.dtype)
        if limits is not None and not limits[1] <= value <= limits[2]:
            raise HyperparameterError(
                f"{name} must fit into {limits[0]}, so it is between {limits[1]:g} and {limits[2]:g}, "
                f"not {value:g}; tpulab.hyper(…, dtype=…) chooses another type."
            )
        return int(value) if self.kind == "integer" else float(value)


def hyper(
    value: HyperValue,
    *,
    min: float | None = None,
    max: float | None = None,
    scale: Scale = "linear",
    choices: tuple[HyperValue, ...] | list[HyperValue] | None = None,
    description: str | None = None,
    dtype: Any = None,
) -> Hyper:
    """Defines a hyperparameter that can be changed from the page.

    Args:
        value: initial value. A float is a number, an int a whole number, a bool a switch, a str a text.
        min, max: bounds of a number, inclusive. An infinite one is none.
        scale: of the slider; `log` needs a positive `min`.
        choices: the allowed values. Choices and texts stay Python values in the step.
        description: short text for the page.
        dtype: of the array, for example `"bfloat16"` or `jnp.bfloat16`. Default: float32, int32 or bool.

    Raises:
        HyperparameterError: the bounds exclude the value, or are in the wrong order.
    """
    kind: Kind
    value = plain_value(value)
    min, max = _bound("min", min), _bound("max", max)
    if choices is not None:
        choices = tuple(plain_value(choice) for choice in choices)
        kind = "choice"
    elif isinstance(value, bool):
        kind = "boolean"
    elif isinstance(value, int):
        kind = "integer"
    elif isinstance(value, float):
        kind = "number"
    elif isinstance(value, str):
        kind = "text"
    else:
        raise HyperparameterError(f"A hyperparameter is a number, a boolean or text, not {value!r}.")
    if min is not None and max is not None and min > max:
        raise HyperparameterError(f"The lower bound {min:g} is above the upper bound {max:g}.")
    if scale not in ("linear", "log"):
        raise HyperparameterError(f"The scale is linear or log, not {scale!r}.")
    if scale == "log" and (min is None or min <= 0):
        raise HyperparameterError("A log scale needs a lower bound above 0: pass min=….")
    if dtype is not None and not isinstance(dtype, str):
        # `np.float32` is a class with a name, `torch.float32` is an object that is printed so.
        dtype = str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]
    if dtype is not None and not re.fullmatch(_NUMBER_TYPES, dtype):
        raise HyperparameterError(f"`dtype` is the name of a type of number, such as float32, not {dtype!r}.")
    made = Hyper(value, kind, min, max, scale, choices, description, dtype)
    made.check("the value", value)
    return made


def _bound(name: str, value: object) -> float | None:
    plain: Any = plain_value(value)
    if plain is None or plain in (math.inf, -math.inf):
        return None
    if not _is_finite(plain):
        raise HyperparameterError(f"`{name}` is a number, not {short(value)}.")
    return float(plain)


def _is_finite(value: object) -> TypeGuard[float]:
    try:
        return not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


class Hyperparameters(Mapping[str, HyperValue]):
    """The hyperparameters of a run: attributes are arrays, items are plain values."""

    def __init__(self, given: Mapping[str, Hyper | HyperValue], backend: Backend | None = None) -> None:
        if not isinstance(given, Mapping):
            raise HyperparameterError(f"`hyperparameters` maps names to values; it is no {short(given)}.")
        specs = {name: value if isinstance(value, Hyper) else hyper(value) for name, value in given.items()}
        if backend not in (None, *get_args(Backend)):
            raise HyperparameterError(
                f"`backend` is {', '.join(get_args(Backend))} or None, not {backend!r}."
            )
        for name in specs:
            usable = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
            if not usable or hasattr(Mapping, name) or refusal_of_name(name):
                raise HyperparameterError(
                    f"{short(name)} cannot be the name of a hyperparameter; choose another."
                )
        self.__dict__["_specs"] = specs
        self.__dict__["_values"] = {name: spec.value for name, spec in specs.items()}
        self.__dict__["_arrays"] = {}
        self.__dict__["_backend"] = backend

    def __getattr__(self, name: str) -> Any:
        """The value as it enters a step: a zero-dimensional array where it is a number or a switch."""
        specs: dict[str, Hyper] = self.__dict__.get("_specs", {})
        spec = specs.get(name)
        if spec is None:
            known = ", ".join(specs) or "none"
            raise AttributeError(f"this run has no hyperparameter {name!r}; it has: {known}")
        arrays = self.__dict__["_arrays"]
        # Made once for each value: the same array is passed to every step, which may donate it.
        if name not in arrays or getattr(arrays[name], "is_deleted", bool)():
            arrays[name] = make_array(self[name], spec.kind, spec.dtype, self.__dict__["_backend"])
        return arrays[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"set a hyperparameter with run.set({name!r}, value), so that it is recorded")

    def __getitem__(self, name: str) -> HyperValue:
        value: HyperValue = self.__dict__["_values"][name]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_specs"])

    def __len__(self) -> int:
        return len(self.__dict__["_specs"])

    def __repr__(self) -> str:
        return f"Hyperparameters({', '.join(f'{name}={self[name]!r}' for name in self)})"

    def check(self, name: str | None, value: object) -> HyperValue:
        """The value that `replace` would set. Raises `HyperparameterError`."""
        spec = self.__dict__["_specs"].get(name)
        if spec is None or name is None:
            known = ", ".join(self) or "none"
            raise HyperparameterError(f"This run has no hyperparameter {name!r}; it has: {known}.")
        checked: HyperValue = spec.check(name, value)
        return checked

    def replace(self, name: str, value: object) -> HyperValue:
        """Sets a value, between two steps. Returns the previous one."""
        checked = self.check(name, value)
        before = self[name]
        self.__dict__["_values"][name] = checked
        self.__dict__["_arrays"].pop(name, None)
        return before

    def describe(self) -> list[HyperparameterDescription]:
        """For the page: values, bounds, and the suitable input for each."""
        return [
            {
                "name": name,
                "value": self[name],
                "initial": spec.value,
                "kind": spec.kind,
                "min": spec.min,
                "max": spec.max,
                "scale": spec.scale,
                "choices": list(spec.choices) if spec.choices is not None else None,
                "description": spec.description,
                "recompiles": spec.kind in ("choice", "text"),
            }
            for name, spec in self.__dict__["_specs"].items()
        ]
