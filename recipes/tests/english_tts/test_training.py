"""Training: schedules, precision, what resumes, what compiles, what is written, and what goes wrong."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from english_tts.tiny_voice import TINY, made_up
from needs_torch_xla import NEEDS_TORCH_XLA
from preparing import lj_folder
from tpulab_recipes.common.errors import CheckpointError, ConfigError
from tpulab_recipes.english_tts import checkpoint_manager, use_seed_imports
from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig
from tpulab_recipes.english_tts.data import batch_of
from tpulab_recipes.english_tts.device_type import DeviceType
from tpulab_recipes.english_tts.trainer import OutOfMemory, rate_at
from tpulab_recipes.runtime.selection import make

New = Callable[..., Any]


def test_the_rate_matches_torchs_schedulers() -> None:
    def torchs(config: EnglishTrainingConfig, schedule: Any, steps: int) -> list[float]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.learning_rate)
        scheduler, found = schedule(optimizer), []
        for _ in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return found

    schedulers = torch.optim.lr_scheduler
    c = TINY.but(warmup_steps=5, num_epochs=4, lr_eta_min=1e-4)

    def warmup_cosine(optimizer: Any) -> Any:
        rise = schedulers.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
        fall = schedulers.CosineAnnealingLR(optimizer, T_max=4 * 10 - 5, eta_min=1e-4)
        return schedulers.SequentialLR(optimizer, [rise, fall], milestones=[5])

    np.testing.assert_allclose(
        [rate_at(c, step, 10) for step in range(40)], torchs(c, warmup_cosine, 40), rtol=1e-6
    )

    c = c.but(scheduler="warm_restarts", lr_T_0=3, lr_T_mult=2)
    expected = torchs(c, lambda each: schedulers.CosineAnnealingWarmRestarts(each, 3, 2, eta_min=1e-4), 30)
    np.testing.assert_allclose([rate_at(c, 10 * epoch + 9, 10) for epoch in range(30)], expected, rtol=1e-6)


def test_it_learns_and_keeps_the_best_by_validation(new_trainer: New, tmp_path: Path) -> None:
    trainer = new_trainer(num_epochs=8, save_every=3, keep_last_n=2)
    before, rows = trainer.validate(), []
    trainer.on_figures.append(lambda step, figures: rows.append((step, dict(figures))))
    trainer.train()
    assert trainer.validate()["mel"] < 0.9 * before["mel"]
    epochs = [row for _, row in rows if "train/epoch_total_loss" in row]
    assert len(epochs) == 8
    found = checkpoint_manager.load_checkpoint(tmp_path / "best")
    assert found is not None
    assert found["loss"] == trainer.best == min(row["val/total_loss"] for row in epochs)
    assert {"epoch", "model", "optimizer", "scheduler", "loss", "config", "scaler", "random"} <= found.keys()
    per = trainer.steps_per_epoch
    assert [file.name for file in sorted(tmp_path.glob("*.pt"))] == [
        f"step-{each * per:08d}.pt" for each in (6, 8)
    ]
    raw = torch.load(checkpoint_manager.find_latest_checkpoint(tmp_path), weights_only=True)
    seed = {
        "epoch",
        "model_state_dict",
        "optimizer_state_dict",
        "scheduler_state_dict",
        "loss",
        "config",
        "scaler",
    }
    assert seed <= raw.keys()


def test_float16_with_the_scaler_trains_like_float32(new_trainer: New) -> None:
    trainers = [new_trainer(amp=amp, frame_dropout=0.0, learning_rate=1e-3) for amp in ("float16", "float32")]
    batch = batch_of([made_up(each) for each in range(4)], 48, TINY)
    found = []
    for trainer in trainers:
        placed = trainer.backend.shard_batch(batch)
        found.append([float(trainer.train_step(placed).total) for _ in range(6)])
    assert trainers[0].scaler.is_enabled()
    assert not trainers[1].scaler.is_enabled()
    np.testing.assert_allclose(found[0], found[1], rtol=0.02)
    # An overflow leaves the update out and halves the scale.
    half, scale = trainers[0], trainers[0].scaler.get_scale()
    before = half.model.mel_out.weight.detach().clone()
    spoiled = {**half.backend.shard_batch(batch)}
    spoiled["mel"] = spoiled["mel"] * float("inf")
    half.train_step(spoiled)
    assert torch.equal(before, half.model.mel_out.weight)
    assert half.scaler.get_scale() == scale / 2


def _trained(folder: Path) -> tuple[int, list[Any], dict[str, Any], float]:
    """Trains with dropout, in float16: steps done before, losses of the epochs, scaler, best loss."""
    from english_tts.tiny_voice import STATISTICS
    from tpulab_recipes.english_tts.trainer import KokoroTrainer

    torch.set_num_threads(1)
    dropout = {"encoder_dropout": 0.2, "decoder_dropout": 0.2}
    config = TINY.but(output_dir=str(folder), num_epochs=5, save_every=1, amp_growth_interval=4, **dropout)
    utterances = [made_up(each) for each in range(10)]
    trainer = KokoroTrainer(
        config, make("cpu", "cpu"), utterances[1:], utterances[:1], STATISTICS, amp="float16"
    )
    began, losses = trainer.setup_checkpoint_resumption(), []
    trainer.on_figures.append(lambda _, row: losses.append(row.get("train/epoch_total_loss")))
    trainer.train()
    return began, losses, trainer.scaler.state_dict(), trainer.best


#: As `_trained`; the process is killed while it writes the checkpoint whose path begins with the argument.
#: Until it is whole, its name has a dot before it.
KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from english_tts.test_training import _trained
written = torch.save
place = Path(sys.argv[1])
def save(state, file):
    if file.name.startswith(str(place.with_name("." + place.name))):
        file.write(b"half of a checkpoint")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    written(state, file)
torch.save = save
_trained(place.parent)
"""


