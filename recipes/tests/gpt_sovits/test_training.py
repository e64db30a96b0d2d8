"""The two updates: the original's own steps, resumed bit for bit, few programs, padding without effect."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.audio.hifigan import MultiPeriodDiscriminator  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError  # noqa: E402
from tpulab_recipes.gpt_sovits.checkpoints import export_training, make_models  # noqa: E402
from tpulab_recipes.gpt_sovits.config import Config  # noqa: E402
from tpulab_recipes.gpt_sovits.data import (  # noqa: E402
    Clip,
    eval_batches,
    rows,
    spectrogram,
    steps_per_epoch,
    train_batches,
)
from tpulab_recipes.gpt_sovits.models import SynthesizerTrn  # noqa: E402
from tpulab_recipes.gpt_sovits.trainer import Trainer  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402
from tpulab_recipes.torch_training import load_checkpoint, save_checkpoint  # noqa: E402

from .reference import golden, meta, near, tensor, tiny_synthesizer, weights  # noqa: E402

#: The smallest size that still has every part.
TINY = Config(
    epochs=50,
    batch_size=2,
    segment_size=512,
    buckets=(24, 40),
    text_length=12,
    filter_length=128,
    hop_length=32,
    win_length=128,
    n_mel_channels=20,
    inter_channels=8,
    hidden_channels=8,
    filter_channels=16,
    resblock_kernel_sizes=(3,),
    resblock_dilation_sizes=((1,),),
    upsample_rates=(8, 4),
    upsample_initial_channel=16,
    upsample_kernel_sizes=(16, 8),
    gin_channels=16,
    ssl_channels=6,
    codebook=16,
    style_hidden=8,
    posterior_layers=1,
    flow_layers=1,
    discriminator_divisor=128,
    periods=(2,),
)


def clips(count: int, frames: Any = lambda n: 18 + n % 3) -> list[Clip]:
    made = []
    for n in range(count):
        random = np.random.default_rng(n)
        wave = np.float32(0.3 * np.sin(np.arange(frames(n) * 32) * 0.05 * (n + 3)))
        ssl = random.standard_normal((6, frames(n)), np.float32)
        made.append(Clip(f"c{n}", random.integers(1, 300, 6 + n % 4), ssl, spectrogram(wave, TINY), wave))
    return made


def trainer_of(config: Config, backend: Any, steps_in_epoch: int = 4) -> Trainer:
    backend.seed(config.seed)
    return Trainer(config, *make_models(config), backend, steps_in_epoch)


def train(trainer: Trainer, data: list[Clip], steps: int) -> list[dict[str, float]]:
    batches = train_batches(data, trainer.config, trainer.steps_done)
    done = [
        trainer.train_step(trainer.backend.shard_batch(b))
        for _, b in zip(range(steps), batches, strict=False)
    ]
    return [{name: float(value) for name, value in each.items()} for each in done]


def _reference_config() -> Config:
    held, model = meta("train_step")["config"], meta("synthesizer")["config"]
    settings = {**held["data"], **held["train"], **model}
    names = {field.name for field in dataclasses.fields(Config)}
    changes = {
        key: tuple(map(tuple, value))
        if value and isinstance(value, list) and isinstance(value[0], list)
        else value
        for key, value in settings.items()
        if key in names
    }
    changes = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
    return Config(
        **changes
        | {"segment_size": 512, "lr_decay": 1.0, "ssl_channels": 24, "buckets": (24, 26), "batch_size": 2}
    )


def _reference_batches(config: Config) -> Iterator[dict[str, Any]]:
    """The reference's own two batches: the longer clip first, padded as its collate function does."""
    file = golden("train_step")
    for step in range(2):
        pair = []
        for item in range(2):
            wave = file[f"in/wav/{step}/{item}"][0]
            ssl, text = file[f"in/ssl/{step}/{item}"][0], file[f"in/text/{step}/{item}"]
            spec = spectrogram(wave, config)
            pair.append(Clip("", text.astype(np.int64), ssl[:, : spec.shape[1]], spec, wave))
        pair.sort(key=lambda clip: -clip.frames)
        noise = tensor("train_step", f"draws/randn_like_{step}")
        drawn = np.asarray(tensor("train_step", f"draws/rand_{step}"))
        yield rows(pair, config, noise.shape[2], np.random.default_rng(0), uniform=drawn) | {"noise": noise}


