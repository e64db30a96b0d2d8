"""The getting-started notebook, run by nbclient on kernels of the environment `jax` without a bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nbclient import NotebookClient

from ..kernel_environment import write_kernelspec
from ..lesson import CELL_DEADLINE_S, NOTEBOOK, ExecutedLesson, execute_lesson, read_lesson
from ..lesson_checks import BATCH_SIZE, CHECKS, SEED
from ..lesson_oracle import cross_entropy, digits, draws, lenet, load_params

Run = Callable[..., ExecutedLesson]


@pytest.fixture(scope="module")
def run_lesson(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the notebook on a kernel started by `python -m MODULE`; equal calls share one run."""
    runs: dict[str, ExecutedLesson] = {}

    def run(module: str, **parameters: float) -> ExecutedLesson:
        key = f"{module} {parameters}"
        if key not in runs:
            folder = tmp_path_factory.mktemp("lesson")
            write_kernelspec(folder, module=module)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("JUPYTER_PATH", str(folder))
                patch.delenv("TPULAB_AGENT_SOCKET", raising=False)
                client = NotebookClient(
                    read_lesson(**parameters),
                    timeout=CELL_DEADLINE_S,
                    startup_timeout=CELL_DEADLINE_S,
                    iopub_timeout=CELL_DEADLINE_S,
                    resources={"metadata": {"path": str(NOTEBOOK.parent)}},
                )
                runs[key] = asyncio.run(execute_lesson(client, folder / "arrays.npz"))
        return runs[key]

    return run


STOCK, LAUNCHER = "ipykernel_launcher", "tpulab.launcher"
BOTH = [pytest.param(STOCK, marks=pytest.mark.long), LAUNCHER]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("cell_id", sorted(CHECKS))
def test_the_cell_prints_numpys_values(run_lesson: Run, module: str, cell_id: str) -> None:
    CHECKS[cell_id](run_lesson(module))


@pytest.mark.parametrize("module", BOTH)
def test_each_jitted_function_is_compiled_as_often_as_the_text_states(run_lesson: Run, module: str) -> None:
    compiled = run_lesson(module).probe["compiled"]
    assert {name: compiled[name] for name in ("init_lenet", "lenet", "train_step")} == {
        "init_lenet": 1,
        "lenet": 2,
        "train_step": 2,
    }
    assert run_lesson(module).probe["cacheSizes"] == {"train_step": 2, "predict": 2}


@pytest.mark.long
def test_a_batch_size_that_divides_the_images_leaves_one_compilation(run_lesson: Run) -> None:
    assert run_lesson(LAUNCHER, batch_size=479, epochs=1).probe["compiled"]["train_step"] == 1


@pytest.mark.long
def test_two_runs_with_the_same_seed_print_the_same_losses(run_lesson: Run) -> None:
    first, second = run_lesson(STOCK), run_lesson(LAUNCHER)
    assert [line for line in first.lines("training") if line.startswith("epoch")] == [
        line for line in second.lines("training") if line.startswith("epoch")
    ]


def test_the_gradient_of_the_loss_agrees_with_central_differences(run_lesson: Run) -> None:
    arrays: Path = run_lesson(LAUNCHER).arrays
    params, gradient = load_params(arrays, "initial"), load_params(arrays, "gradient")
    data, batch = digits(SEED), draws(SEED, BATCH_SIZE).first_batch
    images, labels = data.images[batch], data.labels[batch]

    step = 1e-5
    for name, layer in params.items():
        # The largest entry of each layer's gradient: least disturbed by rounding.
        place = np.unravel_index(np.abs(gradient[name]["weight"]).argmax(), layer["weight"].shape)
        original = layer["weight"][place]
        losses = []
        for moved in (original + step, original - step):
            layer["weight"][place] = moved
            losses.append(cross_entropy(lenet(params, images), labels))
        layer["weight"][place] = original
        slope = (losses[0] - losses[1]) / (2 * step)
        assert slope == pytest.approx(gradient[name]["weight"][place], rel=1e-3), name
