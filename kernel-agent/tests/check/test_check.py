"""The check of a notebook, with a program that replaces the compiler for TPUs and answers with figures.

`npm run test:aot` uses the real one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from check import notebooks
from tpulab.check import checking as check
from tpulab.check import chips, findings, hlo, processes, propose, report
from tpulab.check.__main__ import main, parser
from tpulab.check.compiler import Compiler, StoredAnswer, module_bytes
from tpulab.check.layouts import Layout
from tpulab.check.source import read_notebook

DOUBLE = Path(__file__).with_name("compiler_double.py")


def _run(cells: list[str], folder: Path, *words: str) -> dict:
    file = notebooks.write(cells, folder / "n.ipynb")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, "-m", "tpulab.check.source", str(file), str(folder), *words]
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, timeout=300)
    found: dict = json.loads((folder / "run.json").read_text())
    return found


def test_planted_faults_are_named_with_cell_and_line(tmp_path: Path) -> None:
    run = _run(notebooks.FAULTS, tmp_path)
    assert run["failed"] is None
    found = {(each.rule, each.where): each.message for each in findings.in_run(run, 8)}
    assert set(found) == notebooks.PLANTED
    assert "40 of 64 rows in x" in found["recompiles", "cell [3]:6"]
    assert "donate_argnames='state'" in found["not-donated", "cell [4]:2"]
    assert "number is weakly typed" in found["weak-type", "cell [5]:6"]


def test_clean_notebooks_are_left_alone(tmp_path: Path) -> None:
    run = _run(notebooks.CLEAN, tmp_path)
    assert run["failed"] is None
    assert len(run["programs"]) >= 20
    assert list(findings.in_run(run, 8)) == []


def test_an_early_end_of_a_run_is_reported_and_the_rest_is_checked(tmp_path: Path) -> None:
    run = _run([notebooks.IMPORTS, "jax.jit(jnp.sin)(1.0)\nimport not_installed"], tmp_path, "--cells", "1-2")
    (found,) = [each for each in findings.in_run(run, 8) if each.level == "error"]
    assert (found.rule, found.where) == ("source-failed", "cell [2]:2")
    assert "--env" in found.message
    assert [each["name"] for each in run["programs"]] == ["sin"]


def test_cells_are_left_out_and_may_raise_by_their_tags(tmp_path: Path) -> None:
    """As notebooks of JAX's documentation show errors."""
    cells = [notebooks.IMPORTS, "jnp.ones(3)[0] = 1", "import not_installed", "jax.jit(jnp.sin)(1.0)"]
    file = notebooks.write(cells, tmp_path / "n.ipynb", {1: "raises-exception", 2: "skip-execution"})
    assert [(cell.number, cell.may_raise) for cell in read_notebook(file)] == [
        (1, False),
        (2, True),
        (4, False),
    ]
    run = _lowered(file, tmp_path)
    assert (run["failed"], [each["name"] for each in run["programs"]]) == (None, ["sin"])


def test_a_statement_is_timed_once(tmp_path: Path) -> None:
    cells = [
        notebooks.IMPORTS,
        "f = jax.jit(lambda x: jnp.sin(x) * 2)\n%timeit -n 100 -r7 f(1.0).block_until_ready()",
    ]
    run = _run(cells, tmp_path)
    (program,) = run["programs"]
    assert (run["failed"], program["calls"]) == (None, 1)
    assert (program["called"]["cell"], program["called"]["line"]) == (2, 2)


TRAINER = """
import jax, jax.numpy as jnp

@jax.jit
def scale(x):
    return x * 2

class Trainer:
    '''As in Keras: the library has the loop, and jits the step.'''
    def fit(self, loss, weights, batches):
        def train_step(weights, x):
            slopes = jax.grad(lambda w: loss(w, scale(x)))(weights)
            return jax.tree.map(lambda w, g: w - 0.1 * g, weights, slopes)
        step = jax.jit(train_step)
        for x in batches:
            weights = step(weights, scale(x))
        return weights
"""


