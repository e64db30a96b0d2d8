"""Where the steps of each host went, and which host delays the others.

All hosts leave a collective at the same moment, so a step is as long on one as on another, and no clocks
need to agree. The difference is how long a host takes until its devices have work: the time of a step
without work. The others wait for a slower host in their device time.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping
from typing import Any, TypedDict

from tpulab.telemetry.messages import StepSpans

#: Steps that are compared, and that are stored for a host which is ahead of the others.
WINDOW = 20
MAX_ENTRIES = 512
#: A host that is later by less does not count as slow: timers and the scheduler cause as much.
MIN_MS = 2.0
MIN_SHARE = 0.05
SPANS = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")
#: Spans in which a host may be late. A part of the others' device time is waiting.
OWN_SPANS = ("inputMs", "hostMs", "compileMs", "gapMs")
WORDS = {"inputMs": "input", "hostMs": "host", "compileMs": "compile", "gapMs": "gap"}


class HostSplit(StepSpans):
    host: int
    lateMs: float


class Straggler(TypedDict):
    host: int
    lateMs: float
    cause: str


class HostSteps:
    """The same run on all hosts, by the number of the step."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._steps: list[collections.OrderedDict[int, dict[str, Any]]] = [
            collections.OrderedDict() for _ in range(count)
        ]
        #: By step: how many hosts have reported it.
        self._hosts_at: collections.Counter[int] = collections.Counter()
        self._complete: collections.deque[list[dict[str, Any]]] = collections.deque(maxlen=WINDOW)
        self.last = -1

    def add(self, host: int, samples: list[dict[str, Any]]) -> None:
        own = self._steps[host]
        for sample in samples:
            index = sample["index"]
            self._hosts_at[index] += index not in own
            own[index] = sample
            if self._hosts_at[index] == self._count:
                del self._hosts_at[index]
                self._complete.append([steps.pop(index) for steps in self._steps])
                self.last = index
        while len(own) > MAX_ENTRIES:
            self._forget(own.popitem(last=False)[0])

    def _forget(self, index: int) -> None:
        self._hosts_at[index] -= 1
        if not self._hosts_at[index]:
            del self._hosts_at[index]

    @property
    def compared(self) -> int:
        return len(self._complete)

    def splits(self) -> list[HostSplit]:
        """Means over the compared steps."""
        steps = list(self._complete)
        means = [
            {name: statistics.fmean(step[host][name] for step in steps) for name in ("wallMs", *SPANS)}
            for host in range(self._count)
        ]
        own = [sum(one[name] for name in OWN_SPANS) for one in means]
        late = [max(0.0, value - _of_others(own, host)) for host, value in enumerate(own)]
        return [
            {
                "host": host,
                "wallMs": round(one["wallMs"], 3),
                "inputMs": round(one["inputMs"], 3),
                "hostMs": round(one["hostMs"], 3),
                "compileMs": round(one["compileMs"], 3),
                "deviceMs": round(one["deviceMs"], 3),
                "gapMs": round(one["gapMs"], 3),
                "lateMs": round(late[host], 3),
            }
            for host, one in enumerate(means)
        ]


def straggler(splits: list[HostSplit]) -> Straggler | None:
    """The host that the others wait for; None: they wait for none."""
    latest = max(splits, key=lambda one: one["lateMs"])
    if latest["lateMs"] < max(MIN_MS, MIN_SHARE * latest["wallMs"]):
        return None
    return {
        "host": latest["host"],
        "lateMs": latest["lateMs"],
        "cause": WORDS[max(OWN_SPANS, key=lambda name: _excess(splits, latest["host"], name))],
    }


def _excess(splits: list[HostSplit], host: int, name: str) -> float:
    values: list[Mapping[str, Any]] = list(splits)
    return float(values[host][name]) - _of_others([float(one[name]) for one in values], host)


def _of_others(values: list[float], host: int) -> float:
    """The slowest of the others: only the excess over it delays the group."""
    return max(value for index, value in enumerate(values) if index != host)
