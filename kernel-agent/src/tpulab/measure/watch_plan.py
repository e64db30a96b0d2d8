"""Which steps of a loop the device clock watches, so that measuring takes no more than its share of a step.

| state    | the step is                             | after it                                            |
|----------|-----------------------------------------|-----------------------------------------------------|
| watching | watched; so are `left` more             | none is left: planning                              |
| planning | watched                                 | skipping, where watching each step costs too much   |
| skipping | not watched; `left` are not, with it    | none is left: posting                               |
| posting  | not watched, but its programs are noted | their device is known: watching, for a few in a row |

Between two programs (a loop that starts one in some steps only) planning and posting wait for the next one:
such steps are seen in full or not at all.
"""

from __future__ import annotations

from typing import Literal, Protocol

#: The share of a step that measuring it may take, and the part of it that the clock's own calls take
#: (nanoseconds, measured on a small machine). The rest is for the waits of the device clock.
MEASURING_SHARE = 0.008
CLOCK_COST_NS = 5_000
#: The cost of a wait for the user's thread, as a multiple of its processor time (measured: 1.2 to 1.5,
#: for the hand-over of the interpreter lock).
WATCH_COST_FACTOR = 1.5
#: The cost of watching a step for the user's thread if no thread is woken, beside the clock's own calls.
ASLEEP_COST_NS = 12_000
#: However short the steps are, at most about so many are skipped in a row.
MAX_SKIP = 70
#: The first steps of a loop are all watched: enough for the device clock to learn that it need not wait.
FIRST_STEPS = 48
#: Where not every step is watched, so many in a row are: the one before them must be posted too, so that
#: the end of earlier work on the device is known.
WATCHED_IN_A_ROW = 4
#: Fraction of the golden ratio, whose multiples are spread evenly: a constant number of skipped
#: steps would hit the same step of a loop that logs every tenth, each time or never.
SPREAD = 0.618034


class Costs(Protocol):
    """What the device clock has measured: about 10 us a wait, several times that where cores are shared."""

    waits: int

    @property
    def sleeps(self) -> bool: ...

    @property
    def watch_cost_ns(self) -> float: ...


class WatchPlan:
    """For one loop. `posts` is whether the programs of the step that begins are noted."""

    __slots__ = (
        "_asleep",
        "_counted",
        "_device",
        "_spread",
        "_waits",
        "_waits_a_step",
        "left",
        "state",
        "usual_ns",
    )

    def __init__(self, device: Costs) -> None:
        self._device = device
        self.state: Literal["watching", "planning", "skipping", "posting"] = "watching"
        #: remaining steps in this state after the current one; `skipping` counts the current one too
        self.left = FIRST_STEPS
        #: the mean time of recent steps; 0 before the first one has ended
        self.usual_ns = 0.0
        self._counted = 0
        self._waits = device.waits
        #: mean number of waits of a posted step: several steps that queue up are one wait
        self._waits_a_step = 1.0
        self._spread = 0.0
        #: steps without a wake-up since the cost of a wait was last measured
        self._asleep = 0

    @property
    def posts(self) -> bool:
        return self.state != "skipping"

    def begins_to_watch(self) -> None:
        """Waits for programs that were posted earlier do not count for the steps that begin here."""
        self._waits = self._device.waits

    def step_ended(self, wall_ns: int, *, is_between: bool, is_device_known: bool) -> None:
        """`is_between`: after a program, and before the next one; the table lists the transitions."""
        self._learn_usual(wall_ns)
        if self.state == "skipping":
            self.left -= 1
            if self.left == 0:
                self.state = "posting"
            return
        waits, self._waits = self._device.waits - self._waits, self._device.waits
        self._waits_a_step += 0.1 * (waits - self._waits_a_step)
        if self.state == "posting":
            if is_device_known or not is_between:
                self._watch(WATCHED_IN_A_ROW - 1)
        elif self.state == "watching":
            self._watch(self.left - 1)
        elif not is_between:
            self._plan()

    def _watch(self, steps: int) -> None:
        self.state, self.left = ("watching", steps) if steps > 0 else ("planning", 0)

    def _learn_usual(self, wall_ns: int) -> None:
        usual = self.usual_ns
        if self._counted < FIRST_STEPS:
            # A loop that runs ahead begins with steps that only queue their work.
            self._counted += 1
            self.usual_ns = usual + (wall_ns - usual) / self._counted
        else:
            # The mean, not the minimum: where the loop runs ahead of the device, most steps only queue their
            # work, and the next one waits for all of it. The bound is for an occasional checkpoint.
            self.usual_ns = usual + 0.1 * (min(wall_ns, 16 * usual) - usual)

    def _plan(self) -> None:
        sleeps = self._device.sleeps
        if sleeps:
            self._asleep += 1
        elif self._asleep >= 4 * FIRST_STEPS:
            # The end of one program of many was missed: measure again, which costs little beside the saving.
            self._asleep = 0
            self._watch(FIRST_STEPS)
            return
        allowed = MEASURING_SHARE * self.usual_ns - CLOCK_COST_NS
        waking = WATCH_COST_FACTOR * self._device.watch_cost_ns * self._waits_a_step
        cost = ASLEEP_COST_NS if sleeps else waking
        if cost <= allowed:
            return
        posted = WATCHED_IN_A_ROW + 1
        left_out = min(posted * (cost / allowed - 1), MAX_SKIP) if allowed > 0 else MAX_SKIP
        self._spread = (self._spread + SPREAD) % 1
        steps = int(left_out * (0.5 + self._spread))
        if steps >= 1:
            self.state, self.left = "skipping", steps