def test_steps_that_a_library_has_jitted_and_loops_outside_jit_are_programs(tmp_path: Path) -> None:
    """As of Keras, Equinox and NumPyro; smaller functions of a library are operations, as those of jax."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "trainer.py").write_text(TRAINER)
    cells = [
        notebooks.IMPORTS,
        f"import sys; sys.path.insert(0, {str(library)!r})\nimport trainer\n"
        "def loss(weights, x):\n"
        "    for weight in weights:\n        x = jnp.tanh(x @ weight)\n"
        "    return (x**2).mean()\n"
        "weights, x = [jnp.ones((256, 256))] * 4, jnp.ones((8, 256))\n"
        "weights = trainer.Trainer().fit(loss, weights, [x] * 3)",
        "def body(w, x):\n    return jax.tree.map(lambda a, g: a - g, w, jax.grad(loss)(w, x)), None\n"
        "jax.lax.scan(body, weights, jnp.ones((2, 8, 256)))",
    ]
    run = _run(cells, tmp_path)
    assert [(each["name"], each["place"]["cell"], each["place"]["line"]) for each in run["programs"]] == [
        ("train_step", 2, 8),
        ("scan", 3, 3),
    ]
    (lost,) = [each for each in findings.in_run(run, 8) if each.rule == "not-donated"]
    assert lost.message.endswith("; its library may have an option for it")


def test_a_kernel_of_a_tpu_is_interpreted_on_the_cpu_and_compiled_for_the_chip(tmp_path: Path) -> None:
    run = _run([notebooks.IMPORTS, notebooks.KERNEL], tmp_path)
    assert (run["failed"]["error"], run["failed"]["message"]) == ("StopIteration", "no message")
    (program,) = run["programs"]
    assert program["refused"] is None
    assert b"tpu_custom_call" in (tmp_path / f"{program['number']}.mlirbc").read_bytes()


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("name = input('Name? ')", "EOFError"),
        ("import getpass\ngetpass.getpass()", "EOFError"),
        ("def f(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("from . import other", "ImportError"),
        ("quit()", None),
        ("import os; os._exit(3)", "os._exit"),
        ("class Odd(BaseException):\n    def __str__(self): return 1 / 0\nraise Odd", "Odd"),
        ("import os\nif os.fork() == 0: os._exit(3)\nos.wait()", None),
        ("import sys\nsys.stdout.close()\nsys.stderr = None", None),
        ("\n%%bash\ntouch ran", None),
        ("for _ in range(100_000):\n    print('words' * 100)", None),
    ],
)
def test_odd_cells_end_with_their_error_or_not_at_all(cell: str, error: str | None, tmp_path: Path) -> None:
    run = _run([notebooks.IMPORTS, cell, "jax.jit(jnp.sin)(1.0)"], tmp_path, "--limit", "100")
    assert (run["failed"] or {}).get("error") == error
    assert [each["name"] for each in run["programs"]] == ([] if error else ["sin"])
    assert not run["stopped"]
    assert not (tmp_path / "ran").exists()
    assert "<cell" not in str(run["failed"])


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        ({"worksheets": [], "metadata": {}, "nbformat": 3}, "format is 3"),
        ({"cells": [], "metadata": {"kernelspec": {"language": "julia"}}}, "language is julia"),
        ({"cells": [{"cell_type": "code", "source": None}]}, "cannot be read"),
        ([1, 2], "cannot be read"),
    ],
)
def test_a_notebook_that_cannot_be_checked_gets_a_one_sentence_error(
    notebook: object, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "n.ipynb"
    file.write_text(json.dumps(notebook))
    with pytest.raises(chips.PreflightError, match=words):
        read_notebook(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"cells": []}'.encode("utf-16"), "it is not UTF-8 text; save it in UTF-8"),
        (b" \n", "it is empty; save the notebook first"),
        (b'{"cells": [', "it is not JSON from line 1, column 12 on"),
        (b'<<<<<<< HEAD\n{"cells": []}', "it is not JSON from line 1, column 1 on"),
        (b"null", "no cells as in notebook format 4"),
        (b'{"cells": NaN}', "no cells as in notebook format 4"),
        (b'{"cells":' + b"[" * 100_000, "no cells as in notebook format 4"),
    ],
)
def test_a_file_that_is_no_notebook_gets_its_reason_in_words(
    content: bytes, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "n.ipynb"
    file.write_bytes(content)
    with pytest.raises(chips.PreflightError, match=words) as refused:
        read_notebook(file)
    assert "Error" not in str(refused.value)


def test_a_notebook_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "n.ipynb"
    file.write_bytes(json.dumps({"cells": [{"cell_type": "code", "source": "x"}]}).encode("utf-8-sig"))
    assert [cell.source for cell in read_notebook(file)] == ["x"]


def test_an_error_before_the_first_line_of_a_cell_names_the_cell(tmp_path: Path) -> None:
    failed = _run([notebooks.IMPORTS, "x = '\0'"], tmp_path)["failed"]
    assert (failed["error"], failed["place"]["cell"]) == ("SyntaxError", 2)


@pytest.mark.parametrize("cells", ["9", "5-2", "3-99999999999"])
def test_cells_that_the_notebook_does_not_have_are_an_error(cells: str, tmp_path: Path) -> None:
    file = notebooks.write(["x = 1", "y = 2"], tmp_path / "n.ipynb")
    command = [sys.executable, "-m", "tpulab.check.source", str(file), str(tmp_path), "--cells", cells]
    assert subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=60).returncode == 2
    error = json.loads((tmp_path / "run.json").read_text())
    message = "--cells names no code cell: the last one is 2."
    assert error == {"error": "cells_unusable", "message": message}


@pytest.mark.parametrize(
    "words", ["--limit=0", "--limit=nan", "--limit=inf", "--limit=x", "--epoch-steps=-4"]
)
def test_a_limit_or_number_of_steps_must_be_positive(words: str) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["n.ipynb", words])


def test_missing_metadata_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "n.ipynb"
    cells = [{"cell_type": "code", "source": "x", "metadata": each} for each in (None, {"tags": None}, {})]
    file.write_text(json.dumps({"cells": cells, "metadata": None}))
    assert [cell.number for cell in read_notebook(file)] == [1, 2, 3]


def test_a_run_ends_at_its_time_limit_with_the_captured_programs(tmp_path: Path) -> None:
    endless = "import threading\njax.jit(jnp.cos)(1.0)\nthreading.Event().wait()"
    run = _run([notebooks.IMPORTS, endless], tmp_path, "--limit", "1")
    assert run["stopped"]
    assert "stopped" in {each.rule for each in findings.in_run(run, 8)}


def test_a_check_ends_with_all_its_processes_after_its_server_was_killed(tmp_path: Path) -> None:
    """Only if the server asks for it: in a terminal, a check outlives the shell that started it."""
    script = tmp_path / "endless.py"
    script.write_text(
        f"import os, time\nopen({str(tmp_path / 'source')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    check = [sys.executable, "-m", "tpulab.check", str(script), "--chips", "v5e-8", "--json"]
    server = (
        "import subprocess, time\n"
        f"check = subprocess.Popen({check!r}, start_new_session=True, stderr=subprocess.DEVNULL)\n"
        f"open({str(tmp_path / 'check')!r}, 'w').write(str(check.pid))\n"
        "time.sleep(600)"
    )
    environment = {**os.environ, "TPULAB_AOT_PYTHON": sys.executable, "TPULAB_END_WITH_PARENT": "1"}
    with subprocess.Popen([sys.executable, "-c", server], env=environment) as parent:
        _until(lambda: (tmp_path / "source").exists() and (tmp_path / "source").read_text() != "")
        parent.kill()
    pids = [int((tmp_path / name).read_text()) for name in ("check", "source")]
    _until(lambda: not any(_runs(pid) for pid in pids))


def test_a_closed_terminal_ends_a_check_with_its_processes_and_files(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    script, started = tmp_path / "endless.py", tmp_path / "started"
    script.write_text(
        f"import os, time\nopen({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    command = [sys.executable, "-m", "tpulab.check", str(script), "--chips", "v5e-8"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as check:
        _until(lambda: started.exists() and started.read_text() != "")
        check.send_signal(signal.SIGHUP)
        assert check.wait(timeout=60) == 130
    assert not _runs(int(started.read_text()))
    assert list((tmp_path / "temporary").iterdir()) == []


def _runs(pid: int) -> bool:
    """Not a process that has ended and that its parent has not waited for."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _exported(file: Path, rows: int = 64) -> Path:
    """A step in the form that a recipe in PyTorch exports, with an index of 64 bits."""
    import jax
    import jax.numpy as jnp
    from jaxlib.mlir.dialects import stablehlo

    def step(weights: jax.Array, x: jax.Array, index: jax.Array) -> tuple:
        grad = jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(weights)
        return (x @ weights).mean(), weights - 0.1 * grad, index + 1

    with jax.enable_x64(True):
        shapes = (((256, 256), "float32"), ((rows, 256), "float32"), ((), "int64"))
        lowered = jax.jit(step).lower(*(jax.ShapeDtypeStruct(*each) for each in shapes))
        module = lowered.compiler_ir("stablehlo")
        with module.context:
            artifact = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
    arrays = [
        {"shape": shape, "dtype": dtype, "role": role}
        for (shape, dtype), role in zip(shapes, ("state", "batch", "state"), strict=True)
    ]
    loss = {"shape": [], "dtype": "float32", "role": "other"}
    about = {"format": 1, "name": "train", "source": "torch", "inputs": arrays}
    about["outputs"] = [loss, arrays[0], arrays[2]]
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("program.json", json.dumps(about))
        archive.writestr("step.mlirbc", artifact)
    return file