def test_two_steps_equal_the_originals_two_steps() -> None:
    name, config, backend = "train_step", _reference_config(), make("cpu", "cpu")
    judge = MultiPeriodDiscriminator(divisor=32)
    judge.load_state_dict(weights("mpd"))
    trainer = Trainer(config, tiny_synthesizer(style_dropout=0.0), judge, backend, 1)
    grads: dict[str, dict[str, Any]] = {}

    def keep(side: str, model: Any) -> Any:
        def hook(*_: Any) -> None:
            found = {key: None if p.grad is None else p.grad.clone() for key, p in model.named_parameters()}
            grads.setdefault(side, found)

        return hook

    trainer.optimizer.register_step_pre_hook(keep("g", trainer.generator))
    trainer.optimizer_d.register_step_pre_hook(keep("d", trainer.discriminator))
    losses = [trainer.train_step(backend.shard_batch(batch)) for batch in _reference_batches(config)]
    for tag, value in losses[0].items():
        both = torch.stack([value, losses[1][tag]])
        near(both.reshape(2), name, f"out/scalars/{tag}", 3e-5)
    file = golden(name)
    for side, model in (("g", trainer.generator), ("d", trainer.discriminator)):
        state = model.state_dict()
        for key in file.files:
            prefix, _, rest = key.removeprefix("out/").partition("/")
            if prefix == f"grad_{side}":
                near(grads[side][rest], name, key, 3e-5)
            elif prefix == f"after_{side}":
                near(state[rest], name, key, 3e-5)
        # None exactly where the original has none, so that AdamW leaves ssl_proj alone.
        norms = file[f"out/grad_norm_{side}"]
        for key, norm in zip(meta(name)[f"names_{side}"], norms, strict=True):
            assert (grads[side][key] is None) == bool(np.isnan(norm)), key
            if not np.isnan(norm):
                assert float(grads[side][key].norm()) == pytest.approx(float(norm), rel=1e-4, abs=2e-4)


def test_each_update_leaves_the_other_model_alone_and_frozen_parts_stay() -> None:
    trainer = trainer_of(TINY, make("cpu", "cpu"))
    batch = trainer.backend.shard_batch(next(train_batches(clips(4), TINY)))

    def states() -> list[dict[str, Any]]:
        return [
            {key: value.clone() for key, value in model.state_dict().items()}
            for model in (trainer.generator, trainer.discriminator)
        ]

    def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
        return {key for key in before if not torch.equal(before[key], after[key])}

    before = states()
    trainer.discriminator_step(batch)
    between = states()
    trainer.generator_step(batch)
    after = states()
    assert not changed(before[0], between[0])
    assert len(changed(before[1], between[1])) > 20
    assert not changed(between[1], after[1])
    moved = changed(between[0], after[0])
    assert not [key for key in moved if key.startswith(("ssl_proj", "quantizer"))]
    assert all(
        any(key.startswith(part) for key in moved) for part in ("enc_p", "enc_q", "dec", "flow", "ref_enc")
    )
    assert all(each.grad is None for each in trainer.discriminator.parameters())


def test_rates_fall_by_the_epoch_and_the_text_learns_more_slowly() -> None:
    trainer = trainer_of(TINY.but(lr_decay=0.5), make("cpu", "cpu"), steps_in_epoch=2)
    data, rates = clips(4), []
    for _ in range(3):
        train(trainer, data, 1)
        rates.append([group["lr"] for group in trainer.optimizer.param_groups])
    peak = TINY.learning_rate
    assert [each[0] for each in rates] == [pytest.approx(peak * share) for share in (0.5, 0.5, 0.25)]
    assert rates[0][1:] == [pytest.approx(0.4 * rates[0][0])] * 3
    assert trainer.optimizer_d.param_groups[0]["lr"] == pytest.approx(peak * 0.25)


