"""The files of the lessons, without running anything."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import nbformat
import pytest

from ..kernel_environment import LANGUAGE_INFO
from ..lesson import CHECKOUT

NOTEBOOKS = CHECKOUT / "notebooks"
FILES = (
    "00-getting-started-pytorch.ipynb",
    "01-single-core.ipynb",
    "02-multi-core.ipynb",
    "03-profiling.ipynb",
    "02-multi-core-jax.ipynb",
    "03-profiling-jax.ipynb",
    "04-bert-fine-tune.ipynb",
    "06-dia.ipynb",
    "07-gpt-sovits.ipynb",
    "08-english-tts.ipynb",
)
#: Names that were removed from torch_xla, transformers or datasets, and that old examples still have.
DEAD = re.compile(
    r"\bxla_device\(|XRT_|xmp\.spawn|mark_step|MpSerialExecutor|load_metric|from transformers import AdamW"
)


@pytest.fixture(params=FILES)
def notebook(request: pytest.FixtureRequest) -> Any:
    return nbformat.read(NOTEBOOKS / request.param, as_version=4)


def sources(notebook: Any, kind: str) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def test_it_names_its_kernel_and_no_machine(notebook: Any, request: pytest.FixtureRequest) -> None:
    nbformat.validate(notebook)
    kernel = "tpulab-jax" if request.node.callspec.id.endswith("-jax.ipynb") else "tpulab-torch-xla"
    assert notebook.metadata.kernelspec.name == kernel
    assert notebook.metadata.language_info == LANGUAGE_INFO


def test_cell_ids_are_words_and_unique(notebook: Any) -> None:
    ids = [cell.id for cell in notebook.cells]
    assert [cell_id for cell_id, n in Counter(ids).items() if n > 1] == []
    assert [cell_id for cell_id in ids if not re.fullmatch(r"[a-z]+(-[a-z]+)*", cell_id)] == []


def test_there_is_one_parameters_cell_of_plain_settings(notebook: Any) -> None:
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    for line in cell.source.splitlines():
        assert re.match(r"[a-z_]+ = ", line), line


def test_it_states_what_usually_goes_wrong(notebook: Any) -> None:
    assert any(text.startswith("## If something goes wrong") for text in sources(notebook, "markdown"))


def test_its_code_uses_no_removed_name_and_no_framework_of_a_device(notebook: Any) -> None:
    for code in sources(notebook, "code"):
        assert not DEAD.search(code), code
        assert not re.search(r"import torch_(xla|tpu)", code), code


def test_links_to_files_lead_somewhere(notebook: Any) -> None:
    links = [link for text in sources(notebook, "markdown") for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    assert [link for link in links if not (NOTEBOOKS / link).exists()] == []