READS_AND_WRITES = """import os, shutil, sqlite3
from pathlib import Path
import numpy as np
import jax, jax.numpy as jnp
import tpulab
from helper import LENGTH
assert Path("data/deep/words.txt").read_text() == "words" and Path("../beside.txt").read_text() == "words"
assert sorted(file.name for file in Path().rglob("*.txt")) == ["result.txt", "words.txt"]
assert [each[0] for each in os.walk("..") if "words.txt" in each[2]] == ["../lessons/data/deep"]
Path("result.txt").write_text("new")
with open("data/deep/words.txt", "a") as file:
    file.write(" and more")
assert Path("data/deep/words.txt").read_text() == "words and more"
with open(b"../beside.txt", "r+") as file:
    file.write("W")
np.save("result", np.ones(3))
Path("made/deep").mkdir(parents=True)
os.rename("data/deep/words.txt", "data/moved.txt")
os.remove("helper.py")
os.chmod("result.txt", 0o600)
sqlite3.connect("data/table.db").execute("create table t (x)")
shutil.rmtree("data")
assert not Path("data").exists()
for step in tpulab.run("run", log="logs").steps(range(2)):
    jax.jit(jnp.sin)(jnp.ones(LENGTH))
"""


def _contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in files
        if ".pyc" not in file.name
    }


@pytest.mark.parametrize("kind", ["notebook", "script"])
def test_a_check_changes_nothing_in_the_folder(kind: str, tmp_path: Path) -> None:
    project, out = tmp_path / "project" / "lessons", tmp_path / "out"
    (project / "data" / "deep").mkdir(parents=True)
    out.mkdir()
    for name in ("data/deep/words.txt", "../beside.txt", "result.txt"):
        (project / name).write_text("words")
    (project / "helper.py").write_text("LENGTH = 3\n")
    (project / "data" / "deep" / "above").symlink_to(project.parent)
    file = project / "n.py"
    if kind == "notebook":
        file = notebooks.write([READS_AND_WRITES], project / "n.ipynb")
    else:
        # Beside itself, too.
        file.write_text(READS_AND_WRITES + "Path(__file__).with_name('result.txt').write_text('other')\n")
    before = _contents(project.parent)
    run = _lowered(file, out, project)
    assert run["failed"] is None
    assert [each["name"] for each in run["programs"]] == ["sin"]
    assert _contents(project.parent) == before
    assert sorted(path.name for path in project.rglob("*")) == sorted(
        Path(name).name for name in (*before, "data", "deep", "above") if not name.startswith("beside")
    )


