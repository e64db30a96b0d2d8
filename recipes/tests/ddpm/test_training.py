"""Training: one program, the same on one device and on eight, exact resumption, and failures."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from ddpm.tiny import shallow_config
from tpulab_recipes import runtime
from tpulab_recipes.common import interruption
from tpulab_recipes.common.errors import CheckpointError, ConfigError, StorageError, TrainingDiverged
from tpulab_recipes.common.interruption import Interrupted
from tpulab_recipes.common.log_writers import JsonLines, read_json_lines
from tpulab_recipes.common.steering import PlainRun
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import Batch, ShapesSource
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import LAION256
from tpulab_recipes.ddpm.sampler import Sampler
from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder
from tpulab_recipes.ddpm.training.train_step import (
    TrainState,
    clip_gradient,
    compile_step,
    default_hyperparameters,
    learning_rate_factor,
    make_initial_state,
)
from tpulab_recipes.ddpm.training.trainer import Trainer
from tpulab_recipes.runtime.jax_mesh import gathered, make_mesh, put_batch


def _trainer(config: Config, devices: int = 8, **more: Any) -> Trainer:
    return Trainer(config, ShapesSource(config, count=256), mesh=make_mesh(jax.devices()[:devices]), **more)


def _equal(first: Any, second: Any, atol: float = 0.0) -> None:
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=atol)


def test_a_step_on_eight_devices_equals_a_step_on_one(tiny: Config) -> None:
    """With the same update: no warm-up, and Adam's division magnifies rounding only where gradients
    vanish."""
    # Attention in the middle only: in each level, it would be the same layers again.
    config = tiny.but({"model.args.attn_resolutions": []})
    network = Network(config)
    batch = next(ShapesSource(config, count=64).batches(0))
    found = []
    for devices in (1, 8):
        mesh = make_mesh(jax.devices()[:devices])
        step = compile_step(network, mesh)
        state = make_initial_state(network, mesh, 0)
        hyper = default_hyperparameters(config) | {"learning_rate": jnp.asarray(1e-3)}
        for _ in range(3):
            state, figures = step(state, put_batch(batch, mesh), hyper)
        found.append((state, figures))
    (one, figures_one), (eight, figures_eight) = found
    assert float(figures_one["loss"]) == pytest.approx(float(figures_eight["loss"]), abs=1e-6)
    assert float(figures_one["gnorm"]) == pytest.approx(float(figures_eight["gnorm"]), abs=1e-6)
    # The first moments are linear in the gradients: no division by nearly nothing.
    _equal(one.opt_state[0].mu, eight.opt_state[0].mu, atol=1e-6)
    _equal(one.ema, eight.ema, atol=2e-5)
    # Sliced, as promised: no device holds a whole large matrix.
    leaf = eight.params["middle1"]["conv1"]["kernel"]
    assert leaf.addressable_shards[0].data.size * 8 == leaf.size
    moment = eight.opt_state[0].nu["middle1"]["conv1"]["kernel"]
    assert moment.addressable_shards[0].data.size * 8 == moment.size


def test_the_seam_trains_a_state_in_slices_as_one_that_is_whole() -> None:
    """`prepare` and `compile(state=…)`, with which this recipe trains, on a separate layer."""
    backend: Any = runtime.use("jax")
    mesh, rows = make_mesh(), np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    first = {"w": np.ones((64, 32), np.float32), "step": np.zeros((), np.int32)}

    def update(state: Any, batch: Any) -> tuple[Any, Any]:
        def loss_of(w: jax.Array) -> jax.Array:
            return jnp.square(batch["x"] @ gathered(w, mesh)).mean()

        loss, gradient = jax.value_and_grad(loss_of)(state["w"])
        return {"w": state["w"] - 0.1 * gradient, "step": state["step"] + 1}, {"loss": loss}

    found = []
    for shard in (True, False):
        state = backend.prepare(first, shard=shard)
        before = backend.shards(state["w"])[0].shape
        step = backend.compile(update, state=state)
        for _ in range(2):
            state, figures = step(state, put_batch({"x": rows}, mesh))
        # The state keeps its place, in one program.
        assert backend.shards(state["w"])[0].shape == before == ((64, 4) if shard else (64, 32))
        assert step._cache_size() == 1
        found.append(backend.to_host({**state, **figures}))
    _equal(found[0], found[1], atol=1e-6)
    assert found[0]["w"].shape == (64, 32)
    assert found[0]["step"] == 2


def test_gathered_values_are_half_as_wide_as_the_masters(tmp_path: Path) -> None:
    """Checked in the program after its division among the devices: XLA:CPU widens bf16 again afterwards."""
    program = """
