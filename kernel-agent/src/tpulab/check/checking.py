"""The whole check: the run on the CPU, a compiler process for each machine type, and the report of both."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tpulab.check import capture, findings, propose, saved
from tpulab.check.chips import Machine, PreflightError, Prices
from tpulab.check.compiler import need_of
from tpulab.check.findings import Budget
from tpulab.check.layouts import Layout
from tpulab.check.processes import JsonProcess, MachineCompiler, cpu_environment, end_children

#: Compilers at work at the same time: each takes a core and, for a large program, gigabytes.
MAX_COMPILERS = max(1, min(4, os.cpu_count() or 1))
#: Seconds for the compilations of proposals, for each machine; FSDP and data parallel are always compiled.
PROPOSE_LIMIT = 300.0
#: Programs of a search for the largest batch, for each machine.
MAX_BATCHES = 24

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    source: Path
    machines: Sequence[Machine]
    cells: str | None = None
    arguments: Sequence[str] = ()
    limit: float = 600
    #: the Python that runs the source; the Python of this process has the compiler
    python: str = sys.executable
    largest_batch: bool = False
    epoch_steps: int | None = None
    propose: bool = False
    #: file for the compiled programs
    save_compiled: Path | None = None

    @property
    def serves(self) -> bool:
        """Whether the source's process has to lower programs again."""
        return self.largest_batch or self.propose


