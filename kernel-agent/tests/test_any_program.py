"""Random programs under random commands: each ends as it would without TPULab, after as many steps.

Twenty seconds in `npm test`; `TPULAB_PROPERTY_SECONDS=3600` for an hour, `TPULAB_PROPERTY_SEED=N` for one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from keeper_double import KeeperDouble

SECONDS = float(os.environ.get("TPULAB_PROPERTY_SECONDS", "20"))
FIXED = os.environ.get("TPULAB_PROPERTY_SEED")
PROGRAM_TIMEOUT_S = 120

#: A `tpulab` that measures nothing: the behaviour of a program without TPULab.
PLAIN = """
import contextlib


class Run:
    step_index, stopped = 0, False

    def __init__(self, hyperparameters=None):
        self.hyper = {name: getattr(value, "value", value) for name, value in (hyperparameters or {}).items()}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def steps(self, iterable, **_):
        return iter(iterable)

    def step(self):
        return contextlib.nullcontext()

    def band(self, kind):
        return contextlib.nullcontext()

    def on_checkpoint(self, function, every=None):
        self.every = every

    def log(self, **_):
        pass

    finish = set = log


class Hyper:
    def __init__(self, value, **_):
        self.value = value


def run(*_, hyperparameters=None, **__):
    return Run(hyperparameters)


def steps(iterable, **_):
    return iter(iterable)


def step(*_):
    return contextlib.nullcontext()


def metric(*_, **__):
    pass


watch, hyper = metric, Hyper
"""

#: Possible statements of a loop's body. `n` counts its iterations, `run` is the run of the loop.
BODY = [
    "seen.add((n, len(seen)))",
    "table[n] = table.get(n - 50, 0); table.pop(n - 100, None)",
    "held.append([n] * 100)",
    "run.log(loss=1 / (n + 1), text='x', nan=float('nan'), huge=10**400, thing=object(), flag=True)",
    "run.log(**{f'name{n}': n})",
    "run.log(half=array('f', [0.5])[0], tree={'a': 1}, none=None, inf=-float('inf'))",
    "tpulab.metric(inner=n)",
    "tpulab.watch(object())",
    "time.sleep(0.001)",
    "[x for x in tpulab.steps(range(3), name='inner')]",
    "with tpulab.step('block'): sum(range(100))",
    "with run.band('evaluate'): sum(range(1000))",
    "outcome(boom)",
    "outcome(interrupted)",
    "outcome(lambda: next(tpulab.steps(failing(), name='failing')))",
    "threads.append(start(other_run)) if n % 7 == 0 else None",
    "threads.append(start(blocks)) if n % 11 == 0 else None",
    "fork() if n in (3, 9) else None",
    "gc.collect() if n % 10 == 0 else None",
    "sys.setswitchinterval(random.choice([1e-5, 5e-3]))",
    "keep.append(tpulab.run(f'made {n}'))",
    "sys.getrecursionlimit(); sys.exc_info()",
]
#: How a loop may end.
LEAVE = ["pass", "if n == 17: break", "if n == 13: raise ValueError('left')", "if n == 11: interrupted()"]
#: How the program may end.
END = [
    "pass",
    "sys.exit(3)",
    "raise RuntimeError('the end')",
    "os._exit(4)",
    "run.finish()",
    "del run; gc.collect()",
]
LOOPS = {
    "run.steps": "for x in run.steps(range({count})):",
    "tpulab.steps": "for x in tpulab.steps(range({count}), name='main'):",
    "generator": "for x in run.steps(y for y in range({count})):",
}
HEAD = """
import gc, os, random, signal, sys, threading, time
from array import array
import tpulab

seen, table, held, threads, keep = set(), {}, [], [], []

def boom():
    raise KeyError("caught")

def interrupted():
    signal.raise_signal(signal.SIGINT)

def failing():
    raise OSError("input")
    yield

def outcome(call):
    try:
        call()
    except BaseException as error:
        print(type(error).__name__, error)

