"""Findings of a check: problems of captured programs, with the cell and line where to fix them."""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from tpulab.check.chips import GIB, TIGHT, Machine, PreflightError
from tpulab.check.compiler import UNREADABLE

Level = Literal["error", "warning", "note"]
#: Smaller savings are not worth a line of code.
SMALL_BYTES = 16 * 2**10
UNEXPECTED_BYTES = 64 * 2**10
#: The least memory that padding wastes, as a share and in bytes, to be reported.
WASTE, WASTE_BYTES = 1.5, 32 * 2**20

#: Every rule, with its name in SARIF and the documentation.
RULES = {
    "does-not-fit": "A program needs more memory than a chip has",
    "tight": "A program leaves less than 8% of the memory",
    "not-compiled": "The compiler for the chip refuses a program",
    "source-failed": "The notebook or script ended with an error before its end",
    "stopped": "The run on the CPU was ended at its time limit",
    "no-programs": "Nothing was compiled",
    "recompiles": "One function is compiled more than once at one line",
    "weak-type": "A Python number causes a second compilation",
    "not-donated": "Old and new state are in memory together",
    "unexpected-collective": "Chips exchange values that no sharded parameter needs",
    "host-callback": "A step calls the host",
    "float64": "Numbers of 64 bits, which TPUs compute slowly",
    "padding": "Tiles of the chip waste much memory",
    "unreadable": "The compiler does not hand out what it compiled",
    "budget": "A limit of tpulab.toml is exceeded",
    "changed": "Worse than in the report that it is compared with",
}


@dataclass(slots=True)
class Finding:
    rule: str
    level: Level
    message: str
    #: {"file", "line", "cell"}
    place: Mapping[str, Any] | None = None
    machine: str | None = None

    @property
    def where(self) -> str:
        return words_of(self.place)


def words_of(place: Mapping[str, Any] | None) -> str:
    if place is None:
        return ""
    cell = place.get("cell")
    return f"cell [{cell}]:{place['line']}" if cell is not None else f"{place['file']}:{place['line']}"


@dataclass(slots=True)
class Budget:
    """`[check]` in tpulab.toml. None: no limit."""

    chips: str | None = None
    programs: int | None = None
    hbm_gib: float | None = None
    collectives_gb: float | None = None
    step_ms: float | None = None
    epoch_steps: int | None = None
    prices: str | None = None
    #: rules that are reported as notes
    allow: Sequence[str] = ()


def read_budget(near: Path, file: Path | None = None) -> Budget:
    """From the named file, else from the nearest tpulab.toml at or above a folder."""
    folder = near.resolve()
    found = file or next(
        (at / "tpulab.toml" for at in (folder, *folder.parents) if (at / "tpulab.toml").is_file()), None
    )
    if found is None:
        return Budget()
    try:
        table = tomllib.loads(found.read_text(encoding="utf-8")).get("check", {})
        if not isinstance(table, dict):
            raise TypeError("[check] is no table")
    except (OSError, ValueError, TypeError) as error:
        raise PreflightError("budget_unusable", f"{found} cannot be read: {error}.") from error
    known = {each.name: each for each in fields(Budget)}
    for name, value in table.items():
        if name not in known:
            raise PreflightError(
                "budget_unusable", f"{found} has {name!r} in [check]; known are {', '.join(known)}."
            )
        kinds: tuple[type, ...] = (int, float)
        words = "a number"
        if name == "allow":
            kinds, words = (list,), "a list of rules"
        elif name in ("chips", "prices"):
            kinds, words = (str,), "text"
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if (
            not right
            or (name == "allow" and not all(rule in list(RULES) for rule in value))
            or (words == "a number" and not 0 <= value < math.inf)
        ):
            raise PreflightError("budget_unusable", f"{found} needs {words} for {name} in [check].")
    if isinstance(table.get("prices"), str):
        table["prices"] = str(found.parent / Path(table["prices"]).expanduser())
    return Budget(**table)


