"""What the step clock costs: the same loop with and without `tpulab.steps`, groups of steps in turn.

For programs of several lengths it prints the lower quartile of both step times (a busy machine only adds),
their difference, the difference of two plain groups beside it (noise), and the CPU time of the agent's
threads as a share of the measured time. Also: what the import hook adds to the search for a module.

For steps of 1, 3, 6 and 8 ms it prints the number of watched steps and the CPU cost of watching them: the
additional time of the loop's own thread over a plain group beside it, and the time of the agent's threads.
Wall time on a busy machine is too noisy for such small costs; CPU time is not, except for cold caches.
Run in the `jax` environment: `python bench/step_clock.py [--json FILE] [--seconds N]`. A socket that a thread
reads replaces the keeper, so that batches are really sent. Exit code 1: more than 1 % (plus the noise) for
steps of a millisecond or longer.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import itertools
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
#: The project's own bound, for steps of a millisecond and longer.
LIMIT_PERCENT = 1.0
BOUND_FROM_MS = 1.0


def reading_socket() -> str:
    path = os.path.join(tempfile.mkdtemp(prefix="tl-"), "k.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def read() -> None:
        connection, _ = listener.accept()
        while connection.recv(1 << 16):
            pass

    threading.Thread(target=read, daemon=True).start()
    return path


def program(size: int, repeats: int) -> Callable[[Any], Any]:
    import jax

    @jax.jit
    def step(x: Any) -> Any:
        def turn(_: int, x: Any) -> Any:
            return x @ x / size

        return jax.lax.fori_loop(0, repeats, turn, x).sum()

    return step


#: Groups with and without the clock take turns, so that a busy machine affects both alike. A group lasts
#: about this long, so that the clock's work at the end of a loop, which comes after each group here, does not
#: count as a cost of steps.
GROUP_S = 0.2
GROUP_LEAST, GROUP_MOST = 10, 500


def group_seconds(step: Callable[[Any], Any], x: Any, loop: Iterator[int], count: int) -> float:
    """Seconds of a group of steps. Each waits for its result, like a loop that prints its loss."""
    start = time.perf_counter()
    for _ in range(count):
        next(loop)
        step(x).block_until_ready()
    return time.perf_counter() - start


def background_seconds() -> float:
    """CPU time of the agent's threads: spent in both kinds of group, so it is counted separately."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0  # macOS does not report it
    names = ("tpulab-agent", "tpulab-device-clock")
    clocks = [
        time.pthread_getcpuclockid(thread.ident)
        for thread in threading.enumerate()
        if thread.name in names and thread.ident is not None
    ]
    return sum(time.clock_gettime(clock) for clock in clocks)


def compare(size: int, repeats: int, seconds: float) -> dict[str, float]:
    """Plain and measured groups in turn for some seconds, the order changing each time."""
    import jax.numpy as jnp

    import tpulab

    step, x = program(size, repeats), jnp.ones((size, size))
    step(x).block_until_ready()
    bare = itertools.count()
    clocked = iter(tpulab.steps(itertools.count(), name="bench"))
    plain: list[float] = []
    other: list[float] = []
    measured: list[float] = []
    group_seconds(step, x, clocked, GROUP_LEAST)
    usual = group_seconds(step, x, bare, GROUP_LEAST) / GROUP_LEAST
    count = max(GROUP_LEAST, min(int(GROUP_S / usual), GROUP_MOST))
    background, started = background_seconds(), time.perf_counter()
    while time.perf_counter() - started < seconds or len(plain) < 4:
        turns = [(plain, bare), (measured, clocked), (other, bare)]
        for figures, loop in turns if len(plain) % 2 else reversed(turns):
            figures.append(group_seconds(step, x, loop, count))
            if loop is clocked and clocked._tracked is not None:
                # Otherwise the last step of the group would last until its next turn, and appear long.
                clocked._tracked.clock.discard()
    spent = background_seconds() - background
    clocked.close()
    quarter = {
        name: statistics.quantiles(figures, n=4)[0]
        for name, figures in (("plain", plain), ("measured", measured), ("other", other))
    }
    return {
        "plainMs": quarter["plain"] / count * 1e3,
        "measuredMs": quarter["measured"] / count * 1e3,
        "overheadPercent": (quarter["measured"] / ((quarter["plain"] + quarter["other"]) / 2) - 1) * 100,
        "noisePercent": abs(quarter["other"] / quarter["plain"] - 1) * 100,
        "backgroundPercent": spent / max(sum(measured), 1e-9) * 100,
        "groups": len(plain),
    }


#: Step times for which the number of watched steps is printed, in milliseconds.
WATCHED_MS = (1, 3, 6, 8)
#: The loop reads its loss once in this many steps, and runs ahead of the device in between.
READ_EVERY = 8


def processor_group(
    step: Callable[[Any], Any], x: Any, loop: Iterator[int], count: int
) -> tuple[float, float]:
    """CPU seconds of this thread and wall seconds of a group of steps."""
    start, spent = time.perf_counter(), time.thread_time()
    for number in range(count):
        next(loop)
        loss = step(x)
        if number % READ_EVERY == READ_EVERY - 1:
            loss.block_until_ready()
    loss.block_until_ready()
    return time.thread_time() - spent, time.perf_counter() - start