def _lowered(file: Path, folder: Path, working: Path | None = None) -> dict:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, "-m", "tpulab.check.source", str(file), str(folder)]
    options = {"env": environment, "cwd": working, "stdin": subprocess.DEVNULL, "timeout": 300}
    subprocess.run(command, check=False, **options)
    found: dict = json.loads((folder / "run.json").read_text())
    return found


def test_an_exported_step_of_pytorch_is_checked_whole_and_in_slices(tmp_path: Path) -> None:
    run = _lowered(_exported(tmp_path / "step.zip"), tmp_path)
    assert run["failed"] is None
    whole, sliced = run["programs"]
    assert (whole["name"], sliced["name"]) == ("train", "train_in_slices")
    assert [each["devices"] for each in (whole, sliced)] == [8, 8]
    assert [each["donated"] for each in whole["arguments"]] == [True, False, True]
    assert [each["dtype"] for each in whole["arguments"]] == ["float32", "float32", "int64"]
    weights, rows = whole["arguments"][:2]
    assert (weights["sharding"], rows["sharding"][:6]) == ("replicated", "(data)")
    assert sliced["arguments"][0]["sharding"].startswith("(data)")
    assert list(findings.in_run(run, 8)) == []


def test_a_step_that_cannot_be_divided_and_an_invalid_file_are_refused(tmp_path: Path) -> None:
    odd = _lowered(_exported(tmp_path / "odd.zip", rows=7), tmp_path)
    assert (odd["error"], "multiple of 8" in odd["message"]) == ("bad_batch", True)
    (tmp_path / "other.zip").write_text("no archive")
    assert _lowered(tmp_path / "other.zip", tmp_path)["error"] == "source_unusable"


def test_an_answer_is_stored_for_one_program_machine_and_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPULAB_COMPILATION_CACHE", str(tmp_path))
    v5e, v6e = chips.machines_named("v5e-8, v6e-8")
    accepted = {"number": 3, "compiles": True, "seconds": 41.5}
    StoredAnswer(b"module", v5e).write(accepted)
    assert StoredAnswer(b"module", v5e).read() == accepted
    others = [StoredAnswer(b"module2", v5e), StoredAnswer(b"module", v6e)]
    options = {
        "LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=1",
        "XLA_FLAGS": "--xla_dump_hlo_as_text",
        "JAX_OPTIMIZATION_LEVEL": "O1",
        "JAX_MEMORY_FITTING_LEVEL": "O3",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    for name, value in options.items():
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            others.append(StoredAnswer(b"module", v5e))
    assert [each.read() for each in others] == [None] * 7
    # A refusal for another reason than memory may be accepted the next time.
    others[0].write(accepted | {"compiles": None})
    assert others[0].read() is None
    (stored,) = (tmp_path / "check").iterdir()
    stored.write_text("{")
    assert StoredAnswer(b"module", v5e).read() is None
    monkeypatch.setenv("TPULAB_COMPILATION_CACHE", "off")
    StoredAnswer(b"module", v5e).write(accepted)
    assert StoredAnswer(b"module", v5e).read() is None


def test_a_program_is_compiled_with_the_options_that_jax_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored answer's key has them as a part of the module."""
    import jax
    from jax._src import compiler as jax_compiler

    class Cpu(Compiler):
        devices = property(lambda _: jax.devices())  # type: ignore[assignment]

    built = []
    get_options = jax_compiler.get_compile_options
    monkeypatch.setattr(
        jax_compiler,
        "get_compile_options",
        lambda *args, **named: built.append(get_options(*args, **named)) or built[-1],
    )

    def module(**options: object) -> bytes:
        return module_bytes(jax.jit(lambda x: x + 1, compiler_options=options or None).trace(1.0).lower())

    plain = module()
    with jax._src.config.optimization_level("O1"), jax._src.config.memory_fitting_level("O3"):
        changed = module()
    refused = module(xla_there_is_no_such_option=True)
    assert len({plain, changed, refused}) == 3
    cpu = Cpu(chips.machine_named("v5e-8"))
    assert (cpu.compile(0, plain).compiles, cpu.compile(1, changed).compiles) == (True, True)
    levels = [each.executable_build_options for each in built]
    assert [(each.optimization_level, each.memory_fitting_level) for each in levels] == [(0, 29), (19, 39)]
    assert "xla_there_is_no_such_option" in cpu.compile(2, refused).note


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python-of-aot"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{DOUBLE}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(processes, "compiler_python", lambda: str(program))


SCRIPT = """import functools, sys
import jax, jax.numpy as jnp
@functools.partial(jax.jit, donate_argnames="state")
def train(state, x):
    return state - x.sum(), x.mean()
state = jnp.ones((64, 64))
for _ in range(2):
    state, mean = train(state, jnp.ones((int(sys.argv[1]), 128)))
"""


@pytest.mark.usefixtures("double")
def test_a_script_is_checked_for_each_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "train.py"
    source.write_text(SCRIPT)
    files = {name: tmp_path / name for name in ("junit.xml", "found.sarif", "report.json")}
    (tmp_path / "tpulab.toml").write_text(
        '[check]\nchips = "v5e-8, v6e-8, v3-8"\nallow = ["unexpected-collective"]\n'
    )
    words = [f"--junit={files['junit.xml']}", f"--sarif={files['found.sarif']}"]
    code = main([str(source), "--largest-batch", f"--json={files['report.json']}", *words, "--", "1024"])
    out = capsys.readouterr().out
    assert code == 1
    assert "train does not fit v5e-8" in out
    assert "train.py:3" in out
    found = json.loads(files["report.json"].read_text())
    results = found["programs"][0]["results"]
    assert (results["v5e-8"]["fits"], results["v6e-8"]["fits"]) == ("no", "fits")
    # 40 x (16 KiB + rows x 512 bytes): 16 MiB hold 787 rows, and 1 GiB 52,396.
    assert found["totals"]["v5e-8"]["batch"] == {"fits": 768, "next": 832, "note": ""}
    assert found["totals"]["v6e-8"]["batch"] == {"fits": 49152, "next": 53248, "note": ""}
    # For the same batches as v6e-8, for which jax lowers nothing a second time.
    assert found["totals"]["v3-8"]["batch"] == {"fits": 24576, "next": 26624, "note": ""}
    total = found["totals"]["v6e-8"]
    assert total["chipHoursFor1000Steps"] == pytest.approx(1000 * 8 * total["stepSeconds"] / 3600)
    suite = ElementTree.parse(files["junit.xml"]).getroot()
    assert [each.get("name") for each in suite if each.find("failure") is not None] == ["train on v5e-8"]
    (result,) = [
        each
        for each in json.loads(files["found.sarif"].read_text())["runs"][0]["results"]
        if each["level"] == "error"
    ]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}

    # The same report is no worse than itself; a smaller one before it makes it worse.
    before = json.loads(files["report.json"].read_text())
    assert list(findings.worse_than(found, before)) == []
    for each in before["programs"][0]["results"]["v6e-8"]["collectives"]:
        each["bytes"] = 0
    assert "added an all-gather" in next(findings.worse_than(found, before)).message


