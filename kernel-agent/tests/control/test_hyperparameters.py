"""Hyperparameters: their accepted values, and that changing one compiles nothing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tpulab
from tpulab.control.adapters import AdapterError
from tpulab.control.hyperparameters import Hyper, HyperparameterError, Hyperparameters
from tpulab.telemetry.messages import HyperValue


def test_a_number_is_a_zero_dimensional_array_of_strong_type() -> None:
    hyper = Hyperparameters({"rate": 0.5, "count": 3, "flag": True, "name": "adam"})
    rate = hyper.rate
    assert isinstance(rate, jax.Array)
    assert (rate.shape, str(rate.dtype), rate.weak_type) == ((), "float32", False)
    assert (str(hyper.count.dtype), str(hyper.flag.dtype), hyper.name) == ("int32", "bool", "adam")
    assert hyper.rate is rate, "one array for each value"
    assert dict(hyper) == {"rate": 0.5, "count": 3, "flag": True, "name": "adam"}


def test_an_array_outlives_the_trace_and_the_guard_under_which_it_was_first_read() -> None:
    hyper = Hyperparameters({"rate": 0.5, "count": 3})
    jax.jit(lambda x: x * hyper.rate)(1.0)
    assert not isinstance(hyper.rate, jax.core.Tracer)
    with jax.transfer_guard("disallow"):
        assert int(hyper.count) == 3
    jax.jit(lambda x: x + 1, donate_argnums=0)(hyper.rate)
    assert float(hyper.rate) == 0.5, "a step that donates its optimizer state donates the rate in it"


@pytest.mark.parametrize("dtype", ["bfloat16", jnp.bfloat16, np.dtype("float16"), np.uint8, "float8_e4m3fn"])
def test_a_type_may_be_that_of_a_framework(dtype: Any) -> None:
    hyper = Hyperparameters({"it": tpulab.hyper(1 if dtype is np.uint8 else 1.0, dtype=dtype)})
    assert hyper.it.dtype == jnp.dtype(dtype)


def test_changing_one_compiles_nothing() -> None:
    hyper = Hyperparameters({"rate": 0.5, "half": tpulab.hyper(0.5, dtype="bfloat16")})

    @jax.jit
    def step(x: jax.Array, rate: jax.Array, half: jax.Array) -> jax.Array:
        return x * rate + half

    x = jnp.ones(3)
    first = step(x, hyper.rate, hyper.half)
    for value in (0.25, 1.0, 0, 1e-9):
        hyper.replace("rate", value)
        hyper.replace("half", value)
        step(x, hyper.rate, hyper.half)
    assert step._cache_size() == 1  # type: ignore[attr-defined]
    np.testing.assert_allclose(first, 1.0)


def test_optax_follows_without_a_new_program() -> None:
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.inject_hyperparams(optax.adam)(learning_rate=0.5)
    )
    hyper = Hyperparameters({"learning_rate": 0.5, "other": 1})
    params = {"w": jnp.ones(4)}
    state: Any = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(jax.tree_util.tree_map(jnp.ones_like, params), state, params)
        return optax.apply_updates(params, updates), state

    def moved(rate: float) -> float:
        nonlocal params, state
        hyper.replace("learning_rate", rate)
        state = tpulab.into_optax(state, hyper)
        before = params["w"]
        params, state = step(params, state)
        return float(jnp.abs(params["w"] - before).mean())

    assert moved(0.5) == pytest.approx(0.5, rel=1e-3)
    programs = step._cache_size()  # type: ignore[attr-defined]
    assert moved(0.1) == pytest.approx(0.1, rel=1e-3)
    assert moved(0.0) == 0.0
    assert step._cache_size() == programs  # type: ignore[attr-defined]


def test_a_state_without_hyperparameters_is_refused_with_what_to_do() -> None:
    state = optax.adam(0.1).init({"w": jnp.ones(2)})
    with pytest.raises(AdapterError, match=r"optax\.inject_hyperparams"):
        tpulab.into_optax(state, Hyperparameters({"learning_rate": 0.1}))


@pytest.mark.parametrize(
    ("described", "value", "why"),
    [
        (tpulab.hyper(0.5, min=0, max=1), 2, "must be between 0 and 1, not 2"),
        (tpulab.hyper(0.5, min=0.1), 0, "must be between 0.1 and ∞"),
        (tpulab.hyper(0.5), "much", "is a finite number"),
        (tpulab.hyper(0.5), float("nan"), "is a finite number"),
        (tpulab.hyper(0.5), True, "is a finite number"),
        (tpulab.hyper(3), 2.5, "is a whole number"),
        (tpulab.hyper(True), 1, "is true or false"),
        (tpulab.hyper("a", choices=["a", "b"]), "c", "is one of 'a', 'b'"),
        (tpulab.hyper("text"), "x" * 2000, "at most 1000 characters"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(described: Hyper, value: object, why: str) -> None:
    hyper = Hyperparameters({"it": described})
    with pytest.raises(HyperparameterError, match=why):
        hyper.replace("it", value)
    assert hyper["it"] == described.value


@pytest.mark.parametrize(
    "arguments",
    [
        {"value": 1.0, "min": 2.0},
        {"value": 1.0, "min": 3.0, "max": 2.0},
        {"value": 1.0, "scale": "log"},
        {"value": 1.0, "scale": "cubic"},
        {"value": [1]},
        {"value": 1, "choices": [2, 3]},
        {"value": 1.0, "dtype": "float99"},
        {"value": 1.0, "dtype": object()},
    ],
)
def test_an_invalid_definition_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(HyperparameterError):
        tpulab.hyper(**arguments)


@pytest.mark.parametrize("given", [[1.0], "rate", {1: 1.0}])
def test_a_definition_that_is_no_mapping_of_names_is_refused(given: Any) -> None:
    with pytest.raises(HyperparameterError):
        Hyperparameters(given)
    with pytest.raises(HyperparameterError, match="backend"):
        Hyperparameters({}, "tensorflow")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["not a name", "_hidden", "keys", "items"])
def test_a_name_must_be_usable_as_an_attribute(name: str) -> None:
    given: dict[str, HyperValue] = {name: 1.0}
    with pytest.raises(HyperparameterError):
        Hyperparameters(given)


def test_a_typing_error_is_not_a_new_hyperparameter() -> None:
    hyper = Hyperparameters({"rate": 1.0})
    with pytest.raises(AttributeError, match="it has: rate"):
        _ = hyper.raet
    with pytest.raises(AttributeError, match=r"run\.set"):
        hyper.rate = 2.0
