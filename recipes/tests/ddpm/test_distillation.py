"""Distillation of a real network: rounds, one program for all of them, and the saved students."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from ddpm.tiny import flags, nonzero_network, shallow_config
from tpulab_recipes.common import interruption
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.progress import Silent
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import ShapesSource
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.prompts import context_for
from tpulab_recipes.ddpm.sampler import Sampler
from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder
from tpulab_recipes.ddpm.training.distiller import Distiller
from tpulab_recipes.ddpm.training.train_step import state_of
from tpulab_recipes.runtime.jax_mesh import make_mesh


def _equal(one: Any, other: Any) -> None:
    for mine, ours in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(ours))


def test_rounds_halve_the_steps_in_one_program_and_continue_after_each(shallow: Config) -> None:
    updates = 8
    distill = {"distill.start_num_steps": 8, "distill.end_num_steps": 2, "distill.learning_rate": 2e-3}
    config = shallow.but({**distill, "distill.steps_per_halving": updates})
    teacher, source = nonzero_network(config), ShapesSource(config, count=64)
    losses: dict[int, list[jax.Array]] = {}
    distiller = Distiller(config, source, teacher, guidance=1.5, mesh=make_mesh())
    students = []
    while distiller.steps > config.distill.end_num_steps:
        distiller.halve(lambda steps, _, loss: losses.setdefault(steps, []).append(loss))
        students.append(jax.tree.map(np.array, distiller.params))
    assert [one.steps for one in distiller.rounds] == [4, 2]
    assert distiller.compilations() == 1
    found = {steps: [float(loss) for loss in values] for steps, values in losses.items()}
    assert all(np.isfinite(values).all() and len(values) == updates for values in found.values())
    assert np.mean(found[4][-3:]) < np.mean(found[4][:3])
    moved = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), students[-1], teacher)
    assert max(jax.tree.leaves(moved)) > 0
    # A distillation that resumes from the first student equals the unbroken one.
    again = Distiller(config, source, students[0], guidance=1.5, mesh=make_mesh(), steps=4, rounds_done=1)
    again.halve()
    _equal(again.params, students[1])
    distiller.steps = 3
    with pytest.raises(ValueError, match="cannot be halved"):
        distiller.halve()


def test_a_sampler_without_guidance_equals_a_scale_of_one_with_one_evaluation_a_step(
    shallow: Config,
) -> None:
    network, params = Network(shallow), nonzero_network(shallow)
    reported = context_for(["a large red circle", "a small blue cross"], shallow)
    plain, guided = Sampler(network, 2, is_guided=False), Sampler(network, 2)
    images = plain(params, reported, steps=3, seed=4)
    np.testing.assert_allclose(images, guided(params, reported, steps=3, seed=4, guidance=1.0), atol=1e-5)
    assert np.abs(images - guided(params, reported, steps=3, seed=4, guidance=3.0)).max() > 1e-3
    with pytest.raises(ValueError, match="no guidance"):
        plain(params, reported, steps=3, guidance=2.0)


def test_no_step_draws_from_the_key_of_the_initial_noise(shallow: Config) -> None:
    sampler, params = Sampler(Network(shallow), 2), nonzero_network(shallow)
    keys: list[Any] = []

    def watched(*arguments: Any, mesh: Any) -> Any:
        keys.append(arguments[-1])
        return run(*arguments, mesh=mesh)

    run, sampler._run = sampler._run, watched
    sampler(params, context_for(["a large red circle"], shallow), steps=2, seed=4)
    drawn = [jax.random.key_data(jax.random.fold_in(keys[0], step)) for step in range(64)]
    noise = jax.random.key_data(jax.random.fold_in(jax.random.key(4), 0))
    assert not any(np.array_equal(each, noise) for each in drawn)


def test_each_device_makes_its_share_of_the_images(shallow: Config) -> None:
    """Two rows for each of eight images: with and without the prompt."""
    sampler, params = Sampler(Network(shallow), 8), nonzero_network(shallow)
    reported = context_for(["a large red circle"] * 8, shallow)
    programs = []
    run = sampler._run

    def watched(*arguments: Any, mesh: Any) -> Any:
        program = run.lower(*arguments, mesh=mesh).compile()
        programs.append(program.as_text())
        return program(*arguments)

    sampler._run = watched
    sampler(params, reported, steps=2, guidance=2.0)
    rows = {int(rows) for rows in re.findall(r"= f32\[(\d+),\d+,\d+,\d+\]\S* convolution\(", programs[0])}
    assert rows == {2}, rows


@pytest.mark.long
def test_an_interrupted_halving_continues_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = shallow_config()
    with CheckpointFolder(str(tmp_path / "teacher")) as folder:
        folder.save(state_of(Network(config), nonzero_network(config)), config)
    settings = {"distill.start_num_steps": 4, "distill.end_num_steps": 2, "distill.steps_per_halving": 6}

    def distil(out: str, every: int = 2, *more: str) -> list[int]:
        """Up to the end, or to the fifth reported update. Returns the reported counts of updates."""
        reported: list[int] = []

        def advance(_: Silent, count: int, __: str = "") -> None:
            reported.append(count)
            if out == "broken" and len(reported) == 5:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Silent, "advance", advance)
            patch.setattr(interruption, "requested", lambda: out == "stopped" and len(reported) == 3)
            folders = ["--checkpoint_dir", str(tmp_path / "teacher"), "--write_dir", str(tmp_path / out)]
            requested = flags({**settings, "distill.save_freq": every})
            assert main(["distill", *folders, "--quiet", *requested, *more]) in (0, 130)
        return reported

    def student(out: str) -> Any:
        with CheckpointFolder(str(tmp_path / out)) as folder:
            return folder.load(Network(config), make_mesh()).params

    distil("whole", 0)
    distil("broken")
    (tmp_path / "broken").rename(tmp_path / "mended")
    # Refused before anything is lost.
    with pytest.raises(AssertionError):
        distil("mended", 2, "--train.adam-beta2", "0.5")
    # Four updates were saved, two are left.
    assert distil("mended")[:3] == [4, 1, 1]
    _equal(student("whole"), student("mended"))
    # A signal in the fourth update has it saved.
    assert distil("stopped", 0) == [1, 1, 1]
    (tmp_path / "stopped").rename(tmp_path / "resumed")
    assert distil("resumed", 0)[:3] == [4, 1, 1]
    _equal(student("whole"), student("resumed"))


def test_networks_that_predict_the_noise_are_refused(tiny: Config) -> None:
    """The first halving of a cosine schedule from -20 would scale their squared error by 4.9e8."""
    config = replace(tiny, model=replace(tiny.model, mean_type="eps"))
    with pytest.raises(ConfigError, match=r"model\.mean_type.*model\.mean_type=v"):
        Distiller(config, ShapesSource(config, count=64), nonzero_network(config))


@pytest.mark.long
def test_a_student_is_sampled_in_its_own_steps_without_guidance_again(
    shallow: Config, tmp_path: Path
) -> None:
    state = state_of(Network(shallow), nonzero_network(shallow))
    with CheckpointFolder(str(tmp_path / "students")) as folder:
        folder.save(state, shallow, {"sampling_steps": 2})

    def images(*more: str) -> np.ndarray:
        flags = ["--checkpoint_dir", str(tmp_path / "students"), "--save_dir", str(tmp_path / "out"), "--npz"]
        prompts = ["--prompt", "a large red circle; a small blue cross"]
        assert main(["evaluate", *flags, *prompts, *more, "--quiet"]) == 0
        return np.asarray(np.load(tmp_path / "out" / "images.npz")["images"])

    plain = images()
    np.testing.assert_array_equal(plain, images("--num_steps", "2", "--guidance_scale", "1"))
    # Requested settings still take effect, and give other images.
    assert (plain != images("--num_steps", "3")).any()
    assert (plain != images("--guidance_scale", "3.5")).any()