def test_the_loss_does_not_depend_on_the_padding() -> None:
    losses, data = [], clips(2, lambda n: 20 - n)
    for frames, texts in ((24, 12), (40, 20)):
        trainer = trainer_of(TINY.but(text_length=texts), make("cpu", "cpu"))
        batch = rows(data, trainer.config, frames, np.random.default_rng(0), uniform=np.float32([0.3, 0.7]))
        batch["noise"] = np.pad(np.ones((2, 8, 24), np.float32), ((0, 0), (0, 0), (0, frames - 24)))
        losses.append(
            {
                key: float(value)
                for key, value in trainer.train_step(trainer.backend.shard_batch(batch)).items()
            }
        )
    assert losses[0] == pytest.approx(losses[1], rel=2e-5)


def test_resumes_bit_for_bit_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    config, data, backend = TINY.but(p_dropout=0.1), clips(6), make("cpu", "cpu")
    whole = trainer_of(config, backend)
    train(whole, data, 2)
    save_checkpoint(backend, tmp_path, 2, whole.state())
    expected = train(whole, data, 3)
    again = trainer_of(config, backend)
    again.load_state(load_checkpoint(tmp_path)[1])
    assert train(again, data, 3) == expected
    for key, value in whole.state()["model"].items():
        assert torch.equal(again.state()["model"][key], value)
    with pytest.raises(CheckpointError, match=r"c_kl is 1\.0 there and 2\.0 here"):
        trainer_of(config.but(c_kl=2.0), backend).load_state(load_checkpoint(tmp_path)[1])


def test_the_originals_adamw_resumes_from_a_training_checkpoint(tmp_path: Path) -> None:
    """As the original resumes: its modules and its four groups, with what we wrote."""
    trainer = trainer_of(TINY, make("cpu", "cpu"))
    train(trainer, clips(4), 1)
    export_training(trainer.generator, TINY, tmp_path / "G_1.pth", 1, trainer.optimizer)
    held = torch.load(tmp_path / "G_1.pth", weights_only=True)
    model = SynthesizerTrn(**TINY.model)
    model.load_state_dict(held["model"], strict=True)
    slow = [
        list(getattr(model.enc_p, part).parameters()) for part in ("text_embedding", "encoder_text", "mrte")
    ]
    known = {id(each) for group in slow for each in group}
    base = [each for each in model.parameters() if id(each) not in known]
    optimizer = torch.optim.AdamW([{"params": each} for each in (base, *slow)], lr=1.0)
    optimizer.load_state_dict(held["optimizer"])
    moment = optimizer.state[model.dec.conv_pre.weight]["exp_avg"]
    assert torch.equal(moment, trainer.optimizer.state[trainer.generator.dec.conv_pre.weight]["exp_avg"])


def test_recomputed_activations_change_nothing() -> None:
    found = [
        train(trainer_of(TINY.but(remat=remat), make("cpu", "cpu")), clips(4), 2) for remat in (False, True)
    ]
    assert found[0] == [pytest.approx(each, rel=1e-5) for each in found[1]]


def test_overfits_two_clips() -> None:
    trainer = trainer_of(TINY.but(learning_rate=6e-3, epochs=150), make("cpu", "cpu"), 1)
    data = clips(2)
    before = trainer.evaluate(eval_batches(data, trainer.config))
    train(trainer, data, 80)
    assert trainer.evaluate(eval_batches(data, trainer.config)) < 0.65 * before