@pytest.mark.usefixtures("double")
def test_processes_that_a_script_started_end_with_the_check(tmp_path: Path) -> None:
    source = tmp_path / "-starts.py"
    sleeps = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    source.write_text(
        SCRIPT + "import multiprocessing, subprocess, time\n"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,))\n"
        "child.start()\n"
        f"other = subprocess.Popen({sleeps}, start_new_session=True)\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{child.pid}} {{other.pid}}')\n"
    )
    assert main([str(source), "--chips", "v6e-8", "--", "64"]) == 0
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    _until(lambda: not any(_runs(pid) for pid in pids))
    assert len(pids) == 2


def test_a_name_with_a_leading_dash_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-n.ipynb").write_text("")
    assert main(["./-n.ipynb"]) == 2
    assert "it is empty" in capsys.readouterr().err


def test_a_python_that_cannot_start_and_a_full_disk_get_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "ends.py"
    source.write_text("import os\nos.abort()")
    assert main([str(source), "--python", str(tmp_path / "missing")]) == 2
    assert "missing cannot be started: No such file or directory." in capsys.readouterr().err
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
    assert main([str(source)]) == 2
    assert "is full; set TMPDIR to a folder on another one." in capsys.readouterr().err


NETWORK = """import functools, sys
import jax, jax.numpy as jnp
def loss(params, x):
    return ((jnp.tanh(x @ params["up"]) @ params["down"]) ** 2).mean()
@functools.partial(jax.jit, donate_argnames=("params", "moments"))
def train(params, moments, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    jax.debug.print("loss {}", value)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g * g, moments, grads)
    update = lambda p, g, m: p - 0.1 * g / jnp.sqrt(m)
    return jax.tree.map(update, params, grads, moments), moments, value
params = {"up": jnp.ones((64, 256)), "down": jnp.ones((256, 64))}
moments = jax.tree.map(jnp.ones_like, params)
for _ in range(2):
    params, moments, value = train(params, moments, jnp.ones((64, 64)))
"""


@pytest.mark.usefixtures("double")
def test_a_program_that_ends_the_compiler_is_named_and_the_others_are_compiled(tmp_path: Path) -> None:
    program = Path(processes.compiler_python())
    program.write_text(program.read_text().replace('"$@"', '"$@" --ends'))
    source = tmp_path / "train.py"
    source.write_text(
        "import jax, jax.numpy as jnp\n"
        + "\n".join(f"jax.jit(lambda a: jnp.sin(a) + {n})(jnp.ones(8))" for n in range(3))
    )
    found = check.check(
        check.Request(source, chips.machines_named("v6e-8")), chips.read_prices(), findings.Budget()
    )
    assert [each["results"]["v6e-8"]["fits"] for each in found["programs"]] == ["fits", "refused", "fits"]
    (ended,) = found["findings"]
    assert (ended["rule"], ended["where"]) == ("not-compiled", "train.py:3")
    assert "a fault of the compiler" in ended["message"]


