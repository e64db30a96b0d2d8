"""Counts the floating-point operations of a traced jax program, its loops as often as they run.

XLA's own cost analysis counts the body of a loop once, so it is far too low for layers in a `scan`. Here a
`scan` counts `length` times, a branch as its cheapest arm. Matrix products and convolutions count a
multiplication and an addition for each term, as XLA does; elementwise arithmetic counts one for each element
of the result. Unknown parts (a `while` of unknown length, a branch, a custom kernel, a primitive
that is not in the tables) make the count a lower bound, and are named. The recomputation of `jax.checkpoint`
is no work of the model: it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ELEMENTWISE = frozenset(
    [
        *("add", "sub", "mul", "div", "rem", "pow", "integer_pow", "square", "max", "min", "neg", "abs"),
        *("sign", "clamp", "atan2", "scatter-add", "scatter_add"),
        *("sqrt", "rsqrt", "cbrt", "exp", "exp2", "log", "log1p", "expm1", "add_any"),
        *("asin", "acos", "atan", "asinh", "acosh", "atanh", "lgamma", "digamma", "igamma", "bessel_i0e"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh", "logistic", "erf", "erfc", "erf_inv"),
    ]
)
_REDUCTIONS = frozenset(
    [
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"),
        *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "reduce_window_sum"),
        *("reduce_window_max", "reduce_window_min", "select_and_gather_add", "select_and_scatter_add"),
    ]
)
_LINALG = ("cholesky", "triangular_solve", "lu", "qr", "householder_product", "eigh", "eig", "svd", "schur")
#: Moves, compares or creates values, or calls a program that is inspected: no arithmetic here.
_FREE = frozenset(
    [
        *("broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "concatenate", "pad", "rev"),
        *("slice", "dynamic_slice", "dynamic_update_slice", "gather", "scatter", "select_n", "split", "tile"),
        *("convert_element_type", "bitcast_convert_type", "reduce_precision", "copy", "copy_p", "iota"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite", "stop_gradient"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic", "population_count", "clz"),
        *("floor", "ceil", "round", "nextafter", "real", "imag", "complex", "conj", "sort", "top_k"),
        *("reduce_and", "reduce_or", "reduce_xor", "random_bits", "random_seed", "random_wrap"),
        *("random_unwrap", "random_fold_in", "random_split", "random_clone", "random_gamma", "threefry2x32"),
        *("rng_bit_generator", "rng_uniform", "device_put", "sharding_constraint", "optimization_barrier"),
        *("psum", "psum2", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant"),
        *("all_to_all", "ppermute", "reduce_scatter", "axis_index", "pvary", "pbroadcast", "name"),
        *("reshard", "mesh_cast", "layout_constraint", "create_token", "after_all", "empty", "empty2"),
        *("debug_callback", "debug_print", "dce_sink", "symbolic_zeros", "instantiate_zeros", "to_dlpack"),
        *("copy_to_host_async", "ragged_all_to_all", "platform_index", "split_into_pieces", "unvmap_any"),
    ]
)
#: Opaque programs, whose work cannot be seen here.
_OPAQUE = frozenset(
    ["pallas_call", "custom_call", "ffi_call", "tpu_custom_call", "pure_callback", "io_callback"]
)


@dataclass(frozen=True, slots=True)
class FlopCount:
    flops: float
    #: everything in the program could be counted
    exact: bool
    #: uncounted parts, by the names of their primitives
    missing: frozenset[str] = frozenset()

    def __add__(self, other: FlopCount) -> FlopCount:
        return FlopCount(self.flops + other.flops, self.exact and other.exact, self.missing | other.missing)

    def times(self, number: float) -> FlopCount:
        return FlopCount(self.flops * number, self.exact, self.missing)


NONE = FlopCount(0.0, True)


def count_flops(jaxpr: Any) -> FlopCount:
    """For a `ClosedJaxpr` or `Jaxpr`, over all devices it runs on."""
    total = NONE
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if not _is_recomputed(equation):
            total = total + _of_equation(equation)
    return total


def _is_recomputed(equation: Any) -> bool:
    """By `jax.checkpoint`, which marks the recomputation of a backward pass."""
    return "rematted_computation" in str(getattr(equation.source_info, "name_stack", ""))


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
        missing = body.missing | ({name} if body.flops else frozenset())
        return FlopCount(body.flops, body.flops == 0 and body.exact, missing)
    if name == "cond":
        # The executed arm is not known: the cheapest is certain.
        arms = [count_flops(arm) for arm in parameters["branches"]]
        least = min((arm.flops for arm in arms), default=0.0)
        same = all(arm.flops == least for arm in arms)
        missing = frozenset().union(*(arm.missing for arm in arms)) | (frozenset() if same else {name})
        return FlopCount(least, same and all(arm.exact for arm in arms), missing)
    if name in ("ragged_dot", "ragged_dot_general"):
        return FlopCount(_ragged_dot(equation), True)
    if name == "fft":
        return FlopCount(_fft(equation), True)
    if name in _LINALG:
        return _linalg(name, equation)
    if name in _OPAQUE:
        return FlopCount(0.0, False, frozenset({name}))
    inner = NONE
    for jaxpr in _inner(parameters):
        inner = inner + count_flops(jaxpr)
    if name == "shard_map":
        # The body is the work of one device.
        mesh = parameters.get("mesh")
        return inner.times(math.prod(dict(getattr(mesh, "shape", {})).values()) or 1)
    if inner is not NONE:
        return inner
    if name in _ELEMENTWISE:
        return FlopCount(sum(_size(out) for out in equation.outvars if _is_float(out)), True)
    if name in _REDUCTIONS:
        return FlopCount(sum(_size(value) for value in equation.invars if _is_float(value)), True)
    # Operations on whole numbers are not counted.
    is_float = any(map(_is_float, equation.outvars))
    return FlopCount(0.0, False, frozenset({name})) if is_float and name not in _FREE else NONE


def _inner(parameters: dict[str, Any]) -> Iterator[Any]:
    """The program inside an equation (`jit`, `remat`, `custom_jvp_call`), not its derivative's program."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        value = parameters.get(name)
        if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
            yield value
            return


