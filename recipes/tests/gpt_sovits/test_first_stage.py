"""The first stage: what the original computes, samples and stops at, with a cache of one size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError, ConfigError  # noqa: E402
from tpulab_recipes.gpt_sovits.checkpoints import make_models  # noqa: E402
from tpulab_recipes.gpt_sovits.config import Config  # noqa: E402
from tpulab_recipes.gpt_sovits.data import small_features  # noqa: E402
from tpulab_recipes.gpt_sovits.s1 import (  # noqa: E402
    Sampling,
    Text2SemanticDecoder,
    _Writer,
    generate,
    load_first_stage,
    penalised,
    probabilities,
)
from tpulab_recipes.gpt_sovits.text import read  # noqa: E402
from tpulab_recipes.gpt_sovits.voices import Voice  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

from .reference import golden, loaded, meta, near, published_keys, recipe_value, tensor  # noqa: E402

GREEDY = Sampling(top_k=1, max_ids=60)


def _model() -> Any:
    return loaded(Text2SemanticDecoder(**meta("s1_forward")["config"], bert_channels=24), "s1_forward")


def _items() -> tuple[list[Any], list[Any], Any]:
    """Phonemes, bert features and prompts of the three texts, without padding."""
    file = golden("s1_infer")
    lens = file["in/x_lens"]
    texts = [file["in/x"][n, :length] for n, length in enumerate(lens)]
    berts = [file["in/bert"][n, :, :length] for n, length in enumerate(lens)]
    return texts, berts, file["in/prompt"]


def test_logits_targets_loss_and_gradients() -> None:
    name, model = "s1_forward", _model()
    x, x_lens, y, y_lens, bert = (tensor(name, f"in/{key}") for key in ("x", "x_lens", "y", "y_lens", "bert"))
    logits, targets = model(x, x_lens, y, y_lens, bert, mask_first_places=True)
    near(logits, name, "out/old/logits")
    near(targets, name, "out/old/targets")
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="sum")
    near(loss, name, "out/old/loss", 3e-5)
    loss.backward()
    found = dict(model.named_parameters())
    for key in (each for each in golden(name).files if each.startswith("out/old/grad/")):
        near(found[key.removeprefix("out/old/grad/")].grad, name, key, 3e-5)
    norms = torch.tensor([float(found[key].grad.norm()) for key in meta(name)["names"]])
    near(norms, name, "out/old/grad_norm", 5e-5)


def test_hiding_the_right_side_makes_texts_independent_of_their_batch() -> None:
    """The original hides the first places of short texts instead (docs/recipe-notes.md, first stage, 1)."""
    name, model = "s1_forward", _model()
    x, x_lens, y, y_lens, bert = (tensor(name, f"in/{key}") for key in ("x", "x_lens", "y", "y_lens", "bert"))
    logits, _ = model(x, x_lens, y, y_lens, bert)
    for row in range(len(x)):
        length, ids = int(x_lens[row]), int(y_lens[row])
        one = slice(row, row + 1)
        alone, _ = model(x[one, :length], x_lens[one], y[one, :ids], y_lens[one], bert[one, :, :length])
        torch.testing.assert_close(logits[row, : ids + 1], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", ["plain", "k1", "k5", "k99", "p90", "p10", "t07", "t0", "all", "penalty"])
def test_probabilities_after_top_p_temperature_and_top_k(case: str) -> None:
    name = "s1_sampling"
    settings = dict(meta(name)["settings"].get(case, {}))
    logits = tensor(name, "in/logits")
    seen = torch.zeros_like(logits, dtype=torch.bool).scatter(1, tensor(name, "in/previous"), True)
    if "repetition_penalty" in settings:
        untouched = logits.clone()
        penalty = penalised(logits, seen, settings.pop("repetition_penalty"))
        assert torch.equal(logits, untouched), "the original changes its caller's logits"
        near(penalty, name, f"out/after/{case}")
        logits = penalty
    s = Sampling(**{"top_k": 0, "top_p": 1.0} | settings)
    near(probabilities(logits, s), name, f"out/probs/{case}")
    if case == "all":
        chosen = (probabilities(logits, s) / tensor(name, "draws/exponential_0")).argmax(-1, keepdim=True)
        near(chosen, name, "out/sample/id")


def test_ties_at_the_limit_of_top_k_all_stay() -> None:
    near(probabilities(tensor("s1_sampling", "in/tie"), Sampling(top_k=3)), "s1_sampling", "out/probs/tie")


def test_prompt_and_first_cached_step_have_the_reference_states() -> None:
    name = "s1_infer"
    texts, berts, prompt = _items()
    backend = make("cpu", "cpu")
    with torch.no_grad():
        writer = _Writer(_model(), backend, GREEDY, texts[:1], berts[:1], prompt[:1])
        writer.state = writer.start(writer.inputs)
        kept, count = len(texts[0]), len(texts[0]) + prompt.shape[1]
        left = writer.text - kept
        torch.testing.assert_close(writer.state, tensor(name, "out/prompt/x")[:, -1], atol=1e-5, rtol=1e-5)
        for number, (k, v) in enumerate(writer.caches):
            for kind, cache in (("k", k), ("v", v)):
                near(cache[:, left : left + count], name, f"out/prompt/{kind}/{number}")
        writer.step(torch.ones(1, 33))
        near(writer.state[:, None], name, "out/prompt/step/x")
        for number, (k, v) in enumerate(writer.caches):
            for kind, cache in (("k", k), ("v", v)):
                near(cache[:, left + count], name, f"out/prompt/step/{kind}/{number}")


def test_greedy_ids_are_the_original_s_alone_and_in_a_batch() -> None:
    file, model, backend = golden("s1_infer"), _model(), make("cpu", "cpu")
    texts, berts, prompt = _items()
    together = generate(model, backend, texts, GREEDY, berts=berts, prompt=prompt)
    for number, ids in enumerate(together):
        output = np.concatenate([prompt[number], ids.numpy()])
        np.testing.assert_array_equal(output, file[f"out/batch/y/{number}"])
        # The unbatched function is stopped by the same EOS.
        np.testing.assert_array_equal(output, file[f"out/greedy/{number}/y"][0])
    free = generate(model, backend, texts[1:2], GREEDY, berts=berts[1:2])
    np.testing.assert_array_equal(free[0].numpy(), file["out/ref_free/1/y"][0])
    plain = Sampling(top_k=1, max_ids=41, repetition_penalty=1.0)
    for number, ids in enumerate(generate(model, backend, texts, plain, berts=berts, prompt=prompt)):
        output = np.concatenate([prompt[number], ids.numpy()])
        np.testing.assert_array_equal(output, file[f"out/no_penalty/{number}/y"][0])


def test_an_early_stop_keeps_every_id() -> None:
    """The original writes one more, and its callers then lose the first (docs, first stage, 11)."""
    file, model, backend = golden("s1_infer"), _model(), make("cpu", "cpu")
    texts, berts, prompt = _items()
    early = generate(
        model, backend, texts[:1], Sampling(top_k=1, max_ids=5), berts=berts[:1], prompt=prompt[:1]
    )
    np.testing.assert_array_equal(np.concatenate([prompt[0], early[0]]), file["out/early/y"][0, :-1])
    batch = generate(model, backend, texts, Sampling(top_k=1, max_ids=12), berts=berts, prompt=prompt)
    for number, ids in enumerate(batch):
        np.testing.assert_array_equal(
            np.concatenate([prompt[number], ids]), file[f"out/batch_early/y/{number}"]
        )


def test_sampled_ids_with_the_recorded_draws() -> None:
    file, model, backend = golden("s1_infer"), _model(), make("cpu", "cpu")
    texts, berts, prompt = _items()
    first = 0

    def recorded(step: int) -> Any:
        """The first eleven have no draw for EOS; after the end nothing counts."""
        q = file[f"draws/exponential_{first + step}"][:1]
        return np.pad(q, ((0, 0), (0, 33 - q.shape[1])), constant_values=1.0)

    usual = Sampling(top_k=5, top_p=1.0, temperature=1.0, max_ids=64)
    warm = Sampling(top_k=15, top_p=0.9, temperature=0.8, max_ids=64)
    for key, s in ((f"sampled/{n}", usual) if n < 3 else ("warm", warm) for n in range(4)):
        reference = file[f"out/{key}/y"][0]
        number = [list(each) for each in prompt].index(list(reference[: prompt.shape[1]]))
        one = slice(number, number + 1)
        (ids,) = generate(model, backend, texts[one], s, berts=berts[one], prompt=prompt[one], draws=recorded)
        np.testing.assert_array_equal(np.concatenate([prompt[number], ids]), reference)
        first += len(reference) - prompt.shape[1] + 1


def test_without_an_end_it_stops_at_the_limit() -> None:
    model = _model()
    with torch.no_grad():
        model.ar_predict_layer.weight[model.eos] = 0
    texts, berts, prompt = _items()
    s = Sampling(top_k=1, max_ids=200)
    (ids,) = generate(model, make("cpu", "cpu"), texts[:1], s, berts=berts[:1], prompt=prompt[:1])
    np.testing.assert_array_equal(
        np.concatenate([prompt[0], ids]), golden("s1_infer")["out/limit/y"][0, :205]
    )


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_two_programs_write_any_text_on_xla() -> None:
    backend = make("torch_xla", "cpu")
    model = backend.prepare(_model())
    file, (texts, berts, prompt) = golden("s1_infer"), _items()
    before = backend.compilations().count
    (ids,) = generate(model, backend, texts[:1], GREEDY, berts=berts[:1], prompt=prompt[:1])
    np.testing.assert_array_equal(np.concatenate([prompt[0], ids]), file["out/greedy/0/y"][0])
    assert backend.compilations().count - before <= 3
    between = backend.compilations().count
    (ids,) = generate(model, backend, texts[1:2], GREEDY, berts=berts[1:2], prompt=prompt[1:2])
    np.testing.assert_array_equal(np.concatenate([prompt[1], ids]), file["out/greedy/1/y"][0])
    assert backend.compilations().count == between


def test_published_keys_and_the_container(tmp_path: Path) -> None:
    for name, rows in (("s1longer", 512), ("s1longer-v2", 732)):
        with torch.device("meta"):
            model = Text2SemanticDecoder(phoneme_vocab_size=rows)
        ours = [(f"model.{key}", list(value.shape)) for key, value in model.state_dict().items()]
        assert ours == published_keys(name)
    tiny, config = _model(), {"model": meta("s1_forward")["config"]}
    held = {
        "weight": {f"model.{key}": value.half() for key, value in tiny.state_dict().items()},
        "config": config,
    }
    torch.save(held | {"info": "GPT-e1"}, tmp_path / "s1.ckpt")
    again = load_first_stage(tmp_path / "s1.ckpt")
    # Multiples of 1/64 are exact in half precision.
    assert all(torch.equal(value, tiny.state_dict()[key]) for key, value in again.state_dict().items())
    torch.save({"weight": {"model.x": torch.zeros(1)}}, tmp_path / "bad.ckpt")
    with pytest.raises(CheckpointError, match="no first stage"):
        load_first_stage(tmp_path / "bad.ckpt")
    sizes, key = config["model"], "model.bert_proj.weight"
    for odd, message in (
        ({"config": "text"}, "a configuration of no first stage"),
        ({"config": {"model": [1]}}, "a configuration of no first stage"),
        ({"config": {"model": sizes | {"head": 3}}}, "a configuration of no first stage"),
        ({"config": {"model": sizes | {"head": 0}}}, "a configuration of no first stage"),
        ({"config": {"model": sizes | {"hidden_dim": "x"}}}, "a configuration of no first stage"),
        ({"config": {"model": sizes | {"n_layer": -1}}}, "does not fit the model"),
        ({"weight": {key: torch.tensor(1.0)}}, "a configuration of no first stage"),
        ({"weight": {key: 1}}, "has int as 'model.bert_proj.weight', not a tensor by name"),
    ):
        torch.save(held | odd, tmp_path / "odd.ckpt")
        with pytest.raises(CheckpointError, match=message):
            load_first_stage(tmp_path / "odd.ckpt")
    with pytest.raises(ConfigError, match="nothing to speak"):
        generate(tiny, make("cpu", "cpu"), [[]], GREEDY)
    with pytest.raises(ConfigError, match="it has 4001 phonemes with the reference's; at most 4000 fit"):
        generate(tiny, make("cpu", "cpu"), [[1] * 4001], GREEDY)
    with pytest.raises(ConfigError, match="3990 tokens and the reference's are more than 4000"):
        generate(tiny, make("cpu", "cpu"), [[1]], Sampling(max_ids=3990), prompt=np.zeros((1, 11)))


def test_full_size() -> None:
    name = "s1_full"
    with torch.device("meta"):
        model = Text2SemanticDecoder()
    model = model.to_empty(device="cpu")
    made = {}
    for key, value in model.state_dict().items():
        last, n_in = key.rsplit(".", 1)[-1], value[0].numel() if value.dim() > 1 else 1
        base, scale = 0.0, (3 / n_in) ** 0.5
        if last == "alpha" or (last == "weight" and value.dim() == 1):
            base, scale = 1.0, 0.3
        elif last.endswith("bias"):
            scale = 0.1
        elif "word_embeddings" in key:
            scale = 1.0
        elif key.startswith("ar_predict_layer"):
            scale *= 2
        made[key] = recipe_value(key, tuple(value.shape), base, scale, "s1full/")
    model.load_state_dict(made)
    fresh = Text2SemanticDecoder(hidden_dim=512, head=16, n_layer=1)
    model.ar_text_position.pe = fresh.ar_text_position.pe
    model.ar_audio_position.pe = fresh.ar_audio_position.pe
    model.eval()
    x, x_lens, y, y_lens, bert = (tensor(name, f"in/{key}") for key in ("x", "x_lens", "y", "y_lens", "bert"))
    with torch.no_grad():
        logits, targets = model(x, x_lens, y, y_lens, bert, mask_first_places=True)
    near(logits[:, :, ::16], name, "out/logits", 3e-5)
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="sum")
    near(loss, name, "out/loss", 3e-5)
    s = Sampling(top_k=1, max_ids=20)
    length = int(x_lens[0])
    (ids,) = generate(
        model, make("cpu", "cpu"), [x[0, :length]], s, berts=[bert[0, :, :length]], prompt=y[:1, :6]
    )
    np.testing.assert_array_equal(
        np.concatenate([y[0, :6], ids]), golden(name)["out/greedy/y"][0, : 6 + len(ids)]
    )


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_six_programs_speak_all_sentences_to_thirty_seconds() -> None:
    backend = make("torch_xla", "cpu")
    config = Config(n_layers=1)
    generator, _ = make_models(config)
    sizes = {"hidden_dim": 16, "head": 2, "n_layer": 1, "vocab_size": config.codebook + 1}
    stage = backend.prepare(Text2SemanticDecoder(**sizes, phoneme_vocab_size=732, bert_channels=8))
    voice = Voice(backend.prepare(generator.eval()), backend, config, small_features(config))
    reference = np.float32(0.1 * np.sin(np.arange(4 * config.sampling_rate) * 0.2))
    known, before = read("{HH AH0 L OW1}"), backend.compilations().count
    for count in (1, 30, 200, 400):
        spoken = read(f"{{{' '.join(['AH0'] * count)}}}")
        voice.speak(stage, [spoken], reference, known, Sampling(max_ids=12, seed=count))
    for tokens in (1, 40, 125, 126, 300, 400, 750):
        wave = voice.synthesize(np.arange(tokens) % config.codebook, ["AH0"], [reference])
        assert len(wave) == tokens * 2 * config.hop_length
    assert backend.compilations().count - before <= 6
