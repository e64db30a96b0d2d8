"""Where the outputs of many hosts go, without the hosts."""

from __future__ import annotations

from typing import Any

from tpulab.slice.fold import LIVE_CHARS
from tpulab.slice.outputs import Outputs

HOSTS = 256
LINES = 200


def report(outputs: Outputs, host: int, text: str) -> None:
    outputs.add(host, "stream", {"name": "stdout", "text": text})


def test_256_hosts_are_folded_by_what_they_print_and_nothing_is_lost() -> None:
    published: list[tuple[str, dict[str, Any]]] = []
    outputs = Outputs(range(HOSTS), lambda kind, content: published.append((kind, content)), 1)
    for line in range(LINES):
        for host in range(HOSTS):
            # The last two differ from all others, and from each other.
            who = str(host) if host >= HOSTS - 2 else "all"
            report(outputs, host, f"{who} {line} {'x' * 40}\n")
    outputs.refresh()
    live = published[-1][1]["data"]["text/plain"]
    assert len(live) < 3 * LIVE_CHARS + 2000
    assert live.startswith(f"hosts 1-253: {LINES} lines so far, same on 253 hosts\n  …\n")
    assert f"all {LINES - 1} " in live
    for host in range(HOSTS):
        outputs.finish(host)
    outputs.refresh(ended=True)
    spoken = [content["text"] for kind, content in published if kind == "stream"]
    assert len(spoken) == LINES
    lines = published[-1][1]["data"]["text/plain"].splitlines()
    assert lines[0] == "hosts 1-253: same as host 0 (same on 253 hosts)"
    for host in (HOSTS - 2, HOSTS - 1):
        assert [line for line in lines if line.startswith(f"  {host} ")] == [
            f"  {host} {line} {'x' * 40}" for line in range(LINES)
        ]


def test_a_progress_bar_without_lines_shows_where_it_stands() -> None:
    published: list[dict[str, Any]] = []
    outputs = Outputs(range(2), lambda _, content: published.append(content), 1)
    for percent in range(101):
        report(outputs, 1, f"\r{percent} % {'#' * 100}")
    outputs.refresh()
    assert published[-1]["data"]["text/plain"].splitlines()[-1] == f"  100 % {'#' * 100}"
