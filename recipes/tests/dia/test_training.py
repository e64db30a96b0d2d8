"""The training step: transformers' loss, one program, the same on eight devices, resumed bit for bit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers.models.dia")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError  # noqa: E402
from tpulab_recipes.compile_ahead.torch_export import export_step  # noqa: E402
from tpulab_recipes.dia.config import FULL_SIZE, Config  # noqa: E402
from tpulab_recipes.dia.data import (  # noqa: E402
    Clip,
    Layout,
    rows,
    train_batches,
)
from tpulab_recipes.dia.model import _STATIC as STATIC  # noqa: E402
from tpulab_recipes.dia.model import export_model, load_model, make_static, rule_of, tiny_model  # noqa: E402
from tpulab_recipes.dia.trainer import Trainer, label_count, loss_sum  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402
from tpulab_recipes.torch_training import core_of, load_checkpoint, save_checkpoint  # noqa: E402

from .reference import golden, reference_model  # noqa: E402

#: Windows as long as these clips need.
SHORT = Config(audio_length=128, batch_size=4, epochs=20, learning_rate=3e-3, weight_decay=0.1)
LAYOUT = Layout((0, 8, 9, 10, 11, 12, 13, 14, 15), eos=1024, pad=1025, bos=1026)


def _clips(count: int, frames: Callable[[int], int] = lambda n: 20 + 7 * n) -> list[Clip]:
    made = []
    for n in range(count):
        random = np.random.default_rng(n)
        codes = random.integers(0, 1024, (frames(n), 9)).astype(np.int16)
        made.append(Clip(f"clip{n}", random.integers(97, 122, 10 + n).astype(np.int32), codes))
    return made


def _tensors(batch: Any) -> dict[str, Any]:
    return {name: torch.from_numpy(value) for name, value in batch.items()}


def _trainer(config: Config, backend: Any, steps: int = 100) -> Trainer:
    backend.seed(config.seed)
    return Trainer(config, tiny_model(config.seed), backend, steps)


def _train(trainer: Trainer, clips: list[Clip], steps: int) -> list[float]:
    batches = train_batches(clips, trainer.config, LAYOUT, trainer.steps_done)
    return [
        float(trainer.train_step(trainer.backend.shard_batch(batch)))
        for _, batch in zip(range(steps), batches, strict=False)
    ]


@pytest.mark.parametrize("rule", ["0626", "v0.1"])
def test_no_scores_of_attention_wait_for_the_backward_pass(rule: str) -> None:
    """They are Float32[clip, head, time, time], 600 MB for each layer of the published model and clip of
    3,072 rows: with recomputed layers only those of one layer exist at a time."""
    (batch,) = train_batches(_clips(2), SHORT.but(batch_size=2, epochs=1), LAYOUT)
    rows_of_clip = batch["decoder_input_ids"].shape[1]

    def kept(remat: bool) -> list[tuple[int, ...]]:
        shapes: list[tuple[int, ...]] = []
        backend = make("cpu", "cpu")
        model = tiny_model()
        model.set_attn_implementation(STATIC[rule])
        trainer = Trainer(SHORT.but(remat=remat), model, backend, 1)
        assert rule_of(trainer.model) == rule

        def keep(value: Any) -> Any:
            shapes.append(tuple(value.shape))
            return value

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            loss = loss_sum(trainer.model.train(), _tensors(batch))
        loss.backward()
        # The mask, one for all layers, has one head.
        return [shape for shape in shapes if shape[1:] == (4, rows_of_clip, rows_of_clip)]

    assert kept(remat=False), "the test finds scores where layers are not recomputed"
    assert not kept(remat=True)
    assert FULL_SIZE.remat


def test_loss_matches_transformers() -> None:
    file, model = golden("hf_train"), reference_model()
    layout = Layout.of(model.config)
    text = file["out/tiny/input_ids"].astype(np.int32)
    mask = file["out/tiny/attention_mask"]
    clips = [
        Clip(str(n), text[n][mask[n] == 1], (file[f"in/codes{n}"] % 32).astype(np.int16)) for n in range(2)
    ]
    batch = _tensors(rows(clips, SHORT.but(batch_size=2), layout))
    loss = loss_sum(model, batch) / (batch["labels"] != -100).sum()
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(file["out/tiny/loss"]), rel=1e-5)
    for key in (name for name in file.files if name.startswith("out/tiny/grad/")):
        ours = dict(model.named_parameters())[key.removeprefix("out/tiny/grad/")].grad.numpy()
        np.testing.assert_allclose(ours, file[key], atol=1e-5 * max(1, np.abs(file[key]).max()))


def test_loss_is_the_model_s_own_and_does_not_depend_on_padding() -> None:
    model, clips = make_static(tiny_model()), _clips(3)
    short, long = (
        _tensors(rows(clips, SHORT.but(batch_size=3, audio_length=n, text_length=n), LAYOUT))
        for n in (128, 256)
    )
    losses = [float(loss_sum(model, batch).detach()) for batch in (short, long)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    labels = short["labels"].transpose(1, 2).flatten(0, 1).long()
    theirs = model(**{k: v for k, v in short.items() if k != "labels"}, labels=labels).loss
    assert losses[0] / int((labels != -100).sum()) == pytest.approx(float(theirs.detach()), rel=1e-5)


def test_gradient_accumulation_equals_the_whole_batch() -> None:
    clips = _clips(4)
    weights = []
    for parts in (1, 4):
        trainer = _trainer(SHORT.but(grad_accum_steps=parts, epochs=3), make("cpu", "cpu"))
        _train(trainer, clips, 2)
        weights.append(trainer.model.state_dict())
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-4, atol=2e-5)


def test_clipping_bounds_the_update() -> None:
    trainer = _trainer(SHORT.but(clip_norm=1e-3, epochs=3), make("cpu", "cpu"))
    norms: list[float] = []
    trainer.optimizer.register_step_pre_hook(
        lambda optimizer, *_: norms.append(
            float(
                torch.nn.utils.get_total_norm([p.grad for g in optimizer.param_groups for p in g["params"]])
            )
        )
    )
    _train(trainer, _clips(4), 1)
    assert norms == [pytest.approx(1e-3, rel=1e-3)]


def test_resumes_bit_for_bit_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    config, clips, backend = (
        SHORT.but(batch_size=2, unconditional_frac=0.5, ema=0.9),
        _clips(6),
        make("cpu", "cpu"),
    )
    unbroken = _trainer(config, backend)
    _train(unbroken, clips, 2)
    save_checkpoint(backend, tmp_path, 2, unbroken.state())
    expected = _train(unbroken, clips, 3)
    resumed = _trainer(config, backend)
    resumed.load_state(load_checkpoint(tmp_path)[1])
    assert _train(resumed, clips, 3) == expected
    for name, value in unbroken.state()["average"].items():
        assert torch.equal(resumed.state()["average"][name], value)
    with pytest.raises(CheckpointError, match=r"clip_norm is 5\.0 there and 1\.0 here"):
        _trainer(config.but(clip_norm=1.0), backend).load_state(load_checkpoint(tmp_path)[1])


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_one_program_for_training_and_one_for_evaluation() -> None:
    backend = make("torch_xla", platform="cpu")
    clips = _clips(12, lambda n: 5 + 9 * n)
    trainer = _trainer(SHORT.but(batch_size=2, precision="bfloat16", unconditional_frac=0.5), backend)
    losses = _train(trainer, clips, 1)
    trainer.evaluate(clips[:3])
    backend.sync()
    before = backend.compilations().count
    # Beyond two epochs.
    losses += _train(trainer, clips, 12)
    assert len(losses) == 13
    trainer.evaluate(clips[:7])
    assert backend.compilations().count == before
    assert np.isfinite(losses).all()
    assert losses[0] == pytest.approx(np.log(1028), rel=0.02)


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_a_step_is_one_exported_program_for_the_tpu_compiler() -> None:
    """recipes/tests/torch_aot compiles it; here PyTorch/XLA gives the program."""
    backend = make("torch_xla", platform="cpu")
    trainer = _trainer(SHORT.but(precision="bfloat16"), backend)
    batch = backend.shard_batch(next(train_batches(_clips(4), trainer.config, LAYOUT)))
    exported = export_step(
        backend, trainer.train_step, batch, model=trainer.model, optimizer=trainer.optimizer, name="dia"
    )
    inputs = exported.program.inputs
    assert {each.shape for each in inputs if each.role == "batch"} == {(4, 128), (4, 128, 9)}
    states = sum(math.prod(each.shape) for each in inputs if each.role == "state")
    # Parameters, two moments of each, and one step counter for all.
    assert states == 3 * sum(each.numel() for each in trainer.model.parameters()) + 1
    assert exported.program.module.startswith(b"ML\xefR")


def test_overfits_four_clips() -> None:
    clips = _clips(4, lambda n: 10 + n)
    config = SHORT.but(unconditional_frac=0, epochs=90, warmup_steps=10, weight_decay=0, learning_rate=1e-2)
    trainer = _trainer(config, make("cpu", "cpu"), 90)
    assert _train(trainer, clips, 90)[-1] < 0.05
    assert trainer.evaluate(clips) < 0.05


def test_adapters_train_alone_and_merge(tmp_path: Path) -> None:
    trainer = _trainer(SHORT.but(lora_rank=2, learning_rate=1e-2), make("cpu", "cpu"))
    before = copy.deepcopy(trainer.model.state_dict())
    clips = _clips(4)
    _train(trainer, clips, 3)
    changed = {
        name for name, value in trainer.model.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed
    assert all("lora_" in name for name in changed)
    export_model(trainer.model, None, tmp_path)
    merged = load_model(str(tmp_path))
    assert rule_of(merged) == "0626"
    batch = _tensors(rows(clips, trainer.config, LAYOUT))
    trainer.model.eval()
    assert float(loss_sum(merged, batch)) == pytest.approx(float(loss_sum(trainer.model, batch)), rel=1e-5)
    assert not any("lora" in name for name in core_of(merged).state_dict())


def test_checkpoints_of_adapters_hold_adapters_alone_and_the_average_copies_nothing_frozen() -> None:
    """They held the whole model of 6.4 GB, and the average moved 1.6 B parameters that never change."""
    trainer = _trainer(SHORT.but(lora_rank=2, ema=0.9), make("cpu", "cpu"))
    _train(trainer, _clips(4), 1)
    state = trainer.state()
    for part in ("model", "average"):
        assert state[part]
        assert all("lora_" in name for name in state[part])
    for kept, new in zip(trainer.average.parameters(), trainer.model.parameters(), strict=True):
        assert (kept is new) != new.requires_grad


def test_an_export_makes_no_copy_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It copied model and average on the chip, which was out of memory after the last step."""
    trainer = _trainer(SHORT.but(lora_rank=2, ema=0.9), make("cpu", "cpu"))
    on_device = {id(each) for each in (*trainer.trained.parameters(), *trainer.trained.buffers())}
    copied = torch.Tensor.__deepcopy__

    def on_host_only(tensor: Any, memo: Any) -> Any:
        assert id(tensor) not in on_device
        return copied(tensor, memo)

    for kind in (torch.Tensor, torch.nn.Parameter):
        monkeypatch.setattr(kind, "__deepcopy__", on_host_only)
    export_model(trainer.trained, None, tmp_path)
    assert load_model(str(tmp_path)).num_parameters() == tiny_model().num_parameters()


def test_the_full_size_weighs_channels_as_the_original_and_adapters_have_their_own_rate() -> None:
    assert (FULL_SIZE.peak, FULL_SIZE.but(lora_rank=16).peak) == (1e-5, 1e-4)
    model, batch = make_static(tiny_model()), _tensors(rows(_clips(3), SHORT.but(batch_size=3), LAYOUT))
    weighted = loss_sum(model, batch, FULL_SIZE.first_channel_weight)
    weighted = weighted / label_count(batch["labels"], FULL_SIZE.first_channel_weight)
    text = {name: value for name, value in batch.items() if name != "labels"}
    logits, labels = model(**text).logits.view(3, 9, 128, -1), batch["labels"].long()
    each = [
        torch.nn.functional.cross_entropy(logits[:, c].flatten(0, 1), labels[..., c].flatten())
        for c in range(9)
    ]
    # nari-labs/dia: channel weights [4, 1, 1, ...]. Each channel has the same number of labels here.
    assert float(weighted.detach()) == pytest.approx(float((4 * each[0] + sum(each[1:])) / 12), rel=1e-4)
