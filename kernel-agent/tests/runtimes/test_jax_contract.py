"""The private parts of jax that the agent relies on. Pinned to the versions of the `jax` environment.

When one of these fails after an upgrade of jax, `tpulab/runtimes/jax_internals.py` is the place to adapt.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import monitoring
from jax._src import api, compiler, config, dispatch, xla_bridge

from tpulab.runtimes import jax_internals
from tpulab.runtimes.jax_internals import COMPILE_EVENT, LOWER_EVENT, TRACE_EVENT, DispatchHookSlot
from tpulab.telemetry.locations import is_user_frame, jax_folder

ADAPT = "jax has changed: adapt tpulab/runtimes/jax_internals.py"


@pytest.fixture
def received() -> Iterator[list[tuple[str, str, str]]]:
    """Events of jax during the test: kind, event, function."""
    events: list[tuple[str, str, str]] = []

    def scalar(event: str, _value: float, **details: Any) -> None:
        events.append(("start", event, str(details.get("fun_name"))))

    def duration(event: str, _seconds: float, **details: Any) -> None:
        events.append(("end", event, str(details.get("fun_name"))))

    monitoring.register_scalar_listener(scalar)
    monitoring.register_event_duration_secs_listener(duration)
    yield events
    monitoring.unregister_scalar_listener(scalar)
    monitoring.unregister_event_duration_listener(duration)


def test_this_is_the_version_that_the_agent_was_checked_with() -> None:
    locked = "0.12.0.1" if sys.version_info >= (3, 12) else "0.10.2"
    assert jax.__version__ == locked, f"run these tests, then change the version here: {ADAPT}"


def test_jax_names_its_phases_as_the_agent_knows_them() -> None:
    named = (dispatch.JAXPR_TRACE_EVENT, dispatch.JAXPR_TO_MLIR_MODULE_EVENT, dispatch.BACKEND_COMPILE_EVENT)
    assert named == (TRACE_EVENT, LOWER_EVENT, COMPILE_EVENT), ADAPT


def test_a_compilation_is_reported_as_start_and_end_of_three_phases(
    received: list[tuple[str, str, str]],
) -> None:
    @jax.jit
    def reported(x: jax.Array) -> jax.Array:
        return x * 3

    x = jnp.arange(11)
    received.clear()
    reported(x)
    assert received == [
        ("start", TRACE_EVENT, "reported"),
        ("end", TRACE_EVENT, "reported"),
        ("start", LOWER_EVENT, "jit(reported)"),
        ("end", LOWER_EVENT, "jit(reported)"),
        ("start", COMPILE_EVENT, "jit(reported)"),
        ("end", COMPILE_EVENT, "jit(reported)"),
    ], ADAPT
    received.clear()
    reported(x)
    assert received == [], "jax reports events in the steady state, which would cost time"


def test_the_call_that_compiles_is_found_on_the_stack() -> None:
    found: list[Any] = []

    def listener(event: str, _value: float, **_details: Any) -> None:
        if event == LOWER_EVENT:
            folder = jax_folder()
            assert folder is not None
            frame = sys._getframe(1)
            while frame.f_code.co_filename == __file__:
                assert frame.f_back is not None
                frame = frame.f_back
            found.append(jax_internals.find_jit_call(frame, folder, is_user_frame))

    def searched(x: jax.Array, scale: int) -> jax.Array:
        return x * scale

    jitted = jax.jit(searched, static_argnames="scale")
    x = jnp.arange(13)
    monitoring.register_scalar_listener(listener)
    try:
        jitted(x, scale=2)
    finally:
        monitoring.unregister_scalar_listener(listener)
    [call] = found
    assert call is not None, f"the frame of the call was not found: {ADAPT}"
    assert call.function is searched
    assert call.args[0] is x
    assert call.kwargs == {"scale": 2}
    assert call.jit_info.static_argnames == ("scale",)
    assert call.executes


def test_the_timing_context_of_jax_holds_the_exception_that_ended_a_phase() -> None:
    source = inspect.signature(dispatch.LogElapsedTimeContextManager.__exit__)
    assert "exc_type" in source.parameters, ADAPT


def test_the_hook_after_a_call_exists_and_gets_function_arguments_and_output() -> None:
    slot = DispatchHookSlot.find()
    assert slot is not None, ADAPT
    seen: list[tuple[Any, ...]] = []
    double = jax.jit(lambda x: x * 2)
    x = jnp.arange(3)
    double(x)
    slot.install(lambda *reported: seen.append(reported))
    try:
        result = double(x)
    finally:
        slot.remove()
    double(x)
    [(function, args, kwargs, output)] = seen
    assert function is double
    assert args[0] is x
    assert kwargs == {}
    assert output is result, ADAPT


def test_programs_with_effects_reach_the_hook_after_each_call_except_the_first() -> None:
    jax_internals.python_calls.install()
    slot = DispatchHookSlot.find()
    assert slot is not None
    seen: list[tuple[Any, ...]] = []

    @jax.jit
    def printing(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda _: None, x)
        return x * 2

    slot.install(lambda *reported: seen.append(reported))
    try:
        printing(1.0)
        results = [printing(float(x)) for x in range(3)]
    finally:
        slot.remove()
    printing(5.0)
    assert [function.__name__ for function, *_ in seen] == ["printing"] * 3, ADAPT
    assert len({id(function) for function, *_ in seen}) == 1
    assert [args for _, args, _, _ in seen] == [(0.0,), (1.0,), (2.0,)]
    assert [output is result for (*_, output), result in zip(seen, results, strict=True)] == [True] * 3


@pytest.mark.parametrize("transform", [jax.grad, jax.vmap])
def test_a_jitted_function_in_a_transformation_has_the_same_program_in_each_call(transform: Any) -> None:
    slot = DispatchHookSlot.find()
    assert slot is not None
    programs: list[set[int]] = []
    cube = jax.jit(lambda x: (x**3).sum())
    call, x = transform(cube), jnp.ones((3, 3))

    def hook(function: Any, *_: Any) -> None:
        if not hasattr(function, "__name__"):
            programs[-1].add(id(jax_internals.program_of_transformation(sys._getframe(1))))

    x = x[0] if transform is jax.grad else x
    slot.install(hook)
    try:
        for _ in range(4):
            programs.append(set())
            call(x)
    finally:
        slot.remove()
    assert programs[-1] == programs[-2] != set(), ADAPT


def test_the_hook_keeps_an_earlier_hook() -> None:
    before = api._post_hook_state.get_local()
    slot = DispatchHookSlot.find()
    assert slot is not None
    slot.install(lambda *_: None)
    slot.remove()
    assert api._post_hook_state.get_local() is before, ADAPT


def test_the_hooks_stay_when_jax_changes_its_checks_during_a_derivative_or_an_operation() -> None:
    inner, outer = DispatchHookSlot.find(), DispatchHookSlot.find()
    assert inner is not None
    assert outer is not None
    seen: list[str] = []
    slope = jax.jit(jax.grad(lambda x: jax.nn.relu(x) ** 2))
    inner.install(lambda function, *_: seen.append(f"inner {function.__name__}"))
    outer.install(lambda function, *_: seen.append(f"outer {function.__name__}"))
    try:
        slope(2.0)  # traces a derivative of a jitted function
        jnp.percentile(jnp.arange(3.0), 50)
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            jnp.log(jnp.full(3, -1.0))
        seen.clear()
        slope(2.0)
        assert seen == ["outer <lambda>", "inner <lambda>"], ADAPT
    finally:
        outer.remove()
        inner.remove()
    seen.clear()
    slope(2.0)
    assert seen == []
    assert not callable(api._post_hook_state.get_local())


def test_the_check_of_all_threads_for_nan_remains_beside_the_hook() -> None:
    slot = DispatchHookSlot.find()
    assert slot is not None
    invalid = jax.jit(lambda x: x / x)
    invalid(jnp.ones(3))
    slot.install(lambda *_: None)
    jax.config.update("jax_debug_nans", True)
    try:
        with jax.debug_nans(False):
            invalid(jnp.zeros(3))
        # Without the hook, jax itself no longer checks on this thread (0.10.2).
        with pytest.raises(FloatingPointError):
            invalid(jnp.zeros(3))
    finally:
        jax.config.update("jax_debug_nans", False)
        slot.remove()


def test_the_state_of_the_backends_can_be_read_without_waiting() -> None:
    jax.devices()
    assert isinstance(xla_bridge._backends, dict), ADAPT
    assert jax_internals.backends_ready()
    with xla_bridge._backend_lock:
        pass
    assert hasattr(xla_bridge._backend_lock, "acquire"), ADAPT


def test_the_settings_that_are_part_of_the_cache_keys_have_names() -> None:
    names = jax_internals.tracing_context()
    assert "jax_enable_x64" in names or "enable_x64" in names, f"{sorted(names)}: {ADAPT}"
    assert len(config.trace_context_names()) == len(config.trace_context()), ADAPT


def test_an_operation_outside_jit_is_marked_as_such() -> None:
    from jax._src.lax.lax import add_p

    assert getattr(dispatch.xla_primitive_callable(add_p)._fun, "_apply_primitive", False), ADAPT


def test_the_program_that_is_lowered_is_found_on_the_stack() -> None:
    found: list[tuple[Any, int] | None] = []

    def scalar(event: str, _value: float, **_details: Any) -> None:
        if event == LOWER_EVENT:
            found.append(jax_internals.find_lowered(sys._getframe(1)))

    monitoring.register_scalar_listener(scalar)
    try:
        jax.jit(lambda x: x @ x)(jnp.ones((3, 3)))
    finally:
        monitoring.unregister_scalar_listener(scalar)
    lowered = found[-1]
    assert lowered is not None, ADAPT
    jaxpr, devices = lowered
    assert [str(equation.primitive) for equation in jaxpr.jaxpr.eqns] == ["dot_general"], ADAPT
    assert devices == 1


def test_a_wait_for_an_array_goes_through_one_method(monkeypatch: pytest.MonkeyPatch) -> None:
    from jax._src.array import ArrayImpl

    original = vars(ArrayImpl).get("block_until_ready")
    assert callable(original), ADAPT
    waits: list[Any] = []

    def wait(array: Any) -> Any:
        waits.append(array)
        return original(array)

    monkeypatch.setattr(ArrayImpl, "block_until_ready", wait)
    array = jnp.ones(()) + 1
    assert array.block_until_ready() is array
    assert jax.block_until_ready(array) is array
    assert len(waits) == 2, ADAPT


def test_reading_an_array_as_a_number_or_text_goes_through_one_property(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jax._src.array import ArrayImpl

    original = vars(ArrayImpl).get("_value")
    assert isinstance(original, property), ADAPT
    reads: list[int] = []

    def value(array: Any) -> Any:
        reads.append(1)
        return original.fget(array)  # type: ignore[misc]

    monkeypatch.setattr(ArrayImpl, "_value", property(value))
    array = jnp.ones(()) + 1
    assert array._npy_value is None, ADAPT
    for read in (float, int, str):
        count = len(reads)
        read(jnp.ones(()) + 1)
        assert len(reads) > count, ADAPT


def test_a_program_and_its_devices_are_seen_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compile_or_get_cached", compiler.compile_or_get_cached)
    seen: list[tuple[str, list[int]]] = []

    def refuse(module: Any, devices: Any) -> None:
        seen.append((str(module), [device.process_index for device in devices.flatten()]))
        raise ValueError("not this one")

    assert jax_internals.before_compile(refuse), ADAPT
    with pytest.raises(ValueError, match="not this one"):
        jax.jit(lambda inspected: inspected + 41)(1.0)
    ((text, processes),) = seen
    assert text.startswith("module @jit__lambda"), ADAPT
    assert "func.func public @main(%arg0: tensor<f32>" in text, ADAPT
    assert processes == [0]
