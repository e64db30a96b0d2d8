"""Runs one notebook through a bridge with its default settings; prints its times.

`python run_one.py FILE`, with the checkout on PYTHONPATH, in the environment of the Python clients. The last
line is JSON. The cache folders are empty, as at a reader's first run in an existing environment.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

#: Longer than any cell may take on a busy machine.
CELL_DEADLINE_S = 1200

COUNT_IN_JAX = """
import jax
compile_times_s = []

def _note(event, duration, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compile_times_s.append(duration)

jax.monitoring.register_event_duration_secs_listener(_note)
"""
ASK_JAX = """
import json, time
made = {"programs": len(compile_times_s), "compileS": sum(compile_times_s)}
print(json.dumps({**made, "cpuS": time.process_time()}))
"""
ASK_TORCH = """
import json, time
from tpulab_recipes import runtime
made = runtime.current().compilations()
print(json.dumps({"programs": made.count, "compileS": made.seconds, "cpuS": time.process_time()}))
"""


def seconds_of(cells: list[Any]) -> dict[str, float]:
    """Seconds by cell id, from the kernel's `execute_input` to its `execute_reply`, as the client records
    them."""
    took = {}
    for cell in cells:
        times = cell.metadata.get("execution", {})
        if "iopub.execute_input" in times and "shell.execute_reply" in times:
            begin, end = (
                datetime.fromisoformat(times[name].replace("Z", "+00:00"))
                for name in ("iopub.execute_input", "shell.execute_reply")
            )
            took[cell.id] = (end - begin).total_seconds()
    return took


def main(file: str) -> None:
    from tests.notebook_run import NOTEBOOKS, run_notebook

    kernel = json.loads((NOTEBOOKS / file).read_text())["metadata"]["kernelspec"]["name"]
    in_jax = kernel == "tpulab-jax"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        run = Path(folder) / "run"
        run.mkdir()
        executed = run_notebook(
            file,
            run,
            settings={},
            probe=ASK_JAX if in_jax else ASK_TORCH,
            cell_deadline_s=CELL_DEADLINE_S,
            before=COUNT_IN_JAX if in_jax else "",
        )
        ours = ("probe-before", "probe")
        took = seconds_of([cell for cell in executed.notebook.cells if cell.id not in ours])
    slowest = sorted(took, key=lambda cell: -took[cell])[:3]
    print(
        json.dumps(
            {
                "seconds": sum(took.values()),
                **executed.values,
                "slowestCells": {cell: round(took[cell], 2) for cell in slowest},
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
