"""Generation against the original's and transformers' tables, and as one decode program on XLA."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dia.reference import by_channel, golden, near, reference_model, tensor  # noqa: E402
from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.common.errors import ConfigError  # noqa: E402
from tpulab_recipes.dia.generation import (  # noqa: E402
    Sampling,
    choose,
    chunks_of,
    generate,
    generate_table,
    guided_scores,
    probabilities,
    speak,
)
from tpulab_recipes.runtime.selection import make  # noqa: E402

CPU = make("cpu", "cpu")
#: As the arrays were made; the original's table of known cells is one row short.
ORIGINAL = Sampling(max_tokens=64, temperature=0, top_k=8, text_length=128, short_prompt_table=True)
EOS, PAD = 32, 33


@pytest.fixture(scope="module")
def model() -> Any:
    return reference_model(ends_sooner=True).eval()


@pytest.fixture(scope="module")
def texts() -> list[torch.Tensor]:
    return [tensor("delay", f"out/text/{number}") for number in range(3)]


def same_table(
    table: torch.Tensor, ended: torch.Tensor, name: str, finished: list[int], rows: int = 15
) -> None:
    """Equal up to each text's end; after it the original's rows hold arbitrary output of the model."""
    reference = tensor("generate", name).long()
    assert ended.tolist() == finished
    for ours, theirs, end in zip(table, reference[: len(table)], finished, strict=True):
        assert torch.equal(ours[: end + rows], theirs[: end + rows])


@pytest.mark.parametrize(("key", "rule"), [("guided", "0626"), ("hf_guided", "0626"), ("guided_v01", "v0.1")])
def test_guidance_and_sampling_give_the_reference_probabilities(key: str, rule: str) -> None:
    pairs = tensor("sampling", "in/pair_logits")
    scores = guided_scores(pairs[1::2], pairs[0::2], Sampling(), 1024, rule)
    near(probabilities(scores, Sampling(), 1024, rule).flatten(0, 1), "sampling", f"out/{key}")


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("t12_p95_k45", Sampling()),
        ("t10_p100_k5", Sampling(temperature=1.0, top_p=1.0, top_k=5)),
        ("t18_p90_k45", Sampling(temperature=1.8, top_p=0.9)),
    ],
)
def test_eos_is_certain_or_impossible_and_the_tail_is_cut(key: str, settings: Sampling) -> None:
    logits = tensor("sampling", "in/logits")[:, None]
    near(probabilities(logits, settings, 1024, "0626")[:, 0], "sampling", f"out/probs_{key}")


def test_a_draw_is_spent_in_order_of_the_ids_and_never_outside_the_kept_set() -> None:
    pairs = tensor("sampling", "in/pair_logits")
    settings = Sampling()
    kept = probabilities(
        guided_scores(pairs[1::2], pairs[::2], settings, 1024, "0626"), settings, 1024, "0626"
    )
    for draw in (0.0, 0.31, 1.0):
        draws = torch.full((2, 9), draw)
        output = choose(pairs[1::2], pairs[::2], draws, settings, 1024, "0626")
        assert (kept.gather(-1, output[..., None]) > 0).all()
        below = torch.where(torch.arange(1028) < output[..., None], kept, 0).sum(-1)
        assert (below <= draws + 1e-5).all()


def test_greedy_tables_and_codes_are_the_originals(model: Any, texts: list[torch.Tensor]) -> None:
    table, ended = generate_table(model, CPU, texts, ORIGINAL)
    same_table(table, ended, "out/tokens", [40, 13, 49])
    for number, codes in enumerate(generate(model, CPU, texts, ORIGINAL)):
        assert torch.equal(codes, tensor("generate", f"out/codes/{number}"))
    # The last channel's EOS is forced too, and then there is PAD (the original's countdown ends before).
    for row, end in enumerate(ended.tolist()):
        assert [int(table[row, end + late, c]) for c, late in enumerate(model.config.delay_pattern)] == [
            EOS
        ] * 9
    assert (table[1, 13 + 16 : 50] == PAD).all()


def test_sampled_tables_are_the_originals(model: Any, texts: list[torch.Tensor]) -> None:
    drawn = golden("generate")
    draws = torch.tensor(np.stack([drawn[f"draws/multinomial_{step}"] for step in range(54)]))
    settings = replace(ORIGINAL, temperature=1.2)
    table, ended = generate_table(model, CPU, texts, settings, draws=draws.float().view(54, 3, 9))
    same_table(table, ended, "out/sampled/tokens", [40, 18, 18])
    again = [generate_table(model, CPU, texts, replace(settings, seed=seed))[0] for seed in (1, 1, 2)]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[1], again[2])


def test_tables_match_transformers_where_all_known_cells_are_kept(
    model: Any, texts: list[torch.Tensor]
) -> None:
    table, _ = generate_table(model, CPU, texts, replace(ORIGINAL, short_prompt_table=False))
    assert torch.equal(table[:, :34], tensor("generate", "out/hf_tokens").long()[:, :34])
    table, ended = generate_table(model, CPU, texts, ORIGINAL)
    same_table(table, ended, "out/hf_tokens_open", [40, 13, 49], rows=16)


def test_continues_in_the_voice_of_a_prompt_alone_and_in_a_batch(
    model: Any, texts: list[torch.Tensor]
) -> None:
    prompt = tensor("generate", "in/prompt")
    table, ended = generate_table(model, CPU, texts[:1], ORIGINAL, prompts=[prompt])
    same_table(table, ended, "out/prompt/tokens", ended.tolist())
    alone = generate(model, CPU, texts[:1], ORIGINAL, prompts=[prompt])[0]
    assert torch.equal(alone, tensor("generate", "out/prompt/codes"))
    whole = replace(ORIGINAL, short_prompt_table=False)
    both = generate(model, CPU, texts[:2], whole, prompts=[prompt, None])
    assert torch.equal(both[0], generate(model, CPU, texts[:1], whole, prompts=[prompt])[0])
    assert torch.equal(both[1], generate(model, CPU, texts[1:2], whole)[0])


@pytest.mark.parametrize("rule", ["0626", "v0.1"])
@torch.no_grad()
def test_cached_steps_equal_the_full_forward_pass(rule: str, texts: list[torch.Tensor]) -> None:
    model, seen = reference_model(rule), []
    hook = model.logits_dense.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
    table, _ = generate_table(model, CPU, texts[:1], replace(ORIGINAL, max_tokens=24))
    hook.remove()
    text = torch.zeros(2, 128, dtype=torch.int64)
    text[0, : len(texts[0])] = texts[0]
    received = (torch.arange(128) < len(texts[0])).long()[None].repeat(2, 1)
    full = model(text, received, table[:, :24].repeat(2, 1, 1)).logits
    steps = torch.cat(seen, 1).unflatten(-1, (9, -1))
    torch.testing.assert_close(steps, by_channel(full), atol=1e-5, rtol=1e-5)


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_one_decode_program_serves_all_texts_and_lengths_on_xla(texts: list[torch.Tensor]) -> None:
    xla = make("torch_xla", "cpu")
    own = xla.prepare(reference_model(ends_sooner=True))
    before = xla.compilations().count
    with xla.precision("bfloat16"):  # a training's; generation keeps to the parameters' dtype
        table, ended = generate_table(own, xla, texts[:1], ORIGINAL)
    # Encoder and cross keys, the step, and the transfer of constants.
    assert xla.compilations().count - before <= 3
    same_table(table, ended, "out/tokens", [40])
    before = xla.compilations().count
    for text, max_tokens in ((texts[1], 100), (texts[2], 20)):
        generate(own, xla, [text], replace(ORIGINAL, max_tokens=max_tokens))
    generate(own, xla, texts[:1], ORIGINAL, prompts=[tensor("generate", "in/prompt")])
    assert xla.compilations().count == before


def test_two_graphs_without_a_break_serve_all_calls_of_torch_compile(
    model: Any, texts: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What torch_tpu compiles (`Backend.compile` is torch.compile there)."""
    graphs = []

    def count(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    backend = make("cpu", "cpu")
    monkeypatch.setattr(
        backend, "compile", lambda step: torch.compile(step, backend=count, fullgraph=True, dynamic=False)
    )
    for number, end in enumerate([40, 13]):
        table, ended = generate_table(model, backend, texts[number : number + 1], ORIGINAL)
        assert ended.tolist() == [end]
        assert torch.equal(table[0, : end + 15], tensor("generate", "out/tokens")[number, : end + 15].long())
    assert len(graphs) == 2


@pytest.mark.parametrize(
    ("change", "prompts", "message"),
    [
        ({"max_tokens": 16}, None, "max_tokens: 16 is not between 17 and"),
        ({"max_tokens": 5000}, None, "max_tokens: 5000 is not"),
        ({"text_length": 10}, None, "text 0 has 26 bytes; 1 to 10 are possible"),
        ({}, [np.zeros((60, 9), np.int64)], "prompt 0 has 60 frames"),
        ({}, [None, None], "2 prompts do not match 1 texts"),
    ],
)
def test_invalid_requests_get_a_one_sentence_error(
    model: Any, texts: list[torch.Tensor], change: dict[str, Any], prompts: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        generate(model, CPU, texts[:1], replace(ORIGINAL, **change), prompts=prompts)


def test_a_long_text_is_divided_between_speakers_sentences_and_words() -> None:
    text = "[S1] Hello there. How are you? [S2] I am fine, thank you very much indeed! [S1] Good."
    assert chunks_of(text, 200) == [text]
    assert chunks_of(text, 30) == [
        "[S1] Hello there. How are you?",
        "[S2] I am fine, thank you very",
        "[S2] much indeed! [S1] Good.",
    ]
    assert chunks_of("Nobody is named. At all.", 16) == ["Nobody is named.", "At all."]
    with pytest.raises(ConfigError, match="the word 'incomprehensibilities' has 21 bytes; 15 fit"):
        chunks_of("[S1] incomprehensibilities", 20)
    words, draw = ["[S1]", "[S2]", "a.", "bb", "ccc!", "dd?", "é", "long-word", "e.g."], random.Random(0)
    for _ in range(300):
        text, most = " ".join(draw.choices(words, k=draw.randrange(25))), draw.randrange(16, 60)
        parts = chunks_of(text, most)
        assert all(0 < len(part.encode()) <= most for part in parts)
        # No word is lost, and each is said by its speaker.
        assert _printed(" ".join(parts)) == _printed(text)
        if text.startswith("[S"):
            assert all(part.startswith("[S") for part in parts)


def _printed(text: str) -> list[tuple[str, str]]:
    speaker, found = "", []
    for word in text.split():
        if re.fullmatch(r"\[S[12]\]", word):
            speaker = word
        else:
            found.append((speaker, word))
    return found


def test_parts_of_a_long_text_are_spoken_in_the_voice_of_the_first(model: Any) -> None:
    s = replace(ORIGINAL, short_prompt_table=False)
    text = "[S1] " + " ".join(f"Sentence number {number}." for number in range(10))

    def tokenize(part: str) -> list[int]:
        return [letter % 32 for letter in part.encode()]

    parts = chunks_of(text, 32)
    assert len(parts) > 2
    first = generate(model, CPU, [tokenize(parts[0])], s)[0]
    rest = generate(
        model,
        CPU,
        [tokenize(f"{parts[0]} {part}") for part in parts[1:]],
        s,
        prompts=[first] * (len(parts) - 1),
    )
    short = "[S1] Short."
    spoken = speak(model, CPU, tokenize, [text, short], s)
    assert torch.equal(spoken[0], torch.cat([first, *rest]))
    assert torch.equal(spoken[1], generate(model, CPU, [tokenize(short)], s)[0])
    # With a prompt all parts are in its voice, and nothing waits for the first.
    voice = torch.zeros(4, 9, dtype=torch.int64)
    prompted = speak(model, CPU, tokenize, [text], s, prompt=voice, prompt_text="[S1] Zero.")[0]
    parts = chunks_of(text, 64)
    output = [tokenize(f"[S1] Zero. {part}") for part in parts]
    assert torch.equal(prompted, torch.cat(generate(model, CPU, output, s, prompts=[voice] * len(parts))))
    with pytest.raises(ConfigError, match="text 0 has 0 bytes"):
        speak(model, CPU, tokenize, [""], s)


def test_generation_in_bfloat16_chooses_as_float32_does(texts: list[torch.Tensor]) -> None:
    """Where float32 is sure. Caches and weights take half the memory, which a chip reads for each row."""
    full, half = reference_model(ends_sooner=True).eval(), reference_model(ends_sooner=True).eval()
    half = half.to(torch.bfloat16)
    tables = [generate_table(each, CPU, texts, ORIGINAL)[0] for each in (full, half)]
    # The first open row has had the same past in both.
    same = (tables[0][:, 1] == tables[1][:, 1]).float().mean()
    assert same >= 0.8
    assert half.model.decoder.layers[0].self_attention.k_proj.weight.dtype == torch.bfloat16
