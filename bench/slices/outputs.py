"""The path of the outputs in the lead for many hosts, without the hosts: recording, comparing and folding.

For 4, 16, 64 and 256 hosts: each sends its lines like an engine, once the same on all and once
different on each; the fold is refreshed ten times meanwhile, as while a cell runs. CPU time of this process,
and the messages that the lead would publish.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from tpulab.slice.outputs import Outputs

LINE = "step {step}: loss 0.1234 on {who}\n"
REFRESHES = 10


def run(hosts: int, lines: int, differ: bool) -> dict[str, Any]:
    published: list[int] = []

    def publish(_: str, content: dict[str, Any]) -> None:
        published.append(len(json.dumps(content)))

    outputs = Outputs(range(hosts), publish, 1)
    streams = [
        [
            {"name": "stdout", "text": LINE.format(step=step, who=host if differ else "all")}
            for step in range(lines)
        ]
        for host in range(hosts)
    ]
    worst = 0.0
    began = time.process_time()
    for step in range(lines):
        for host in range(hosts):
            outputs.add(host, "stream", streams[host][step])
        if (step + 1) % max(lines // REFRESHES, 1) == 0:
            before = time.process_time()
            outputs.refresh()
            worst = max(worst, time.process_time() - before)
    for host in range(hosts):
        outputs.finish(host)
    before = time.process_time()
    outputs.refresh(ended=True)
    end = time.process_time()
    return {
        "hosts": hosts,
        "output": "different" if differ else "the same",
        "us_per_line": (end - began) / (hosts * lines) * 1e6,
        "worst_refresh_ms": worst * 1e3,
        "last_refresh_ms": (end - before) * 1e3,
        "published_mb": sum(published) / 1e6,
        "last_fold_kb": published[-1] / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=1000, help="of each host")
    results = Path(__file__).parents[1] / "results"
    parser.add_argument("--json", type=Path, default=results / "slice-outputs.json")
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args()
    print("hosts  output      CPU us a line  refresh ms  last ms  published MB  last fold kB")
    rows = []
    for hosts in (4, 16, 64, 256):
        for differ in (False, True):
            row = run(hosts, given.lines, differ)
            rows.append({name: round(v, 2) if isinstance(v, float) else v for name, v in row.items()})
            print(
                f"{hosts:5}  {row['output']:10}  {row['us_per_line']:13.1f}  "
                f"{row['worst_refresh_ms']:10.1f}  {row['last_refresh_ms']:7.1f}  "
                f"{row['published_mb']:12.2f}  {row['last_fold_kb']:12.1f}"
            )
    if not given.no_save:
        machine = {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()}
        found = {"machine": machine, "lines": given.lines, "rows": rows}
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
