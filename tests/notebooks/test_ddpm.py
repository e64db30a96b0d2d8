"""Notebook 05, run through a bridge with its own network: it learns, follows captions, inpaints and is
distilled."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import nbformat
import pytest

from ..notebook_run import COMPILE_LESS, NOTEBOOKS, Executed, require_environment, run_notebook

NOTEBOOK = NOTEBOOKS / "05-ddpm.ipynb"
#: Two programs are compiled in one cell, on a possibly busy machine.
CELL_DEADLINE_S = 900
#: `npm run test:long` trains until most samples show what their captions say.
LONG = os.environ.get("TPULAB_LONG_TESTS") == "1"
STEPS = 250 if LONG else 80

#: Evaluated in the kernel when all cells have run.
PROBE = """
import json
import numpy as np
from tpulab_recipes.ddpm.data.small_encoders import PatchPca

drawn_before = panel.images.copy()
panel.prompt.value = "a small blue square"
panel.steps.value = 9
panel.guidance.value = 3.0
panel.seed.value = 7
kept = PatchPca.shipped().decode(painter.latent[None])[0]
print(json.dumps({
    "before": before.figures,
    "found": [figures for _, figures in live.found],
    "losses": [row.loss for row in live.rows],
    "trainStepCompilations": trainer.compilations(),
    "samplerCompilations": sampler.compilations(),
    "distillCompilations": distiller.compilations(),
    "sliderChanged": float(np.abs(panel.images - drawn_before).mean()),
    "keptLeft": float(np.abs(painter.images[:, :, :8] - kept[None, :, :8]).max()),
    "madeRight": float(np.abs(painter.images[:, :, 8:] - kept[None, :, 8:]).mean()),
    "error": error,
    "rounds": [done.steps for done in distiller.rounds],
    "resumedAt": trainer.resumed_at,
}))
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Executed:
    require_environment("jax")
    folder = tmp_path_factory.mktemp("ddpm")
    # A shorter training and fewer halvings than a reader's; the network and the rates are the notebook's own.
    shorter = {"train_steps": STEPS, "evaluations": 2}
    shorter |= {"distill_from": 8, "distill_to": 4, "distill_updates": 40}
    return run_notebook(
        NOTEBOOK.name,
        folder,
        settings={"output_dir": str(folder / "run"), **shorter},
        before=COMPILE_LESS,
        probe=PROBE,
        cell_deadline_s=CELL_DEADLINE_S,
    )


def test_the_loss_falls_and_samples_come_nearer_to_the_data(executed: Executed) -> None:
    values = executed.values
    assert values["losses"][-1] < 0.7 * values["losses"][0]
    assert values["found"][-1]["frechet"] < 0.7 * values["before"]["frechet"]


@pytest.mark.skipif(not LONG, reason="`npm run test:long` trains long enough")
def test_it_learns_in_a_few_hundred_steps(executed: Executed) -> None:
    """The distance to the data decreases, and most samples show exactly the objects of their caption (3 % by
    chance)."""
    values = executed.values
    last = values["found"][-1]
    assert last["frechet"] < 0.15 * values["before"]["frechet"]
    assert last["caption_accuracy"] > 0.4
    assert values["before"]["caption_accuracy"] < 0.15
    assert values["losses"][-1] < 0.5 * values["losses"][0]


def test_nothing_is_compiled_twice(executed: Executed) -> None:
    values = executed.values
    assert values["trainStepCompilations"] == 1
    assert values["samplerCompilations"] == 1
    assert values["distillCompilations"] == 1


def test_sliders_make_other_images(executed: Executed) -> None:
    assert executed.values["sliderChanged"] > 0.02


def test_inpainting_keeps_the_pixels_outside_the_selection(executed: Executed) -> None:
    values = executed.values
    assert values["keptLeft"] < 1e-3
    assert values["madeRight"] > 0.01


def test_the_teacher_is_halved_once(executed: Executed) -> None:
    assert executed.values["rounds"] == [4]


def test_the_student_is_nearer_to_the_full_teacher_than_the_teacher_with_as_few_steps(
    executed: Executed,
) -> None:
    values = executed.values
    assert values["error"]["student, 4 steps"] < values["error"]["teacher, 4 steps"]


def test_it_writes_checkpoints_and_an_export(executed: Executed) -> None:
    run = executed.folder / "run"
    assert (run / "checkpoints_recent" / str(STEPS)).is_dir()
    assert (run / "diffusers" / "unet" / "diffusion_pytorch_model.safetensors").stat().st_size > 1e6


def test_its_metrics_are_in_both_logs(executed: Executed) -> None:
    logs = executed.folder / "run" / "logs"
    rows = [json.loads(line) for line in (logs / "metrics.jsonl").read_text().splitlines()]
    assert [row["loss"] for row in rows if "loss" in row] == executed.values["losses"]
    evaluated = {row["step"]: row for row in rows if "frechet" in row}
    assert list(evaluated) == [STEPS // 2, STEPS]
    assert evaluated[STEPS]["frechet"] == executed.values["found"][-1]["frechet"]
    assert (logs / f"samples_{STEPS:07d}.png").read_bytes().startswith(b"\x89PNG")
    (events,) = logs.glob("events.out.tfevents*")
    assert all(key in events.read_bytes() for key in (b"loss", b"frechet", b"samples"))


def test_pictures_and_widgets_are_shown(executed: Executed) -> None:
    for cell in ("data", "forward", "prompts", "compare"):
        assert "image/png" in executed.mime_types(cell), cell
    for cell in ("training", "sampling", "inpainting"):
        assert "application/vnd.jupyter.widget-view+json" in executed.mime_types(cell), cell


def test_its_links_lead_somewhere() -> None:
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    links = re.findall(r"\]\(([^)#:]+)\)", "".join(c.source for c in notebook.cells))
    assert links
    assert [link for link in links if not (NOTEBOOK.parent / link).exists()] == []
    assert os.path.basename(NOTEBOOK) == "05-ddpm.ipynb"
