"""Searches layouts of the main step that fit a machine and take the least time: mesh shapes, the place of
each group of parameters, recomputation, and smaller batches where nothing else fits."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpulab.check.chips import Machine
from tpulab.check.compiler import need_of
from tpulab.check.layouts import AXES, REMAT_LINE, Layout, Place

MAX_COMPILED = 20
#: Groups whose place is varied one by one, the largest first.
MAX_VARIED = 6
#: Layouts whose numbers are compared, besides plain FSDP.
MAX_PROVEN = 3
#: On this computer, for all CPU devices together: larger steps are not run.
PROOF_BYTES, PROOF_FLOPS = 4 * 2**30, 5e12
EQUAL, EQUAL_HALF = 1e-5, 2e-2
#: Where links are not published: a share of the memory's bandwidth, for the order of the candidates.
_LINKS_SHARE = 0.2

#: Runs the layouts on CPU devices; for each but the first `{"difference": …}` or `{"note": …}`.
Prove = Callable[[Sequence[Layout]], Sequence[dict[str, Any]]]


@dataclass(slots=True)
class Candidate:
    name: str
    layout: Layout
    compiled: Mapping[str, Any]


class Search:
    """For one machine. `facts` are those of `layouts.Answers`; `compile_one` returns the compiler's answer
    for a layout, or `{"refused": …}`."""

    def __init__(
        self,
        machine: Machine,
        facts: Mapping[str, Any],
        flops: float,
        compile_one: Callable[[Layout], dict[str, Any]],
        seconds: float,
    ) -> None:
        self.machine, self.facts, self._flops = machine, facts, flops
        self._compile_one = compile_one
        self._ends = time.monotonic() + seconds
        self._groups = sorted(facts["groups"], key=lambda group: -group["bytes"])
        self.tried: dict[Layout, Candidate] = {}
        self.pruned = 0

    def run(self) -> None:
        rows, devices = self.facts["rows"], self.machine.devices
        meshes = [
            (devices // model, model)
            for model in range(1, devices + 1)
            if devices % model == 0 and rows % (devices // model) == 0
        ]
        for data, model in meshes:
            for name, places in self._strategies(data, model):
                self._try(name, Layout((data, model), places, rows))
        self._with_remat()
        if not any(map(self._fits, self.tried.values())):
            self._smaller_batches(rows)
        else:
            self._vary()

    def _strategies(self, data: int, model: int) -> Iterator[tuple[str, tuple[tuple[str, Place], ...]]]:
        fsdp, tensor = self._places(data, 1), self._places(1, model)
        if model == 1:
            # First, so that every proposed layout is compared with it.
            yield "FSDP", fsdp
            yield "data parallel", ()
        else:
            yield f"tensor parallel, {model}", tensor
            if data > 1:
                yield f"tensor parallel, {model}, and FSDP, {data}", self._places(data, model)

    def _places(self, data: int, model: int) -> tuple[tuple[str, Place], ...]:
        """Each group on `model` along its inner dimension, and on `data` along the longest remaining one."""
        sizes = Counter(size for group in self._groups for size in group["shape"])
        width = max(sizes, key=lambda size: (sizes[size], size), default=0)
        found = []
        for group in self._groups:
            shape = group["shape"]
            place: list[str | None] = [None] * len(shape)
            # Along an inner dimension a step needs fewer sums; others have only the network's width.
            for name, parts, avoided in (("model", model, width), ("model", model, 0), ("data", data, 0)):
                fitting = [
                    axis
                    for axis, size in enumerate(shape)
                    if size % parts == 0 and place[axis] is None and size != avoided
                ]
                if (
                    parts > 1
                    and name not in place
                    and fitting
                    and len(shape) > (name == "model" and not avoided)
                ):
                    place[max(fitting, key=lambda axis: (shape[axis], axis))] = name
            if any(place):
                found.append((group["name"], tuple(place)))
        return tuple(found)

    def _try(self, name: str, layout: Layout) -> Candidate | None:
        if layout in self.tried:
            return self.tried[layout]
        if len(self.tried) >= MAX_COMPILED or (time.monotonic() > self._ends and len(self.tried) > 1):
            return None
        if self.state_bytes(layout) > self.machine.usable_bytes and name != "FSDP":
            self.pruned += 1
            return None
        self.tried[layout] = found = Candidate(name, layout, self._compile_one(layout))
        return found

    def state_bytes(self, layout: Layout) -> float:
        """Of each device."""
        places, sizes = dict(layout.places), dict(zip(AXES, layout.mesh, strict=True))
        return sum(
            float(group["bytes"]) / math.prod(sizes[axis] for axis in places.get(group["name"], ()) if axis)
            for group in self._groups
        )

    def _fits(self, candidate: Candidate) -> bool:
        return bool(candidate.compiled.get("compiles"))

    def _with_remat(self) -> None:
        """The best layouts if some fit, else the layouts that need the least memory."""
        ranked = self.ranked()
        count = 1 if ranked and self._fits(ranked[0]) else 3
        for candidate in ranked[:count]:
            self._try(f"{candidate.name}, remat", replace(candidate.layout, remat=True))

    def _smaller_batches(self, rows: int) -> None:
        ranked = self.ranked()
        if not ranked:
            return
        best = ranked[0]
        while (rows := rows // 2) >= best.layout.mesh[0] and rows % best.layout.mesh[0] == 0:
            smaller = self._try(f"{best.name}, {rows} rows", replace(best.layout, rows=rows))
            if smaller is None or self._fits(smaller):
                return

    def _vary(self) -> None:
        """Tries another place for each group in turn, as long as the layout improves."""
        for group in self._groups[:MAX_VARIED]:
            best = self.ranked()[0]
            places = dict(best.layout.places)
            for place in self._other_places(group, best.layout):
                others = {**places, group["name"]: place}
                chosen = tuple((name, each) for name, each in others.items() if any(each))
                words = f"({', '.join(each or '-' for each in place)})"
                self._try(
                    f"{best.name}; {group['name'].partition('[')[0]} {words}",
                    replace(best.layout, places=chosen),
                )

    def _other_places(self, group: Mapping[str, Any], layout: Layout) -> Iterator[Place]:
        shape, now = group["shape"], dict(layout.places).get(group["name"], (None,) * len(group["shape"]))
        for axis_name, parts in zip(AXES, layout.mesh, strict=True):
            if parts == 1:
                continue
            without = tuple(None if each == axis_name else each for each in now)
            for axis in (None, *range(len(shape))):
                place = without if axis is None else (*without[:axis], axis_name, *without[axis + 1 :])
                divisible = axis is None or (shape[axis] % parts == 0 and without[axis] is None)
                if divisible and place != now:
                    yield place

    def seconds(self, candidate: Candidate) -> float:
        """For the order of the candidates: the collectives do not overlap with the rest."""
        compiled, kind = candidate.compiled, self.machine.kind
        peak = self.machine.peak_flops or 1e14
        links = (kind.ici_gb_s or _LINKS_SHARE * kind.hbm_gb_s) * 1e9
        moved = (compiled["arguments"] + compiled["outputs"]) / (kind.hbm_gb_s * 1e9)
        share = self.facts["rows"] / candidate.layout.rows
        return float(share * (max(self.flops(candidate) / peak, moved) + collective_bytes(compiled) / links))

    def flops(self, candidate: Candidate) -> float:
        """Operations of each device in a step. The compiler counts a loop once: the layout that divides the
        work evenly shows how much is missing."""
        even = [each for each in self.tried.values() if each.layout.mesh[1] == 1 and self._fits(each)]
        counted = min((each.compiled["flops"] for each in even), default=0.0)
        missing = max(1.0, self._flops / self.machine.devices / counted) if counted else 1.0
        return float(candidate.compiled["flops"] * missing)

    def ranked(self) -> list[Candidate]:
        """What fits, the fastest first; then what does not, by memory."""
        known = [each for each in self.tried.values() if each.compiled.get("compiles") is not None]

        def order(candidate: Candidate) -> tuple[Any, ...]:
            need = need_of(candidate.compiled) or math.inf
            if self._fits(candidate):
                # Layouts whose times differ by less than the figures' precision are ordered by memory.
                return 0, float(f"{self.seconds(candidate):.2g}"), need
            return 1, need, 0

        return sorted(known, key=order)


def collective_bytes(compiled: Mapping[str, Any]) -> int:
    return int(sum(each["bytes"] for each in compiled.get("collectives", ())))


def _proofs(search: Search, candidates: Sequence[Candidate], flops: float, prove: Prove) -> dict[Layout, Any]:
    """By layout: the difference to the whole step on one device, all with one row for each device; or why the
    numbers were not compared on this computer."""
    devices, found = search.machine.devices, {}
    for layout in (candidate.layout for candidate in candidates):
        size = 3 * devices * search.state_bytes(layout)
        if size > PROOF_BYTES:
            found[layout] = {"note": f"not run: {size / 2**30:.0f} GiB"}
        elif flops * devices / max(search.facts["rows"], 1) > PROOF_FLOPS:
            found[layout] = {"note": "not run: too many operations"}
    wanted = [each.layout for each in candidates if each.layout not in found]
    if wanted:
        whole, *others = (replace(each, rows=devices) for each in (Layout((1, 1), (), 0), *wanted))
        found |= zip(wanted, prove([whole, *others]), strict=True)
    return found


def code(facts: Mapping[str, Any], layout: Layout) -> list[str]:
    """To paste in front of the loop. Arrays are named as the step names them."""
    used = 1 if layout.mesh[1] == 1 else 2
    auto = ", ".join(["jax.sharding.AxisType.Auto"] * used)
    lines = [f"mesh = jax.make_mesh({layout.mesh[:used]}, {AXES[:used]}, axis_types=({auto},))"]
    places = dict(layout.places)
    if facts["state"]:
        names = ", ".join(facts["state"])
        tree = names if len(facts["state"]) == 1 else f"({names})"
        groups = [
            (each["name"].partition("[")[0], tuple(each["shape"]), each["name"]) for each in facts["groups"]
        ]
        by_shape = {(shape, places.get(group, ())) for _, shape, group in groups}
        if len({shape for shape, _ in by_shape}) == len(by_shape):
            mapped, key = "jax.tree.map(lambda a:", "a.shape"
            entries = [f"{shape}: jax.P{place}" for shape, place in sorted(by_shape, key=str) if place]
        else:
            # Arrays of one shape have different places.
            mapped = "jax.tree.map_with_path(lambda path, a:"
            key = "(jax.tree_util.keystr(path[-1:], simple=True), a.shape)"
            entries = [
                f"{name, shape}: jax.P{places[group]}" for name, shape, group in groups if group in places
            ]
        place = f"jax.NamedSharding(mesh, {{{', '.join(entries)}}}.get({key}, jax.P()))"
        line = f"{mapped} {place}, {tree})" if entries else "jax.NamedSharding(mesh, jax.P())"
        lines.append(f"{names} = jax.device_put({tree}, {line})")
    if facts["batch"]:
        rows = ", ".join(facts["batch"])
        tree = rows if len(facts["batch"]) == 1 else f"({rows})"
        lines.append(f'{rows} = jax.device_put({tree}, jax.NamedSharding(mesh, jax.P("data")))')
    return [*lines, *([REMAT_LINE] if layout.remat else [])]


def nothing(program: str | None, reason: str) -> dict[str, Any]:
    return {"program": program, "reason": f"No layout can be proposed: {reason}", "rows": [], "code": []}


def result(
    search: Search,
    main: Mapping[str, Any],
    written: Mapping[str, Any] | None,
    prove: Prove,
) -> dict[str, Any]:
    """The report's part, under the machine in `totals`: rows from the best to the worst, the code for
    the first, and a sentence where nothing fits."""
    facts, ranked = search.facts, search.ranked()
    if not ranked:
        first = next(
            (each.compiled.get("refused") or each.compiled.get("note") for each in search.tried.values()),
            None,
        )
        return nothing(main["name"], first or f"{facts['rows']} rows cannot be divided among the devices.")
    fitting = [each for each in ranked if each.compiled["compiles"]]
    shown = fitting[:MAX_PROVEN] + [each for each in fitting[MAX_PROVEN:] if each.name == "FSDP"]
    by_layout = _proofs(search, shown, main["flops"], prove)
    limit = EQUAL_HALF if facts["half"] else EQUAL
    rows = [
        {
            "name": each.name,
            "mesh": dict(zip(AXES, each.layout.mesh, strict=True)),
            "places": {name: list(place) for name, place in each.layout.places},
            "batch": each.layout.rows,
            "remat": each.layout.remat,
            **_figures(each.compiled),
            "flops": search.flops(each) if each.compiled["compiles"] else None,
            "seconds": search.seconds(each) if each.compiled["compiles"] else None,
            "difference": (proof := by_layout.get(each.layout, {})).get("difference"),
            "equal": proof["difference"] <= limit if "difference" in proof else None,
            "note": proof.get("note", ""),
        }
        for each in ranked
    ]
    best = next((row for row in rows if row["fits"] and row["equal"] is not False), None)
    chosen = next((each for each in fitting if best is not None and each.name == best["name"]), None)
    return {
        "program": main["name"],
        "batch": facts["rows"],
        "compiled": len(search.tried),
        "pruned": search.pruned,
        "written": None if written is None else {"devices": main["devices"], **_figures(written)},
        "rows": rows,
        "code": code(facts, chosen.layout) if chosen else [],
        "reason": _reason(search, chosen),
    }


def _figures(compiled: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "fits": bool(compiled["compiles"]),
        "need": need_of(compiled),
        "collectiveBytes": collective_bytes(compiled),
    }


def _reason(search: Search, chosen: Candidate | None) -> str:
    rows, name = search.facts["rows"], search.machine.name
    if chosen is None:
        return f"Nothing that was tried fits {name}: use a smaller batch, a smaller model or more chips."
    if chosen.layout.rows < rows:
        return (
            f"{rows} rows fit {name} in no layout that was tried; {chosen.layout.rows} rows do: sum the "
            f"gradients of {-(-rows // chosen.layout.rows)} parts."
        )
    return ""