def start(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread

def other_run():
    with tpulab.run("other") as mine:
        for _ in mine.steps(range(5)):
            mine.log(loss=1)

def blocks():
    for _ in range(5):
        with tpulab.step():
            pass

def fork():
    child = os.fork()
    if child == 0:
        for _ in tpulab.steps(range(3)):
            pass
        os._exit(0)
    print("child", os.waitpid(child, 0)[1])

def checkpoint(step):
    if step % 20 == 0:
        raise OSError("no room")
    return "written"
"""


def program(chance: random.Random) -> str:
    """The text of a program."""
    body = [*chance.sample(BODY, chance.randint(3, 9)), chance.choice(LEAVE)]
    loop = chance.choice(list(LOOPS.values())).format(count=chance.choice([1, 30, 60]))
    lines = [
        HEAD,
        "run = tpulab.run('main', {'a': 10**400, 'b': object()}, log='log.jsonl',"
        " hyperparameters={'rate': tpulab.hyper(0.5, min=-float('inf')), 'size': 3})",
        "run.on_checkpoint(checkpoint, every=10)" if chance.random() < 0.5 else "",
        "n = done = 0",
        "try:",
        f"    {loop}",
        *(f"        {line}" for line in body),
        "        n += 1",
        "        done += 1",
        "    run.log(final=1)",
        "except BaseException as error:",
        "    print('left by', type(error).__name__, error)",
        "for thread in threads: thread.join()",
        "print('steps', done, len(seen), len(held))",
        "sys.stdout.flush()",
        chance.choice(END),
    ]
    return "\n".join(lines)


def command(chance: random.Random) -> dict[str, object]:
    """A possible message of a page: sensible, foolish or invalid. None stops the run."""
    return chance.choice(
        [
            {"action": "memory"},
            {"action": "free"},
            {"action": "profile"},
            {"action": "set", "name": "rate", "value": chance.choice([0.1, 1e400, "x", None, [1], 10**400])},
            {"action": "set", "name": "size", "value": chance.choice([2, 3_000_000_000, 1.5])},
            {"action": "set", "name": "nothing", "value": 1},
            {"action": "checkpoint"},
            {"action": "evaluate"},
            {"action": "resume"},
            {"action": "no such thing"},
            {"action": None},
            {"action": "pause", "run": "nobody"},
            {"action": "memory", "value": {"deep": [1, 2]}, "at": "soon"},
        ]
    )


class Client(threading.Thread):
    """Sends commands until the program has ended."""

    def __init__(self, keeper: KeeperDouble, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._keeper, self._chance = keeper, chance
        self.sent: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(self._chance.random() * 0.02):
            if self._keeper.control and len(self.sent) < 200:
                fields = command(self._chance)
                try:
                    self.sent.append(self._keeper.command(str(fields.pop("action")), **fields))
                except Exception:  # the program ends
                    return


def outcome_of(script: Path, folder: Path, **env: str) -> tuple[int, str, str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("TPULAB_")}
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**base, **env},
    )
    try:
        out, errors = process.communicate(timeout=PROGRAM_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # `faulthandler` prints the stack of each thread.
        process.send_signal(signal.SIGABRT)
        out, errors = process.communicate()
        pytest.fail(f"{script.read_text()}\nhangs after:\n{out}\n{errors}")
    return process.returncode, out, errors


def check(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    text = program(chance)
    script = folder / "program.py"
    script.write_text(text)
    stub = folder / "plain"
    stub.mkdir()
    (stub / "tpulab.py").write_text(textwrap.dedent(PLAIN))
    code, out, _ = outcome_of(script, folder / "a", PYTHONPATH=str(stub))
    keeper = KeeperDouble(folder / "k.sock")
    clients = [Client(keeper, random.Random(chance.random())) for _ in range(chance.randint(1, 3))]
    try:
        for client in clients:
            client.start()
        ours = outcome_of(script, folder / "b", TPULAB_AGENT_SOCKET=str(keeper.path))
        for client in clients:
            client.over.set()
            client.join()
        # `os._exit` may lose messages. A busy machine may not have read all sent ones.
        if code != 4:
            keeper.read_all()
        where = f"seed {seed}:\n{text}\n{ours[2]}"
        assert ours[:2] == (code, out), where
        assert "Traceback" not in ours[2] or code == 1, where
        assert not keeper.problems, (keeper.problems, where)
        if code != 4:
            check_telemetry(keeper, out, sum(len(client.sent) for client in clients), where)
    finally:
        keeper.close()


def check_telemetry(keeper: KeeperDouble, out: str, sent: int, where: str) -> None:
    """The program's actions were reported: all steps of its main loop, and the end of each run."""
    steps = int(next(line for line in out.splitlines() if line.startswith("steps ")).split()[1])
    main = {message["run"] for message in keeper.of_type("run") if message["name"] == "main"}
    reported: Counter[str] = Counter()
    for batch in keeper.of_type("steps"):
        reported[batch["run"]] += len(batch["steps"]) + batch["dropped"]
    assert sum(reported[run] for run in main) == steps, where
    begun = {message["run"] for message in keeper.of_type("run")}
    assert {run["run"] for run in keeper.ended_runs()} == begun, where
    answered = {message["id"] for message in keeper.of_type("control")}
    # A program may end before it has received the last ones.
    assert answered or sent < 20, where


def test_any_program_ends_as_it_would_without_us() -> None:
    until = time.monotonic() + SECONDS
    seed = int(FIXED) if FIXED is not None else 1
    while True:
        with tempfile.TemporaryDirectory(prefix="tl-") as folder:
            check(seed, Path(folder))
        seed += 1
        if FIXED is not None or time.monotonic() > until:
            return


def test_the_generated_programs_are_valid() -> None:
    for seed in range(200):
        compile(program(random.Random(seed)), "program", "exec")
        json.dumps(command(random.Random(seed)))
