"""Short lines of text about a run, where there is no bridge to report to.

Written by the thread of the loop between two steps: to stdout in a notebook (where stderr looks like an
error), to stderr in a script (whose stdout may be data).
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from tpulab.clocks import now_ns
from tpulab.runs import Run, RunTotals

if TYPE_CHECKING:
    from tpulab.agent import Agent
    from tpulab.tracked_run import TrackedRun

FIRST_LINE_NS = 3_000_000_000
PERIOD_NS = 5_000_000_000
#: A nested run that is shorter than this says nothing: a loop of many short loops would flood the output.
SHORT_NESTED_NS = 3_000_000_000
#: How long the last line waits for the device time of the last steps.
PATIENCE_S = 0.05


class TextReport:
    """Prints a line for a run every few seconds and one at its end."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._next: dict[str, int] = {}
        self._before: dict[str, RunTotals] = {}

    def on_step(self, tracked: TrackedRun) -> None:
        run = tracked.run
        due = self._next.get(run.id)
        if due is None:
            self._next[run.id] = run.started_ns + FIRST_LINE_NS
        elif now_ns() >= due:
            self._next[run.id] = now_ns() + PERIOD_NS
            self._agent.settle()
            recent = run.totals.minus(self._before.get(run.id, RunTotals()))
            self._before[run.id] = run.totals.copy()
            if recent.steps > 0:
                of_total = f"/{run.total}" if run.total is not None else ""
                rate = recent.steps / (recent.wall / 1e9) if recent.wall else 0.0
                _write(
                    f"{run.name}: step {run.closed}{of_total} · {rate:.3g} steps/s · {describe(recent, run)}"
                )

    def on_end(self, tracked: TrackedRun) -> None:
        run = tracked.run
        self._next.pop(run.id, None)
        self._before.pop(run.id, None)
        if tracked.nested and now_ns() - run.started_ns < SHORT_NESTED_NS:
            return
        self._agent.settle(PATIENCE_S)
        if run.totals.steps:
            _write(summary(run))


def summary(run: Run) -> str:
    """One line about a whole run."""
    seconds = run.totals.wall / 1e9
    words = [f"{run.name}: {run.closed} steps in {seconds:.3g} s", describe(run.totals, run)]
    if run.compilations:
        plural = "s" if run.compilations > 1 else ""
        words.append(f"{run.compilations} compilation{plural}, {run.compile_ms / 1e3:.2g} s")
    if run.state == "failed":
        words.append("did not finish")
    return " · ".join(words)


def describe(totals: RunTotals, run: Run) -> str:
    """Step time, its split in percent, and the newest metrics."""
    if not totals.steps or not totals.wall:
        return "no step yet"
    shares = [
        f"{name} {100 * getattr(totals, name) / totals.wall:.0f} %"
        for name in ("input", "host", "compile", "device", "gap")
        if getattr(totals, name) * 200 >= totals.wall
    ]
    if not totals.known:
        shares.append("device time not known")
    words = [f"{totals.wall / totals.steps / 1e6:.3g} ms/step ({', '.join(shares)})"]
    words += [f"{name} {value:.4g}" for name, value in run.metrics.items()]
    return " · ".join(words)


def tell(line: str) -> None:
    """One line of text, where people who run this look for it."""
    _write(line)


def _write(line: str) -> None:
    # A closed or broken stream must not end a training.
    with contextlib.suppress(Exception):
        stream = sys.stdout if in_notebook() else sys.stderr
        stream.write(f"[tpulab] {line}\n")
        stream.flush()


def in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    get_ipython = getattr(shell, "get_ipython", None)
    return callable(get_ipython) and getattr(get_ipython(), "kernel", None) is not None
