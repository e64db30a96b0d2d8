"""`tpulab.run`: commands of a page, applied between two steps, in every kind of loop."""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
import re
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tpulab
from keeper_double import PATIENCE_S, KeeperDouble, wait_until
from tpulab.agent.agent import Agent
from tpulab.control.command import Command
from tpulab.control.controller import MAX_WAITING, Controller, ControlListener
from tpulab.control.hyperparameters import Hyperparameters
from tpulab.measure.tracked_run import on_cell_end
from tpulab.telemetry.messages import ControlMessage
from tpulab.training.run import TrainingRun

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> Iterator[TrainingRun]:
    made = tpulab.run(
        "steered",
        {"batch": 8, "opt": {"eps": 1e-8}},
        hyperparameters={"rate": tpulab.hyper(0.5, min=0, max=1)},
    )
    yield made
    made.finish()


def control(keeper: KeeperDouble) -> list[tuple[str, str, int | None]]:
    return [(m["action"], m["phase"], m["step"]) for m in keeper.of_type("control")]


def states(keeper: KeeperDouble) -> list[str]:
    found: list[str] = []
    for message in keeper.of_type("run"):
        state = message["control"]["state"]
        if not found or found[-1] != state:
            found.append(state)
    return found


class Page(threading.Thread):
    """A user who steers from outside. An error there ends the run, and the test when it is joined."""

    def __init__(self, run: TrainingRun, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._steered = run
        self._work = work
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error
            self._steered.stop()

    def join(self, timeout: float | None = PATIENCE_S) -> None:
        super().join(timeout)
        if self._error is not None:
            raise self._error


def test_commands_are_applied_between_steps_in_order_and_reported(
    run: TrainingRun, keeper: KeeperDouble
) -> None:
    seen: list[float] = []
    run.on_checkpoint(lambda step: f"kept {step}")
    for index in run.steps(range(6)):
        seen.append(run.hyper["rate"])  # type: ignore[arg-type]
        if index == 2:
            first = keeper.command("set", name="rate", value=0.25)
            last = keeper.command("checkpoint")
            keeper.outcome(last, "accepted")
            # Accepted is not applied: the step continues with its first values.
            assert run.hyper["rate"] == 0.5
    assert seen == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    applied = keeper.outcome(first, "applied")
    assert (applied["step"], applied["before"], applied["value"]) == (3, 0.5, 0.25)
    kept = keeper.outcome(last, "applied")
    assert (kept["step"], kept["reason"]) == (3, "kept 3")
    assert control(keeper) == [
        ("set", "accepted", None),
        ("checkpoint", "accepted", None),
        ("set", "applied", 3),
        ("checkpoint", "applied", 3),
    ]


def test_a_pause_holds_the_loop_until_it_is_resumed(run: TrainingRun, keeper: KeeperDouble) -> None:
    done: list[int] = []

    def page() -> None:
        pause = keeper.command("pause")
        paused = keeper.outcome(pause, "applied")
        keeper.wait(lambda: states(keeper)[-1:] == ["paused"], "the pause")
        before = len(done)
        keeper.outcome(keeper.command("set", name="rate", value=0.1), "applied")
        assert (len(done), paused["step"]) == (before, before)
        keeper.command("resume")

    steering = Page(run, page)
    for index in run.steps(range(10**9)):
        time.sleep(0.001)
        if index == 1:
            steering.start()
        done.append(index)
        if index > 1 and run.hyper["rate"] == 0.1:
            break
    steering.join()
    run.finish()
    keeper.wait(keeper.ended_runs, "the end")
    assert states(keeper) == ["starting", "running", "pausing", "paused", "running", "finished"]
    [band] = keeper.of_type("band")
    assert (band["kind"], band["inStep"], band["failed"]) == ("pause", False, False)


def test_a_stop_ends_this_loop_and_those_that_follow(run: TrainingRun, keeper: KeeperDouble) -> None:
    done: list[tuple[int, int]] = []
    for epoch in range(3):
        for index in run.steps(range(4)):
            done.append((epoch, index))
            if (epoch, index) == (1, 1):
                keeper.outcome(keeper.command("stop"), "accepted")
        if run.stopped:
            last = epoch
    assert done == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    assert last == 2
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert (end["state"], end["control"]["state"]) == ("finished", "stopped")
    # Epochs make one run, whose steps are counted on.
    keeper.wait(lambda: len(keeper.steps(end["run"])) == 6, "all steps")
    assert [step["index"] for step in keeper.steps(end["run"])] == list(range(6))


def test_a_stop_is_applied_even_when_the_loop_is_faster_than_the_request() -> None:
    reported: list[str] = []
    requested = threading.Event()

    class Slow(ControlListener):
        def reported(self, message: ControlMessage) -> None:
            reported.append(message["phase"])
            if message["phase"] == "accepted":
                requested.set()
                # Time for the loop to reach its next step, if it does not wait for the command.
                time.sleep(0.2)

    controller = Controller("r", Hyperparameters({}), Slow())
    controller.start()
    controller.begin()
    page = threading.Thread(target=controller.submit, args=(Command("stop"),))
    page.start()
    assert requested.wait(PATIENCE_S)
    assert not controller.boundary(3)
    controller.finish("end", "The run ended before its next step.")
    page.join(PATIENCE_S)
    assert reported == ["accepted", "applied"]
    assert controller.state == "stopped"


def test_an_invalid_command_is_refused_with_a_reason(run: TrainingRun, keeper: KeeperDouble) -> None:
    commands: list[tuple[str, dict[str, Any], str]] = [
        ("set", {"name": "rate", "value": 2}, "must be between 0 and 1"),
        ("set", {"name": "rat", "value": 0.5}, "it has: rate"),
        ("set", {"value": 0.5}, "names a hyperparameter"),
        ("resume", {}, "not paused"),
        ("evaluate", {}, r"run.on_evaluate\(function\)"),
        ("dance", {}, "is not a command"),
        ("stop", {"run": "another"}, "no run another"),
    ]
    for index in run.steps(range(2)):
        if index == 0:
            sent = [keeper.command(action, **fields) for action, fields, _ in commands]
            for identity, (_, _, why) in zip(sent, commands, strict=True):
                refused = keeper.outcome(identity, "refused")
                assert refused["reason"] is not None
                assert re.search(why, refused["reason"]), refused
    assert {phase for _, phase, _ in control(keeper)} == {"refused"}


def test_a_command_is_applied_once_however_often_it_comes(run: TrainingRun, keeper: KeeperDouble) -> None:
    calls: list[int] = []
    run.on_sample(lambda step: calls.append(step))
    for index in run.steps(range(6)):
        if index in (0, 1, 3):
            keeper.command("sample", id="the-same")
            wanted = "accepted" if index == 0 else "applied"
            number = {0: 1, 1: 1, 3: 2}[index]
            keeper.wait(
                lambda wanted=wanted, number=number: keeper.outcomes("the-same").count(wanted) >= number,
                f"the answer {wanted}",
            )
    assert calls == [1]


def test_commands_beyond_the_limit_are_refused(run: TrainingRun, keeper: KeeperDouble) -> None:
    for index in run.steps(range(2)):
        if index == 0:
            ids = [keeper.command("set", name="rate", value=n / 1000) for n in range(MAX_WAITING + 1)]
            refused = keeper.outcome(ids[-1], "refused")
            assert "wait" in refused["reason"]
    assert run.hyper["rate"] == (MAX_WAITING - 1) / 1000


def test_an_accepted_command_expires_when_the_run_ends_first(run: TrainingRun, keeper: KeeperDouble) -> None:
    for _ in run.steps(range(1)):
        identity = keeper.command("set", name="rate", value=0.1)
        keeper.outcome(identity, "accepted")
        break
    run.finish()
    assert "ended before its next step" in keeper.outcome(identity, "expired")["reason"]
    assert run.hyper["rate"] == 0.5
    late = keeper.command("pause")
    assert keeper.outcome(late, "refused")["reason"].startswith("No run of this kernel accepts commands")


def test_a_handler_that_raises_fails_the_command_and_not_the_run(
    run: TrainingRun, keeper: KeeperDouble
) -> None:
    @run.on_evaluate
    def fails() -> None:
        raise OSError("disk full")

    for index in run.steps(range(3)):
        if index == 0:
            identity = keeper.command("evaluate")
            keeper.outcome(identity, "accepted")
    failed = keeper.outcome(identity, "failed")
    assert (failed["reason"], failed["step"]) == ("OSError: disk full", 1)
    assert run.step_index == 3
    [band] = keeper.wait(lambda: keeper.of_type("band"), "the band")
    assert (band["kind"], band["failed"]) == ("evaluate", True)


def test_an_interrupt_ends_a_pause_and_the_run_as_failed(run: TrainingRun, keeper: KeeperDouble) -> None:
    def page() -> None:
        keeper.wait(lambda: states(keeper)[-1:] == ["paused"], "the pause")
        # The waiting loop applies the command: its state is reported a moment earlier.
        for rate in (0.1, 0.2):
            keeper.outcome(keeper.command("set", name="rate", value=rate), "applied")
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.main_thread().ident
    assert main is not None
    steering = Page(run, page)

    def train_and_pause() -> None:
        for index in run.steps(range(5)):
            if index == 1:
                run.pause()
                steering.start()

    with pytest.raises(KeyboardInterrupt):
        train_and_pause()
    steering.join()
    [end] = keeper.wait(keeper.ended_runs, "the end")
    assert (end["state"], end["control"]["state"]) == ("failed", "failed")
    [band] = keeper.of_type("band")
    assert (band["kind"], band["failed"]) == ("pause", True)


def test_a_loop_in_a_thread_is_steered_and_its_run_ends_with_the_thread(
    run: TrainingRun, keeper: KeeperDouble
) -> None:
    def train() -> None:
        for _ in run.steps(range(10**9)):
            if run.hyper["rate"] == 0.75:
                break

    thread = threading.Thread(target=train)
    thread.start()
    keeper.wait(lambda: "running" in states(keeper), "the run")
    keeper.command("set", name="rate", value=0.75)
    thread.join(60)
    assert not thread.is_alive()
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert end["state"] == "finished"


def test_an_asynchronous_loop_is_steered_and_a_pause_leaves_the_event_loop_alone(
    run: TrainingRun, keeper: KeeperDouble
) -> None:
    async def items() -> AsyncIterator[int]:
        # The loop has no end of its own, because the thread that accepts commands may run late.
        for number in itertools.count():
            await asyncio.sleep(0)
            yield number

    @run.on_checkpoint
    async def save(step: int) -> str:
        await asyncio.sleep(0)
        return f"kept {step}"

    async def train() -> list[int]:
        done: list[int] = []
        async for number in run.steps(items()):
            done.append(number)
            if number == 0:
                run.pause()
                asyncio.get_running_loop().create_task(resume())
        return done

    ticks = 0

    async def resume() -> None:
        nonlocal ticks
        while run.state != "paused":
            await asyncio.sleep(0)
        for _ in range(10):
            ticks += 1
            await asyncio.sleep(0)
        saved.append(keeper.command("checkpoint"))
        run.resume()
        keeper.command("stop")

    saved: list[str] = []
    done = asyncio.run(train())
    assert ticks == 10
    assert done[0] == 0
    assert run.state == "stopped"
    assert keeper.outcome(saved[0], "applied")["reason"].startswith("kept ")


def test_async_for_takes_plain_iterables_and_for_refuses_asynchronous_ones(run: TrainingRun) -> None:
    async def collect() -> list[int]:
        return [number async for number in run.steps(range(3))]

    async def items() -> AsyncIterator[int]:
        yield 1

    assert asyncio.run(collect()) == [0, 1, 2]
    with pytest.raises(TypeError, match="async for"):
        next(run.steps(items()))  # type: ignore[call-overload]


def test_a_block_is_a_step_and_stops_when_the_loop_asks(run: TrainingRun, keeper: KeeperDouble) -> None:
    done = 0
    while not run.stopped:
        with run.step():
            done += 1
            run.log(loss=done)
            if done == 3:
                run.stop()
    run.finish()
    keeper.wait(lambda: len(keeper.steps()) == 3, "the steps")
    assert [step["metrics"]["loss"] for step in keeper.steps()] == [1, 2, 3]


def test_the_message_of_a_run_states_what_can_be_done_with_it(run: TrainingRun, keeper: KeeperDouble) -> None:
    run.on_sample(lambda: None)
    for _ in run.steps(range(1)):
        pass
    message = keeper.wait(lambda: keeper.of_type("run"), "the run")[-1]["control"]
    assert message["actions"] == ["pause", "resume", "stop", "set", "sample"]
    assert message["config"] == {"batch": 8, "opt.eps": 1e-8}
    assert message["hyperparameters"] == [
        {
            "name": "rate",
            "value": 0.5,
            "initial": 0.5,
            "kind": "number",
            "min": 0,
            "max": 1,
            "scale": "linear",
            "choices": None,
            "description": None,
            "recompiles": False,
        }
    ]


def entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def train(run: TrainingRun, at: dict[int, Callable[[], Any]]) -> list[Any]:
    values: list[Any] = []
    for index in run.steps(range(8)):
        values.append(run.hyper["rate"])
        at.get(index, lambda: None)()
    return values


def test_a_run_is_logged_with_its_commands(tmp_path: Path, keeper: KeeperDouble) -> None:
    folder = tmp_path / "checkpoints"
    given: dict[str, Any] = {"rate": tpulab.hyper(0.5, min=0.0, max=1.0)}
    saved: list[int] = []
    with tpulab.run("logged", {"seed": 1}, hyperparameters=given, log=folder) as first:
        first.on_checkpoint(saved.append)

        def steer() -> None:
            keeper.command("set", name="rate", value=7)
            keeper.command("set", name="rate", value=0.25)
            keeper.outcome(keeper.command("checkpoint"), "accepted")

        values = train(first, {2: steer, 5: lambda: first.set("rate", 0.125), 6: first.stop})
    log = folder / "tpulab-run.jsonl"
    written = entries(log)
    assert [entry["type"] for entry in written if entry["type"] != "metrics"] == [
        "run",
        *["command"] * 5,
        "end",
    ]
    assert written[0]["config"] == {"seed": 1}
    assert [e["phase"] for e in written if e["type"] == "command"] == ["refused", *["applied"] * 4]
    assert values == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert saved == [3]


def test_a_log_that_cannot_be_written_is_reported_once_and_breaks_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with tpulab.run("unlogged", hyperparameters={"rate": 0.5}, log=tmp_path / "file" / "x.jsonl") as run:
        for index in run.steps(range(4)):
            run.set("rate", index / 10)
    assert sum("cannot be written" in record.message for record in caplog.records) == 1


def test_without_a_bridge_commands_of_the_code_are_text(
    text_agent: Agent, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with tpulab.run("alone", hyperparameters={"rate": 0.5}) as run:
        for index in run.steps(range(3)):
            if index == 1:
                run.set("rate", 0.25)
    printed = capsys.readouterr().err
    assert "[tpulab] alone: rate = 0.25 (was 0.5) applied at step 2\n" in printed
    assert "alone: 3 steps" in printed
    # A value was changed, so there is a log.
    assert len(list(tmp_path.glob(".tpulab-runs/alone/*.jsonl"))) == 1
    with tpulab.run("quiet", hyperparameters={"rate": 0.5}) as run:
        for _ in run.steps(range(3)):
            pass
    assert not (tmp_path / ".tpulab-runs" / "quiet").exists()
    assert text_agent.keeper is None


def test_an_outage_of_the_keeper_loses_no_result_of_a_command(run: TrainingRun, keeper: KeeperDouble) -> None:
    for index in run.steps(range(10**9)):
        if index == 0:
            identity = keeper.command("set", name="rate", value=0.25)
            keeper.outcome(identity, "accepted")
            keeper.close()
        if index == 2:
            keeper.listen()
            wait_until(lambda: keeper.control, "the agent to come back")
            break
    assert keeper.outcome(identity, "applied")["step"] == 1


def test_an_action_that_is_no_function_is_refused_at_its_line() -> None:
    run = tpulab.run("odd", log=False)
    for give in (run.on_checkpoint, run.on_evaluate, run.on_sample, lambda it: run.action("mine", it)):
        with pytest.raises(TypeError, match="an action of a run is a function, not 'text'"):
            give("text")
    assert run.controller.actions == ["pause", "resume", "stop"]


def test_a_user_action_runs_between_two_steps_and_reports_its_result(keeper: KeeperDouble) -> None:
    run = tpulab.run("acts", log=False)
    seen: list[int] = []

    def evaluate_all(step: int) -> str:
        seen.append(step)
        return "accuracy 0.93"

    assert run.action("full evaluation", evaluate_all) is evaluate_all

    @run.action("break")
    def fails() -> None:
        raise RuntimeError("no data left")

    sent: dict[str, str] = {}
    for step in run.steps(range(40)):
        if step == 1:
            for name in ("full evaluation", "break", "unknown"):
                sent[name] = keeper.command("call", name=name)
            sent["nameless"] = keeper.command("call")
            # Decided during the step, applied after it.
            for name in ("full evaluation", "break"):
                keeper.outcome(sent[name], "accepted")
        time.sleep(0.005)
    run.finish()
    done = keeper.outcome(sent["full evaluation"], "applied")
    assert (done["name"], done["step"], done["reason"]) == ("full evaluation", 2, "accuracy 0.93")
    assert done["durationMs"] >= 0
    assert seen == [2]
    assert keeper.outcome(sent["break"], "failed")["reason"] == "RuntimeError: no data left"
    refused = keeper.outcome(sent["unknown"], "refused")["reason"]
    assert refused == "This run has no action 'unknown'; it has: full evaluation, break."
    assert "names an action" in keeper.outcome(sent["nameless"], "refused")["reason"]
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert end["control"]["own"] == ["full evaluation", "break"]
    assert "call" in end["control"]["actions"]
    assert [(band["kind"], band["failed"], band["inStep"]) for band in keeper.of_type("band")] == [
        ("call", False, False),
        ("call", True, False),
    ]
    for name in ("", " ", "x" * 61):
        with pytest.raises(ValueError, match="1 to 60 characters"):
            run.action(name, print)


def interrupted_run(steps: int, start: int = 0, **options: Any) -> tuple[TrainingRun, list[int]]:
    """A run that fails in its last step, and the steps at which it wrote checkpoints."""
    made, written = tpulab.run("cut off", **options), []
    made.on_checkpoint(lambda step: written.append(step) or f"ckpt/{step}", every=2)
    resumed = made.restore(lambda checkpoint: written.append(-checkpoint.step))
    assert resumed == start

    def batches() -> Iterator[int]:
        yield from range(resumed, resumed + steps - 1)
        raise RuntimeError("cut off")

    with pytest.raises(RuntimeError, match="cut off"):
        collections.deque(made.steps(batches()), maxlen=0)
    return made, written


def test_a_run_that_was_cut_off_resumes_from_its_last_checkpoint(keeper: KeeperDouble) -> None:
    _, written = interrupted_run(6)
    assert written == [2, 4]
    resumed, written = interrupted_run(4, start=4)
    assert written == [-4, 6]
    assert resumed.step_index == 7
    # Cut off before its own first checkpoint: the previous run's checkpoint counts.
    interrupted_run(2, start=6)
    third, written = tpulab.run("cut off"), []
    third.on_checkpoint(written.append, every=2)
    assert third.restore(lambda checkpoint: written.append(checkpoint.saved)) == 6
    for _ in third.steps(range(6, 10), total=4):
        pass
    third.finish()
    assert written == ["ckpt/6", 8, 10]
    reported = [step for message in keeper.of_type("steps") for step in message["steps"]]
    assert {step["index"] for step in reported} <= set(range(10))


def test_a_run_that_was_stopped_resumes_from_its_last_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "checkpoints"
    first = tpulab.run("stopped", log=log)
    first.on_checkpoint(lambda step: f"ckpt/{step}", every=2)
    for number in first.steps(range(9)):
        if number == 4:
            first.stop()
    found: list[Any] = []
    again = tpulab.run("stopped", log=log)
    assert again.restore(found.append) == 4
    assert found[0].saved == "ckpt/4"
    assert list(again.steps(range(4, 9))) == [4, 5, 6, 7, 8]
    again.finish()
    # That run was completed, so the next starts at the beginning.
    assert tpulab.run("stopped", log=log).restore(pytest.fail) == 0


def test_a_run_begins_at_a_checkpoint_of_another_one(keeper: KeeperDouble, tmp_path: Path) -> None:
    log = tmp_path / "first"
    with tpulab.run("base", log=log) as first:
        first.on_checkpoint(lambda step: f"ckpt/{step}", every=2)
        list(first.steps(range(7)))
    for step, start, saved in ((None, 6, "ckpt/6"), (4, 4, "ckpt/4")):
        found: list[Any] = []
        with tpulab.run(f"hot {start}", {"lr": 0.1}, log=tmp_path / f"{start}") as other:
            assert other.branch(log, found.append, step=step) == start
            assert [(one.step, one.saved) for one in found] == [(start, saved)]
            assert list(other.steps(range(start, 9))) == list(range(start, 9))
    ended = {
        run["name"]: run
        for run in keeper.wait(lambda: len(keeper.ended_runs()) == 3 and keeper.ended_runs(), "ends")
    }
    assert "branch" not in ended["base"]["control"]
    for start in (6, 4):
        assert ended[f"hot {start}"]["control"]["branch"] == {"run": ended["base"]["run"], "step": start}
        steps = keeper.steps(ended[f"hot {start}"]["run"])
        assert [step["index"] for step in steps] == list(range(start, 9))
    # A run is also found by its name, and a branch with its own name is resumed as any other.
    with tpulab.run("named") as named:
        named.on_checkpoint(lambda: None, every=1)
        list(named.steps(range(2)))
    assert tpulab.run("of the name").branch("named", lambda _: None) == 2


def test_a_branch_that_the_page_requests_is_where_the_next_run_begins(
    agent: Agent, keeper: KeeperDouble, tmp_path: Path
) -> None:
    def request(**body: Any) -> ControlMessage:
        return agent.commands.receive({"id": f"b{next(numbers)}", "action": "branch", **body})[0]

    def train(name: str) -> tuple[int, Any]:
        with tpulab.run(name, hyperparameters={"rate": tpulab.hyper(0.5, max=1)}, log=tmp_path / name) as run:
            run.on_checkpoint(lambda step: f"ckpt/{step}", every=2)
            start = run.restore(loaded.append)
            list(run.steps(range(start, 7)))
            return start, run.hyper["rate"]

    numbers, loaded = itertools.count(), list[Any]()
    assert train("base") == (0, 0.5)
    assert request(run="r1", step=-1)["phase"] == request(step=4)["phase"] == "refused"
    keeper.wait(lambda: keeper.ended_runs(), "the end of the first run")
    parent = keeper.ended_runs()[0]["run"]
    answer = request(run=parent, step=4, name="rate", value=0.25)
    assert (answer["phase"], answer["run"]) == ("applied", None)
    assert answer["reason"] is not None
    assert "begins at step 4, with rate = 0.25" in answer["reason"]
    # A run with another log ignores it; a run with this log claims it, once.
    assert train("other") == (0, 0.5)
    assert train("base") == (4, 0.25)
    assert [(one.step, one.saved) for one in loaded] == [(4, "ckpt/4")]
    keeper.wait(lambda: len(keeper.ended_runs()) == 3, "the end of the branch")
    assert keeper.ended_runs()[-1]["control"]["branch"] == {"run": parent, "step": 4}
    assert train("base") == (0, 0.5)
    # An invalid value costs the change, not the branch.
    request(run=parent, step=2, name="rate", value=7)
    assert train("base") == (2, 0.5)
    # A missing checkpoint is no reason to fail.
    request(run=parent, step=3)
    assert train("base") == (0, 0.5)


def test_a_branch_needs_a_checkpoint(tmp_path: Path) -> None:
    with tpulab.run("base", log=tmp_path) as first:
        first.on_checkpoint(lambda: None, every=2)
        list(first.steps(range(5)))
    for log, step in ((tmp_path, 3), (tmp_path / "missing", None), ("never seen", None)):
        with pytest.raises(ValueError, match="is no log with a checkpoint"):
            tpulab.run("other").branch(log, pytest.fail, step=step)
    other = tpulab.run("other", log=False)
    for _ in other.steps(range(1)):
        with pytest.raises(ValueError, match="before the first loop"):
            other.branch(tmp_path, pytest.fail)


def test_a_run_that_finished_is_not_resumed(tmp_path: Path) -> None:
    log = tmp_path / "checkpoints"
    with tpulab.run("finished", log=log) as first:
        first.on_checkpoint(lambda: None, every=1)
        for _ in first.steps(range(3)):
            pass
    again = tpulab.run("finished", log=log)
    assert again.restore(pytest.fail) == 0
    assert tpulab.run("never seen").restore(pytest.fail) == 0
    with pytest.raises(ValueError, match="name or `log`"):
        tpulab.run().restore(pytest.fail)
    with pytest.raises(ValueError, match="from 1 on"):
        again.on_checkpoint(print, every=0)
    for _ in again.steps(range(1)):
        with pytest.raises(ValueError, match="before the first loop"):
            again.restore(pytest.fail)


def test_a_run_whose_process_was_killed_is_resumed_from_a_torn_log(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    lines = [
        {"type": "run", "v": 1, "resumed": None},
        {"type": "command", "action": "checkpoint", "phase": "applied", "step": 5, "reason": "at 5"},
        {"type": "command", "action": "checkpoint", "phase": "failed", "step": 9, "reason": "disk full"},
    ]
    log.write_text("\n".join(map(json.dumps, lines)) + '\n{"type": "comm')
    seen: list[tuple[int, str | None]] = []
    assert tpulab.run(log=log).restore(lambda found: seen.append((found.step, found.saved))) == 5
    assert seen == [(5, "at 5")]


def test_an_iterator_continues_in_a_later_cell_and_after_an_item_that_raised(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flaky:
        count = 0

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            self.count += 1
            if self.count == 3:
                raise OSError("this item only")
            return self.count

    run = tpulab.run("later")
    steps = iter(run.steps(Flaky()))
    monkeypatch.setattr(agent.tracker.cells, "running", lambda: "first cell")
    assert [next(steps), next(steps)] == [1, 2]
    with pytest.raises(OSError, match="this item only"):
        next(steps)
    assert next(steps) == 4
    on_cell_end(True)
    monkeypatch.setattr(agent.tracker.cells, "running", lambda: "second cell")
    assert [next(steps), next(steps)] == [5, 6]
    run.finish()
    assert next(steps, None) is None, "a run that its code has finished has no further step"
    assert run.step_index == 3, "steps that were open at the end of a cell and of the run do not count"