def watching(milliseconds: float, seconds: float) -> dict[str, float]:
    """Pairs of groups, plain and measured in turn, the order changing each time."""
    import jax.numpy as jnp

    import tpulab

    size, trial = 192, 16
    x = jnp.ones((size, size))
    step = program(size, trial)
    step(x).block_until_ready()
    one = min(group_seconds(step, x, itertools.count(), 5) for _ in range(5)) / 5
    step = program(size, max(1, round(trial * milliseconds / 1e3 / one)))
    step(x).block_until_ready()
    bare, clocked = itertools.count(), iter(tpulab.steps(itertools.count(), name=f"{milliseconds} ms"))
    count = max(READ_EVERY, round(GROUP_S / (milliseconds / 1e3)))
    processor_group(step, x, clocked, count)
    totals = clocked._tracked.run.totals
    before = totals.copy()
    differences: list[float] = []
    noise: list[float] = []
    walls: list[float] = []
    background, started = background_seconds(), time.perf_counter()
    while time.perf_counter() - started < seconds or len(differences) < 4:
        spent: dict[str, float] = {}
        turns = [("plain", bare), ("measured", clocked), ("other", bare)]
        for name, loop in turns if len(walls) % 2 else reversed(turns):
            spent[name], wall = processor_group(step, x, loop, count)
            if loop is clocked:
                clocked._tracked.clock.discard()
            else:
                walls.append(wall / count)
        differences.append((spent["measured"] - (spent["plain"] + spent["other"]) / 2) / count)
        noise.append((spent["plain"] - spent["other"]) / count)
    time.sleep(0.5)  # the last batch
    background = background_seconds() - background
    seen = totals.minus(before)
    clocked.close()
    usual = statistics.median(walls)
    error = statistics.stdev(noise) / len(noise) ** 0.5
    return {
        "stepMs": usual * 1e3,
        "watchedPercent": seen.known / max(seen.steps, 1) * 100,
        "loopUs": statistics.mean(differences) * 1e6,
        "noiseUs": error * 1e6,
        "threadsUs": background / max(len(differences) * count, 1) * 1e6,
        "loopPercent": statistics.mean(differences) / usual * 100,
        "noisePercent": error / usual * 100,
        "pairs": len(differences),
    }


def import_cost() -> dict[str, float]:
    """Microseconds to search for a module that does not exist, without and with the hook."""
    from tpulab.runtimes.import_hook import AfterImport

    def search() -> float:
        start = time.perf_counter()
        for number in range(2000):
            for finder in sys.meta_path:
                if finder.find_spec(f"nothing_{number % 7}", None) is not None:
                    raise AssertionError
        return (time.perf_counter() - start) / 2000 * 1e6

    def rounds() -> Iterator[tuple[float, float]]:
        for _ in range(7):
            without = search()
            hook = AfterImport("a_module_that_is_never_imported", lambda: None)
            hook.install()
            try:
                yield without, search()
            finally:
                hook.remove()

    pairs = list(rounds())
    assert importlib.machinery.PathFinder in sys.meta_path
    return {
        "withoutUs": statistics.median(a for a, _ in pairs),
        "withUs": statistics.median(b for _, b in pairs),
        "hookUs": statistics.median(b - a for a, b in pairs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="for each program (default: 8)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    imports = import_cost()
    os.environ["TPULAB_AGENT_SOCKET"] = reading_socket()
    rows = [
        compare(size, repeats, arguments.seconds)
        for size, repeats in ((32, 1), (256, 1), (256, 4), (256, 16), (512, 20))
    ]
    watched = [watching(milliseconds, arguments.seconds) for milliseconds in WATCHED_MS]
    out = sys.stdout.write
    out(f"{'plain ms':>10} {'measured ms':>12} {'overhead %':>11} {'noise %':>8} {'agent threads %':>16}\n")
    for row in rows:
        out(
            f"{row['plainMs']:10.3f} {row['measuredMs']:12.3f} {row['overheadPercent']:11.2f}"
            f" {row['noisePercent']:8.2f} {row['backgroundPercent']:16.2f}\n"
        )
    titles = f"{'step ms':>10} {'watched %':>10} {'loop us':>9} {'± us':>7} {'threads us':>11}"
    out(f"\n{titles} {'loop %':>8} {'± %':>6}\n")
    for row in watched:
        out(
            f"{row['stepMs']:10.2f} {row['watchedPercent']:10.1f} {row['loopUs']:9.1f} {row['noiseUs']:7.1f}"
            f" {row['threadsUs']:11.1f} {row['loopPercent']:8.2f} {row['noisePercent']:6.2f}\n"
        )
    out(f"import of a module: {imports['withoutUs']:.2f} us, with the hook {imports['withUs']:.2f} us\n")
    if arguments.json is not None:
        figures = {
            "steps": rows,
            "watched": watched,
            "import": imports,
            "limitPercent": LIMIT_PERCENT,
            "cores": os.cpu_count(),
        }
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    slow = [
        row
        for row in rows
        if row["plainMs"] >= BOUND_FROM_MS and row["overheadPercent"] > LIMIT_PERCENT + row["noisePercent"]
    ]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