import sys, jax, jax.numpy as jnp
from tpulab_recipes.runtime.jax_mesh import gathered, make_mesh, state_sharding
mesh, shapes = make_mesh(), {"w": jax.ShapeDtypeStruct((64, 64), jnp.float32)}
run = lambda tree: gathered(jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tree), mesh)
jax.jit(run, in_shardings=(state_sharding(mesh, shapes),)).lower(shapes).compile()
"""
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=spmd"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "0"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=300)
    (divided,) = tmp_path.glob("*after_spmd-partitioning*")
    assert re.findall(r"= (\w+)\[[\d,]*\]\S* all-gather\(", divided.read_text()) == ["bf16"]


def test_mixed_captions_and_changed_settings_take_one_compilation_each(shallow: Config) -> None:
    """A learning rate and an average that change with every step, and sampling in between."""

    class Restless(PlainRun):
        calls = 0

        def hyper(self) -> dict[str, Any]:
            self.calls += 1
            return {"learning_rate": jnp.asarray(1e-3 / self.calls), "ema_decay": jnp.asarray(0.5)}

    with _trainer(shallow) as trainer:
        trainer.train(20, Restless({}))
        assert trainer.compilations() == 1
        sampler = Sampler(trainer.network, 4)
        for number, steps in enumerate((1, 3, 2)):
            prompts = ["a large blue cross", "nothing at all", ""][: number + 1]
            from tpulab_recipes.ddpm.prompts import context_for

            images = sampler(
                trainer.state.ema,
                context_for(prompts, shallow),
                guidance=1.0 + number,
                steps=steps,
                seed=number,
            )
            assert images.shape == (number + 1, 8, 8, 8)
            assert np.isfinite(images).all()
        assert sampler.compilations() == 1


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, TrainState, Path]:
    """Eight steps without a break, with checkpoints at 4 and 8."""
    config = shallow_config()
    config = replace(config, train=replace(config.train, save_freq=(4,), num_checkpoints=(math.inf,)))
    folder = tmp_path_factory.mktemp("straight")
    with _trainer(config, global_dir=str(folder)) as trainer:
        state = trainer.train(8)
    return config, state, folder


def test_a_resumed_run_equals_an_unbroken_run_bit_for_bit(
    straight: tuple[Config, TrainState, Path], tmp_path: Path
) -> None:
    """Data, noise and dropped conditioning included: the origin drew the same noise again after each
    restart."""
    config, expected, _ = straight
    with _trainer(config, global_dir=str(tmp_path)) as first:
        first.train(4)
    with _trainer(config, global_dir=str(tmp_path)) as second:
        assert second.resumed_at == 4
        state = second.train(8)
    _equal(state, expected)


def test_an_interrupted_run_saves_its_step_and_resumes_bit_for_bit(
    straight: tuple[Config, TrainState, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, expected, _ = straight
    with _trainer(config, global_dir=str(tmp_path)) as first:
        monkeypatch.setattr(interruption, "requested", lambda: first.step == 5)
        with pytest.raises(Interrupted, match=r"^ after step 5, saved in .*checkpoints_recent$"):
            first.train(8)
    monkeypatch.undo()
    with _trainer(config, global_dir=str(tmp_path)) as second:
        assert second.resumed_at == 5
        state = second.train(8)
    _equal(state, expected)


def test_a_checkpoint_of_eight_devices_loads_on_one_and_on_two(
    straight: tuple[Config, TrainState, Path],
) -> None:
    config, expected, folder = straight
    network = Network(config)
    with CheckpointFolder(str(folder / "checkpoints_recent")) as checkpoints:
        assert checkpoints.steps() == [4, 8]
        assert checkpoints.config() == config
        for devices in (1, 2):
            state = checkpoints.load(network, make_mesh(jax.devices()[:devices]))
            _equal(state, expected)
            assert len(state.params["conv_in"]["kernel"].devices()) == devices


def test_saving_and_loading_on_eight_devices_compiles_nothing(shallow: Config, tmp_path: Path) -> None:
    network, mesh, backend = Network(shallow), make_mesh(), runtime.use("jax")
    state = make_initial_state(network, mesh, 0)
    before = backend.compilations().count
    with CheckpointFolder(str(tmp_path)) as checkpoints:
        checkpoints.save(state, shallow)
        _equal(checkpoints.load(network, mesh), state)
    assert backend.compilations().count == before


def test_a_checkpoint_of_another_network_is_refused_and_a_missing_one_named(
    straight: tuple[Config, TrainState, Path], shallow: Config
) -> None:
    _, _, folder = straight
    other = replace(shallow, model=replace(shallow.model, args=replace(shallow.model.args, ch=16)))
    with CheckpointFolder(str(folder / "checkpoints_recent")) as checkpoints:
        with pytest.raises(CheckpointError, match=r"does not fit.* is \(.* there and \("):
            checkpoints.load(Network(other), make_mesh(jax.devices()[:1]))
        with pytest.raises(CheckpointError, match="no checkpoint 5; there: 4, 8"):
            checkpoints.load(Network(shallow), make_mesh(), 5)


def test_a_checkpoint_of_a_newer_version_is_reported_as_such(
    straight: tuple[Config, TrainState, Path], tmp_path: Path
) -> None:
    _, _, folder = straight
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    place = tmp_path / "checkpoints_recent"
    (metadata,) = (file for file in place.glob("8/about/*") if '"format"' in file.read_text())
    about = json.loads(metadata.read_text())
    for changes, problem in (
        ({"config": about["config"] | {"later": 1}}, "8 has a setting that this version does not know"),
        ({"format": 2}, "8 was written by a newer version of TPULab"),
    ):
        metadata.write_text(json.dumps(about | changes))
        with CheckpointFolder(str(place)) as checkpoints, pytest.raises(CheckpointError, match=problem):
            checkpoints.config()
    with (
        CheckpointFolder(str(tmp_path)) as checkpoints,
        pytest.raises(CheckpointError, match=r"no checkpoint; there: .*checkpoints_recent"),
    ):
        checkpoints.about()


def test_a_changed_configuration_is_refused_by_name_unless_it_is_accepted(
    straight: tuple[Config, TrainState, Path],
) -> None:
    config, _, folder = straight
    changed = replace(config, train=replace(config.train, max_learning_rate=1e-3, save_freq=(5,)), seed=1)
    with pytest.raises(
        CheckpointError, match=r"seed is 0 there and 1 here; train\.max_learning_rate is"
    ) as e:
        _trainer(changed, global_dir=str(folder))
    assert "save_freq" not in str(e.value)
    accepted = ["seed", "train.max_learning_rate"]
    with _trainer(changed, global_dir=str(folder), accept_changed=accepted) as trainer:
        assert trainer.resumed_at == 8


def test_a_save_that_was_cut_off_is_not_taken_for_a_checkpoint(
    straight: tuple[Config, TrainState, Path], tmp_path: Path
) -> None:
    _, _, folder = straight
    place = tmp_path / "checkpoints_recent"
    shutil.copytree(folder / "checkpoints_recent", place)
    # A killed orbax leaves a folder that does not have its final name yet.
    (place / "8").rename(place / "8.orbax-checkpoint-tmp-1")
    with CheckpointFolder(str(place)) as checkpoints:
        assert checkpoints.latest() == 4


def test_a_checkpoint_is_on_the_disk_when_train_or_save_returns(
    straight: tuple[Config, TrainState, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is killed after that has lost nothing, however slow the disk is."""
    config, _, folder = straight
    place = tmp_path / "checkpoints_recent"
    shutil.copytree(folder / "checkpoints_recent", place)
    commit = ocp.CheckpointManager._finalize

    def slowly(*arguments: Any) -> None:
        time.sleep(0.5)
        commit(*arguments)

    monkeypatch.setattr(ocp.CheckpointManager, "_finalize", slowly)
    with _trainer(config, global_dir=str(tmp_path)) as trainer:
        trainer.train(9)
        assert (place / "9").is_dir()
        trainer.state = trainer.state._replace(step=trainer.state.step + 1)
        trainer.save()
        assert (place / "10").is_dir()