def test_a_run_that_is_killed_while_it_saves_continues_with_the_same_losses(tmp_path: Path) -> None:
    _, all_losses, all_scaler, all_best = _trained(tmp_path / "whole")
    newest = checkpoint_manager.find_latest_checkpoint(tmp_path / "whole")
    assert newest is not None
    per = int(newest.stem[-8:]) // 5
    folder, root = tmp_path / "killed", Path(__file__).parents[1]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder / f"step-{4 * per:08d}")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (root, root.parent / "src")))},
        timeout=300,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    unfinished = [file.name for file in folder.glob(".step-*")]
    assert len(unfinished) == 1
    assert unfinished[0].startswith(f".step-{4 * per:08d}.pt.")
    # The newest whole one is torn too, as by a disk that was full: it is passed over.
    (folder / f"step-{3 * per:08d}.pt").write_bytes(b"torn")
    began, losses, scaler, best = _trained(folder)
    assert began == 2 * per
    assert losses == all_losses[2:]
    assert (scaler, best) == (all_scaler, all_best)
    assert not list(folder.glob(".step-*"))


def test_other_settings_are_refused_by_name_but_more_epochs_are_not(new_trainer: New) -> None:
    trainer = new_trainer(num_epochs=1)
    trainer.train()
    assert new_trainer(num_epochs=2).setup_checkpoint_resumption() == trainer.steps_done
    assert new_trainer(num_epochs=2, resume_checkpoint="").setup_checkpoint_resumption() == 0
    with pytest.raises(CheckpointError, match=r"weight_decay is 0\.01 there and 0\.5 here"):
        new_trainer(weight_decay=0.5).setup_checkpoint_resumption()


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_xla_compiles_a_program_for_each_bucket_and_trains_like_the_host(new_trainer: New) -> None:
    xla: Any = make("torch_xla", "cpu")
    options: dict[str, Any] = {"frame_dropout": 0.0, "log_interval": 1000, "validate_every": 0}
    options |= {
        "num_epochs": 3,
        "n_decoder_layers": 1,
        "save_every": 100,
        "postnet_dim": 0,
    }
    trainer, same = new_trainer(backend=xla, **options), new_trainer(**options)
    buckets = {each["mel"].shape[1] for each in trainer.epoch_batches(0)}
    assert buckets == {32, 48}
    found, compiled = [], []
    before = xla.compilations().count
    for _ in range(3):
        found.append([trainer.train_epoch()["total"], same.train_epoch()["total"]])
        compiled.append(xla.compilations().count - before)
    # One for each bucket; the figures that are fetched are part of them.
    assert compiled == [2, 2, 2]
    ours, plain = np.asarray(found).T
    np.testing.assert_allclose(ours, plain, rtol=2e-3)


