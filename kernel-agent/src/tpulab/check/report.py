"""A report as text, as JUnit and as SARIF."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from tpulab.check.chips import GIB
from tpulab.check.findings import RULES, words_of

#: Colours of a terminal, by what a cell or line is about.
_COLOURS = {
    "fits": "32", "tight": "33", "no": "31", "refused": "31", "error": "31", "warning": "33", "note": "2",
}  # fmt: skip
#: Rules that a test of a program and chip reports.
_OF_PROGRAMS = ("does-not-fit", "not-compiled")
#: Layouts that are shown; the others are in the JSON.
MAX_LAYOUTS = 8


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    #: a key of the table above, which follows the text
    kind: str = ""


@dataclass(slots=True)
class _Part:
    """A sentence, and for machines and layouts a table with a heading, and code."""

    words: str
    table: list[list[_Cell]] = field(default_factory=list)
    code: Sequence[str] = ()


def gib(number: float) -> str:
    """With as many digits as are significant."""
    size = number / GIB
    return f"{size:.1f}" if size >= 9.95 else f"{size:.2f}" if size >= 0.095 else f"{size:.3f}"


def name_of(program: Mapping[str, Any]) -> str:
    return f"{program['name']} ({program['variant']})" if program["variant"] > 1 else str(program["name"])


def _a_chip(machine: Mapping[str, Any]) -> float:
    return float(machine["devices"] / machine["chips"])


def _row(first: str, *others: str) -> list[_Cell]:
    return [_Cell(text) for text in (first, *others)]


def _parts(report: Mapping[str, Any]) -> Iterator[_Part]:
    yield _Part(_head_line(report), [*_programs(report), *_summary(report)])
    for machine in report["machines"]:
        found = report["totals"][machine["name"]].get("proposals")
        if found and not found["rows"]:
            yield _Part(f"{machine['name']}: {found['reason']}")
        elif found:
            head = f"Layouts of {found['program']} for {machine['name']}, {found['compiled']} compiled"
            head += f", {found['pruned']} left out by their bytes" if found["pruned"] else ""
            yield _Part(f"{head}. {found['reason']}".strip(), _layouts(found, machine), found["code"])
    if compiled := report["compiled"]:
        yield _Part(
            f"Compiled programs: {compiled['file']}, {compiled['bytes'] / 1e6:.1f} MB. Copy it with its "
            "folder: a kernel that starts there takes them."
        )


def _programs(report: Mapping[str, Any]) -> list[list[_Cell]]:
    machines = report["machines"]
    rows = [_row("GiB per chip", *(each["name"] for each in machines))]
    rows.append(_row("available", *(f"{each['usableBytes'] * _a_chip(each) / GIB:g}" for each in machines)))
    names = max([0, *(len(name_of(each)) for each in report["programs"])])
    for program in report["programs"]:
        row = _row(f"{name_of(program).ljust(names)}  {words_of(program['place'])}")
        for machine in machines:
            result = program["results"].get(machine["name"])
            size = "" if not result or result["need"] is None else gib(result["need"] * _a_chip(machine))
            row.append(_Cell(size, result["fits"]) if result else _Cell("-"))
        rows.append(row)
    return rows


def _summary(report: Mapping[str, Any]) -> list[list[_Cell]]:
    """The time and cost of each machine."""
    totals = [report["totals"][machine["name"]] for machine in report["machines"]]

    def row(title: str, show: Callable[[Mapping[str, Any]], str | None]) -> list[_Cell]:
        return _row(title, *(show(total) or "-" for total in totals))

    def money(title: str, name: str) -> list[_Cell]:
        found = []
        for machine, total in zip(report["machines"], totals, strict=True):
            hours, price = total[name], report["prices"]["chipHourUsd"].get(machine["kind"])
            usd = None if hours is None or price is None else hours * price
            known = "unknown" if usd is None else f"{usd:.2f}" if usd >= 0.01 else f"{usd:.2g}"
            found.append("-" if hours is None else known)
        return _row(title, *found)

    def batch(total: Mapping[str, Any]) -> str:
        found = total["batch"]
        if found is None:
            return "unknown"
        more = f" ({found['next']} does not)" if found["next"] else " or more"
        return f"{found['fits'] or 'none'}{', more unknown' if found['note'] and not found['next'] else more}"

    rows = [
        _row("", *("" for _ in totals)),
        row("compile, s", lambda total: f"{total['compileSeconds']:.1f}"),
        row(
            "step at least, ms",
            lambda t: None if t["stepSeconds"] is None else f"{t['stepSeconds'] * 1e3:.3g}",
        ),
        row("bound by", lambda total: total["bound"]),
        money("1,000 steps from, USD", "chipHoursFor1000Steps"),
    ]
    if steps := next((total["epochSteps"] for total in totals if total["epochSteps"]), None):
        rows.append(money(f"{steps:,} steps from, USD", "chipHoursForEpoch"))
    if any(total["batch"] for total in totals):
        rows.append(row("largest batch", batch))
    return rows


def _layouts(found: Mapping[str, Any], machine: Mapping[str, Any]) -> list[list[_Cell]]:
    """The step as written, and the best layouts with plain FSDP among them."""

    def row(name: str, each: Mapping[str, Any], numbers: str) -> list[_Cell]:
        memory = "-" if each["need"] is None else gib(each["need"] * _a_chip(machine))
        teraflop = "" if each.get("flops") is None else f"{each['flops'] / 1e12:.3g}"
        moved = f"{each['collectiveBytes'] / 1e6:.3g}" if each["fits"] else ""
        return [*_row(name), _Cell(memory, "" if each["fits"] else "no"), *_row(teraflop, moved, numbers)]

    rows = [_row("layout", "GiB per chip", "TFLOP", "collectives, MB", "on CPU devices")]
    if written := found["written"]:
        rows.append(row(f"as written, {written['devices']} of {machine['devices']} devices", written, ""))
    best = found["rows"][:MAX_LAYOUTS]
    for each in best + [other for other in found["rows"][MAX_LAYOUTS:] if other["name"] == "FSDP"]:
        difference, verdict = each["difference"], "equal" if each["equal"] else "differs"
        rows.append(
            row(each["name"], each, each["note"] if difference is None else f"{verdict}, {difference:.0e}")
        )
    return rows


def _head_line(report: Mapping[str, Any]) -> str:
    programs, machines = len(report["programs"]), len(report["machines"])
    count = report["cells"]
    cells = f"{count} cell{'s' * (count > 1)} on the CPU" if count else "ran on the CPU"
    return (
        f"{cells}, {report['runSeconds']:.0f} s. {programs} program{'s' * (programs != 1)} for {machines} "
        f"chip type{'s' * (machines != 1)}, {report['seconds']:.0f} s in all. JAX {report['jax']}, "
        f"libtpu {report['libtpu'] or 'unknown'}"
    )


def _end_line(report: Mapping[str, Any], code: int | None) -> str:
    levels = [each["level"] for each in report["findings"]]
    counts = ", ".join(
        f"{levels.count(level)} {level}{'s' * (levels.count(level) != 1)}"
        for level in ("error", "warning", "note")
        if level in levels
    )
    prices = f"Prices of {report['prices']['date']}, lower bounds: a real step takes longer."
    sent = "" if code is None else f"Exit code {code}: "
    return f"{prices} {sent}{counts or 'nothing found'}."


def text(report: Mapping[str, Any], code: int | None, colour: bool = False) -> str:
    def paint(words: str, kind: str) -> str:
        return f"\x1b[{_COLOURS[kind]}m{words}\x1b[0m" if colour and kind else words

    lines: list[str] = []
    for part in _parts(report):
        lines += [part.words, *([""] if part.table else [])]
        sizes = [max(len(_plain(cell)) for cell in column) for column in zip(*part.table, strict=True)]
        for first, *others in part.table:
            line = first.text.ljust(sizes[0])
            for cell, size in zip(others, sizes[1:], strict=True):
                shown = f"{cell.text} {paint(cell.kind, cell.kind)}".strip()
                line += " " * (3 + size - len(_plain(cell))) + shown
            lines.append(line.rstrip())
        lines += ["", *part.code, *([""] if part.code else [])]
    width = max([0, *(len(each["where"]) for each in report["findings"])])
    for finding in report["findings"]:
        level = paint(finding["level"].ljust(8), finding["level"])
        lines.append(f"{level} {finding['where'].ljust(width)}  {finding['message']}")
    return "\n".join([*lines, *([""] if report["findings"] else []), _end_line(report, code)])


def _plain(cell: _Cell) -> str:
    return f"{cell.text} {cell.kind}".strip()


def junit(report: Mapping[str, Any]) -> str:
    """A test for each program and chip, and one for each rule that was broken elsewhere."""
    suite = ElementTree.Element("testsuite", name=f"tpulab check {report['source']}")
    findings = [each for each in report["findings"] if each["level"] != "note"]
    for program in report["programs"]:
        for machine, result in program["results"].items():
            case = _case(suite, f"{name_of(program)} on {machine}", report, program["place"])
            case.set("time", str(result["compileSeconds"]))
            if result["fits"] in ("no", "refused"):
                refused = (
                    each["message"]
                    for each in findings
                    if each["machine"] == machine and each["rule"] in _OF_PROGRAMS
                )
                message = next((each for each in refused if each.startswith(program["name"])), "does not fit")
                ElementTree.SubElement(case, "failure", message=message)
    for each in findings:
        if each["rule"] not in _OF_PROGRAMS:
            case = _case(suite, f"{each['rule']} {each['where']}".strip(), report, each["place"])
            tag = "failure" if each["level"] == "error" else "system-out"
            child = ElementTree.SubElement(case, tag)
            if tag == "failure":
                child.set("message", each["message"])
            else:
                child.text = each["message"]
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall(".//failure"))))
    ElementTree.indent(suite)
    # A message may contain what XML has no form for, such as the colours of a terminal.
    written = ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", written) + "\n"


def _case(suite: Any, name: str, report: Mapping[str, Any], place: Mapping[str, Any] | None) -> Any:
    case = ElementTree.SubElement(suite, "testcase", classname=report["source"], name=name)
    case.set("file", _path(report, place))
    if place:
        case.set("line", str(place["line"]))
    return case


def sarif(report: Mapping[str, Any], source: Path) -> str:
    """The line of a cell is the line of the notebook's file, where a reader of SARIF expects it."""
    lines = _file_lines(source)
    results = []
    for each in report["findings"]:
        place = each["place"] or {"file": "", "line": 1, "cell": None}
        line, cell = place["line"], place.get("cell")
        words = f"{each['where']}: {each['message']}" if cell is not None else each["message"]
        location: dict[str, Any] = {
            "physicalLocation": {
                "artifactLocation": {"uri": quote(_path(report, place))},
                "region": {"startLine": lines.get((cell, line), 1) if cell is not None else line},
            }
        }
        if cell is not None:
            location["logicalLocations"] = [{"name": f"cell [{cell}], line {line}", "kind": "module"}]
        results.append(
            {
                "ruleId": each["rule"],
                "level": each["level"],
                "message": {"text": words},
                "locations": [location],
            }
        )
    rules = [{"id": name, "shortDescription": {"text": words}} for name, words in RULES.items()]
    driver = {"name": "tpulab check", "rules": rules}
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        },
        indent=1,
    )


