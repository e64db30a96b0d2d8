"""One event per compilation, with the right reason, checked against jax's own log and caches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import tpulab
from keeper_double import PATIENCE_S, KeeperDouble, check_message
from tpulab.agent.agent import Agent
from tpulab.compile import watch as compile_watch
from tpulab.compile.compilation import Compilation

Message = dict[str, Any]


class Watched:
    """Runs calls and returns the messages about them, after comparing their number with jax's own log."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def during(self, call: Callable[[], Any]) -> list[Message]:
        records: list[str] = []

        class Listener(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                records.append(record.getMessage())

        logger, listener = logging.getLogger("jax._src.dispatch"), Listener()
        logger.addHandler(listener)
        propagate, logger.propagate = logger.propagate, False
        self._agent.recorder.events.clear()
        try:
            with jax.log_compiles(True):
                call()
        finally:
            logger.removeHandler(listener)
            logger.propagate = propagate
        messages = [event for event in list(self._agent.recorder.events) if isinstance(event, dict)]
        for message in messages:
            check_message(message)
        finished = [message for message in messages if message["phase"] == "finished"]
        logged = sum("Finished XLA compilation" in record for record in records)
        assert len(finished) == logged, (finished, records)
        ids = [message["id"] for message in finished]
        assert len(set(ids)) == len(ids)
        started = [message["id"] for message in messages if message["phase"] == "started"]
        assert set(ids) <= set(started)
        return [message for message in messages if message["phase"] != "started"]

    def one(self, call: Callable[[], Any]) -> Message:
        """The only message about a program of the user's."""
        [message] = [message for message in self.during(call) if not message["eager"]]
        return message


@pytest.fixture
def watched(text_agent: Agent) -> Watched:
    text_agent.compiles.attach()
    return Watched(text_agent)


def reason(message: Message) -> tuple[str, str | None, str | None, str | None]:
    found = message["reason"]
    return found["verdict"], found["argument"], found["before"], found["after"]


def x(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


@pytest.mark.usefixtures("agent")
def test_a_run_states_which_programs_of_an_earlier_one_it_calls(keeper: KeeperDouble) -> None:
    """Without that, the page of runs has no program for the second of two runs."""

    @jax.jit
    def train_step(x: jax.Array) -> jax.Array:
        return x @ x * 0.5

    def train(name: str) -> None:
        x = jnp.ones((200, 200))
        with tpulab.run(name, log=False) as run:
            for _ in run.steps(range(6)):
                x = train_step(x)

    train("first")
    train("second")
    first, second = keeper.wait(lambda: keeper.ended_runs()[1:] and keeper.ended_runs(), "both ends")
    of_first, of_second = keeper.wait(
        lambda: keeper.compiled("train_step")[1:] and keeper.compiled("train_step"), "its program, twice"
    )
    assert (of_first["run"], of_second["run"]) == (first["run"], second["run"])
    assert (of_first.get("reused"), of_second["reused"]) == (None, True)
    assert of_first["fingerprint"] == of_second["fingerprint"]


def test_the_first_call_is_one_compilation_and_the_same_shape_again_is_none(watched: Watched) -> None:
    @jax.jit
    def first_call(batch: jax.Array) -> jax.Array:
        return batch * 2

    message = watched.one(lambda: first_call(x(16, 512)))
    assert message["function"] == "first_call"
    assert message["variant"] == 1
    assert reason(message) == ("first", None, None, None)
    assert message["traceMs"] > 0
    assert message["lowerMs"] > 0
    assert message["compileMs"] > 0
    assert watched.during(lambda: first_call(x(16, 512))) == []
    assert first_call._cache_size() == 1


def test_a_new_shape_names_the_argument_and_both_shapes(watched: Watched) -> None:
    @jax.jit
    def new_shape(state: dict[str, jax.Array], batch: jax.Array) -> jax.Array:
        return state["w"] @ batch

    watched.one(lambda: new_shape({"w": x(3, 16)}, x(16, 512)))
    message = watched.one(lambda: new_shape({"w": x(3, 7)}, x(7, 512)))
    assert message["variant"] == 2
    assert reason(message) == ("shape", "state['w']", "f32[3,16]", "f32[3,7]")
    assert "state['w']" in message["reason"]["advice"]
    assert new_shape._cache_size() == 2


def test_the_closest_earlier_call_is_compared(watched: Watched) -> None:
    @jax.jit
    def closest(a: jax.Array, b: jax.Array) -> jax.Array:
        return a.sum() + b.sum()

    watched.one(lambda: closest(x(1), x(1)))
    watched.one(lambda: closest(x(5), x(7)))
    assert reason(watched.one(lambda: closest(x(5), x(8)))) == ("shape", "b", "f32[7]", "f32[8]")


def test_a_new_dtype_is_reported_as_such_and_so_is_a_python_number(watched: Watched) -> None:
    @jax.jit
    def new_dtype(batch: jax.Array) -> jax.Array:
        return batch + 1

    watched.one(lambda: new_dtype(x(4)))
    assert reason(watched.one(lambda: new_dtype(x(4, dtype=np.int32)))) == (
        "dtype",
        "batch",
        "f32[4]",
        "i32[4]",
    )
    watched.one(lambda: new_dtype(x()))
    assert reason(watched.one(lambda: new_dtype(1.0))) == ("dtype", "batch", "f32[]", "f32[] (weak type)")


@pytest.mark.parametrize("how", ["name", "number"])
def test_a_new_static_value_is_reported_with_its_name(watched: Watched, how: str) -> None:
    def scaled(batch: jax.Array, scale: int) -> jax.Array:
        return batch * scale

    scaled.__qualname__ += how
    jitted = jax.jit(scaled, **({"static_argnames": "scale"} if how == "name" else {"static_argnums": 1}))
    watched.one(lambda: jitted(x(4), 2))
    message = watched.one(lambda: jitted(x(4), 3))
    assert reason(message) == ("static", "scale", "2", "3")


def test_another_structure_of_an_argument_is_reported_as_tree(watched: Watched) -> None:
    @jax.jit
    def new_tree(state: dict[str, jax.Array]) -> list[jax.Array]:
        return jax.tree.leaves(state)

    watched.one(lambda: new_tree({"w": x(4)}))
    message = watched.one(lambda: new_tree({"w": x(4), "b": x(4)}))
    assert reason(message)[:2] == ("tree", "state")


def test_a_cell_that_is_rerun_has_redefined_its_function(watched: Watched) -> None:
    source = "import jax\n@jax.jit\ndef redefined_step(batch):\n    return batch * 2\n"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    watched.one(lambda: namespace["redefined_step"](x(4)))
    exec(source, namespace)
    message = watched.one(lambda: namespace["redefined_step"](x(4)))
    assert reason(message)[0] == "redefined"
    assert message["variant"] == 2
    assert "define and jit it once" in message["reason"]["advice"]


def test_other_placement_of_an_argument_is_reported_as_sharding(watched: Watched) -> None:
    @jax.jit
    def placed(batch: jax.Array) -> jax.Array:
        return batch * 2

    mesh = jax.sharding.Mesh(np.array(jax.devices()), "data")
    watched.one(lambda: placed(jax.device_put(x(8), jax.devices()[0])))
    message = watched.one(lambda: placed(jax.device_put(x(8), NamedSharding(mesh, PartitionSpec("data")))))
    verdict, argument, before, after = reason(message)
    assert (verdict, argument, before) == ("sharding", "batch", "cpu:0")
    assert after is not None
    assert "data: 8" in after


def test_a_changed_setting_of_jax_is_reported_by_its_name(watched: Watched) -> None:
    @jax.jit
    def setting(batch: jax.Array) -> jax.Array:
        return batch @ batch

    watched.one(lambda: setting(x(4, 4)))

    def precisely() -> None:
        with jax.default_matmul_precision("highest"):
            setting(x(4, 4))

    verdict, argument, before, after = reason(watched.one(precisely))
    assert verdict == "config"
    assert argument is not None
    assert "matmul_precision" in argument
    assert before != after


def test_a_jitted_function_inside_another_is_part_of_its_compilation(watched: Watched) -> None:
    @jax.jit
    def inner(batch: jax.Array) -> jax.Array:
        return batch * 2

    @jax.jit
    def outer(batch: jax.Array) -> jax.Array:
        return inner(batch) + inner(batch)

    assert watched.one(lambda: outer(x(4)))["function"] == "outer"


def test_grad_and_vmap_and_scan_under_jit_are_one_compilation(watched: Watched) -> None:
    def loss(weights: jax.Array, batch: jax.Array) -> jax.Array:
        carry, _ = jax.lax.scan(lambda total, row: (total + row @ weights, None), 0.0, batch)
        return carry

    message = watched.one(lambda: jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(x(3), x(2, 5, 3)))
    assert message["function"] == "loss"


def test_grad_and_vmap_of_a_jitted_function_outside_jit_are_separate_compilations(
    watched: Watched,
) -> None:
    @jax.jit
    def transformed(batch: jax.Array) -> jax.Array:
        return (batch**2).sum()

    watched.one(lambda: transformed(x(6)))
    messages = [m for m in watched.during(lambda: jax.grad(transformed)(x(6))) if not m["eager"]]
    assert {message["function"] for message in messages} == {"transformed"}
    assert "outside jit" in messages[0]["reason"]["advice"]


def test_a_pmap_has_the_name_of_its_function_and_its_operations(watched: Watched, agent: Agent) -> None:
    """N18: jax jits an internal function for it."""

    def on_each(batch: jax.Array) -> jax.Array:
        return batch @ batch

    mapped, batch = jax.pmap(on_each), x(2, 16, 16)
    message = watched.one(lambda: mapped(batch))
    assert (message["function"], message["eager"]) == ("on_each", False)
    run = tpulab.run("mapped", log=False, peak_flops=1e12)
    for _ in run.steps(range(20)):
        batch = mapped(batch)
        batch.block_until_ready()
    agent.settle(1)
    found = run._tracked.run.throughput.message(run._tracked.run.figures())["mfu"]  # type: ignore[union-attr,index]
    assert (found["flopsPerStep"], found["source"]) == (2 * 2 * 16**3, "counted")  # type: ignore[index]
    assert found["peakFlopsPerSecond"] == 2e12  # type: ignore[index]


def test_an_operation_outside_jit_is_eager(watched: Watched) -> None:
    messages = watched.during(lambda: jnp.cumsum(jnp.zeros((3, 17))))
    assert messages
    assert all(message["eager"] for message in messages)


def test_an_error_while_tracing_is_one_failed_event_and_no_variant(watched: Watched) -> None:
    @jax.jit
    def fails_once(batch: jax.Array, fail: bool) -> jax.Array:
        if fail:
            raise ValueError("in tracing")
        return batch * 2

    fails_once = jax.jit(fails_once.__wrapped__, static_argnames="fail")
    with pytest.raises(ValueError, match="in tracing"):
        watched.during(lambda: fails_once(x(4), fail=True))
    [failed] = [event for event in watched._agent.recorder.events if isinstance(event, dict)]
    assert (failed["function"], failed["phase"]) == ("fails_once", "failed")
    assert watched.one(lambda: fails_once(x(4), fail=False))["variant"] == 1


def test_tracing_without_compiling_is_not_a_compilation(watched: Watched) -> None:
    @jax.jit
    def only_traced(batch: jax.Array) -> jax.Array:
        return batch * 2

    assert watched.during(lambda: jax.eval_shape(only_traced, x(4))) == []
    assert watched.during(lambda: jax.make_jaxpr(only_traced)(x(5))) == []


def test_a_program_compiled_ahead_of_time_is_one_compilation(watched: Watched) -> None:
    @jax.jit
    def ahead(batch: jax.Array) -> jax.Array:
        return batch * 2

    assert watched.one(lambda: ahead.lower(x(4)).compile())["function"] == "ahead"


def test_a_program_from_the_persistent_cache_is_marked(watched: Watched, tmp_path: Any) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    def cached(batch: jax.Array) -> jax.Array:
        return batch * 2.25

    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()
    try:
        assert not watched.one(lambda: jax.jit(cached)(x(4)))["cacheHit"]
        jax.clear_caches()
        assert watched.one(lambda: jax.jit(cached)(x(4)))["cacheHit"]
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before)
        compilation_cache.reset_cache()


def test_the_line_and_the_function_that_caused_it_are_reported(watched: Watched) -> None:
    @jax.jit
    def located(batch: jax.Array) -> jax.Array:
        return batch * 2

    def fit() -> None:
        located(x(4))

    location = watched.one(fit)["location"]
    assert location["file"] == "test_compile_watch.py"
    assert location["function"] == "fit"
    assert location["line"] == fit.__code__.co_firstlineno + 1


def test_a_compilation_in_a_measured_loop_names_its_run(agent: Agent, keeper: KeeperDouble) -> None:
    agent.compiles.attach()

    @jax.jit
    def in_a_loop(batch: jax.Array) -> jax.Array:
        return batch * 2

    for size in tpulab.steps([4, 5], name="with compilations"):
        in_a_loop(x(size))
    messages = keeper.wait(lambda: keeper.compiled("in_a_loop")[1:], "two compilations")
    keeper.wait(lambda: keeper.ended_runs(), "the end of the run")
    assert {message["run"] for message in messages} == {keeper.ended_runs()[0]["run"]}


def test_a_compilation_between_the_steps_of_a_run_belongs_to_it(agent: Agent, keeper: KeeperDouble) -> None:
    """Case T11: what a run compiles in its evaluations and before its first step was reported in no run."""
    agent.compiles.attach()

    @jax.jit
    def evaluate(batch: jax.Array) -> jax.Array:
        return batch * 3

    evaluate(x(4))
    run = tpulab.run("epochs", log=False)
    for _ in run.steps(range(2)):
        pass
    evaluate(x(5))
    run.finish()
    evaluate(x(6))
    messages = keeper.wait(
        lambda: keeper.compiled("evaluate")[2:] and keeper.compiled("evaluate"), "all three"
    )
    [ended] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert [message["run"] for message in messages] == [None, ended["run"], None]


def test_a_long_tracing_is_reported_while_it_runs(agent: Agent, keeper: KeeperDouble) -> None:
    agent.compiles.attach()

    @jax.jit
    def traces_long(batch: jax.Array) -> jax.Array:
        # Ends when the start has arrived at the keeper: tracing still runs then.
        keeper.wait(lambda: keeper.compiled("traces_long", "started"), "the start of the compilation")
        return batch * 2

    traces_long(x(4))
    [finished] = keeper.wait(lambda: keeper.compiled("traces_long"), "the end of the compilation")
    [started] = keeper.compiled("traces_long", "started")
    assert started["id"] == finished["id"]


def test_a_compilation_that_ends_during_its_report_begins_before_it_finishes(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, distinguishing, over = watched._agent, threading.Event(), threading.Event()
    as_message = Compilation.message

    def slowly(compilation: Compilation, phase: Any) -> Any:
        if threading.current_thread() is poll:
            distinguishing.set()
            # Time for the compilation to end, if it does not wait for its turn.
            over.wait(2)
        return as_message(compilation, phase)

    monkeypatch.setattr(compile_watch, "LONG_TRACE_NS", -1)
    monkeypatch.setattr(Compilation, "message", slowly)
    poll = threading.Thread(target=agent.compiles.announce_long_traces)

    @jax.jit
    def ends_meanwhile(batch: jax.Array) -> jax.Array:
        poll.start()
        assert distinguishing.wait(PATIENCE_S)
        return batch * 2

    agent.recorder.events.clear()
    ends_meanwhile(x(4))
    over.set()
    poll.join(PATIENCE_S)
    phases = [event["phase"] for event in agent.recorder.events if event["function"] == "ends_meanwhile"]
    assert phases == ["started", "finished"]


def test_listeners_are_removed(watched: Watched) -> None:
    from jax._src import monitoring

    before = len(monitoring.get_scalar_listeners())
    watched._agent.compiles.detach()
    assert len(monitoring.get_scalar_listeners()) == before - 1
    watched._agent.compiles.detach()


def test_no_array_is_kept_alive(watched: Watched) -> None:
    import gc
    import weakref

    @jax.jit
    def lets_go(batch: jax.Array) -> jax.Array:
        return batch * 2

    arrays = [jnp.ones(23)]
    reference = weakref.ref(arrays[0])
    watched.during(lambda: lets_go(arrays[0]))
    arrays.clear()
    gc.collect()
    assert reference() is None


@pytest.mark.usefixtures("agent")
def test_functions_of_a_factory_and_lambdas_of_one_line_are_distinct(keeper: KeeperDouble) -> None:
    """Case T14: each is compiled for the first time, and nothing was redefined."""

    def make(power: int) -> Any:
        @jax.jit
        def net(x: jax.Array) -> jax.Array:
            return x**power

        return net

    generator, discriminator = make(2), make(3)
    up, down = jax.jit(lambda x: x + 1), jax.jit(lambda x: x - 1)
    table = {power: jax.jit(lambda x, power=power: x**power) for power in (4, 5, 6)}
    x = jnp.ones(3)
    for function in (generator, discriminator, up, down, *table.values()):
        function(x)
    reported = keeper.wait(
        lambda: len(found := [*keeper.compiled("net"), *keeper.compiled("<lambda>")]) == 7 and found, "all"
    )
    assert [(one["reason"]["verdict"], one["variant"]) for one in reported] == [("first", 1)] * 7


@pytest.mark.usefixtures("agent")
def test_a_repeatedly_created_function_counts_as_redefined(keeper: KeeperDouble) -> None:
    x = jnp.ones(3)
    for _ in range(12):
        jax.jit(lambda x: x * 3)(x)
    reported = keeper.wait(lambda: len(found := keeper.compiled("<lambda>")) == 12 and found, "all")
    assert [one["reason"]["verdict"] for one in reported[3:]] == ["redefined"] * 9
    assert reported[-1]["variant"] == 12


@pytest.mark.usefixtures("agent")
def test_a_cause_that_cannot_be_found_is_unknown(
    keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F15: on another jax whose frames have other names, no wrong sentence is reported."""
    monkeypatch.setattr("tpulab.compile.compilation.find_jit_call", lambda *_: None)
    step = jax.jit(lambda x: x.sum())
    for size in (3, 4):
        step(jnp.ones(size))
    reported = keeper.wait(lambda: len(found := keeper.compiled("<lambda>")) == 2 and found, "both")
    assert reported[1]["reason"] == {
        "verdict": "other",
        "argument": None,
        "before": None,
        "after": None,
        "advice": None,
    }


def test_a_program_in_a_run_has_the_fingerprint_of_what_xla_was_given(
    text_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    text_agent.compiles.attach()
    messages: list[Any] = []
    monkeypatch.setattr(text_agent.compiles, "_send", messages.append)
    for factor in (2.0, 2.0, 3.0):
        for _ in tpulab.steps(range(1)):
            jax.jit(lambda value, by=factor: value * by)(x(3))
    # Outside a run it is not compared and not computed.
    jax.jit(lambda value: value * 4)(x(3))
    for message in messages:
        check_message(message)
    finished = [one for one in messages if one["phase"] == "finished" and not one["eager"]]
    first, same, other, outside = (one.get("fingerprint") for one in finished)
    assert first == same != other
    assert None not in (first, other)
    assert outside is None