def test_too_little_memory_is_one_clear_error_or_handled(
    new_trainer: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = new_trainer()
    step, fails = trainer.train_step, [9]

    def failing(batch: Any) -> Any:
        if fails[0]:
            fails[0] -= 1
            trainer.steps_done += 1
            raise RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm")
        return step(batch)

    monkeypatch.setattr(trainer, "train_step", failing)
    with pytest.raises(
        OutOfMemory, match=r"4 utterances of the bucket of (32|48) frames .* lower batch_size"
    ):
        trainer.train_epoch()
    assert (fails, trainer.steps_done) == ([8], 0)
    # CUDA and MPS: a clean-up, and the batch once more.
    trainer.device_type, fails[0] = DeviceType.MPS, 1
    trainer.train_epoch()
    assert (trainer.memory.emergencies, trainer.steps_done) == (1, trainer.steps_per_epoch)
    fails[0] = 2
    with pytest.raises(OutOfMemory):
        trainer.train_epoch()


def test_the_seeds_imports_and_settings_work() -> None:
    use_seed_imports()
    from training.config_english import EnglishTrainingConfig as Config  # type: ignore[import-not-found]
    from training.english_trainer import EnglishTrainer  # type: ignore[import-not-found]
    from training.trainer import KokoroTrainer  # type: ignore[import-not-found]

    assert issubclass(EnglishTrainer, KokoroTrainer)
    custom = Config(
        data_dir="LJSpeech-1.1",
        batch_size=32,
        learning_rate=5e-5,
        hidden_dim=768,
        n_encoder_layers=8,
        use_wandb=True,
        enable_profiling=False,
    )
    assert Config.from_dict(json.loads(json.dumps(custom.to_dict()))) == custom
    with pytest.raises(ConfigError, match="seed: -1 is not possible"):
        TINY.but(seed=-1)
    with pytest.raises(ConfigError, match="hiden_dim"):
        Config.from_dict({"hiden_dim": 3})
    assert not math.isnan(custom.frame_seconds)


def test_config_dataset_model_and_training_in_five_lines(tmp_path: Path) -> None:
    """The flow of the seed's document, with its imports."""
    use_seed_imports()
    from data.ljspeech_dataset import LJSpeechDataset  # type: ignore[import-not-found]
    from kokoro.model import KokoroModel  # type: ignore[import-not-found]
    from training.english_trainer import EnglishTrainer  # type: ignore[import-not-found]

    folder = lj_folder(tmp_path / "lj", [f"clip{n}|a|a" for n in range(8)])
    config = TINY.but(
        data_dir=str(folder), output_dir=str(tmp_path / "voice"), num_epochs=1, frame_buckets=(96,)
    )
    dataset = LJSpeechDataset(config)
    model = KokoroModel(config)
    trainer = EnglishTrainer.of(config, dataset, model, backend=make("cpu", "cpu"))
    start = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    found = trainer.train()
    trainer.close()
    assert (len(dataset), len(dataset.train), len(dataset.held_out)) == (8, 6, 2)
    assert dataset[0].name == "clip0"
    assert found["total"] > 0
    weights = model.state_dict()
    assert all(
        torch.equal(start[name].cpu(), weights[name])
        for name in weights
        if name not in ("mel_mean", "mel_std")
    )
    assert torch.equal(start["mel_mean"].cpu(), torch.tensor(dataset.statistics["mel_mean"]))
    assert not torch.equal(trainer.model.embedding.weight.detach().cpu(), weights["embedding.weight"])


def test_recomputed_layers_change_nothing_of_the_same_dropout(new_trainer: New) -> None:
    found, dropout = [], {"encoder_dropout": 0.3, "decoder_dropout": 0.3}
    for again in (False, True):
        trainer = new_trainer(gradient_checkpointing=again, **dropout)
        batch = trainer.backend.shard_batch(batch_of([made_up(each) for each in range(4)], 48, TINY))
        found.append([float(trainer.train_step(batch).total) for _ in range(3)])
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_validation_computes_in_the_precision_of_the_moment(new_trainer: New) -> None:
    trainer, found = new_trainer(), []
    assert (trainer.amp, new_trainer(cpu_precision="bfloat16").amp) == ("float32", "bfloat16")
    assert new_trainer(cpu_precision="bfloat16", use_mixed_precision=False).amp == "float32"
    for amp in ("float32", "bfloat16", "float32"):
        trainer.amp = amp
        found.append(trainer.validate()["total"])
    full, half, again = found
    assert full == again != half
    assert half == pytest.approx(full, rel=0.01)


def test_torn_and_missing_checkpoints_are_errors_with_their_reason(tmp_path: Path) -> None:
    assert checkpoint_manager.load_checkpoint(tmp_path) is None
    (tmp_path / "step-00000001.pt").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=r"step-00000001\.pt cannot be read"):
        checkpoint_manager.load_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"step-00000009\.pt cannot be read"):
        checkpoint_manager.load_checkpoint(tmp_path / "step-00000009.pt")


def test_a_checkpoint_is_written_by_time(new_trainer: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preempted machine loses at most the last interval."""
    import time

    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    trainer = new_trainer(num_epochs=2, save_every=2, save_minutes=2.0, log_interval=1, validate_every=0)
    trainer.on_figures.append(lambda *_: now.__setitem__(0, now[0] + 61))
    saved: list[int] = []
    state = trainer.state
    trainer.state = lambda: (saved.append(trainer.steps_done), state())[1]
    trainer.train()
    assert saved[0] == 2
    assert saved[-1] == trainer.steps_done


def test_a_run_states_what_it_trains_and_that_its_data_have_changed(
    new_trainer: New, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the other recipes do: they share one loop."""
    first = new_trainer(num_epochs=1)
    first.train()
    output = capsys.readouterr().out.splitlines()
    count = sum(each.numel() for each in first.model.parameters())
    assert output[0] == (
        f"English TTS: {count:,} parameters, all trained; made up: 10 utterances to train on, 2 held out, "
        f"{first.steps_per_epoch} steps an epoch; {first.steps_done} steps"
    )
    assert output[1].startswith("epoch 1: loss ")
    again = new_trainer(num_epochs=2)
    again.setup_checkpoint_resumption()
    assert "data have changed" not in capsys.readouterr().err
    again = new_trainer(num_epochs=2)
    again.train_set[0].mel[0] += 1
    assert again.setup_checkpoint_resumption() == first.steps_done
    shown = capsys.readouterr()
    assert f"resuming after step {first.steps_done}" in shown.out
    assert "the data have changed since that checkpoint" in shown.err