@pytest.mark.long
@pytest.mark.usefixtures("double")
def test_other_layouts_of_a_step_give_the_same_numbers_and_have_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Second moments are positive, and a callback is left out."""
    source = tmp_path / "train.py"
    source.write_text(NETWORK)
    file = tmp_path / "report.json"
    main([str(source), "--chips=v6e-8", "--propose", f"--json={file}"])
    words = capsys.readouterr().out
    found = json.loads(file.read_text())["totals"]["v6e-8"]["proposals"]
    assert found["written"]["devices"] == 1
    assert len(found["rows"]) == found["compiled"] <= propose.MAX_COMPILED
    meshes = {(each["mesh"]["data"], each["mesh"]["model"]) for each in found["rows"]}
    assert meshes == {(8, 1), (4, 2), (2, 4), (1, 8)}
    proven = [each for each in found["rows"] if each["equal"] is not None]
    assert len(proven) >= propose.MAX_PROVEN
    assert "FSDP" in {each["name"] for each in proven}
    assert all(each["equal"] and each["difference"] < 1e-5 for each in proven)
    for line in found["code"]:
        assert line in words
    # The pasted code places the arrays, and the step computes the same loss.
    lines = NETWORK.splitlines()
    show = ["params, moments, value = train(params, moments, x)", "print(float(value), x.sharding)"]
    losses = []
    for code in ([], found["code"]):
        program = "\n".join([*lines[:-2], "x = jnp.ones((64, 64))", *code, *show])
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}
        command = [sys.executable, "-c", program]
        shown = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=300
        ).stdout.splitlines()[-1]
        losses.append(float(shown.split()[0]))
        assert ("NamedSharding" in shown) == bool(code)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.usefixtures("double")
@pytest.mark.long
def test_a_step_that_cannot_be_divided_has_a_sentence_instead_of_layouts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "train.py"
    source.write_text(NETWORK.replace("x @ params", "jnp.reshape(x, (64, 64)) @ params"))
    main([str(source), "--chips=v6e-8", "--propose"])
    assert "on CPU devices" in capsys.readouterr().out
    source.write_text(NETWORK.replace("jnp.ones((64, 64))", "jnp.ones((3, 64))"))
    main([str(source), "--chips=v6e-8", "--propose"])
    assert "tensor parallel, 8" in capsys.readouterr().out


def _answer(arguments: float, flops: float, moved: float) -> dict:
    gathered = {"bytes": moved}
    sizes = {"arguments": arguments, "outputs": 0, "temporaries": 0, "code": 0, "aliased": 0}
    return {"compiles": True, "flops": flops, "collectives": [gathered], **sizes}


def test_a_search_finds_the_place_that_the_compiler_prefers_and_keeps_plain_fsdp() -> None:
    """A compiler that likes `up` by columns and `down` by rows on four devices, as a tensor-parallel MLP."""
    groups = [{"name": "up[64,256]", "shape": [64, 256], "bytes": 2**20}]
    groups.append({"name": "down[256,64]", "shape": [256, 64], "bytes": 2**20})
    (machine,) = chips.machines_named("v5e-8")
    wanted = {"up[64,256]": (None, "model"), "down[256,64]": ("model", None)}

    def compile_one(layout: Layout) -> dict:
        wrong = sum(dict(layout.places).get(name) != place for name, place in wanted.items())
        return _answer(2**20, 1e9, 1e6 * (1 + wrong) * (1 if layout.mesh == (2, 4) else 9))

    facts = {"rows": 64, "groups": groups, "state": ["params"], "batch": ["x"], "donated": []}
    search = propose.Search(machine, facts, 8e9, compile_one, 60)
    search.run()
    best = search.ranked()[0].layout
    assert (best.mesh, dict(best.places)) == ((2, 4), wanted)
    assert "FSDP" in {each.name for each in search.tried.values()}
    assert len(search.tried) <= propose.MAX_COMPILED
    mesh, placed, rows = propose.code(facts, best)
    assert "make_mesh((2, 4), ('data', 'model')" in mesh
    assert "(64, 256): jax.P(None, 'model')" in placed
    assert rows == 'x = jax.device_put(x, jax.NamedSharding(mesh, jax.P("data")))'


def test_where_nothing_fits_the_batch_is_halved_until_something_does() -> None:
    (machine,) = chips.machines_named("v5e-8")
    groups = [{"name": "w[1024,1024]", "shape": [1024, 1024], "bytes": 2**22}]

    def compile_one(layout: Layout) -> dict:
        size = 2**30 * layout.rows / (2 if layout.remat else 1)
        answer = _answer(size, 1e9, 0)
        return answer if size < machine.usable_bytes else {"compiles": False, "peak": size}

    facts = {"rows": 128, "groups": groups, "state": ["w"], "batch": ["x"], "donated": [], "half": False}
    search = propose.Search(machine, facts, 8e9, compile_one, 60)
    search.run()
    main = {"name": "train", "flops": 8e9, "devices": 1}
    found = propose.result(search, main, None, lambda layouts: [{"difference": 0.0}] * (len(layouts) - 1))
    best = found["rows"][0]
    assert (best["batch"], best["remat"], best["fits"]) == (16, True, True)
    assert "sum the gradients of 8 parts" in found["reason"]
    assert "jax.checkpoint" in found["code"][-1]
    # Numbers that are not equal are not proposed.
    other = propose.result(search, main, None, lambda layouts: [{"difference": 0.1}] * (len(layouts) - 1))
    assert (other["code"], other["rows"][0]["equal"]) == ([], False)
    too_large = propose.Search(machine, facts, 8e9, lambda _: {"compiles": False, "peak": 2**50}, 60)
    too_large.run()
    nothing = propose.result(too_large, main, None, lambda _: [])
    assert (nothing["code"], nothing["reason"][:17]) == ([], "Nothing that was ")


LARGE = [
    """import functools, jax, jax.numpy as jnp
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
rows = jax.NamedSharding(mesh, jax.P("data"))
x = jnp.ones((64, 163840))""",
    """@functools.partial(jax.jit, out_shardings=rows)