def check(
    request: Request, prices: Prices, budget: Budget, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """The report, as `--json` prints it. Raises `PreflightError` where no check is possible."""
    source = request.source
    if not source.is_file():
        raise PreflightError("source_missing", f"There is no file {source}; name a notebook or a script.")
    if source.suffix not in (".ipynb", ".py", ".zip"):
        raise PreflightError(
            "source_unusable",
            f"{source} is neither a notebook (.ipynb) nor a script (.py) nor an exported step (.zip).",
        )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tpulab-check-") as place, contextlib.ExitStack() as open_runs:
        started: dict[int, tuple[Path, JsonProcess]] = {}
        for devices in sorted({machine.devices for machine in request.machines}, reverse=True):
            folder = Path(place) / f"{devices}-devices"
            folder.mkdir()
            progress(f"running {source.name} on the CPU with {devices} device{'s' * (devices > 1)}")
            started[devices] = folder, open_runs.enter_context(_source_process(request, devices, folder))
        runs = {
            devices: (folder, _finished(lines, folder, request), lines)
            for devices, (folder, lines) in started.items()
        }

        def query_of(lines: JsonProcess) -> Query:
            return lambda question: lines.request(question, request.limit)

        work = [
            Work(machine, folder, run, query_of(lines))
            for machine in request.machines
            for folder, run, lines in (runs[machine.devices],)
        ]
        results = compile_all(work, request, progress)
    report = report_of(
        request, {devices: run for devices, (_, run, _) in runs.items()}, results, prices, budget
    )
    report["seconds"] = round(time.monotonic() - began, 1)
    return report


def _source_process(request: Request, devices: int, folder: Path) -> JsonProcess:
    options = [*(["--cells", request.cells] if request.cells else []), "--limit", str(request.limit)]
    environment = cpu_environment() | {"JAX_NUM_CPU_DEVICES": str(devices)}
    # A name that begins with a dash would be an option.
    source = str(request.source.absolute())
    command = [request.python, "-m", "tpulab.check.source", source, str(folder), *options]
    command += ["--serve"] if request.serves else []
    return JsonProcess([*command, "--", *request.arguments], folder / "log", environment)


def _finished(lines: JsonProcess, folder: Path, request: Request) -> dict[str, Any]:
    """The output of the run; it writes at its time limit at the latest."""
    file = folder / "run.json"
    ends = time.monotonic() + request.limit + 120
    while not file.is_file():
        if lines.exit_code is not None and not file.is_file():
            if shutil.disk_usage(folder).free < 2**20:
                place = folder.parent.parent
                raise PreflightError(
                    "disk_full", f"The disk with {place} is full; set TMPDIR to a folder on another one."
                )
            words = lines.last_error_line
            raise PreflightError(
                "source_crashed",
                f"{request.source.name} ended its Python process ({lines.exit_text})"
                + (f": {words}" if words else "."),
            )
        if time.monotonic() > ends:
            raise PreflightError(
                "timeout", f"{request.source.name} did not end within {request.limit:.0f} s."
            )
        time.sleep(0.05)
    run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if "error" in run:
        raise PreflightError(run["error"], run["message"])
    return run


Query = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Work:
    """The work for one machine: the programs of a run, whose modules are in `folder`; `query` answers as
    `layouts.Answers` does."""

    machine: Machine
    folder: Path
    run: Mapping[str, Any]
    query: Query

    @property
    def programs(self) -> list[Mapping[str, Any]]:
        return [program for program in self.run["programs"] if program["refused"] is None]


def compile_all(
    work: Sequence[Work], request: Request, progress: Progress = lambda _: None
) -> dict[str, dict[str, Any]]:
    """By machine name: versions, the compiled programs by number, and what else is requested."""
    lock, query_lock = threading.Lock(), threading.Lock()
    begun, total = 0, sum(len(each.programs) for each in work)
    stopped = threading.Event()

    def reported(words: str) -> None:
        if stopped.is_set():
            raise PreflightError("stopped", "The check was stopped.")
        progress(words)

    def counted(words: str) -> None:
        nonlocal begun
        with lock:
            begun += 1
            reported(f"{words} ({begun} of {total})")

    def compile_one(one: Work) -> dict[str, Any]:
        def one_at_a_time(question: Mapping[str, Any]) -> dict[str, Any]:
            # Machines with as many devices share one process of the source.
            with query_lock:
                return one.query(question)

        with MachineCompiler(one.machine, one.folder) as compiler:
            alone = replace(one, query=one_at_a_time)
            return _MachineCheck(alone, request, compiler, reported).result(counted)

    pool = ThreadPoolExecutor(MAX_COMPILERS)
    try:
        waiting = {one.machine.name: pool.submit(compile_one, one) for one in work}
        results = {name: future.result() for name, future in waiting.items()}
    except BaseException:
        # Threads of the pool wait for these children, and would continue with the next program.
        stopped.set()
        end_children()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if request.save_compiled is not None:
        files = (
            each.folder / f"{program['number']}.{each.machine.name}"
            for each in work
            for program in each.programs
        )
        saved.write(request.save_compiled, filter(Path.is_file, files))
    return results


class _MachineCheck:
    """Everything that is compiled for one machine."""

    def __init__(self, work: Work, request: Request, compiler: MachineCompiler, progress: Progress) -> None:
        self._work, self._request, self._compiler = work, request, compiler
        self._progress = progress
        self._main = main_program(work.programs)
        self._compiled: dict[int, dict[str, Any]] = {}

    def result(self, counted: Progress) -> dict[str, Any]:
        request, name = self._request, self._work.machine.name
        found: dict[str, Any] = {"compiled": self._compiled}
        for program in self._work.programs:
            counted(f"compiling {program['name']} for {name}")
            answer = self._compiler.compile(program, save=request.save_compiled is not None)
            self._compiled[program["number"]] = answer
            found.setdefault("libtpu", answer.get("libtpu"))
        if request.largest_batch and self._main is not None:
            found["batch"] = self._largest_batch(self._main)
        if request.propose and self._compiled:
            found["proposals"] = self._proposals()
        return found

    def _proposals(self) -> dict[str, Any]:
        """Layouts of the main program; the best ones compared on CPU devices."""
        main, query, machine, request = self._main, self._work.query, self._work.machine, self._request
        facts = {"refused": "there is no program"} if main is None else query({"number": main["number"]})
        if main is None or "refused" in facts:
            return propose.nothing(None if main is None else main["name"], facts["refused"])

        def compile_one(layout: Layout) -> dict[str, Any]:
            words = f"compiling {main['name']} for {machine.name}, layout {len(search.tried) + 1}"
            return self._compile({"number": main["number"], "layout": layout.facts()}, words)

        def prove(layouts: Sequence[Layout]) -> list[dict[str, Any]]:
            compared = len(layouts) - 1
            self._progress(f"running {compared} layouts of {main['name']} on {machine.devices} CPU devices")
            written = query({"number": main["number"], "proofs": [layout.facts() for layout in layouts]})
            if "folder" not in written:
                return [{"note": written.get("refused", "not run")}] * compared
            command = [request.python, "-m", "tpulab.check.proof", written["folder"]]
            log = Path(written["folder"], "log")
            with JsonProcess(command, log, cpu_environment()) as child:
                try:
                    found = [child.next(request.limit) for _ in range(compared)]
                except PreflightError as error:
                    return [{"note": str(error)}] * compared
            return [each or {"note": child.last_error_line or "its process ended"} for each in found]

        search = propose.Search(machine, facts, main["flops"], compile_one, PROPOSE_LIMIT)
        search.run()
        return propose.result(search, main, self._compiled.get(main["number"]), prove)

    def _compile(self, question: Mapping[str, Any], words: str) -> dict[str, Any]:
        """Another form of a program; where it cannot be lowered, `compiles` is None and `refused` the
        reason."""
        self._progress(words)
        lowered = self._work.query(question)
        return self._compiler.compile(lowered) if "number" in lowered else lowered | {"compiles": None}

    def _largest_batch(self, main: Mapping[str, Any]) -> dict[str, Any] | None:
        """The most rows of the main program that fit, and the next number that does not; both compiled."""
        rows = capture.batch_of(main)
        if rows is None:
            return None
        known: dict[int, bool] = {rows: bool(self._compiled[main["number"]]["compiles"])}
        unknown: list[str] = []

        def fits(batch: int) -> bool | None:
            if batch not in known and len(known) < MAX_BATCHES:
                words = f"compiling {main['name']} with {batch} rows for {self._work.machine.name}"
                answer = self._compile({"number": main["number"], "rows": batch}, words)
                if answer["compiles"] is None:
                    unknown.append(f"{batch} rows: {answer.get('refused') or answer.get('note')}")
                else:
                    known[batch] = bool(answer["compiles"])
            return known.get(batch)

        found = search_batch(rows, max(1, main["devices"]), fits)
        return found and found | {"note": unknown[0] if unknown else ""}


def search_batch(rows: int, unit: int, fits: Callable[[int], bool | None]) -> dict[str, Any] | None:
    """Doubles or halves from `rows` to both sides of the limit, then halves the gap down to an eighth of the
    batch or, below that, to one row more on each device."""
    good, bad = 0, 0
    at = max(unit, rows // unit * unit)
    while True:
        answer = fits(at)
        if answer is None:
            break
        if answer:
            good, at = at, at * 2
        else:
            bad, at = at, at // 2 // unit * unit
        if (good and bad) or at < unit or at > rows * 2**16:
            break
    while good and bad:
        step = max(unit, 2 ** ((good // 8).bit_length() - 1) // unit * unit if good >= 8 * unit else unit)
        middle = (good + bad) // 2 // step * step
        if middle <= good or middle >= bad or bad - good <= step:
            break
        answer = fits(middle)
        if answer is None:
            break
        good, bad = (middle, bad) if answer else (good, middle)
    return {"fits": good, "next": bad or None} if good or bad else None


def main_program(programs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The step of the loop: the repeatedly called function with the most computation."""
    called = [program for program in programs if program["refused"] is None]
    looped = [program for program in called if program["calls"] > 1 or program["carried"]]
    return max(looped or called, key=lambda program: program["flops"], default=None)


def report_of(
    request: Request,
    runs: Mapping[int, Mapping[str, Any]],
    results: Mapping[str, Mapping[str, Any]],
    prices: Prices,
    budget: Budget,
    placer: capture.Placer = capture.place_of,
) -> dict[str, Any]:
    """The report, from the runs (by number of devices) and the compilers' results (by machine)."""
    first = next(iter(runs.values()))
    report: dict[str, Any] = {
        "format": 1,
        "source": request.source.name,
        # The file's name on the computer that requested the check.
        "file": os.environ.get("TPULAB_CHECK_FILE") or str(request.source),
        "cells": first["cells"],
        "runSeconds": round(sum(run["seconds"] for run in runs.values()), 1),
        "eager": first["eager"],
        "jax": first["jax"],
        "libtpu": next((found.get("libtpu") for found in results.values()), None),
        "machines": [
            {
                "name": machine.name,
                "kind": machine.kind.name,
                "chips": machine.chips,
                "devices": machine.devices,
                "usableBytes": machine.usable_bytes,
            }
            for machine in request.machines
        ],
        "compiled": request.save_compiled
        and {"file": str(request.save_compiled), "bytes": request.save_compiled.stat().st_size},
        "programs": [],
        "totals": {},
        "prices": {
            "date": prices.date,
            "source": prices.source,
            "own": prices.own,
            "chipHourUsd": dict(prices.hourly),
        },
    }
    problems = [finding for devices, run in runs.items() for finding in findings.in_run(run, devices)]
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    mains: dict[str, tuple[dict[str, Any], Mapping[str, Any]]] = {}
    for machine in request.machines:
        run, found = runs[machine.devices], results[machine.name]
        variants: Counter[tuple[str, str]] = Counter()
        main = main_program(run["programs"])
        for program in run["programs"]:
            key = (program["name"], findings.words_of(program["place"]))
            variants[key] += 1
            row = rows.setdefault((*key, variants[key]), _row(program, variants[key]))
            result = _result(program, found["compiled"].get(program["number"]), machine, placer)
            row["results"][machine.name] = result
            problems += findings.in_program(program, result, machine)
            if program is main:
                mains[machine.name] = (row, result)
        report["totals"][machine.name] = _total(
            machine, found, mains.get(machine.name), request.epoch_steps or budget.epoch_steps
        )
    report["programs"] = list(rows.values())
    problems += findings.over_budget(report, budget)
    report["findings"] = findings.as_rows(findings.allowed(problems, budget))
    return report


def _row(program: Mapping[str, Any], variant: int) -> dict[str, Any]:
    return {
        "name": program["name"],
        "variant": variant,
        "place": program["place"],
        "called": program["called"],
        "calls": program["calls"],
        "arguments": len(program["arguments"]),
        "flops": program["flops"],
        "flopsExact": program["flops_exact"],
        "callbacks": len(program["callbacks"]),
        "results": {},
    }


def _result(
    program: Mapping[str, Any],
    compiled: Mapping[str, Any] | None,
    machine: Machine,
    placer: capture.Placer,
) -> dict[str, Any]:
    if compiled is None:
        compiled = {"compiles": None, "seconds": 0.0, "note": program["refused"] or "it was not compiled"}
    accepted, need = bool(compiled["compiles"]), need_of(compiled)
    collectives = [
        {name: value for name, value in each.items() if name != "frames"}
        | {"place": _place(each["frames"], placer)}
        for each in compiled.get("collectives", ())
    ]
    for each in collectives:
        each["unexpected"] = findings.is_unexpected(each, program)
    buffers = [
        {"words": each["words"], "bytes": each["bytes"], "place": _place(each["frames"], placer)}
        for each in compiled.get("buffers", ())
    ]
    if not accepted:
        shared = program["devices"]
        buffers = [
            {"words": each["words"], "bytes": each["bytes"] // shared, "place": each["place"]}
            for each in program["largest"]
        ]
    seconds, bound = _lower_bound(program, compiled, machine, collectives) if accepted else (None, None)
    return {
        "fits": findings.fits(compiled["compiles"], need, machine),
        "need": need,
        "arguments": compiled.get("arguments"),
        "outputs": compiled.get("outputs"),
        "temporaries": compiled.get("temporaries"),
        "code": compiled.get("code"),
        "compileSeconds": round(compiled["seconds"], 2),
        "stepSeconds": seconds,
        "bound": bound,
        "collectives": collectives,
        "buffers": buffers,
        "plainBytes": compiled.get("plain_bytes", 0),
        "paddedBytes": compiled.get("padded_bytes", 0),
        "worstPadding": compiled.get("worst_padding"),
        "note": compiled.get("note", ""),
    }


def _lower_bound(
    program: Mapping[str, Any],
    compiled: Mapping[str, Any],
    machine: Machine,
    collectives: Sequence[Mapping[str, Any]],
) -> tuple[float | None, str | None]:
    """Minimum seconds of one run, and their cause: nothing is faster than the peak rates."""
    flops = max(program["flops"] / program["devices"], compiled["flops"])
    moved = min(compiled["bytes"], compiled["arguments"] + compiled["outputs"])
    peak, links = machine.peak_flops, machine.kind.ici_gb_s
    times = {"memory": moved / (machine.kind.hbm_gb_s * 1e9)}
    if peak:
        times["compute"] = flops / peak
    if links:
        times["collectives"] = sum(each["bytes"] for each in collectives) / (links * 1e9)
    bound = max(times, key=lambda name: times[name])
    return (times[bound], bound) if times[bound] > 0 else (None, None)


def _place(frames: Sequence[Sequence[Any]], placer: capture.Placer) -> dict[str, Any] | None:
    """The innermost line in the user's code."""
    for file, line in frames:
        if file and not capture.is_library((file, line)):
            return asdict(placer(file, line))
    return None


def _total(
    machine: Machine,
    found: Mapping[str, Any],
    main: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
    epoch_steps: int | None,
) -> dict[str, Any]:
    seconds = main[1]["stepSeconds"] if main else None
    # Readers multiply them by the price of a chip hour, which a user may change later.
    step_hours = None if seconds is None else seconds * machine.chips / 3600
    return {
        "compileSeconds": round(sum(each["seconds"] for each in found["compiled"].values()), 1),
        "program": main[0]["name"] if main else None,
        "stepSeconds": seconds,
        "bound": main[1]["bound"] if main else None,
        "chipHoursFor1000Steps": None if step_hours is None else step_hours * 1000,
        "chipHoursForEpoch": None if step_hours is None or epoch_steps is None else step_hours * epoch_steps,
        "epochSteps": epoch_steps,
        "batch": found.get("batch"),
        "proposals": found.get("proposals"),
    }


def exit_code(report: Mapping[str, Any], strict: bool) -> int:
    levels = {each["level"] for each in report["findings"]}
    return int("error" in levels or (strict and "warning" in levels))