def _cut_files(checkpoint: Path) -> None:
    """As a disk that filled up or a copy that broke off leaves them."""
    for file in checkpoint.rglob("*"):
        if file.is_file() and file.stat().st_size > 100:
            os.truncate(file, 100)


# Case D17.
def test_a_damaged_newest_checkpoint_is_named_and_skipped(
    straight: tuple[Config, TrainState, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, expected, folder = straight
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "checkpoints_recent" / "8"
    _cut_files(newest)
    with _trainer(config, global_dir=str(tmp_path)) as trainer:
        assert trainer.resumed_at == 4
        _equal(trainer.train(8), expected)
    with _trainer(config, global_dir=str(tmp_path)) as again:
        assert again.resumed_at == 8
    reported = capsys.readouterr().err
    assert f"{newest} is damaged" in reported
    assert "Going on with step 4." in reported


def test_only_damaged_checkpoints_end_in_one_sentence(
    straight: tuple[Config, TrainState, Path], tmp_path: Path
) -> None:
    config, _, folder = straight
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for checkpoint in (tmp_path / "checkpoints_recent").iterdir():
        _cut_files(checkpoint)
    with pytest.raises(CheckpointError, match=r"None of the 2 checkpoints can be read\. .*8 is damaged"):
        _trainer(config, global_dir=str(tmp_path))


def test_a_full_disk_is_reported_before_anything_is_written(
    straight: tuple[Config, TrainState, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _, folder = straight
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with _trainer(config, global_dir=str(tmp_path)) as trainer:
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with pytest.raises(StorageError, match=r"has 0 MiB left and a checkpoint needs \d+; free some space"):
            trainer.train(12)
    assert sorted(path.name for path in (tmp_path / "checkpoints_recent").iterdir()) == ["4", "8"]


# Case R7.
def test_other_training_data_are_refused_by_name_unless_accepted(
    straight: tuple[Config, TrainState, Path],
) -> None:
    config, _, folder = straight
    other = ShapesSource(config, count=300)
    with pytest.raises(
        CheckpointError, match=r"drawings \(256 records\), and this run reads .*\(300 records\)"
    ):
        Trainer(config, other, global_dir=str(folder))
    with Trainer(config, other, global_dir=str(folder), accept_changed=["data"]) as trainer:
        assert trainer.resumed_at == 8


class _Broken(ShapesSource):
    """Some batches are not numbers."""

    def __init__(self, config: Config, broken: set[int]) -> None:
        super().__init__(config, count=256)
        self.broken = broken

    def batches(self, start: int) -> Iterator[Batch]:
        for number, batch in enumerate(super().batches(start), start):
            yield batch | ({"image": np.full_like(batch["image"], np.nan)} if number in self.broken else {})


def test_a_broken_batch_changes_nothing_but_the_counters(shallow: Config) -> None:
    mesh = make_mesh()
    with Trainer(shallow, _Broken(shallow, {1}), mesh=mesh) as trainer:
        first = Network(shallow).init(shallow.seed)
        before = jax.tree.map(np.asarray, trainer.train(1))
        # The average keeps its share of the first parameters.
        decay = shallow.train.ema_decay
        expected = jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, first, before.params)
        _equal(before.ema, expected, atol=1e-6)
        after = trainer.train(2)
        assert (int(after.skipped), int(after.skipped_in_a_row), int(after.step)) == (1, 1, 2)
        _equal(after.params, before.params)
        _equal(after.ema, before.ema)
        _equal(after.opt_state, before.opt_state)
        later = trainer.train(3)
        assert (int(later.skipped), int(later.skipped_in_a_row)) == (1, 0)
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(later))
        assert trainer.compilations() == 1


def test_a_hundred_broken_batches_in_a_row_end_the_training(shallow: Config, tmp_path: Path) -> None:
    from tpulab_recipes.common.storage import Folder

    config = replace(shallow, train=replace(shallow.train, log_loss_every_steps=10))
    # On one device: a hundred steps there take as long as ten on eight.
    trainer = Trainer(
        config,
        _Broken(config, set(range(200))),
        mesh=make_mesh(jax.devices()[:1]),
        writers=[JsonLines(Folder(tmp_path))],
    )
    with trainer, pytest.raises(TrainingDiverged, match="100 steps in a row"):
        trainer.train(200)
    rows = read_json_lines(str(tmp_path))
    assert rows[-1]["step"] == 100
    assert rows[-1]["loss"] is None


def test_the_gradient_is_clipped_after_averaging() -> None:
    """Two devices with gradients of 10 and -10: their mean is nothing, and stays nothing."""
    gradient, norm = clip_gradient({"w": jnp.array([3.0, 4.0])}, 1.0)
    np.testing.assert_allclose(gradient["w"], [0.6, 0.8], atol=1e-6)
    assert float(norm) == pytest.approx(5)
    small, _ = clip_gradient({"w": jnp.array([0.3, 0.4])}, 1.0)
    np.testing.assert_allclose(small["w"], [0.3, 0.4], atol=1e-6)


def test_the_learning_rate_warms_up_and_falls_to_its_floor() -> None:
    train = LAION256.train
    share = [
        float(learning_rate_factor(jnp.asarray(step), train)) for step in (0, 2499, 5000, train.iterations)
    ]
    assert share == pytest.approx([1 / 5000, 0.5, 1.0, 0.5], abs=1e-3)


def test_a_batch_that_does_not_divide_among_the_devices_is_refused(tiny: Config) -> None:
    config = replace(tiny, train=replace(tiny.train, batch_size=9))
    with pytest.raises(ConfigError, match="do not divide among the 8 devices"):
        _trainer(config)


def test_a_network_learns_one_batch_by_heart() -> None:
    """A prediction of zero cannot reach the loss of one image at one noise level."""
    config = shallow_config()
    config = replace(
        config, train=replace(config.train, max_learning_rate=5e-3, learning_rate_warmup_steps=1)
    )

    class One(ShapesSource):
        def batches(self, start: int) -> Iterator[Batch]:
            batch = next(super().batches(start * 0))
            while True:
                yield batch

    with Trainer(config, One(config, count=256), mesh=make_mesh(jax.devices()[:1])) as trainer:
        trainer.train(60)
        assert trainer.history[-1].loss < 0.75 * trainer.history[0].loss
