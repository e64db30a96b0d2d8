"""The data of the lessons, found as on a remote machine: in the packaged wheel, without a checkout."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from ..kernel_environment import environment_python
from ..lesson import CHECKOUT

PROGRAM = """
import csv, sys
sys.path.insert(0, sys.argv[1])
import tpulab_recipes
assert tpulab_recipes.__file__.startswith(sys.argv[1]), tpulab_recipes.__file__

from tpulab_recipes import digits
images, labels = digits.load()
print("digits", images.shape, labels.shape)

from tpulab_recipes.fashion_mnist.data import load, synthetic_folder
print("images", len(load(synthetic_folder(), "train")) > 0)

from tpulab_recipes.intents.data import SMALL_DATA
with open(SMALL_DATA / "train.csv", newline="") as file:
    print("utterances", next(csv.reader(file)))

from tpulab_recipes.ddpm.data.small_encoders import PatchPca
print("encoder", PatchPca.shipped().encode is not None)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The wheel that is installed on remote machines, as pip unpacks it."""
    wheels = list((CHECKOUT / ".tpulab" / "bridge" / "wheels").glob("tpulab_recipes-*.whl"))
    if len(wheels) != 1:
        pytest.fail(
            "The bridge for TPU VMs is missing; run `npm start -- --setup-only` first.", pytrace=False
        )
    folder = tmp_path / "site-packages"
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    return folder


def test_the_data_of_every_lesson_travels_with_the_package(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [environment_python(), "-P", "-c", PROGRAM, installed],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "digits (1797, 8, 8) (1797,)",
        "images True",
        "utterances ['text', 'category']",
        "encoder True",
    ]


def test_no_lesson_has_files_beside_it_that_a_remote_machine_would_lack() -> None:
    assert [file.name for file in (CHECKOUT / "notebooks").iterdir() if file.suffix != ".ipynb"] == []
