"""A shortened training of a week: many steps, evaluations and log lines, after which nothing has grown.

Some seconds in `npm test`; `TPULAB_WEEK_STEPS=10000000` for a week of steps.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

STEPS = int(os.environ.get("TPULAB_WEEK_STEPS", "40000"))
RUNS = 500
#: Objects whose number may grow after a fifth of the steps: lists whose bound is not reached by then,
#: such as the 4096 newest commands.
MAX_GROWTH = 400_000

PROGRAM = """
import gc, json, sys, threading, time, tracemalloc
import tpulab
from tpulab.agent.process_agent import current_agent

steps, runs = map(int, sys.argv[1:])
agent, kept = current_agent(), []


def traced():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def live():
    # What waits to be sent is bounded, and as much as the keeper is slow.
    until = time.monotonic() + 60
    while (agent._unsent or agent._collected or agent.recorder.pending) and time.monotonic() < until:
        time.sleep(0.01)
    # A batch that the agent's thread is sending is in none of these lists: what stays is the least that is
    # measured, until a whole second brings no less.
    least, since = traced(), time.monotonic()
    while time.monotonic() - since < 1 and time.monotonic() < until:
        time.sleep(0.02)
        if (now := traced()) < least - 100:
            least, since = now, time.monotonic()
    kept.append(least)


tracemalloc.start()
run = tpulab.run("week", hyperparameters={"rate": tpulab.hyper(0.5)}, log="week.jsonl")
run.on_checkpoint(lambda: "written", every=max(steps // 100, 1))
for n in run.steps(range(steps)):
    run.log(loss=1 / (n + 1), accuracy=n / steps)
    if n % (steps // runs) == 0:
        for _ in tpulab.steps(range(3), name="evaluation"):
            tpulab.metric(error=n)
        with run.band("sample"):
            run.log(sampled=n)
        run.set("rate", 0.5 + n / steps)
    if n + 1 in (steps // 5, steps):
        live()
print(json.dumps({"kept": kept, "threads": threading.active_count()}))
"""


class Sink:
    """A keeper that reads and discards, and sends no commands."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.received = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                self.received += len(data)

    def close(self) -> None:
        self._listener.close()


def test_nothing_grows_with_the_number_of_steps_and_runs(short_folder: Path) -> None:
    sink = Sink(short_folder / "k.sock")
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(STEPS), str(RUNS)],
            env=os.environ
            | {
                "TPULAB_AGENT_SOCKET": str(short_folder / "k.sock"),
                "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            },
            cwd=short_folder,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        sink.close()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    early, late = found["kept"]
    assert late - early < MAX_GROWTH, f"{early:,} bytes after a fifth of the steps, {late:,} at the end"
    # The loop, the reports and the commands: no thread for each run.
    assert found["threads"] <= 4
    assert sink.received > 1_000
    # A line per command, some of the metrics, and the end.
    assert (short_folder / "week.jsonl").stat().st_size < 2_000_000
