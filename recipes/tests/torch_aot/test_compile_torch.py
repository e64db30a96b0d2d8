"""Training steps of PyTorch compiled for TPUs that are not there.

`npm run test:aot` has the two environments: that of torch_tpu exports the step (TPULAB_TORCH_PYTHON), and
this one has the TPU compiler. Each step is compiled for each chip in a process of its own, which returns the
compiler's memory; what the same compiler has said of the same program is read from TPULAB_AOT_RESULTS.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TPU_SKIP_MDS_QUERY"] = "1"

import pytest

pytest.importorskip("libtpu", reason="`npm run test:aot` installs the TPU compiler")

from tpulab_recipes.compile_ahead.step_program import StepProgram
from tpulab_recipes.compile_ahead.tpu_compiler import TOPOLOGIES, CompiledFor, compile_program
from tpulab_recipes.runtime import DeviceRuntimeError

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


def compiled(recipe: str, place: Path, chip: str, *, shard: bool = False) -> CompiledFor:
    """What the compiler says of a step: now, or when it last saw the same program."""
    step = f"{recipe}, in slices" if shard else recipe
    program = hashlib.sha256(StepProgram.load(place).module).hexdigest()[:16]
    row = {"step": step, "program": program, "compiler": COMPILER, "chip": chip}
    for line in reversed(RESULTS.read_text().splitlines() if RESULTS.exists() else []):
        before = json.loads(line)
        if row.items() <= before.items() and not before["found"]["note"]:
            return CompiledFor(**before["found"])
    command = [sys.executable, "-m", "tpulab_recipes.compile_ahead.tpu_compiler", str(place)]
    try:
        done = subprocess.run(
            [*command, "--chips", chip, *(["--shard"] if shard else [])],
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
        )
        output = "" if done.returncode == 0 else f"status {done.returncode}\n{done.stderr}".strip()
    except subprocess.TimeoutExpired:
        output = f"not compiled within {LIMIT_S // 60} minutes"
    if output:
        lines = output.splitlines()
        errors = [line for line in lines if re.match(r"[\w.]+Error: ", line)] or lines
        found = CompiledFor(chip, 8, None, None, 0.0, errors[-1])
    else:
        found = CompiledFor(**json.loads(done.stdout))
    sys.stdout.write(f"\n{step}: {found}\n")
    with RESULTS.open("a") as results:
        results.write(json.dumps({**row, "found": vars(found)}) + "\n")
    return found


@pytest.mark.parametrize("chip", TOPOLOGIES)
@pytest.mark.parametrize("recipe", EXPORTS)
def test_a_torch_step_compiles_and_fits(exported: Callable[[str], Path], recipe: str, chip: str) -> None:
    found = compiled(recipe, exported(recipe), chip)
    assert found.note == ""
    assert found.memory_gib is not None
    assert bytes_of_state(exported(recipe)) / 2**30 < found.memory_gib < 16
    assert found.tflop is not None
    assert found.tflop > 0


def test_sliced_parameters_need_less_of_each_chip(exported: Callable[[str], Path]) -> None:
    place = exported("intents")
    whole, sliced = compiled("intents", place, "v5e"), compiled("intents", place, "v5e", shard=True)
    assert whole.memory_gib is not None
    assert sliced.memory_gib is not None
    # Seven eighths of parameters and moments are on the other chips; activations stay.
    assert sliced.memory_gib < whole.memory_gib - 0.5 * bytes_of_state(place) / 2**30


def test_rows_that_cannot_be_divided_are_refused(exported: Callable[[str], Path]) -> None:
    program = StepProgram.load(exported("intents"))
    odd = [
        type(value)((7, *value.shape[1:]), value.dtype, value.role) if value.role == "batch" else value
        for value in program.inputs
    ]
    with pytest.raises(DeviceRuntimeError, match="multiple of 8") as refused:
        compile_program(
            StepProgram(program.name, program.source, odd, program.outputs, program.module), "v5e"
        )
    assert refused.value.code == "bad_batch"


def bytes_of_state(place: Path) -> int:
    inputs = StepProgram.load(place).inputs
    return sum(4 * math.prod(value.shape) for value in inputs if value.role == "state")
