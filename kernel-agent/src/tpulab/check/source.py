"""Runs a notebook or a script on the CPU of this computer and records every program that it compiles.

    python -m tpulab.check.source NOTEBOOK_OR_SCRIPT FOLDER [--cells 1-4] [--limit 600] [-- ARGUMENTS]

Writes `run.json` and the modules into FOLDER. With `--serve` it then answers requests on
stdin, one JSON object per line: `{"number": 3, "rows": 128}` lowers a program again for another batch; the
others are those of `layouts.Answers`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from tpulab.check.capture import CELL_FILE, Place, Recorder, place_of
from tpulab.check.chips import PreflightError, first_line
from tpulab.check.exported import as_function, lower, read_step
from tpulab.check.layouts import Answers
from tpulab.check.overlay import Overlay
from tpulab.check.shapes import NAME, ShapesOnly

#: A cell with one of these tags is left out.
SKIP_TAGS = {"skip-check", "skip-execution"}
#: Jitted calls of a cell with this tag are not run.
SHAPES_TAG = "shapes-only"
#: The error of a cell with this tag is meant to happen.
RAISES_TAG = "raises-exception"
#: Cell magics that only surround Python code: the first line is removed, and the others keep their numbers.
_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
#: Commands that install or run something beside the notebook.
_SHELL_MAGICS = (
    "%%bash",
    "%%sh",
    "%%script",
    "%%html",
    "%%javascript",
    "%%js",
    "%%markdown",
    "%%latex",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """`number`: its position among the code cells, from 1."""

    number: int
    source: str
    may_raise: bool
    shapes_only: bool


def read_notebook(file: Path) -> list[Cell]:
    """The code cells that are not tagged to be left out."""
    try:
        notebook = json.loads(file.read_text(encoding="utf-8-sig"))
        if "worksheets" in notebook:
            raise ValueError("its format is 3: convert it by `jupyter nbconvert --to notebook`")
        metadata = notebook.get("metadata") or {}
        named = (metadata.get("kernelspec") or {}).get("language")
        language = named or (metadata.get("language_info") or {}).get("name") or "python"
        if str(language).lower() not in ("python", "ipython"):
            raise ValueError(f"its language is {language}: a check runs Python")
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return [
            Cell(number, "".join(cell["source"]), RAISES_TAG in tags, SHAPES_TAG in tags)
            for number, cell in enumerate(code, 1)
            if not SKIP_TAGS & (tags := set((cell.get("metadata") or {}).get("tags") or ()))
        ]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise PreflightError(
            "source_unusable", f"{file} cannot be read as a notebook: {_reason(error)}."
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; save it in UTF-8, as Jupyter does"
    if isinstance(error, json.JSONDecodeError):
        at = f"line {error.lineno}, column {error.colno}"
        empty = "it is empty; save the notebook first"
        return f"it is not JSON from {at} on; was it cut off or merged?" if error.doc.strip() else empty
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, ValueError) else "its JSON has no cells as in notebook format 4"


def chosen_cells(text: str | None) -> Callable[[int], bool]:
    """Parses `1-4,7`; without it every cell."""
    if not text:
        return lambda _: True
    chosen: list[range] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        try:
            chosen.append(range(int(first), int(last or first) + 1))
        except ValueError:
            raise PreflightError(
                "cells_unusable", f"--cells takes numbers as in 1-4,7, not {text!r}."
            ) from None
    return lambda number: any(number in part for part in chosen)


class Run:
    """One run of a source, whose programs are in `recorder`."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.file, self.folder = file.resolve(), folder.resolve()
        self._overlay = Overlay(self.folder / "overlay")
        self.recorder = Recorder()
        self.began = time.monotonic()
        self.cells = 0
        self.failed: dict[str, Any] | None = None
        #: the place of an error outside the user's lines, as of a cell that is not Python
        self._begin: Place | None = None
        self._written = threading.Lock()

    def write(self, stopped: bool = False) -> None:
        with self._written:
            programs = self.recorder.write(self.folder)
            facts = {
                "seconds": time.monotonic() - self.began,
                "cells": self.cells,
                "stopped": stopped,
                "failed": self.failed,
                "eager": self.recorder.eager,
                "dropped": self.recorder.dropped,
                "jax": getattr(sys.modules.get("jax"), "__version__", None),
                "torch": "torch" in sys.modules,
                "programs": [asdict(program) for program in programs],
            }
            beside = self.folder / "run.json.new"
            beside.write_text(json.dumps(facts, default=str), encoding="utf-8")
            beside.replace(self.folder / "run.json")

    def end_at_exit(self) -> None:
        """Writes the captured programs before `os._exit` ends the process."""
        leave, here = os._exit, os.getpid()

        def leave_after_writing(status: int) -> NoReturn:
            if os.getpid() == here and not (self.folder / "run.json").exists():
                if status and self.failed is None:
                    self.failed = {"error": "os._exit", "message": f"code {status}", "place": None}
                self.write()
                status = 0
            leave(status)

        os._exit = leave_after_writing

    def fail(self, error: BaseException) -> None:
        """The last line of the user's own code that ran."""
        place = None
        for frame in traceback.extract_tb(error.__traceback__):
            if CELL_FILE.search(frame.filename) or Path(frame.filename).resolve() == self.file:
                place = asdict(place_of(frame.filename, frame.lineno or 1))
        if isinstance(error, SyntaxError) and place is None and error.filename:
            place = asdict(place_of(error.filename, error.lineno or 1))
        if place is None and self._begin is not None:
            place = asdict(self._begin)
        name, words = type(error).__name__, first_line(error)
        message = "no message" if words == name else words[:300]
        self.failed = {"error": name, "message": message, "place": place}

    def script(self, arguments: Sequence[str]) -> None:
        self._overlay.enter(Path.cwd())
        file = self._overlay.of(self.file)
        sys.argv = [str(file), *arguments]
        sys.path.insert(0, str(file.parent))
        self._begin = place_of(str(self.file), 1)
        with self._watched():
            runpy.run_path(str(file), run_name="__main__")

    def exported(self) -> None:
        """A step that a recipe in PyTorch exported: nothing runs."""
        step = read_step(self.file)
        function = as_function(step, "tpu")
        self.recorder.named = True
        with self._watched():
            lower(step, function)

    def notebook(self, chosen: Callable[[int], bool]) -> None:
        every = read_notebook(self.file)
        cells = [cell for cell in every if chosen(cell.number)]
        if every and not cells:
            raise PreflightError(
                "cells_unusable", f"--cells names no code cell: the last one is {every[-1].number}."
            )
        self._overlay.enter(self.file.parent)
        sys.path.insert(0, "")
        shell = _shell()
        shapes = ShapesOnly(self.recorder)
        shell.user_ns_hidden[NAME] = shell.user_ns[NAME] = shapes.call
        for cell in cells:
            self.cells += 1
            self._begin = Place("", 1, cell.number)
            with self._watched():
                shell.compile.get_code_name = lambda *_, number=cell.number: f"<cell {number}>"
                shell.ast_transformers[:] = [shapes] if cell.shapes_only else []
                result = shell.run_cell(python_of(cell.source), store_history=False)
                if not cell.may_raise:
                    result.raise_error()
            if self.failed is not None:
                return

    @contextlib.contextmanager
    def _watched(self) -> Any:
        try:
            import jax

            with (
                mock.patch.object(jax.distributed, "initialize", return_value=None),
                Path(os.devnull).open("w", encoding="utf-8") as nowhere,
                self.recorder.recording(),
                contextlib.redirect_stdout(nowhere),
                contextlib.redirect_stderr(nowhere),
            ):
                yield
        except PreflightError:
            raise
        except SystemExit as error:
            if error.code not in (None, 0):
                self.fail(error)
        except BaseException as error:
            self.fail(error)


