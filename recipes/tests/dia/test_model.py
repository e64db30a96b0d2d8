"""The model against its references: both rules, RoPE, the loss and gradients of transformers, and a trace
that reads nothing back."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dia.reference import (  # noqa: E402
    by_channel,
    config,
    golden,
    near,
    original_weights,
    reference_model,
    streams,
    tensor,
)
from fits_xla import ForbiddenOperator, forbid_operators, trace_full_graph  # noqa: E402
from tpulab_recipes.dia.model import make_static, model_of, rotate, rule_of, tiny_model  # noqa: E402


@torch.no_grad()
def test_0626_computes_the_reference_states_and_logits() -> None:
    out = reference_model()(**streams())
    near(by_channel(out.logits), "tiny_forward", "out/logits")
    spoken = tensor("tiny_forward", "out/padding_mask")[:, :32, None]
    reference = tensor("tiny_forward", "out/enc_out")
    torch.testing.assert_close(
        out.encoder_last_hidden_state[:, :32] * spoken, reference * spoken, atol=1e-5, rtol=1e-5
    )


@torch.no_grad()
def test_v0_1_rotates_the_cross_attention_and_computes_differently() -> None:
    model = reference_model("v0.1")
    assert rule_of(model) == rule_of(make_static(model)) == "v0.1"
    ours = by_channel(model(**streams()).logits)
    near(ours[:, -5:], "tiny_forward", "out/v01_logits")
    assert float((ours - tensor("tiny_forward", "out/logits")).abs().max()) > 0.5


@pytest.mark.parametrize("key", ["out/y", "out/hf_y"])
def test_rotates_as_the_references_do(key: str) -> None:
    x, positions = tensor("rope", "in/x"), tensor("rope", "in/positions")
    near(rotate(x.transpose(1, 2), positions).transpose(1, 2), "rope", key, 2e-5)


def test_loss_logits_and_gradients_match_transformers() -> None:
    model = reference_model().train()
    batch = {
        key: tensor("hf_train", f"out/tiny/{key}").long()
        for key in (
            "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels",
        )
    }  # fmt: skip
    out = model(**batch)
    out.loss.backward()
    near(out.loss, "hf_train", "out/tiny/loss")
    near(out.logits[:, :8], "hf_train", "out/tiny/logits")
    gradients = {name: each.grad for name, each in model.named_parameters()}
    names = json.loads(str(golden("hf_train")["meta"]))["names"]
    near(torch.stack([gradients[name].norm() for name in names]), "hf_train", "out/tiny/grad_norm")
    keys = [key for key in golden("hf_train").files if key.startswith("out/tiny/grad/")]
    assert len(keys) == 4
    for key in keys:
        near(gradients[key.removeprefix("out/tiny/grad/")], "hf_train", key)


def _padded() -> tuple[torch.Tensor, ...]:
    batch = streams()
    own = torch.ones(batch["decoder_input_ids"].shape[:2], dtype=torch.int64)
    return batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"], own


def test_plain_transformers_reads_its_masks_back() -> None:
    """The reason for `make_static`. When this fails, transformers no longer does: remove the patch."""
    text, mask, tokens, own = _padded()
    for implementation in ("sdpa", "eager"):
        plain = model_of(original_weights(), config(), "0626")
        plain.set_attn_implementation(implementation)
        with forbid_operators(), pytest.raises(ForbiddenOperator, match="_local_scalar_dense"):
            plain(text, mask, tokens, decoder_attention_mask=own)


def test_a_static_model_reads_nothing_back_and_traces_as_one_graph() -> None:
    text, mask, tokens, own = _padded()
    model = reference_model()

    def logits(
        text: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor, own: torch.Tensor
    ) -> torch.Tensor:
        return model(text, mask, tokens, decoder_attention_mask=own).logits

    with forbid_operators():
        logits(text, mask, tokens, own).sum().backward()
    near(by_channel(trace_full_graph(logits, text, mask, tokens, own)), "tiny_forward", "out/logits")


@torch.no_grad()
def test_static_and_plain_agree_and_nothing_is_ever_fully_masked() -> None:
    model, (text, mask, tokens, own) = tiny_model(), _padded()
    # Rows of padding on the left see no key; none may turn into nan, and no other row may notice.
    own[1, :5] = 0
    plain = model(text, mask, tokens % 1000, decoder_attention_mask=own).logits
    static = make_static(model)(text, mask, tokens % 1000, decoder_attention_mask=own).logits
    assert torch.isfinite(static).all()
    kept = own.bool().repeat_interleave(9, 0)
    torch.testing.assert_close(static[kept], plain[kept], atol=1e-5, rtol=1e-5)
