"""A last batch that is smaller than the others: a whole program is compiled for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.messages import CodeLocation, CompileReason

if TYPE_CHECKING:
    from tpulab.measure.runs import Run

_SHAPE = re.compile(r"\[(\d+)((?:,\d+)*)\]")
#: Earlier steps of the same run: a loop that has just begun has no last batch.
FEWEST_STEPS = 2


def advise_on_batch(
    name: str, reason: CompileReason, location: CodeLocation | None, run: Run | None, adviser: Adviser
) -> None:
    """Says so when a step compiled because only the first axis of an argument became smaller."""
    if reason["verdict"] != "shape" or run is None or run.closed < FEWEST_STEPS:
        return
    before, after = (_SHAPE.search(reason[side] or "") for side in ("before", "after"))
    if before is None or after is None or before[2] != after[2] or int(after[1]) >= int(before[1]):
        return
    adviser.say(
        "ragged-batch",
        f"A batch of {after[1]} came after batches of {before[1]}: `{name}` was compiled for it.",
        "Drop the last batch (drop_remainder, drop_last) or pad it to the full size and mask the rest.",
        about=name,
        location=location,
        run=run.id,
    )
