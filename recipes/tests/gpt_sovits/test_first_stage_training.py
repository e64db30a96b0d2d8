"""Training of the first stage: the original's optimizer and updates, one program, and an exact resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.common.errors import DataError  # noqa: E402
from tpulab_recipes.gpt_sovits.config import FULL_FIRST_STAGE, FirstStageConfig  # noqa: E402
from tpulab_recipes.gpt_sovits.s1 import Text2SemanticDecoder, load_first_stage  # noqa: E402
from tpulab_recipes.gpt_sovits.s1_training import (  # noqa: E402
    FirstStageTrainer,
    ScaledAdam,
    TokenExample,
    eval_batches,
    export_first_stage,
    read_examples,
    start_first_stage,
    train_batches,
)
from tpulab_recipes.runtime.selection import make  # noqa: E402

from .reference import golden, loaded, meta, near, published_keys, tensor  # noqa: E402

TINY = FirstStageConfig(
    hidden_dim=32, head=2, n_layer=2, codebook=16, bert_channels=4, epochs=6, batch_size=2, learning_rate=0.01
)


def _spoken(count: int = 5) -> list[TokenExample]:
    """Every phoneme is two tokens."""
    found = []
    for number in range(count):
        text = np.random.default_rng(number).integers(20, 28, 6 + number)
        found.append(TokenExample(f"{number}.wav", text, np.repeat(text - 20, 2), None))
    return found


def _trainer(backend: Any) -> FirstStageTrainer:
    c, model = start_first_stage(TINY, "")
    return FirstStageTrainer(c, model, backend)


def test_the_optimizer_matches_the_original() -> None:
    name, weights = "s1_scaled_adam", {}
    for each in "abcsuv":
        weights[each] = torch.nn.Parameter(tensor(name, f"in/p/{each}"))
    optimizer = ScaledAdam(weights.values(), 0.01, clipping_period=4)
    for step in range(12):
        for each, weight in weights.items():
            weight.grad = tensor(name, f"in/grad/{each}")[step]
        optimizer.step()
        for each, weight in weights.items():
            found = golden(name)[f"out/{each}"][step]
            np.testing.assert_allclose(weight.detach().numpy(), found, atol=1e-6)


def test_six_updates_equal_the_originals() -> None:
    """With its loss: a sum, in which padding counts and short texts are hidden on the wrong side."""
    name = "s1_train_step"
    model = loaded(Text2SemanticDecoder(**meta("s1_forward")["config"], bert_channels=24), "s1_forward")
    optimizer, updates = ScaledAdam(model.parameters(), 0.01), 0
    for number in range(25):
        keys = ("x", "x_lens", "y", "y_lens", "bert")
        batch = [tensor(name, f"in/{number % 3}/{key}") for key in keys]
        logits, targets = model(*batch, mask_first_places=True)
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="sum")
        assert float(loss.detach()) == pytest.approx(float(golden(name)["out/loss"][number]), rel=2e-5)
        loss.backward()
        if number and number % 4 == 0:
            optimizer.param_groups[0]["lr"] = float(golden(name)["out/lr_used"][updates])
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
            for key in (each for each in golden(name).files if each.startswith(f"out/after{updates}/")):
                near(dict(model.named_parameters())[key.split("/", 2)[2]], name, key)
    assert updates == 6


def test_it_learns_resumes_exactly_and_is_exported_as_the_original_reads_it(tmp_path: Path) -> None:
    backend, spoken = make("cpu", "cpu"), _spoken()
    trainer = _trainer(backend)
    before = trainer.evaluate(eval_batches(spoken, trainer.config, with_bert=False))
    losses: list[float] = []
    saved: dict[str, Any] = {}
    for number, batch in enumerate(train_batches(spoken, trainer.config, 0)):
        if number == 5:
            saved = trainer.state()
        losses.append(float(trainer.train_step(backend.shard_batch(batch)).detach()))
    after = trainer.evaluate(eval_batches(spoken, trainer.config, with_bert=False))
    assert len(losses) == 18
    assert after["held_out_loss"] < 0.9 * before["held_out_loss"]
    assert 0 <= before["held_out_top3"] < after["held_out_top3"] <= 1
    resumed = _trainer(backend)
    resumed.load_state(saved)
    again = [
        float(resumed.train_step(backend.shard_batch(batch)))
        for batch in train_batches(spoken, trainer.config, 5)
    ]
    assert again == losses[5:]

    file = tmp_path / "s1.ckpt"
    export_first_stage(trainer.model, trainer.config, file, 4)
    held = torch.load(file, weights_only=True)
    assert held["info"] == "GPT-e4"
    assert held["config"]["model"]["EOS"] == 16
    assert all(
        key.startswith("model.") and value.dtype == torch.float16 for key, value in held["weight"].items()
    )
    read = load_first_stage(file)
    torch.testing.assert_close(
        read.ar_predict_layer.weight, trainer.model.ar_predict_layer.weight, atol=1e-3, rtol=0
    )
    c, _ = start_first_stage(FULL_FIRST_STAGE, str(file))
    assert (c.hidden_dim, c.n_layer, c.head, c.codebook, c.bert_channels) == (32, 2, 2, 16, 4)


def test_the_full_size_has_the_published_keys() -> None:
    with torch.device("meta"):
        model = Text2SemanticDecoder(**FULL_FIRST_STAGE.sizes)
    found = [(f"model.{key}", list(value.shape)) for key, value in model.state_dict().items()]
    assert sorted(found) == sorted(published_keys("s1longer-v2"))


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_one_program_for_all_updates_which_trains_like_the_host() -> None:
    xla, host = make("torch_xla", "cpu"), make("cpu", "cpu")
    losses, counts = [], []
    for backend in (xla, host):
        trainer = _trainer(backend)
        for layer in trainer.model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        found, before = [], backend.compilations().count
        for batch in train_batches(_spoken(), trainer.config, 0):
            found.append(float(trainer.train_step(backend.shard_batch(batch))))
            counts.append(backend.compilations().count - before)
        losses.append(found)
    # The size of a weight is measured at the fourth update, by the same program.
    assert counts[2:12] == [counts[2]] * 10
    np.testing.assert_allclose(*losses, rtol=2e-3)


def test_clips_without_tokens_or_with_odd_ones_are_left_out_by_name(tmp_path: Path) -> None:
    rows = {
        name: f"{name}\tHH AH0 L OW1\tNone\thello\n" for name in ("good", "none", "large", "slow", "word")
    }
    (tmp_path / "2-name2text.txt").write_text("".join(rows.values()))
    with pytest.raises(DataError, match="give prepare the second stage, with --pretrained-s2G"):
        read_examples(tmp_path, TINY)
    tokens = {"good": "1 " * 20, "large": "16 " * 20, "slow": "1 " * 100, "word": "1 a 2"}
    table = "".join(f"{name}\t{row.strip()}\n" for name, row in tokens.items())
    (tmp_path / "6-name2semantic.tsv").write_text(f"item_name\tsemantic_audio\n{table}")
    (tmp_path / "3-bert").mkdir()
    torch.save(torch.ones(4, 4), tmp_path / "3-bert/good.pt")
    (found,), reasons = read_examples(tmp_path, TINY)
    assert (found.name, len(found.tokens), found.size) == ("good", 20, (128, 128))
    assert found.bert is not None
    assert reasons.keys() == {"none", "large", "slow", "word"}
    assert "1.0 phonemes a second are not from 3 to 25" in reasons["slow"]
    (batch,) = eval_batches([found], TINY, with_bert=True)
    assert (batch["bert"][0, :, :4] == 1).all()
    assert not batch["bert"][0, :, 4:].any()
    assert batch["counts"].tolist() == [1, 0]