def in_run(run: Mapping[str, Any], devices: int) -> Iterator[Finding]:
    """Findings of a run on the CPU, before anything is compiled for a chip."""
    if failed := run.get("failed"):
        remedy = (
            " Run it in an environment that has the package: --env NAME or --python PATH."
            if failed["error"] in ("ModuleNotFoundError", "ImportError")
            else ""
        )
        yield Finding(
            "source-failed",
            "error",
            f"{failed['error']} with {devices} CPU device{'s' * (devices > 1)}: "
            f"{failed['message'].rstrip('.')}. Programs after it are not checked.{remedy}",
            failed.get("place"),
        )
    if run.get("stopped"):
        yield Finding(
            "stopped",
            "warning",
            f"The run was ended after {run['seconds']:.0f} s; programs after that are not checked. Use "
            "smaller settings, --cells, or a higher --limit.",
        )
    if run.get("dropped"):
        yield Finding("recompiles", "warning", f"{run['dropped']} more programs were not checked.")
    if not run["programs"] and not run.get("failed"):
        words = (
            "It uses PyTorch, whose steps are exported first: tpulab check step.zip (docs/check.md#pytorch)."
            if run.get("torch")
            else "A check looks at functions under jax.jit; here is none that was called or lowered."
        )
        yield Finding("no-programs", "error", words)
    for program in run["programs"]:
        yield from _of_program(program)
    yield from _recompilations(run["programs"])


def _of_program(program: Mapping[str, Any]) -> Iterator[Finding]:
    name, place = program["name"], program["place"]
    arguments = program["arguments"]
    for callback in program["callbacks"]:
        line = callback["place"] or place
        words = {
            "debug_callback": "jax.debug.callback or jax.debug.print",
            "debug_print": "jax.debug.print",
            "pure_callback": "jax.pure_callback",
            "io_callback": "io_callback",
        }[callback["kind"]]
        yield Finding("host-callback", "warning", f"{name} calls the host in each step: {words}", line)
    wide = [each for each in arguments if each["dtype"] in ("float64", "complex128")]
    if program["x64"] or wide:
        line = program["x64"][0] if program["x64"] and not wide else program["called"]
        what = f"; its argument {wide[0]['name']} has them" if wide else ""
        yield Finding(
            "float64",
            "warning",
            f"{name} computes with 64 bits, which a TPU emulates{what}: use float32",
            line,
        )
    lost = [
        arguments[number]
        for number in program["carried"]
        if number < len(arguments)
        and not arguments[number]["donated"]
        and _has_result_like(arguments[number], program["outputs"])
    ]
    size = sum(each["bytes"] for each in lost)
    if size >= SMALL_BYTES:
        roots = list(dict.fromkeys(_root(each["name"]) for each in lost))
        yield Finding(
            "not-donated",
            "warning",
            f"{name} does not donate {' and '.join(roots[:3])}: old and new are in memory together, "
            f"{_size(size)} over all chips; "
            + (
                "its library may have an option for it"
                if program["of_library"]
                else f"add donate_argnames={(roots[0] if len(roots) == 1 else roots[:9])!r}"
            ),
            place,
        )


def _has_result_like(argument: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]]) -> bool:
    return any(each["shape"] == argument["shape"] and each["dtype"] == argument["dtype"] for each in outputs)


def _root(name: str) -> str:
    """`state` of `state['params'][0]`."""
    return name.replace("[", ".").split(".")[0]


