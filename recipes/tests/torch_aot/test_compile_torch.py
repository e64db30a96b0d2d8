"""Training steps of PyTorch compiled for TPUs that are not attached.

`npm run test:aot` has the two environments: that of torch_tpu exports the step (TPULAB_TORCH_PYTHON), and
this one has the TPU compiler. Each step is compiled for each chip in a separate process, which returns the
compiler's memory; earlier results of the same compiler and program are read from TPULAB_AOT_RESULTS.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TPU_SKIP_MDS_QUERY"] = "1"

import pytest

pytest.importorskip("libtpu", reason="`npm run test:aot` installs the TPU compiler")

from tpulab_recipes.compile_ahead.tpu_compiler import MACHINES

from tpulab.check.exported import read_step

SOURCES = Path(__file__).resolve().parents[2] / "src"
PYTHON = os.environ.get("TPULAB_TORCH_PYTHON", "")
RESULTS = Path(os.environ.get("TPULAB_AOT_RESULTS", os.devnull))
COMPILER = f"jax {importlib.metadata.version('jax')}, libtpu {importlib.metadata.version('libtpu')}"
#: For one step and chip.
LIMIT_S = 2400
pytestmark = pytest.mark.skipif(not PYTHON, reason="`npm run test:aot` has a Python with torch_tpu")
BERT = ("--layers", "4", "--hidden", "512", "--heads", "8", "--batch-size", "64", "--precision", "bfloat16")


WHERE = ("--backend", "torch_tpu")
EXPORTS = {
    "resnet_profiling": ("-m", "tpulab_recipes.resnet_profiling", *WHERE, "--batch-size", "64", "--export"),
    "fashion_mnist": ("-m", "tpulab_recipes.fashion_mnist", *WHERE, "--batch-size", "64", "--export"),
    "intents": ("-m", "tpulab_recipes.intents", *WHERE, *BERT, "--export"),
    "dia": (str(Path(__file__).with_name("export_dia.py")),),
    "english_tts": (str(Path(__file__).with_name("export_english_tts.py")),),
    "gpt_sovits": (str(Path(__file__).with_name("export_gpt_sovits.py")),),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a recipe's step, exported when a test first asks for it."""
    folder = tmp_path_factory.mktemp("programs")

    @cache
    def export(recipe: str) -> Path:
        place = folder / f"{recipe}.zip"
        subprocess.run(
            [PYTHON, *EXPORTS[recipe], str(place)],
            check=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
        )
        return place

    return export


def compiled(recipe: str, place: Path, chip: str, *, shard: bool = False) -> dict[str, Any]:
    """The result of `tpulab check` for a step: now, or when this compiler last saw the same program."""
    step = f"{recipe}, in slices" if shard else recipe
    program = hashlib.sha256(read_step(place).module).hexdigest()[:16]
    row = {"step": step, "program": program, "compiler": COMPILER, "chip": chip}
    for line in reversed(RESULTS.read_text().splitlines() if RESULTS.exists() else []):
        before = json.loads(line)
        if row.items() <= before.items() and before["found"].get("need"):
            found: dict[str, Any] = before["found"]
            return found
    command = [sys.executable, "-m", "tpulab.check", str(place), f"--chips={MACHINES[chip]}", "--json"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        report = json.loads(done.stdout)
        results = [each["results"][MACHINES[chip]] for each in report.get("programs", ())]
        found = results[int(shard)] if results else {"note": str(report.get("error", report.get("findings")))}
    except subprocess.TimeoutExpired:
        found = {"note": f"not compiled within {LIMIT_S // 60} minutes"}
    found = {name: found.get(name) for name in ("need", "fits", "compileSeconds", "note")}
    sys.stdout.write(f"\n{step} for {chip}: {found}\n")
    with RESULTS.open("a") as results_file:
        results_file.write(json.dumps({**row, "found": found}) + "\n")
    return found


@pytest.mark.parametrize("chip", MACHINES)
@pytest.mark.parametrize("recipe", EXPORTS)
def test_a_torch_step_compiles_and_fits(exported: Callable[[str], Path], recipe: str, chip: str) -> None:
    found = compiled(recipe, exported(recipe), chip)
    assert found["fits"] == "fits", found["note"]
    assert bytes_of_state(exported(recipe)) < found["need"]


def test_sliced_parameters_need_less_of_each_chip(exported: Callable[[str], Path]) -> None:
    place = exported("intents")
    whole, sliced = compiled("intents", place, "v5e"), compiled("intents", place, "v5e", shard=True)
    # Seven eighths of parameters and moments are on the other chips; activations stay.
    assert sliced["need"] < whole["need"] - 0.5 * bytes_of_state(place)


def test_full_fine_tuning_of_dia_compiles_in_slices(exported: Callable[[str], Path]) -> None:
    """Not for less memory: in the small model gathered parameters and divided activations need more than the
    parameters."""
    found = compiled("dia", exported("dia"), "v5e", shard=True)
    assert found["fits"] == "fits", found["note"]


def bytes_of_state(place: Path) -> int:
    inputs = read_step(place).inputs
    return sum(4 * math.prod(value.shape) for value in inputs if value.role == "state")
