"""Short lines of text about a run, where there is no bridge to report to.

Written by the thread of the loop between two steps.
"""

from __future__ import annotations

from collections.abc import Callable

from tpulab.figures.totals import RunTotals
from tpulab.measure.runs import Run
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.text import write_line

FIRST_LINE_NS = 3_000_000_000
PERIOD_NS = 5_000_000_000
#: A nested run that is shorter than this prints nothing: a loop of many short loops would flood the output.
SHORT_NS = 3_000_000_000
#: A program of many short loops prints a line for so many of them, and then one in each period.
SHORT_LINES = 20
#: How long the last line waits for the device time of the last steps.
PATIENCE_S = 0.05


class TextReport:
    """Prints a line for a run every few seconds and one at its end."""

    def __init__(self, settle: Callable[[float], None]) -> None:
        #: completes the steps; waits at most so many seconds for incomplete ones
        self._settle = settle
        self._next: dict[str, int] = {}
        self._before: dict[str, RunTotals] = {}
        self._short_lines = 0
        self._next_short_ns = 0

    def on_step(self, run: Run) -> None:
        due = self._next.get(run.id)
        if due is None:
            self._next[run.id] = run.started_ns + FIRST_LINE_NS
        elif now_ns() >= due:
            self._next[run.id] = now_ns() + PERIOD_NS
            self._settle(0.0)
            recent = run.totals.minus(self._before.get(run.id, RunTotals()))
            self._before[run.id] = run.totals.copy()
            if recent.steps > 0:
                of_total = f"/{run.total}" if run.total is not None else ""
                rate = recent.steps / (recent.wall / 1e9) if recent.wall else 0.0
                write_line(
                    f"{run.name}: step {run.closed}{of_total} · {rate:.3g} steps/s · {describe(recent, run)}"
                )

    def on_end(self, run: Run, *, nested: bool) -> None:
        self._next.pop(run.id, None)
        self._before.pop(run.id, None)
        moment = now_ns()
        is_short = moment - run.started_ns < SHORT_NS
        if is_short and (nested or moment < self._next_short_ns):
            return
        self._settle(PATIENCE_S)
        if not run.totals.steps:
            return
        self._short_lines += is_short
        if self._short_lines >= SHORT_LINES:
            self._next_short_ns = moment + PERIOD_NS
        more = is_short and self._short_lines == SHORT_LINES
        write_line(summary(run) + (" · other short loops follow, one line in 5 s" if more else ""))


def summary(run: Run) -> str:
    """One line about a whole run."""
    seconds = (run.totals.wall + run.totals.in_steps) / 1e9
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
        f"{name} {100 * part / totals.wall:.0f}%"
        for name, part in totals.shown()._asdict().items()
        if part * 200 >= totals.wall
    ]
    if not totals.known:
        shares.append("device time unknown")
    words = [f"{totals.wall / totals.steps / 1e6:.3g} ms/step ({', '.join(shares)})"]
    words += [f"{name} {value:.4g}" for name, value in run.metrics.items()]
    return " · ".join(words)