def _recompilations(programs: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """A function that is compiled again at one line: a loop compiles while it runs."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for program in programs:
        if program["calls"]:
            groups[f"{program['name']} {program['place']} {program['called']}"].append(program)
    for same in groups.values():
        if len(same) < 2:
            continue
        first, others = same[0], same[1:]
        reasons = list(dict.fromkeys(_difference(first, other) for other in others))
        rule = "weak-type" if all("weak" in reason for reason in reasons) else "recompiles"
        more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        yield Finding(
            rule,
            "warning",
            f"{first['name']} compiles {'twice' if len(same) == 2 else f'{len(same)} times'}: "
            f"{reasons[0]}{more}",
            first["called"],
        )


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    before, after = one["arguments"], other["arguments"]
    if [each["name"] for each in before] != [each["name"] for each in after]:
        return "its arguments have another structure"
    for left, right in zip(before, after, strict=True):
        name = left["name"]
        if left["shape"] != right["shape"]:
            same_rest = left["shape"][1:] == right["shape"][1:]
            if same_rest and len(left["shape"]) == len(right["shape"]):
                sizes = sorted((left["shape"][0], right["shape"][0]))
                return f"ragged batch, {sizes[0]} of {sizes[1]} rows in {name}; drop or pad it"
            return f"{name} is {_array(left)}, then {_array(right)}"
        if left["dtype"] != right["dtype"]:
            return f"{name} is {left['dtype']}, then {right['dtype']}"
        if left["weak"] != right["weak"]:
            return (
                f"{name} is weakly typed once, as a Python number makes it; make it jnp.{left['dtype']}(…) "
                "before the loop"
            )
    for left, right in zip(before, after, strict=True):
        if left["sharding"] != right["sharding"]:
            words = [each["sharding"] or "not placed" for each in (left, right)]
            return f"{left['name']} is {words[0]}, then {words[1]}"
    return "a static argument, a closure or a setting of jax is another one"


def _array(argument: Mapping[str, Any]) -> str:
    return f"{argument['dtype']}[{','.join(map(str, argument['shape']))}]"


def in_program(program: Mapping[str, Any], result: Mapping[str, Any], machine: Machine) -> Iterator[Finding]:
    """Findings of a program as compiled for a machine."""
    name, place = program["name"], program["place"]
    chip = machine.kind.devices_a_chip
    if result["fits"] == "refused":
        yield Finding(
            "not-compiled", "error", f"{name} on {machine.name}: {result['note']}", place, machine.name
        )
    elif result["note"].startswith(UNREADABLE):
        yield Finding("unreadable", "note", f"{name} on {machine.name}: {UNREADABLE}", place, machine.name)
    if result["fits"] == "no":
        largest = result["buffers"][0] if result["buffers"] else None
        hint = f"; largest: {largest['words']}, {_size(largest['bytes'])}" if largest else ""
        if largest and largest["place"]:
            hint += f", {words_of(largest['place'])}"
        yield Finding(
            "does-not-fit",
            "error",
            f"{name} does not fit {machine.name}: {result['need'] * chip / GIB:.1f} of "
            f"{machine.usable_bytes * chip / GIB:.2f} GiB per chip{hint}",
            place,
            machine.name,
        )
    if result["fits"] == "tight":
        free = (machine.usable_bytes - result["need"]) * chip / GIB
        yield Finding(
            "tight",
            "warning",
            f"{name} is tight on {machine.name}: {free:.2f} GiB free per chip",
            place,
            machine.name,
        )
    for collective in result["collectives"]:
        if collective["unexpected"]:
            yield Finding(
                "unexpected-collective",
                "warning",
                f"{name} has {_article(collective['kind'])} of {_size(collective['bytes'])} a step that no "
                "sharded parameter needs: give the value a sharding, or keep its axis together",
                collective["place"] or place,
            )
    padded, plain = result["paddedBytes"], result["plainBytes"]
    if padded > WASTE * plain and padded - plain > WASTE_BYTES:
        yield Finding(
            "padding",
            "warning",
            f"{name} keeps {_size(plain)} of arguments and results as {_size(padded)}: the chip rounds the "
            f"last two dimensions up to its tiles, most in {result['worstPadding']}",
            place,
        )


def is_unexpected(collective: Mapping[str, Any], program: Mapping[str, Any]) -> bool:
    """Whether sharded parameters do not explain it, and the user's own code does not request it by name."""
    if collective["kind"] not in ("all-gather", "all-to-all", "collective-permute", "ragged-all-to-all"):
        return False
    if collective["bytes"] < UNEXPECTED_BYTES or collective["explicit"]:
        return False
    # Where the state is sharded, the compiler chooses which arrays to gather: only more bytes than the whole
    # state are unexpected.
    state = sum(
        each["bytes"]
        for number, each in enumerate(program["arguments"])
        if each["sharding"].startswith("(") and (each["donated"] or number in program["carried"])
    )
    return bool(collective["bytes"] > 3 * state)


def over_budget(report: Mapping[str, Any], budget: Budget) -> Iterator[Finding]:
    """For the whole report. The place is the program that is the main cause."""
    programs = report["programs"]
    if budget.programs is not None and len(programs) > budget.programs:
        yield Finding(
            "budget", "error", f"{len(programs)} programs, budget {budget.programs}", programs[-1]["called"]
        )
    for machine in report["machines"]:
        name = machine["name"]
        chip = machine["devices"] / machine["chips"]
        for program in programs:
            result = program["results"].get(name)
            if result is None:
                continue
            moved = sum(each["bytes"] for each in result["collectives"]) / 1e9
            step = None if result["stepSeconds"] is None else result["stepSeconds"] * 1e3
            measured: list[tuple[str, float | None, float | None, str]] = [
                ("memory", (result["need"] or 0) * chip / GIB, budget.hbm_gib, "GiB per chip"),
                ("collectives", moved, budget.collectives_gb, "GB a step"),
                ("step at least", step, budget.step_ms, "ms"),
            ]
            for what, value, limit, unit in measured:
                if limit is not None and value is not None and value > limit:
                    words = f"{program['name']} on {name}: {what} {value:.2f} {unit}, budget {limit:g}"
                    yield Finding("budget", "error", words, program["place"], name)


def worse_than(report: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Finding]:
    """Compared with a former report of the same source: memory, collectives, lower bounds, programs."""
    former = {(each["name"], each["variant"]): each for each in before.get("programs", ())}
    for program in report["programs"]:
        old = former.get((program["name"], program["variant"]))
        if old is None:
            yield Finding("changed", "warning", f"{program['name']} is a new program", program["called"])
            continue
        for name, result in program["results"].items():
            was = old["results"].get(name)
            if was is None or not result["need"] or not was["need"]:
                continue
            kinds = {c["kind"] for c in (*result["collectives"], *was["collectives"])}
            for kind in sorted(kinds):
                now, then = (
                    sum(c["bytes"] for c in one["collectives"] if c["kind"] == kind) for one in (result, was)
                )
                if now > then * 1.01 + 1024:
                    place = next((c["place"] for c in result["collectives"] if c["kind"] == kind), None)
                    words = (
                        f"{program['name']} added {_article(kind)} of {_size(now - then)} a step on {name}"
                    )
                    yield Finding("changed", "warning", words, place or program["place"], name)
            if result["need"] > was["need"] * 1.03:
                words = (
                    f"{program['name']} on {name}: {was['need'] / GIB:.2f} -> {result['need'] / GIB:.2f} GiB"
                )
                yield Finding("changed", "warning", words, program["place"], name)
            now, then = result["stepSeconds"], was["stepSeconds"]
            if now and then and now > then * 1.03:
                words = f"{program['name']} on {name}: step at least {then * 1e3:.2f} -> {now * 1e3:.2f} ms"
                yield Finding("changed", "warning", words, program["place"], name)


def allowed(findings: Sequence[Finding], budget: Budget) -> list[Finding]:
    """Each finding once, allowed ones as notes, errors first."""
    kept: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        if finding.rule in budget.allow:
            finding.level = "note"
        same = finding.machine if finding.rule not in ("unexpected-collective", "padding") else ""
        words = finding.message if same != "" else finding.where
        kept.setdefault((finding.rule, finding.where, words), finding)
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(kept.values(), key=lambda each: order[each.level])


def as_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [asdict(each) | {"where": each.where} for each in findings]


def fits(compiles: bool | None, need: int | None, machine: Machine) -> str:
    if compiles is None:
        return "refused"
    if not compiles:
        return "no"
    return "tight" if (need or 0) > TIGHT * machine.usable_bytes else "fits"


def _article(kind: str) -> str:
    return f"{'an' if kind.startswith('a') else 'a'} {kind}"


def _size(number: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} bytes"
