"""The voices (notebooks 06 to 08), unchanged, on two hosts of a slice, through the bridge."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..executed_notebook import ExecutedNotebook
from ..lesson import CHECKOUT
from ..notebook_run import Executed, require_environment, run_notebook
from .conftest import CELL_DEADLINE_S, WHOLE

pytestmark = pytest.mark.skipif(not WHOLE, reason="`npm run test:lessons` trains the voices on a slice")

KERNEL = "tpulab-slice-pair-pytorch"
SAME = "host 1: same as host 0"


@pytest.fixture(scope="module", autouse=True)
def _offered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The kernelspec is in the gateway's search path, written as a user writes it."""
    require_environment("torch-xla")
    envs = Path(os.environ.get("TPULAB_ENV_DIR") or CHECKOUT / ".tpulab" / "envs")
    data = str(tmp_path_factory.mktemp("jupyter"))
    add = [str(envs / "torch-xla" / "bin" / "python"), "-m", "tpulab.slice", "add", "pair", "--local", "2"]
    printed = subprocess.run(
        add, env={**os.environ, "JUPYTER_DATA_DIR": data}, check=True, capture_output=True, text=True
    )
    assert "“PyTorch · pair (2 hosts)”" in printed.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", data)
        yield


def run(file: str, folder: Path, ask: str, kernel: str | None = KERNEL, **settings: object) -> Executed:
    return run_notebook(
        file,
        folder,
        settings=settings,
        probe=f"import json\nprint(json.dumps({ask}))",
        cell_deadline_s=CELL_DEADLINE_S,
        kernel=kernel,
    )


def folds(notebook: ExecutedNotebook) -> dict[str, str]:
    """By cell: the text about host 1 below it."""
    return {
        cell.id: output.data["text/plain"].splitlines()[0]
        for cell in notebook.notebook.cells
        for output in cell.get("outputs", [])
        if "tpulab-hosts" in output.get("data", {}).get("text/html", "")
    }


def test_dia_learns_on_a_slice_and_one_host_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    settings = {"settings": {"epochs": 40}, "sample_every": 20, "output_folder": "dia"}
    ask = "{'losses': losses, 'steps': trainer.steps_done, 'backend': backend.name}"
    lesson = run("06-dia.ipynb", tmp_path, ask, **settings)
    losses = lesson.values["losses"]
    assert (lesson.values["backend"], len(losses)) == ("cpu", 40)
    assert losses[-1] < 0.4 * losses[0]
    assert "transformers says the same codes: True" in lesson.text("export")
    assert set(folds(lesson).values()) == {SAME}
    work = tmp_path / "work" / "dia"
    assert sorted(file.name for file in work.glob("step-*")) == ["step-00000020.pt", "step-00000040.pt"]
    assert not list((work / "host-1").glob("step-*"))

    (work / "step-00000040.pt").unlink()
    alone = run("06-dia.ipynb", tmp_path, ask, kernel=None, resume=True, **settings)
    assert (alone.values["backend"], alone.values["steps"]) == ("torch_xla", 40)
    assert len(alone.values["losses"]) == 20
    # The hosts' batches do not have the same rows as halves of one batch, so the losses are close, not equal.
    assert alone.values["losses"][0] == pytest.approx(losses[20], rel=0.2)


def test_gpt_sovits_learns_on_a_slice(tmp_path: Path) -> None:
    ask = "{'losses': losses, 'same': same}"
    few = {"steps": 20, "sample_every": 10, "output_folder": "sovits"}
    lesson = run("07-gpt-sovits.ipynb", tmp_path, ask, **few)
    losses = lesson.values["losses"]
    assert len(losses) == 20
    assert losses[-1]["mel"] < losses[0]["mel"]
    assert lesson.values["same"] is True
    assert set(folds(lesson).values()) == {SAME}


def test_the_english_voice_learns_on_a_slice(tmp_path: Path) -> None:
    ask = "{'losses': losses, 'held_out': validation['total'], 'both': both}"
    few = {"settings": {"num_epochs": 6, "corpus_count": 60}, "sample_every": 18, "output_folder": "voice"}
    lesson = run("08-english-tts.ipynb", tmp_path, ask, **few)
    losses = lesson.values["losses"]
    assert losses[-1] < 0.6 * losses[0]
    assert lesson.values["both"]["float32"]["total"] == pytest.approx(lesson.values["held_out"])
    # Times, and the name of the folder, differ by host.
    assert {cell for cell, printed in folds(lesson).items() if printed != SAME} <= {"profile", "export"}
