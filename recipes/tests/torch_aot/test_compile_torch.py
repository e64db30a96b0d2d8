"""Training steps of PyTorch compiled for TPUs that are not there.

`npm run test:aot` has the two environments: that of torch_tpu exports the step (TPULAB_TORCH_PYTHON), and
this one has the TPU compiler.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
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
RECIPES = ("fashion_mnist", "intents", "dia", "english_tts", "gpt_sovits")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], StepProgram]:
    """The step of a recipe, exported when a test first asks for it."""
    folder = tmp_path_factory.mktemp("programs")

    @cache
    def export(recipe: str) -> StepProgram:
        place = folder / f"{recipe}.zip"
        subprocess.run(
            [PYTHON, *EXPORTS[recipe], str(place)],
            check=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
        )
        return StepProgram.load(place)

    return export


def show(recipe: str, found: CompiledFor) -> None:
    """On the terminal, and where `npm run test:aot` reads it."""
    sys.stdout.write(f"\n{recipe}: {found}\n")
    if place := os.environ.get("TPULAB_AOT_RESULTS"):
        with open(place, "a") as results:
            results.write(json.dumps({"recipe": recipe, **dataclasses.asdict(found)}) + "\n")


# Convolutions take the compiler a minute or two for each chip: one chip shows that they work.
@pytest.mark.parametrize(
    ("recipe", "chip"),
    [
        ("resnet_profiling", "v5e"),
        *((recipe, chip) for recipe in RECIPES for chip in sorted(TOPOLOGIES)),
    ],
)
def test_a_torch_step_compiles_and_fits(
    exported: Callable[[str], StepProgram], recipe: str, chip: str
) -> None:
    program = exported(recipe)
    found = compile_program(program, chip)
    show(recipe, found)
    assert found.note == ""
    assert found.memory_gib is not None
    assert bytes_of_state(program) / 2**30 < found.memory_gib < 16
    assert found.tflop is not None
    assert found.tflop > 0


def test_sliced_parameters_need_less_of_each_chip(exported: Callable[[str], StepProgram]) -> None:
    whole = compile_program(exported("intents"), "v5e")
    sliced = compile_program(exported("intents"), "v5e", shard=True)
    show("intents, in slices", sliced)
    assert whole.memory_gib is not None
    assert sliced.memory_gib is not None
    # Seven eighths of parameters and moments are on the other chips; activations stay.
    assert sliced.memory_gib < whole.memory_gib - 0.5 * bytes_of_state(exported("intents")) / 2**30


def test_rows_that_cannot_be_divided_are_refused(exported: Callable[[str], StepProgram]) -> None:
    program = exported("intents")
    odd = [
        type(value)((7, *value.shape[1:]), value.dtype, value.role) if value.role == "batch" else value
        for value in program.inputs
    ]
    with pytest.raises(DeviceRuntimeError, match="multiple of 8") as refused:
        compile_program(
            StepProgram(program.name, program.source, odd, program.outputs, program.module), "v5e"
        )
    assert refused.value.code == "bad_batch"


def bytes_of_state(program: StepProgram) -> int:
    return sum(4 * math.prod(value.shape) for value in program.inputs if value.role == "state")