def create(key):
    return jax.random.normal(key, (163840, 163840))
@functools.partial(jax.jit, donate_argnames="w")
def train(w, x):
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w), x.sum()
w = create(jax.random.key(0))
for _ in range(3):
    w, mean = train(w, x)""",
    "assert isinstance(w, jax.ShapeDtypeStruct) and w.sharding.spec == jax.P('data'), w",
]


def test_a_step_of_100_gb_is_traced_in_a_cell_for_shapes_only(tmp_path: Path) -> None:
    file = notebooks.write(LARGE, tmp_path / "n.ipynb", {1: "shapes-only"})
    run = _lowered(file, tmp_path)
    assert run["failed"] is None
    create, train = run["programs"]
    assert (create["name"], train["name"], train["called"]["line"]) == ("create", "train", 9)
    assert (create["devices"], train["devices"]) == (8, 8)
    weight = train["arguments"][0]
    assert weight["bytes"] == 4 * 163840**2 > 100e9
    assert (weight["sharding"], weight["donated"]) == ("(data) on {'data': 8}", True)
    assert (train["calls"], train["carried"]) == (3, [0])


def test_a_value_is_not_read_from_a_shape(tmp_path: Path) -> None:
    cells = [notebooks.IMPORTS, "total = jax.jit(lambda x: x.sum())(jnp.ones(8))\nfloat(total)"]
    file = notebooks.write(cells, tmp_path / "n.ipynb", {1: "shapes-only"})
    run = _lowered(file, tmp_path)
    assert run["failed"]["place"] == {"file": "", "line": 2, "cell": 2}
    assert "ShapeDtypeStruct" in run["failed"]["message"]


ODD = [
    "%%writefile helper.py\nimport jax\nstep = jax.jit(lambda x: x * 2)",
    "%%writefile OUTSIDE/other.py\nx = 1",
    "import helper, jax, jax.numpy as jnp\njax.distributed.initialize('10.0.0.1:1234', 4, 1)",
    "helper.step(jnp.ones(8))",
]


def test_a_written_module_is_imported_and_no_other_process_is_awaited(tmp_path: Path) -> None:
    folder, outside = tmp_path / "work", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    file = notebooks.write([cell.replace("OUTSIDE", str(outside)) for cell in ODD], folder / "n.ipynb")
    run = _lowered(file, tmp_path)
    assert (run["failed"], [each["name"] for each in run["programs"]]) == (None, ["lambda"])
    assert ([each.name for each in folder.iterdir()], list(outside.iterdir())) == (["n.ipynb"], [])


def test_a_notebook_in_another_language_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.ipynb"
    file.write_text(json.dumps({"cells": [], "metadata": {"language_info": {"name": "R"}}}))
    with pytest.raises(chips.PreflightError, match="language is R"):
        read_notebook(file)


@pytest.mark.parametrize("words", ["check = 3", '[check]\nallow = [["tight"]]', "[check]\nhbm_gib = nan"])
def test_a_budget_of_the_wrong_type_gets_a_one_sentence_error(words: str, tmp_path: Path) -> None:
    (tmp_path / "tpulab.toml").write_text(words)
    with pytest.raises(chips.PreflightError) as refused:
        findings.read_budget(tmp_path)
    assert refused.value.code == "budget_unusable"


def test_junit_stays_xml_whatever_an_error_says() -> None:
    finding = {"rule": "source-failed", "level": "error", "where": "", "message": "a \x1b[31m\x00\ufffe <b>"}
    found = {"source": "n.py", "file": "n.py", "programs": [], "findings": [finding | {"place": None}]}
    (failure,) = ElementTree.fromstring(report.junit(found)).iter("failure")
    assert failure.get("message") == "a [31m <b>"


@pytest.mark.usefixtures("double")
def test_lines_of_a_cell_are_found_in_the_file(tmp_path: Path) -> None:
    cells = [notebooks.IMPORTS, "# <b>é\nstep = jax.jit(lambda w: (w @ w).sum())\nstep(jnp.ones((512, 512)))"]
    file = notebooks.write(cells, tmp_path / "<n>.ipynb")
    request = check.Request(file, chips.machines_named("v5e-8"))
    found = check.check(request, chips.read_prices(), findings.Budget(hbm_gib=0.001, programs=0))
    assert {each["rule"] for each in found["findings"]} >= {"budget", "does-not-fit", "unexpected-collective"}
    results = json.loads(report.sarif(found, Path(found["file"])))["runs"][0]["results"]
    lines = {each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in results}
    text = file.read_text().splitlines()
    assert all("lambda" in text[line - 1] for line in lines)


@pytest.mark.parametrize(
    ("text", "topology", "devices"),
    [
        ("v5e-8", "v5e:2x4", 8),
        ("v5litepod-16", "v5e:4x4", 16),
        ("v4-8", "v4:2x2x1", 4),
        ("v5p-8", "v5p:2x2x1", 4),
        ("V6E-1", "v6e:1x1", 1),
        ("7x-8", "tpu7x:2x2x1", 8),
        ("tpu7x", "tpu7x:2x2x1", 8),
        ("v3", "v3:2x2", 8),
    ],
)
def test_machine_types_have_their_topologies(text: str, topology: str, devices: int) -> None:
    machine = chips.machine_named(text)
    assert (machine.topology, machine.devices) == (topology, devices)


@pytest.mark.parametrize("text", ["v9-8", "v5e-7", "v5p-3", "", "8", "v5e-8-8"])
def test_unknown_machine_types_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(chips.PreflightError, match=r"v5e|v5p") as raised:
        chips.machines_named(text)
    assert raised.value.code == "chip_unknown"


def test_the_command_line_has_every_option_of_the_check() -> None:
    command = Path(__file__).parents[3] / "kernel-bridge" / "src" / "cli" / "check-command.ts"
    listed = set(re.findall(r"'(--[a-z-]+)[ ']", command.read_text()))
    options = {
        flag for action in parser()._actions for flag in action.option_strings if flag.startswith("--")
    }
    assert options - {"--help"} <= listed


def test_the_chips_equal_the_table_of_the_bridge() -> None:
    table = (Path(__file__).parents[3] / "machines/src/chips/chip-data.ts").read_text()
    for kind in chips.KINDS.values():
        entry = table.split(f"name: '{kind.name}'")[1].split("name: '")[0]
        assert f"usableGiBPerDevice: {kind.usable_gib:g}" in entry
        assert f"hbmGBPerS: {kind.hbm_gb_s * kind.devices_a_chip:g}" in entry
        assert f"iciGBPerS: {'null' if kind.ici_gb_s is None else f'{kind.ici_gb_s:g}'}" in entry
        assert f"devices: {kind.devices_a_chip}" in entry
        assert kind.device_kind in entry


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[check]\nhmb_gib = 3", "hmb_gib"),
        ("[check]\nhbm_gib = '3'", "a number for hbm_gib"),
        ("[check]\nallow = ['nothing']", "a list of rules"),
        ("[check", "cannot be read"),
    ],
)
def test_budgets_are_read_strictly(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "tpulab.toml").write_text(text)
    with pytest.raises(chips.PreflightError, match=words):
        findings.read_budget(tmp_path)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["missing.ipynb"], "There is no file"),
        (["words.txt"], "neither a notebook"),
        (["words.py", "--chips", "v5e-8,gpu"], "no known chip"),
        (["words.py", "--prices", "words.txt"], "price list"),
        (["words.py", "--compare", "words.txt"], "no report"),
        (["broken.ipynb"], "cannot be read as a notebook"),
    ],
)
def test_a_source_that_cannot_be_checked_gets_one_sentence(
    argv: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("words.txt", "words.py", "broken.ipynb"):
        (tmp_path / name).write_text("words = 1")
    assert main(argv) == 2
    sent = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in sent


@pytest.mark.parametrize(
    ("limit", "rows", "unit", "found"),
    [
        (1000, 64, 8, {"fits": 960, "next": 1024}),
        (100, 64, 8, {"fits": 96, "next": 104}),
        (20, 64, 8, {"fits": 16, "next": 24}),
        (3, 64, 8, {"fits": 0, "next": 8}),
        (0, 64, 1, {"fits": 0, "next": 1}),
        (7, 1, 1, {"fits": 7, "next": 8}),
    ],
)
def test_the_largest_batch_is_one_that_compiles_and_the_next_does_not(
    limit: int, rows: int, unit: int, found: dict
) -> None:
    requested: list[int] = []

    def fits(batch: int) -> bool:
        requested.append(batch)
        return batch <= limit

    assert check.search_batch(rows, unit, fits) == found
    assert found["fits"] in (*requested, 0)
    assert found["next"] in requested


def test_collectives_and_buffers_of_a_module_have_their_lines() -> None:
    facts = hlo.read(Path(__file__).with_name("module.txt").read_text())
    gather, once, reduced = facts.collectives
    assert (once.bytes, once.count) == (64 * 4, 1)
    assert (gather.kind, gather.bytes, gather.count) == ("all-gather", 5 * 64 * 128 * 4, 5)
    assert gather.frames == [("/home/me/site-packages/flax/linen.py", 99), ("/home/me/train.py", 12)]
    assert (reduced.kind, reduced.bytes) == ("all-reduce", 16)
    # The tile is 128 wide; arrays in VMEM are not counted, nor values that a fusion never writes.
    assert (facts.buffers[0].words, facts.buffers[0].bytes) == ("bf16[1024,1000]", 1024 * 1024 * 2)
    assert (facts.plain_bytes, facts.padded_bytes) == (8 * 100 * 4 + 4, 8 * 128 * 4 + 512)