def test_every_clip_is_trained_on_and_evaluated_once() -> None:
    data = clips(7, lambda n: 19 if n % 2 else 30)
    config = TINY.but(epochs=1)
    batches = list(train_batches(data, config))
    assert len(batches) == steps_per_epoch(data, config) == 4
    seen = np.concatenate([batch["spec_lengths"] for batch in batches])
    assert sorted(set(seen)) == [19, 30]
    assert sum(batch["counts"].sum() for batch in eval_batches(data, config)) == 7
    again = next(train_batches(data, config, 2))
    for key, value in again.items():
        np.testing.assert_array_equal(value, batches[2][key])


#: The mode is chosen once in a process, so each has a separate one. `many`: 8 devices of XLA:CPU, one
#: program over them; `one`: one device, in bfloat16.
PROGRAM = """
import json, math, sys
from gpt_sovits.test_training import TINY, clips, train, train_batches, trainer_of
from tpulab_recipes import runtime
from tpulab_recipes.compile_ahead.torch_export import export_step
from torch_xla.debug import metrics
many = sys.argv[1] == "many"
backend = runtime.use("torch_xla", platform="cpu", spmd=many)
config = TINY.but(batch_size=8, precision="float32" if many else "bfloat16")
trainer, data = trainer_of(config, backend), clips(16)
found = {"devices": len(backend.devices())}
found["dtypes"] = sorted({str(each.dtype) for each in trainer.models.parameters()})
names = ("CachedCompile", "UncachedCompile")
executions = lambda: sum(metrics.counter_value(name) or 0 for name in names)
before, handed = backend.compilations().count, executions()
found["losses"] = train(trainer, data, 2)
found["programs"] = backend.compilations().count - before
found["executions"] = executions() - handed
if not many:
    trainer.learning_rate, trainer.c_mel = 1e-4, 20.0
    train(trainer, data[::-1], 1)
    found["later"] = backend.compilations().count - before - found["programs"]
    batch = backend.shard_batch(next(train_batches(data, config)))
    step = lambda given: trainer.train_step(given)["loss/g/total"]
    held = [trainer.optimizer, trainer.optimizer_d]
    program = export_step(backend, step, batch, model=trainer.models, optimizer=held, name="both").program
    states = sum(math.prod(each.shape) for each in program.inputs if each.role == "state")
    learned = sum(each.numel() for each in trainer.models.parameters() if each.requires_grad)
    found["states"] = states / learned
    found["stablehlo"] = program.module.startswith(b"ML\\xefR")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def plain() -> list[dict[str, float]]:
    return train(trainer_of(TINY.but(batch_size=8), make("cpu", "cpu")), clips(16), 2)


def on_xla(how: str, devices: int) -> dict[str, Any]:
    tests = Path(__file__).parents[1]
    here = {
        "PYTHONPATH": f"{tests.parent / 'src'}{os.pathsep}{tests}",
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": str(devices),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        env=os.environ | here,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["devices"] == devices
    assert found["dtypes"] == ["torch.float32"]
    return found


LOSSES = ("loss/d/total", "loss/g/total", "loss/g/fm", "loss/g/mel", "loss/g/kl")


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_eight_devices_train_like_one(plain: list[dict[str, float]]) -> None:
    found = on_xla("many", 8)
    for ours, reference in zip(found["losses"], plain, strict=True):
        for key in LOSSES:
            assert ours[key] == pytest.approx(reference[key], rel=3e-4)


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_two_programs_a_bucket_in_bfloat16_and_one_for_the_tpu_compiler(
    plain: list[dict[str, float]],
) -> None:
    """recipes/tests/torch_aot compiles what is exported here."""
    found = on_xla("one", 1)
    assert found["programs"] == 2
    # Two pairs of updates: each is handed over as two programs, and nothing else.
    assert found["executions"] == 4
    # New rates, weights and clips are no new programs.
    assert found["later"] == 0
    # Parameters and two moments of each.
    assert found["states"] >= 3
    assert found["stablehlo"]
    # With the same weights; after one update of Adam they are others.
    ours, reference = ([each[key] for key in LOSSES] for each in (found["losses"][0], plain[0]))
    assert ours == pytest.approx(reference, rel=0.03)
    assert ours != pytest.approx(reference, rel=1e-4)
