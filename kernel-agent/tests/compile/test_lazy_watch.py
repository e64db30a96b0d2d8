"""Reports of a lazy runtime's compilations: started and finished once each, whichever thread is first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import tpulab
from keeper_double import PATIENCE_S, KeeperDouble
from tpulab.agent.agent import Agent
from tpulab.compile import lazy_watch
from tpulab.compile.lazy_compilation import LazyReasons
from tpulab.compile.lazy_watch import LazyWatch
from tpulab.measure.thread_state import thread_state
from tpulab.runtimes.torch_xla_runtime import Execution, Launch, Read, Value
from tpulab.telemetry.messages import DevicesMessage


class ScriptedRuntime:
    """A lazy runtime whose counters a test sets."""

    name = "scripted"

    def __init__(self) -> None:
        self.compiled = 0
        self.compile_time_ns = 0
        self.queued = 0
        self.ran: list[Execution] = []
        self.around: Callable[[Launch], Any] = lambda launch: launch()
        self.waiting: Callable[[Launch], Any] = lambda wait: wait()

    def attach(self, around_launch: Callable[[Launch], Any], around_wait: Callable[[Launch], Any]) -> bool:
        self.around, self.waiting = around_launch, around_wait
        return True

    def detach(self) -> None:
        pass

    def reads(self) -> int:
        return 0

    def wrap_reads(self, around: Callable[[Read], Value]) -> Callable[[], None]:
        del around
        return lambda: None

    def compilations(self) -> int:
        return self.compiled

    def compile_ns(self) -> int:
        return self.compile_time_ns

    def launched(self) -> int:
        return self.queued

    def executions(self) -> tuple[int, Sequence[Execution]]:
        return len(self.ran), tuple(self.ran)

    def devices(self) -> DevicesMessage | None:
        return None


class Lazy:
    """A watch over a scripted runtime. Every launch counts as a long one."""

    def __init__(self, agent: Agent, keeper: KeeperDouble) -> None:
        self.runtime = ScriptedRuntime()
        self.watch = LazyWatch(self.runtime, agent.tracker, agent.auto, agent.syncs, agent.compiles.next_id)
        self._keeper = keeper
        assert self.watch.attach()

    def compile(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """A launch that compiles one program; another event follows it, before the launch is over."""

        def launch() -> None:
            self.runtime.compiled += 1
            meanwhile()
            self.runtime.compile_time_ns += 1_000_000

        self.runtime.around(launch)

    def launch(self) -> None:
        """A launch that compiles nothing, and whose program has run immediately."""

        def run() -> None:
            self.runtime.queued += 1

        self.runtime.around(run)
        self.runtime.ran.append(Execution(time.time_ns(), 1_000))

    def reported(self, compilations: int) -> dict[int, list[str]]:
        """The phases by the id of a compilation, once so many have finished."""

        def finished() -> bool:
            reported = self._keeper.of_type("compile")
            return sum(message["phase"] == "finished" for message in reported) >= compilations

        self._keeper.wait(finished, f"{compilations} compilations to be reported")
        phases: dict[int, list[str]] = {}
        for message in self._keeper.of_type("compile"):
            phases.setdefault(message["id"], []).append(message["phase"])
        return phases


@pytest.fixture
def lazy(agent: Agent, keeper: KeeperDouble, monkeypatch: pytest.MonkeyPatch) -> Lazy:
    monkeypatch.setattr(lazy_watch, "LONG_LAUNCH_NS", -1)
    return Lazy(agent, keeper)


def test_a_compilation_that_takes_long_is_reported_while_it_runs(lazy: Lazy) -> None:
    lazy.compile(meanwhile=lazy.watch.poll)
    assert list(lazy.reported(1).values()) == [["started", "finished"]]


def test_a_compilation_that_ends_during_its_report_begins_before_it_finishes(
    lazy: Lazy, monkeypatch: pytest.MonkeyPatch
) -> None:
    distinguishing, over = threading.Event(), threading.Event()
    unexplained = LazyReasons.unexplained

    def slowly(*arguments: Any) -> Any:
        distinguishing.set()
        # Time for the launch to end, if it does not wait for its turn.
        over.wait(0.5)
        return unexplained(*arguments)

    def begin_to_poll() -> None:
        poll.start()
        assert distinguishing.wait(PATIENCE_S)

    monkeypatch.setattr(LazyReasons, "unexplained", slowly)
    poll = threading.Thread(target=lazy.watch.poll)
    lazy.compile(meanwhile=begin_to_poll)
    over.set()
    poll.join(PATIENCE_S)
    # A report of the poll would have arrived before this one.
    lazy.compile()
    assert list(lazy.reported(2).values()) == [["started", "finished"]] * 2


def test_a_reported_start_is_finished_even_when_another_thread_has_counted_it(lazy: Lazy) -> None:
    def compile_elsewhere() -> None:
        lazy.watch.poll()
        other = threading.Thread(target=lazy.runtime.around, args=(lambda: None,))
        other.start()
        other.join(PATIENCE_S)

    lazy.compile(meanwhile=compile_elsewhere)
    assert list(lazy.reported(2).values()) == [["started", "finished"]] * 2


def finished(keeper: KeeperDouble) -> list[dict[str, Any]]:
    return [message for message in keeper.of_type("compile") if message["phase"] == "finished"]


def test_a_compilation_by_a_read_has_its_own_line_and_moment(
    lazy: Lazy, agent: Agent, keeper: KeeperDouble
) -> None:
    """N4: it was reported at the next launch, of the next run, with a counter of the loop as its reason."""
    agent.lazy = lazy.watch

    def evaluate() -> None:
        lazy.runtime.compiled += 1
        began = time.perf_counter_ns()
        seen = threading.Event()

        def wait() -> None:
            keeper.wait(lambda: keeper.of_type("compile"), "the agent to see the read")
            seen.set()

        threading.Thread(target=wait).start()
        assert seen.wait(PATIENCE_S)
        lazy.runtime.compile_time_ns += time.perf_counter_ns() - began

    with tpulab.run("epochs", log=False) as run:
        for epoch in range(2):
            for _ in run.steps(range(3)):
                lazy.launch()
            if epoch == 0:
                evaluate()
    reported = keeper.wait(lambda: finished(keeper), "the compilation of the read")
    assert [one["function"] for one in reported] == ["evaluate"]
    assert reported[0]["location"]["function"] == "evaluate"
    assert (reported[0]["reason"]["argument"], reported[0]["reason"]["advice"]) == (None, None)
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert reported[0]["run"] == end["run"]
    # Between two loops, so in no step.
    assert [step["compileMs"] for step in keeper.steps(end["run"])] == [0] * 6


def test_a_compilation_just_before_a_run_does_not_belong_to_it(
    lazy: Lazy, agent: Agent, keeper: KeeperDouble
) -> None:
    lazy.launch()
    lazy.runtime.compiled += 2
    lazy.runtime.compile_time_ns += 20_000_000
    time.sleep(0.05)
    agent.lazy = lazy.watch
    with tpulab.run("later", log=False) as run:
        for _ in run.steps(range(3)):
            lazy.launch()
    [reported] = keeper.wait(lambda: finished(keeper), "the compilations")
    assert (reported["run"], reported["compileMs"], reported["reason"]["verdict"]) == (None, 20.0, "other")
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert [step["compileMs"] for step in keeper.steps(end["run"])] == [0] * 3


def test_an_earlier_jax_program_hides_the_device_only_until_the_next_launch(
    lazy: Lazy, agent: Agent, keeper: KeeperDouble
) -> None:
    agent.lazy = lazy.watch

    def launch() -> None:
        lazy.runtime.queued += 1

    jax.jit(lambda x: x + 3)(jnp.ones(3))
    for _ in tpulab.steps(range(3), name="after jax"):
        began = time.time_ns()
        time.sleep(0.02)
        lazy.runtime.around(launch)
        lazy.runtime.ran.append(Execution(time.time_ns(), time.time_ns() - began))
    [run] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert [step["deviceKnown"] for step in keeper.steps(run["run"])] == [False, True, True]


def test_the_device_and_loader_times_of_a_runtime_become_spans(
    lazy: Lazy, agent: Agent, keeper: KeeperDouble
) -> None:
    agent.lazy = lazy.watch
    # As on a thread on which jax has run nothing.
    thread_state().device_known_since = 0
    waited: list[float] = []
    #: from the end of the step before to the end of the wait
    around: list[float] = []

    def wait() -> None:
        began = time.perf_counter()
        time.sleep(0.03)
        waited.append((time.perf_counter() - began) * 1e3)

    def launch() -> None:
        lazy.runtime.queued += 1

    before = time.perf_counter()
    for _ in tpulab.steps(range(6), name="scripted"):
        lazy.runtime.waiting(wait)
        around.append((time.perf_counter() - before) * 1e3)
        lazy.runtime.around(launch)
        began = time.time_ns()
        time.sleep(0.05)
        ended = time.time_ns()
        lazy.runtime.ran.append(Execution(ended, ended - began))
        time.sleep(0.02)
        before = time.perf_counter()
    [run] = keeper.wait(keeper.ended_runs, "the end of the run")
    steps = keeper.steps(run["run"])
    assert len(steps) == 6
    for step, one, least, most in zip(steps, lazy.runtime.ran, waited, around, strict=True):
        assert step["deviceKnown"]
        # From the runtime's times, without the delays of the test's clock.
        assert step["deviceMs"] == pytest.approx(one.duration_ns / 1e6, rel=0.1)
        assert least <= step["inputMs"] <= most
        assert step["gapMs"] > 0
