"""Where the time between batches goes: a view of the step clock of `tpulab`, under the seed's names.

=================  ===========================================================================
`total_batch`      a step: from one request for a batch to the next, without samples and the like
`data_loading`     the loop waits for its batch (the clock's span *input*)
`interbatch`       the device waits: *input* and *gap*
=================  ===========================================================================

There is no second clock: what the panel shows of a run is what this reports. On a device that compiles, a
step is one program: `measure_phases` times a forward pass by a program of its own.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tpulab_recipes.common.errors import MissingPackage

PHASES = ("interbatch", "data_loading", "total_batch")
#: Of a step of the clock. Bands within it, such as a sample, are part of its wall time and of no span.
_SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")
#: How long statistics wait for the clock's last steps.
_PATIENCE_S = 2.0


class InterbatchProfiler:
    """Collects the steps of one run (`follow`).

    Raises `MissingPackage` without `tpulab`.
    """

    def __init__(self, batch_size: int = 0) -> None:
        try:
            from tpulab.agent.process_agent import current_agent
        except ImportError as error:
            raise MissingPackage("tpulab", "Profiling batches") from error
        self.batch_size = batch_size
        self._agent = current_agent()
        self._lock = threading.Lock()
        self._runs: set[str] = set()
        self._steps: list[Mapping[str, Any]] = []
        self._agent.recorder.taps.append(self._tap)

    def follow(self, run: Any) -> None:
        """Reports the steps of this run (`tpulab.run`), from now on."""
        run.when_announced(self._runs.add)

    def close(self) -> None:
        if self._tap in self._agent.recorder.taps:
            self._agent.recorder.taps.remove(self._tap)

    def reset(self) -> None:
        self._settle()
        with self._lock:
            self._steps.clear()

    # -- results ----------------------------------------------------------------------------------------

    def get_statistics(self) -> dict[str, float]:
        """`{phase}_count`, `{phase}_{mean,median,std,min,max}_ms`, `{phase}_total_s`, throughput and shares;
        empty before the first step."""
        self._settle()
        with self._lock:
            steps = list(self._steps)
        if not steps:
            return {}
        found: dict[str, float] = {}
        for phase in PHASES:
            values = [_milliseconds(step, phase) for step in steps]
            found |= {
                f"{phase}_count": float(len(values)),
                f"{phase}_mean_ms": statistics.fmean(values),
                f"{phase}_median_ms": statistics.median(values),
                f"{phase}_std_ms": statistics.pstdev(values),
                f"{phase}_min_ms": min(values),
                f"{phase}_max_ms": max(values),
                f"{phase}_total_s": sum(values) / 1e3,
            }
        seconds = max(found["total_batch_total_s"], 1e-9)
        return found | {
            "throughput_batches_per_sec": len(steps) / seconds,
            "throughput_samples_per_sec": len(steps) * self.batch_size / seconds,
            "data_loading_efficiency_pct": 100 * (1 - found["data_loading_total_s"] / seconds),
            "interbatch_overhead_pct": 100 * found["interbatch_total_s"] / seconds,
        }

    def report(self) -> str:
        """The statistics as a table, and what to do about them."""
        found = self.get_statistics()
        if not found:
            return "No batch has been measured yet."
        lines = [f"{'':15}{'mean':>9}{'median':>9}{'max':>9}  ms"]
        for phase in PHASES:
            figures = (found[f"{phase}_{kind}_ms"] for kind in ("mean", "median", "max"))
            lines.append(f"{phase:15}" + "".join(f"{figure:9.2f}" for figure in figures))
        lines.append(
            f"{found['throughput_batches_per_sec']:.2f} batches, {found['throughput_samples_per_sec']:.1f} "
            f"samples a second over {found['total_batch_count']:.0f} batches"
        )
        return "\n".join(lines + [f"→ {hint}" for hint in hints(found)])

    def print_report(self) -> None:
        print(self.report(), flush=True)

    def _tap(self, messages: list[Any]) -> None:
        for message in messages:
            if message["type"] == "steps" and message["run"] in self._runs:
                with self._lock:
                    self._steps += message["steps"]

    def _settle(self) -> None:
        self._agent.settle(_PATIENCE_S)
        until = time.monotonic() + _PATIENCE_S
        # Where a page is connected, the agent's thread collects.
        while self._agent.keeper is not None and self._agent.recorder.pending and time.monotonic() < until:
            time.sleep(0.01)


def _milliseconds(step: Mapping[str, Any], phase: str) -> float:
    if phase == "total_batch":
        # Whole nanoseconds, as the clock counts: a sum of milliseconds differs from `wallMs` in the last bit.
        return sum(round(1e6 * step[span]) for span in _SPANS) / 1e6
    if phase == "data_loading":
        return float(step["inputMs"])
    return float(step["inputMs"] + step["gapMs"])


def hints(found: Mapping[str, float]) -> list[str]:
    """Advice from the measurements."""
    advice = []
    loading = 100 - found["data_loading_efficiency_pct"]
    if loading > 20:
        advice.append(
            f"{loading:.0f}% of the time waits for data: prepare it beforehand, or keep more batches ready."
        )
    if found["interbatch_overhead_pct"] - loading > 10:
        advice.append("The device waits between batches: log, validate and save less often.")
    return advice


def measure_phases(
    sync: Callable[[], None], phases: Mapping[str, Callable[[], Any]], rounds: int = 5
) -> dict[str, float]:
    """Milliseconds of each program, the median of some rounds after a first one that compiles; `sync` waits
    for the device. A whole step minus a forward pass is what backward pass and update take."""
    found = {}
    for name, run in phases.items():
        run()
        sync()
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            run()
            sync()
            times.append(1e3 * (time.perf_counter() - began))
        found[name] = statistics.median(times)
    return found
