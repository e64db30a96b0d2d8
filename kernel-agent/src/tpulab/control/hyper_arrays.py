"""A hyperparameter as a zero-dimensional array, so that compiled steps take it as an argument.

A Python number would be a constant of the program (torch_xla) or of weak type (jax): a new value or the first
array beside it would compile the step again.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any, Literal

from tpulab.telemetry.messages import HyperValue

Backend = Literal["jax", "torch", "torch_xla", "python"]
_SPECIAL_SCALARS = (0.0, 1.0)
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
    """The framework that the user has imported. jax where both are, unless torch_xla is: that imports jax."""
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
    # A copied 0 or 1 would be a constant of the graph all the same; an element of a vector is not.
    scalar = made.reshape(1).to(device).squeeze(0)
    torch_xla._XLAC._xla_sync_multi([scalar], [str(device)], True, True)
    return scalar


def make_array(value: HyperValue, kind: str, dtype: str | None, backend: Backend | None) -> Any:
    """Shape (). The value itself where it is no number, or where there is no framework."""
    if kind not in _DTYPES:
        return value
    chosen = backend or loaded_backend()
    name = dtype or _DTYPES[kind]
    if chosen == "jax":
        import jax.numpy as jnp
        import numpy as np

        # By way of numpy, so that nothing is compiled and the type is not a weak one.
        if name == "bfloat16":
            return jnp.asarray(np.asarray(value, jnp.bfloat16))
        return jnp.asarray(np.asarray(value, name))
    if chosen in ("torch", "torch_xla"):
        torch: Any = importlib.import_module("torch")
        made = torch.tensor(value, dtype=getattr(torch, name))
        if chosen == "torch_xla":
            torch_xla: Any = importlib.import_module("torch_xla")
            return _lazy_scalar(torch_xla, made)
        return made
    return value
