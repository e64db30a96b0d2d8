"""Counts the floating-point operations of a traced jax program, its loops as often as they run.

XLA's own cost analysis counts the body of a loop once, so it is far too low for layers in a `scan`. Here a
`scan` counts `length` times, a branch as its costliest arm. Matrix products and convolutions count a
multiplication and an addition for each term, as XLA does; elementwise arithmetic counts one for each element
of the result. What cannot be known (a `while` of unknown length, a kernel of one's own) makes the count a
lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ELEMENTWISE = frozenset(
    [
        *(
            "add",
            "sub",
            "mul",
            "div",
            "rem",
            "pow",
            "integer_pow",
            "square",
            "max",
            "min",
            "neg",
            "abs",
            "sign",
        ),
        *("sqrt", "rsqrt", "cbrt", "exp", "exp2", "log", "log1p", "expm1", "add_any"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh", "logistic", "erf", "erfc", "erf_inv"),
    ]
)
_REDUCTIONS = frozenset(
    [
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"),
        *("cumsum", "cumprod", "cummax", "cummin"),
    ]
)
#: Programs of somebody else, whose work nothing here can see.
_OPAQUE = frozenset(
    ["pallas_call", "custom_call", "ffi_call", "tpu_custom_call", "pure_callback", "io_callback"]
)


@dataclass(frozen=True, slots=True)
class FlopCount:
    flops: float
    #: everything in the program could be counted
    exact: bool

    def __add__(self, other: FlopCount) -> FlopCount:
        return FlopCount(self.flops + other.flops, self.exact and other.exact)

    def times(self, number: float) -> FlopCount:
        return FlopCount(self.flops * number, self.exact)


NONE = FlopCount(0.0, True)


def count_flops(jaxpr: Any) -> FlopCount:
    """Of a `ClosedJaxpr` or `Jaxpr`, over all devices it runs on."""
    total = NONE
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        total = total + _of_equation(equation)
    return total


def _of_equation(equation: Any) -> FlopCount:
    name, parameters = str(equation.primitive), equation.params
    if name == "dot_general":
        return FlopCount(_dot(equation), True)
    if name == "conv_general_dilated":
        return FlopCount(_convolution(equation), True)
    if name == "scan":
        return count_flops(parameters["jaxpr"]).times(parameters["length"])
    if name == "while":
        body = count_flops(parameters["body_jaxpr"]) + count_flops(parameters["cond_jaxpr"])
        return FlopCount(body.flops, body.flops == 0)
    if name == "cond":
        arms = [count_flops(arm) for arm in parameters["branches"]]
        return FlopCount(max((arm.flops for arm in arms), default=0.0), all(arm.exact for arm in arms))
    if name in _OPAQUE:
        return FlopCount(0.0, False)
    inner = NONE
    for jaxpr in _inner(parameters):
        inner = inner + count_flops(jaxpr)
    if name == "shard_map":
        # The body is what one device does.
        mesh = parameters.get("mesh")
        return inner.times(math.prod(dict(getattr(mesh, "shape", {})).values()) or 1)
    if inner is not NONE:
        return inner
    if name in _ELEMENTWISE:
        return FlopCount(sum(_size(out) for out in equation.outvars if _is_float(out)), True)
    if name in _REDUCTIONS:
        return FlopCount(sum(_size(value) for value in equation.invars if _is_float(value)), True)
    return NONE


def _inner(parameters: dict[str, Any]) -> Iterator[Any]:
    """The program inside an equation (`jit`, `remat`, `custom_jvp_call`), not that of its derivative."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        value = parameters.get(name)
        if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
            yield value
            return


def _dot(equation: Any) -> float:
    (contracting, _), (_, _) = equation.params["dimension_numbers"]
    terms = math.prod(equation.invars[0].aval.shape[axis] for axis in contracting)
    return 2.0 * _size(equation.outvars[0]) * float(terms)


def _convolution(equation: Any) -> float:
    kernel = equation.invars[1].aval.shape
    numbers = equation.params["dimension_numbers"]
    spatial = [kernel[axis] for axis in numbers.rhs_spec[2:]]
    # Input features of one group: what each element of the result sums over.
    features = kernel[numbers.rhs_spec[1]]
    dilation = math.prod(equation.params.get("lhs_dilation") or (1,))
    return 2.0 * _size(equation.outvars[0]) * float(math.prod(spatial) * features) / float(dilation)


def _size(variable: Any) -> float:
    return float(math.prod(getattr(variable.aval, "shape", ())))


def _is_float(variable: Any) -> bool:
    return getattr(getattr(variable.aval, "dtype", None), "kind", "") in "fcV"
