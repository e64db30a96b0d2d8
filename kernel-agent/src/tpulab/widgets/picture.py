"""The picture of a widget in a saved notebook, where none can run: an SVG, in colours for light and dark."""

from __future__ import annotations

from html import escape
from typing import Any

_SPANS = ("input", "host", "compile", "device", "gap")
_COLOURS = ("#d98018", "#8a95a5", "#8e5bd6", "#1b8f61", "#b6bdc8")
_WIDTH = 640
_TEXT = 'fill="#7a8490" font-family="system-ui, sans-serif"'


def device_picture(snapshot: dict[str, Any]) -> str:
    devices = (snapshot["devices"] or {}).get("devices", [])
    if not devices:
        return _page("Devices", 40, [_text(0, 24, "No device was used.")])
    across = 16
    cell = _WIDTH / across
    parts = []
    for at, device in enumerate(devices):
        x, y = (at % across) * cell, 30 + (at // across) * 26
        used, total = device["memoryUsedBytes"], device["memoryTotalBytes"]
        parts.append(_text(x, y + 10, str(device["id"])))
        parts.append(_rect(x, y + 13, cell - 6, 5, "#cfd4dc"))
        if used is not None and total:
            parts.append(_rect(x, y + 13, (cell - 6) * min(1, used / total), 5, "#1976d2"))
    kinds = ", ".join(sorted({device["kind"] for device in devices}))
    head = f"{len(devices)} devices, {kinds}"
    return _page(head, 40 + 26 * -(-len(devices) // across), parts)


def step_picture(snapshot: dict[str, Any]) -> str:
    rows = snapshot["steps"]
    run = snapshot["run"]
    if not rows or run is None:
        return _page("Steps", 40, [_text(0, 24, "No step was measured.")])
    walls = sorted(row[2] for row in rows)
    typical = walls[len(walls) // 2]
    sums = [sum(row[3 + at] for row in rows) for at in range(5)]
    whole = sum(sums) or 1.0
    parts, x = [], 0.0
    for at, total in enumerate(sums):
        width = total / whole * _WIDTH
        parts.append(_rect(x, 30, width, 14, _COLOURS[at]))
        parts.append(_rect(at * 124, 54, 8, 8, _COLOURS[at]))
        parts.append(_text(at * 124 + 12, 62, f"{_SPANS[at]} {total / whole:.0%}"))
        x += width
    top, bottom, height = max(typical * 2.5, 1e-9), 160.0, 84.0
    pitch = _WIDTH / len(rows)
    for number, row in enumerate(rows):
        below = 0.0
        for at in range(5):
            size = min(row[3 + at] / top, max(0.0, 1 - below)) * height
            if size > 0.1:
                parts.append(
                    _rect(number * pitch, bottom - below * height - size, pitch * 0.8, size, _COLOURS[at])
                )
            below += size / height
    return _page(f"{run['name']}: {_duration(typical)} per step, last {len(rows)} steps", 168, parts)


def control_picture(snapshot: dict[str, Any]) -> str:
    run = snapshot["run"]
    if run is None:
        return _page("Run", 40, [_text(0, 24, "No run had started.")])
    parts: list[str] = []
    bottom = 24.0
    for name, series in list(snapshot["metrics"].items())[:1]:
        known = [(step, value) for step, value in zip(*series, strict=True) if value is not None]
        steps, values = [step for step, _ in known], [value for _, value in known]
        if len(values) > 1 and steps[-1] > steps[0]:
            low, high = min(values), max(values)
            span = (high - low) or 1.0
            across = _WIDTH / (steps[-1] - steps[0])
            points = " ".join(
                f"{(step - steps[0]) * across:.1f},{120 - (value - low) / span * 80:.1f}"
                for step, value in known
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="#1976d2" stroke-width="1.5"/>')
            parts.append(
                _text(0, 34, f"{name} {values[-1]:.4g}" if series[1][-1] is not None else f"{name} NaN")
            )
            bottom = 126.0
    for hyper in (run.get("control") or {}).get("hyperparameters", []):
        bottom += 16
        parts.append(_text(0, bottom, f"{hyper['name']} = {hyper['value']}"))
    state = (run.get("control") or {}).get("state", run["state"])
    return _page(f"{run['name']}: {state}", bottom + 12, parts)


def _page(title: str, height: float, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="100%" '
        f'style="max-width:{_WIDTH}px" role="img" font-size="11"><title>{escape(title)}</title>'
        f'<text x="0" y="14" font-size="13" font-weight="600" {_TEXT}>{escape(title)}</text>'
        + "".join(parts)
        + "</svg>"
    )


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {_TEXT}>{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _duration(ms: float) -> str:
    return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:.3g} s"
