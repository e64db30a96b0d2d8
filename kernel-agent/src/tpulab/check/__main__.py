"""`python -m tpulab.check SOURCE --chips v5e-8,v6e-8`, which `tpulab check` starts."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tpulab.check import findings, report
from tpulab.check.checking import Request, check, exit_code
from tpulab.check.chips import OWN_PRICES, PreflightError, machines_named, read_prices
from tpulab.check.processes import end_children
from tpulab.check.source import split_arguments
from tpulab.compile.cache_folder import COMPILED_AHEAD

DEFAULT_CHIPS = "v5e-8,v6e-8"


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        # NaN is not; and no wait can be much longer.
        if not 0 < (value := kind(text)) < 1e9:
            raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1e9")
        return value

    return number


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="tpulab check",
        usage="tpulab check [OPTIONS] SOURCE [-- ARGUMENTS]",
        description="Says whether a notebook or script fits TPUs, how long it compiles, what a step costs at "
        "the least, and what to change. Runs it on this computer's CPU; no TPU is needed.",
        epilog="Exit code: 0 nothing is wrong, 1 an error (with --strict also a warning) was found, 2 no "
        "check could be made.",
    )
    made.add_argument(
        "source", type=Path, help="notebook (.ipynb), script (.py) or exported PyTorch step (.zip)"
    )
    made.add_argument("--chips", help=f"machine types, with commas (default: {DEFAULT_CHIPS})")
    made.add_argument("--cells", help="only these cells of a notebook, as in 1-4,7")
    made.add_argument(
        "--limit", type=_positive(float), default=600, help="seconds for the run on the CPU (default: 600)"
    )
    made.add_argument("--python", default=sys.executable, help="Python that runs the source")
    made.add_argument(
        "--largest-batch", action="store_true", help="compile larger batches until one fits no more"
    )
    made.add_argument(
        "--propose",
        action="store_true",
        help="compile the main step in other layouts, and show the best ones",
    )
    made.add_argument(
        "--save-compiled",
        nargs="?",
        const="",
        metavar="FILE",
        help="save the compiled programs; kernels on such a machine load them (default: "
        f"{COMPILED_AHEAD}/SOURCE.compiled beside the source)",
    )
    made.add_argument("--epoch-steps", type=_positive(int), help="steps of an epoch, for its price")
    made.add_argument("--prices", type=Path, help=f"price list (default: {OWN_PRICES}, else TPULab's own)")
    made.add_argument("--config", type=Path, help="tpulab.toml with budgets (default: the nearest one)")
    made.add_argument("--compare", type=Path, help="report of an earlier run (--json) to compare with")
    made.add_argument("--strict", action="store_true", help="warnings make the exit code 1 too")
    made.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="the report as JSON, into a file or alone"
    )
    made.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    made.add_argument("--sarif", type=Path, metavar="FILE", help="write SARIF")
    return made


def main(argv: Sequence[str]) -> int:
    # Interrupted by its caller or a closed terminal, it ends its own processes too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    if os.environ.get("TPULAB_END_WITH_PARENT") == "1":
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    own, arguments = split_arguments(argv)
    options = parser().parse_args(own)
    try:
        return _run(options, arguments)
    except PreflightError as error:
        if options.json == "-":
            sys.stdout.write(json.dumps({"error": {"code": error.code, "message": str(error)}}) + "\n")
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        end_children()


def _end_with_parent(parent: int) -> None:
    """Ends the check when the server that started it was killed: nobody would read the report."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    budget = findings.read_budget(options.source.parent, options.config)
    machines = machines_named(options.chips or budget.chips or DEFAULT_CHIPS)
    prices = read_prices(options.prices or (Path(budget.prices) if budget.prices else None))
    before = _former(options.compare)
    request = Request(
        options.source,
        machines,
        options.cells,
        arguments,
        options.limit,
        options.python,
        options.largest_batch,
        options.epoch_steps,
        options.propose,
        _compiled_file(options.source, options.save_compiled),
    )
    found = check(request, prices, budget, _progress)
    if before is not None:
        worse = findings.worse_than(found, before)
        found["findings"] += findings.as_rows(findings.allowed(list(worse), budget))
    code = exit_code(found, options.strict)
    if options.junit:
        _write(options.junit, report.junit(found))
    if options.sarif:
        _write(options.sarif, report.sarif(found, options.source))
    if options.json and options.json != "-":
        _write(Path(options.json), json.dumps(found, indent=1) + "\n")
    colour = (sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")
    words = json.dumps(found) if options.json == "-" else report.text(found, code, colour)
    sys.stdout.write(words + "\n")
    return code


def _compiled_file(source: Path, named: str | None) -> Path | None:
    if named == "":
        return source.parent / COMPILED_AHEAD / f"{source.stem}.compiled"
    return None if named is None else Path(named)


def _progress(words: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{words}\r")
    else:
        sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def _former(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["format"] != 1:
            raise KeyError("format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PreflightError(
            "report_unusable",
            f"{file} is no report of `tpulab check --json` ({type(error).__name__}: {error}).",
        ) from error
    return dict(found)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PreflightError("not_written", f"{file} cannot be written: {error.strerror}.") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