def _dot(equation: Any) -> float:
    (contracting, _), (_, _) = equation.params["dimension_numbers"]
    terms = math.prod(equation.invars[0].aval.shape[axis] for axis in contracting)
    return 2.0 * _size(equation.outvars[0]) * float(terms)


def _ragged_dot(equation: Any) -> float:
    """Each row is multiplied by the matrix of its own group: as many terms as one product of all rows."""
    left, right = equation.invars[0].aval.shape, equation.invars[1].aval.shape
    numbers = equation.params.get("ragged_dot_dimension_numbers")
    contracting = [1] if numbers is None else list(numbers.dot_dimension_numbers[0][0])
    groups = [0] if numbers is None else list(numbers.rhs_group_dimensions)
    terms = math.prod(left[axis] for axis in contracting)
    out = _size(equation.outvars[0])
    if not groups:
        # The groups divide the terms of the sums, and the result has one matrix for each.
        out /= equation.invars[2].aval.shape[-1]
    elif numbers is not None and not right:
        return 0.0
    return 2.0 * out * float(terms)


def _fft(equation: Any) -> float:
    """The usual 5 N log2 N of a complex transform; half of it where one side is real."""
    lengths = math.prod(equation.params["fft_lengths"])
    real = any(
        getattr(one.aval.dtype, "kind", "") == "f" for one in (equation.invars[0], equation.outvars[0])
    )
    whole = max(_size(equation.invars[0]), _size(equation.outvars[0]))
    return (2.5 if real else 5.0) * whole * math.log2(max(lengths, 2))


def _linalg(name: str, equation: Any) -> FlopCount:
    """Leading terms; for iterative operations, a lower bound."""
    rows, columns = equation.invars[0].aval.shape[-2:]
    batch = _size(equation.invars[0]) / (rows * columns)
    if name == "triangular_solve":
        return FlopCount(_size(equation.invars[1]) * rows, True)
    if name == "cholesky":
        return FlopCount(batch * rows**3 / 3, True)
    if name == "lu":
        return FlopCount(batch * 2 * rows**3 / 3, True)
    return FlopCount(batch * 2 * rows * columns * min(rows, columns), False, frozenset({name}))


def _convolution(equation: Any) -> float:
    kernel = equation.invars[1].aval.shape
    numbers = equation.params["dimension_numbers"]
    spatial = [kernel[axis] for axis in numbers.rhs_spec[2:]]
    # Input features of one group: the number of terms of each element of the result.
    features = kernel[numbers.rhs_spec[1]]
    dilation = math.prod(equation.params.get("lhs_dilation") or (1,))
    return 2.0 * _size(equation.outvars[0]) * float(math.prod(spatial) * features) / float(dilation)


def _size(variable: Any) -> float:
    return float(math.prod(getattr(variable.aval, "shape", ())))


def _is_float(variable: Any) -> bool:
    return getattr(getattr(variable.aval, "dtype", None), "kind", "") in "fcV"