def _path(report: Mapping[str, Any], place: Mapping[str, Any] | None) -> str:
    """Relative to the folder in which the check was started, as a code host expects it."""
    source, name = Path(report["file"]), place["file"] if place else ""
    file = source if name in ("", source.name) else source.parent / name
    return file.as_posix().lstrip("/") if file.is_absolute() else file.as_posix()


def _file_lines(file: Path) -> dict[tuple[int, int], int]:
    """Line in the file of a notebook, by cell and line."""
    if file.suffix != ".ipynb" or not file.is_file():
        return {}
    raw = file.read_text(encoding="utf-8")
    found, at, number = {}, 0, 0
    for cell in json.loads(raw).get("cells", ()):
        source = cell.get("source", "")
        whole = isinstance(source, str)
        parts: Sequence[str] = source.splitlines() if whole else source
        code = cell.get("cell_type") == "code"
        number += code
        for line, part in enumerate(parts, 1):
            # A source that is one text is one line of the file.
            at = max(at, *(raw.find(text, at) for text in _written(source if whole else part)))
            if code:
                found[number, line] = raw.count("\n", 0, at) + 1
    return found


def _written(text: str) -> tuple[str, str]:
    """In a form that JSON accepts."""
    return json.dumps(text), json.dumps(text, ensure_ascii=False)
