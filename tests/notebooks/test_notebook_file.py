"""The file of the getting-started notebook and its data, without running anything."""

import hashlib
import json
import re
import subprocess
from collections import Counter

import numpy as np

from ..kernel_environment import LANGUAGE_INFO, environment_python
from ..lesson import CHECKOUT, NOTEBOOK, committed_lesson, read_lesson
from ..lesson_checks import CHECKS, SILENT
from ..lesson_oracle import DIGITS


def test_its_metadata_name_the_kernelspec_of_this_project_and_no_machine() -> None:
    metadata = committed_lesson().metadata
    assert metadata.kernelspec == {
        "name": "tpulab-jax",
        "display_name": "JAX (XLA) on this machine",
        "language": "python",
    }
    assert metadata.language_info == LANGUAGE_INFO


def test_every_notebook_has_the_metadata_that_a_run_would_write() -> None:
    program = (
        "import json; from ipykernel.ipkernel import IPythonKernel as K; print(json.dumps(K.language_info))"
    )
    done = subprocess.run(
        [environment_python(), "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    written = {name: value for name, value in json.loads(done.stdout).items() if name != "version"}
    assert written == LANGUAGE_INFO
    for file in (CHECKOUT / "notebooks").glob("*.ipynb"):
        metadata = json.loads(file.read_text())["metadata"]
        assert metadata["language_info"] == LANGUAGE_INFO, file.name
        assert set(metadata["kernelspec"]) == {"name", "display_name", "language"}, file.name


def test_cell_ids_are_words_and_unique() -> None:
    ids = [cell.id for cell in read_lesson().cells]
    assert [cell_id for cell_id, n in Counter(ids).items() if n > 1] == []
    assert [cell_id for cell_id in ids if not re.fullmatch(r"[a-z]+(-[a-z]+)*", cell_id)] == []


def test_there_is_one_parameters_cell() -> None:
    tagged = [cell.id for cell in read_lesson().cells if "parameters" in cell.metadata.get("tags", [])]
    assert tagged == ["parameters"]


def test_every_code_cell_has_a_check_or_is_known_to_be_silent() -> None:
    code_cells = {cell.id for cell in read_lesson().cells if cell.cell_type == "code"}
    assert code_cells == CHECKS.keys() | SILENT


def test_links_to_files_lead_somewhere() -> None:
    links = {
        link
        for cell in read_lesson().cells
        if cell.cell_type == "markdown"
        for link in re.findall(r"\]\(([^)#:]+)\)", cell.source)
    }
    assert [link for link in links if not (NOTEBOOK.parent / link).exists()] == []


def test_the_digits_are_the_1797_images_that_the_readme_describes() -> None:
    with np.load(DIGITS) as archive:
        images, labels = archive["images"], archive["labels"]
    assert (images.shape, images.dtype, labels.shape, labels.dtype) == (
        (1797, 8, 8),
        np.uint8,
        (1797,),
        np.uint8,
    )
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # The bytes of the arrays, not of the file, which depends on the compressor.
    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() == DIGITS_SHA256


DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
