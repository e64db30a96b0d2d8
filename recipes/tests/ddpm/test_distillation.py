"""Distillation of a real network: rounds, one program for all of them, and the saved students."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import ShapesSource
from tpulab_recipes.ddpm.distiller import Distiller
from tpulab_recipes.ddpm.mesh import make_mesh
from tpulab_recipes.ddpm.model import Network


def test_rounds_halve_the_steps_in_one_program_and_errors_fall(tiny: Config) -> None:
    config = replace(
        tiny,
        distill=replace(
            tiny.distill, start_num_steps=8, end_num_steps=2, steps_per_halving=12, learning_rate=2e-3
        ),
    )
    # A teacher that says something: fresh networks say nothing at all, which any student does too.
    rng = np.random.default_rng(0)
    teacher = Network(config).init(1)
    teacher["conv_out"]["kernel"] = 0.05 * rng.standard_normal(
        teacher["conv_out"]["kernel"].shape, np.float32
    )
    losses: dict[int, list[jax.Array]] = {}
    distiller = Distiller(config, ShapesSource(config, count=64), teacher, guidance=1.5, mesh=make_mesh())
    while distiller.steps > config.distill.end_num_steps:
        distiller.halve(lambda steps, _, loss: losses.setdefault(steps, []).append(loss))
    assert [one.steps for one in distiller.rounds] == [4, 2]
    assert distiller.compilations() == 1
    found = {steps: [float(loss) for loss in values] for steps, values in losses.items()}
    assert all(np.isfinite(values).all() and len(values) == 12 for values in found.values())
    assert np.mean(found[4][-3:]) < np.mean(found[4][:3])
    moved = jax.tree.map(
        lambda a, b: float(np.abs(np.asarray(a) - np.asarray(b)).max()), distiller.params, teacher
    )
    assert max(jax.tree.leaves(moved)) > 0
    with pytest.raises(ValueError, match="cannot be halved"):
        replace_steps(distiller, 3).halve()


def replace_steps(distiller: Distiller, steps: int) -> Distiller:
    distiller.steps = steps
    return distiller