def python_of(source: str) -> str:
    """A cell without the parts that are not Python."""
    # Empty lines before a magic do not count.
    first, *rest = source.lstrip().split("\n")
    word = first.split()[0] if first.split() else ""
    if word in _SHELL_MAGICS:
        return ""
    if word in ("%%writefile", "%%file") and re.search(r"\s[/~$]", first):
        # Elsewhere it would change the user's file; below the working directory it is written beside it.
        return ""
    # IPython drops empty lines at the beginning, which shifts the numbers of the others.
    if word not in _CELL_MAGICS:
        return source
    return source.partition("%%")[0] + "\n".join(["pass", *rest])


def _shell() -> Any:
    """IPython as in a notebook, which shows nothing and starts no other program."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.ask_exit = lambda: None
    shell.system = lambda *_, **__: None
    shell.getoutput = lambda *_, **__: []
    shell.showtraceback = lambda *_, **__: None
    shell.showsyntaxerror = lambda *_, **__: None
    shell.display_formatter.active_types = []
    shell.displayhook.write_format_data = lambda *_, **__: None
    for name in (
        "pip",
        "conda",
        "mamba",
        "uv",
        "matplotlib",
        "load_ext",
        "autoreload",
        "tensorboard",
        "wandb",
    ):
        shell.register_magic_function(lambda *_: None, "line", name)
    # `%timeit` runs its statement once, without the options.
    once = re.compile(r"^(-[a-z]\s*\d*\s+)*")
    shell.register_magic_function(lambda line: shell.ex(once.sub("", line)), "line", "timeit")
    return shell


def split_arguments(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and the source's after `--`: after an option, argparse accepts no list there."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tpulab.check.source")
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells")
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--serve", action="store_true")
    own, arguments = split_arguments(argv)
    options = parser.parse_args(own)
    os.environ.setdefault("MPLBACKEND", "Agg")
    out, questions = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.fdopen(os.dup(0), encoding="utf-8")
    # Nobody answers `input()`, which fails at once.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path[:] = [place for place in sys.path if place]
    run = Run(options.source, options.folder)

    def stop() -> None:
        # The user's code may be in an uninterruptible computation.
        run.write(stopped=True)
        os._exit(0)

    alarm = threading.Timer(options.limit, stop)
    alarm.daemon = True
    alarm.start()
    run.end_at_exit()
    try:
        if options.source.suffix == ".ipynb":
            run.notebook(chosen_cells(options.cells))
        elif options.source.suffix == ".zip":
            run.exported()
        else:
            run.script(arguments)
    except PreflightError as error:
        (run.folder / "run.json").write_text(json.dumps({"error": error.code, "message": str(error)}))
        return 2
    alarm.cancel()
    run.write()
    if options.serve:
        serve(run, questions, out)
    # Threads of the user's code must not delay the end of the check.
    sys.stdout.flush()
    os._exit(0)


def serve(run: Run, questions: Any, out: Any) -> None:
    answers = Answers(run.recorder, run.folder)
    for line in questions:
        out.write(json.dumps(answers.answer(json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
