"""The outputs of the hosts that do not write into the cell, folded below it: one line for equal hosts."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from tpulab.slice.hosts import name_hosts
from tpulab.slice.recording import WIDGET, Part

#: Pages with TPULab turn the folds in the HTML beside it into tabs.
_HOSTS = "application/vnd.tpulab.hosts+json"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: While the cell runs, a fold shows the end of each group's text, and is sent repeatedly.
LIVE_CHARS = 4000
_STYLE = "margin:0;padding:0 0 0 1.2em;white-space:pre-wrap"
_DIFFERS = "border-left:3px solid var(--jp-warn-color1,#e9a100);padding-left:6px"


def bundle_of(
    groups: Sequence[tuple[Sequence[int], Part, bool | None]], speaker: int, continued: bool
) -> dict[str, Any]:
    """The mime bundle of one part. Each group: its hosts, their part, whether it equals the speaker's.

    None instead of the last: the cell still runs, so which hosts are equal is not known yet.
    """
    plain: list[str] = []
    rich: list[str] = []
    for hosts, part, same in groups:
        who = name_hosts(hosts)
        if same:
            line = f"{who}: same as host {speaker}" + (
                f" (same on {len(hosts)} hosts)" if len(hosts) > 1 else ""
            )
            plain.append(line)
            rich.append(f'<div style="opacity:.7">▸ {html.escape(line)}</div>')
            continue
        line = _headline(who, hosts, part, same, continued)
        items = part.items if same is not None else _ends(part)
        plain += [line, *(f"  {text}" for text in _plain(items).splitlines())]
        style = f' style="{_DIFFERS}"' if same is False else ""
        rich.append(f"<details{style}><summary>{html.escape(line)}</summary>{_rich(items)}</details>")
    return {
        "text/plain": "\n".join(plain),
        "text/html": f'<div class="tpulab-hosts">{"".join(rich)}</div>',
        _HOSTS: {},
    }


def widgets_of(part: Part) -> list[dict[str, Any]]:
    """Displays that a page must show itself: they cannot be inside the fold."""
    return [item for kind, item in part.items if kind == "bundle" and WIDGET in item["data"]]


def _headline(who: str, hosts: Sequence[int], part: Part, same: bool | None, continued: bool) -> str:
    texts = [pieces for kind, pieces in part.items if kind != "bundle"]
    lines = sum(sum(piece.count("\n") for piece in pieces) or 1 for pieces in texts)
    shown = sum(kind == "bundle" for kind, _ in part.items)
    counted = [f"{lines} line{'s'[: lines != 1]}"] if lines else []
    counted += [f"{shown} display{'s'[: shown != 1]}"] if shown else []
    amount = ", ".join(counted) or "no output"
    what = f"{amount} so far" if same is None else f"different output ({amount})"
    agree = f", same on {len(hosts)} hosts" if len(hosts) > 1 else ""
    return f"{who}: {what}{agree}{', continued' if continued else ''}"


def _text(pieces: Sequence[str]) -> str:
    """As a terminal would show it: an overwritten line shows its last content."""
    joined = _ANSI.sub("", "".join(pieces)).replace("\r\n", "\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in joined.split("\n"))


def _ends(part: Part) -> list[tuple[str, Any]]:
    """The last characters, from the beginning of a line on, and all displays."""
    found: list[tuple[str, Any]] = []
    room = LIVE_CHARS
    for kind, item in reversed(part.items):
        if kind == "bundle":
            found.append((kind, item))
        elif room > 0:
            pieces: list[str] = []
            for piece in reversed(item):
                pieces.append(piece)
                room -= len(piece)
                if room <= 0:
                    break
            text = "".join(reversed(pieces))
            if room <= 0:
                end = text[-LIVE_CHARS:]
                text = "…\n" + (end.partition("\n")[2] or end)
            found.append((kind, [text]))
    return found[::-1]


def _plain(items: Sequence[tuple[str, Any]]) -> str:
    return "\n".join(
        str(item["data"].get("text/plain", "")) if kind == "bundle" else _text(item).rstrip("\n")
        for kind, item in items
    )


def _rich(items: Sequence[tuple[str, Any]]) -> str:
    pieces: list[str] = []
    for kind, item in items:
        if kind != "bundle":
            colour = ";color:var(--jp-error-color1,#b00020)" if kind == "stderr" else ""
            pieces.append(f'<pre style="{_STYLE}{colour}">{html.escape(_text(item))}</pre>')
            continue
        data = item["data"]
        if (picture := data.get("image/png")) is not None:
            pieces.append(f'<img src="data:image/png;base64,{html.escape(str(picture).strip())}">')
        elif (text := data.get("text/html")) is not None and WIDGET not in data:
            pieces.append("".join(text))
        else:
            pieces.append(f'<pre style="{_STYLE}">{html.escape(str(data.get("text/plain", "")))}</pre>')
    return "".join(pieces)
