"""The intents recipe: its data, its length, its score, and training on real XLA."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
os.environ.setdefault("PJRT_DEVICE", "CPU")

from fits_xla import forbid_operators  # noqa: E402
from tpulab_recipes.common.errors import ConfigError, DataError  # noqa: E402
from tpulab_recipes.intents.config import BERT_BASE, FULL_SIZE, Config  # noqa: E402
from tpulab_recipes.intents.data import (  # noqa: E402
    SMALL_DATA,
    Encoded,
    choose_length,
    encode,
    eval_batches,
    load_utterances,
    train_batches,
)
from tpulab_recipes.intents.tokenizer import (  # noqa: E402
    choose_tokenizer,
    describe_vocabulary,
    load_tokenizer,
    to_text,
    train_tokenizer,
)
from tpulab_recipes.intents.trainer import Evaluation, Trainer, make_model, rate_at  # noqa: E402
from tpulab_recipes.intents.wordnet import CATEGORIES, SIMILAR, make_rows, write  # noqa: E402
from tpulab_recipes.runtime import Backend, installed_backends, selection  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402


@pytest.fixture(scope="module")
def utterances():
    return load_utterances()


@pytest.fixture(scope="module")
def tokenizer(utterances):
    return train_tokenizer(utterances.train["text"], 600)


@pytest.fixture(
    scope="module", params=[name for name in ("torch_xla", "cpu") if name in installed_backends()]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    return make(request.param, "cpu")


class TestData:
    def test_wordnets_lines_become_two_tables_without_variants_of_one_definition(
        self, tmp_path: Path
    ) -> None:
        definitions = [
            (5, "any of several small furry animals"),
            (5, "any of several very small furry animals"),  # a variant
            (5, "a large wild cat of Africa and Asia"),
            (13, 'a rich cake with two or more tiers; "they cut the cake"'),
            (13, "(cooking) food that is eaten with bread"),  # a remark
            (13, "bread made of rye"),
            (21, "an amount of money that is owed"),  # of another kind
            (13, "soup"),
        ]
        lines = [
            f"{n:08} {kind:02} n 01 word 0 001 @ 00001740 n 0000 | {text}"
            for n, (kind, text) in enumerate(definitions)
        ]
        train, test = make_rows(["  1 a line of the licence", *lines], train=2, test=1)
        rows = dict(train + test)
        assert len(train + test) == len(rows) == 4
        assert sorted(rows.values()) == ["animal", "animal", "food", "food"]
        assert rows["a rich cake with two or more tiers"] == rows["bread made of rye"] == "food"
        write(tmp_path, (train, test))
        assert [row["text"] for row in load_utterances(str(tmp_path)).test] == [text for text, _ in test]

    def test_no_definition_of_the_test_resembles_one_of_the_training(self, utterances) -> None:
        words = {
            part: [(set(row["text"].lower().split()), row["label"]) for row in rows]
            for part, rows in (("train", utterances.train), ("test", utterances.test))
        }
        assert (len(words["train"]), len(words["test"])) == (1800, 480)
        shares = [
            len(one & other) / min(len(one), len(other))
            for one, label in words["test"]
            for other, other_label in words["train"]
            if label == other_label
        ]
        assert max(shares) < SIMILAR
        assert set(Counter(utterances.test["label"]).values()) == {40}

    def test_labels_are_numbers_of_sorted_names(self, utterances) -> None:
        assert utterances.names == tuple(sorted(CATEGORIES.values()))
        with (SMALL_DATA / "test.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [utterances.names[label] for label in utterances.test["label"]] == [
            row["category"] for row in rows
        ]

    def test_a_folder_without_the_files_states_what_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text("text,category\nhello,greeting\n")
        with pytest.raises(DataError, match=r"no test\.csv"):
            load_utterances(str(tmp_path))

    def test_other_columns_are_refused(self, tmp_path: Path) -> None:
        for name in ("train", "test"):
            (tmp_path / f"{name}.csv").write_text("question,answer\na,b\n")
        with pytest.raises(DataError, match="text and category"):
            load_utterances(str(tmp_path))

    def test_an_intent_that_was_never_trained_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text("text,category\na,x\n")
        (tmp_path / "test.csv").write_text("text,category\nb,y\n")
        with pytest.raises(DataError, match="'y'"):
            load_utterances(str(tmp_path))

    def test_an_unreachable_hub_is_reported_with_a_remedy(self) -> None:
        with pytest.raises(DataError, match="Without a network put banking77"):
            load_utterances("mteb/banking77")
        with pytest.raises(ConfigError, match="hf download"):
            load_tokenizer("bert-base-uncased")
        with pytest.raises(ConfigError, match="hf download"):
            make_model(FULL_SIZE, ("a", "b"), 100, 24)


class TestTokens:
    def test_sentences_begin_and_end_as_bert_expects(self, tokenizer) -> None:
        ids = tokenizer("A part of the body")["input_ids"]
        assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "a", "part", "of", "the", "body", "[SEP]"]
        assert len(tokenizer) <= 600

    def test_a_checkpoint_has_its_tokenizer_because_training_it_again_gives_another_one(
        self, tokenizer
    ) -> None:
        texts = ["a part of the body", "a large animal"]
        expected = [tokenizer(text)["input_ids"] for text in texts]
        again = choose_tokenizer("", texts, 600, {"tokenizer": to_text(tokenizer)})
        assert [again(text)["input_ids"] for text in texts] == expected
        assert again.pad_token_id == tokenizer.pad_token_id
        with pytest.raises(DataError, match="does not hold the tokenizer"):
            choose_tokenizer("", texts, 600, {})

    def test_an_unknown_word_is_broken_up_not_lost(self, tokenizer) -> None:
        assert len(tokenizer.tokenize("unstoppable")) > 1

    @pytest.mark.parametrize(
        ("counts", "length"), [([3, 4, 5], 8), ([8], 8), ([9], 16), ([5] * 99 + [400], 8), ([600] * 3, 512)]
    )
    def test_the_length_comes_from_the_data(self, counts: list[int], length: int) -> None:
        assert choose_length(counts) == length

    def test_encoding_pads_and_cuts_to_the_length(self, utterances, tokenizer) -> None:
        data = encode(utterances.test, tokenizer, 8)
        assert data.ids.shape == data.mask.shape == (480, 8)
        assert (data.ids[data.mask == 0] == tokenizer.pad_token_id).all()
        assert set(data.ids[:, 0].tolist()) == {tokenizer.cls_token_id}


def write_published_vocabulary(folder: Path) -> None:
    """A folder as `hf download` leaves it, with as many entries as the published one."""
    folder.mkdir()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "card"]
    entries = special + [f"[unused{number}]" for number in range(30_522 - len(special))]
    (folder / "vocab.txt").write_text("\n".join(entries))
    transformers.BertConfig().save_pretrained(folder)


class TestBertBase:
    def test_it_has_the_parameters_of_the_published_model(self) -> None:
        with torch.device("meta"):
            model = make_model(Config(model=BERT_BASE), tuple(map(str, range(77))), 461, 24)
            ids = torch.zeros(2, 24, dtype=torch.int64)
            logits = model(input_ids=ids, attention_mask=torch.ones(2, 1, 1, 24, dtype=torch.bool)).logits
        # 109,482,240 is what bert-base-uncased has; one more layer reads the 77 intents off it.
        assert sum(parameter.numel() for parameter in model.bert.parameters()) == 109_482_240
        assert sum(parameter.numel() for parameter in model.parameters()) == 109_482_240 + 77 * (768 + 1)
        assert logits.shape == (2, 77)

    def test_without_the_published_vocabulary_one_is_trained_and_reported(
        self, utterances, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        texts = utterances.train["text"]
        monkeypatch.chdir(tmp_path)
        trained = choose_tokenizer(BERT_BASE, texts, 600)
        assert len(trained) <= 600
        assert "neither on the hub nor a folder here" in describe_vocabulary(BERT_BASE, trained)
        assert describe_vocabulary("", trained) == "trained on these sentences"

        write_published_vocabulary(tmp_path / "bert-base-uncased")
        published = choose_tokenizer(BERT_BASE, texts, 600)
        assert published("my card")["input_ids"] == [2, 1, 5, 3]
        assert describe_vocabulary(BERT_BASE, published) == "from bert-base-uncased"


def test_evaluation_reads_every_row_once_and_its_padding_can_be_dropped() -> None:
    data = Encoded(np.arange(10)[:, None], np.ones((10, 1)), np.arange(10, dtype=np.int32))
    batches = list(eval_batches(data, 4))
    assert {batch["input_ids"].shape for batch in batches} == {(4, 1)}
    assert np.concatenate([batch["labels"] for batch in batches])[:10].tolist() == list(range(10))


def test_weighted_f1_is_the_hand_count() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2], np.int32)
    predicted = np.array([0, 0, 1, 1, 2, 2])
    # Class 0: precision 2/2, recall 2/3. Class 1: 1/2, 1/2. Class 2: 1/2, 1/1.
    f1 = [2 * 1 * (2 / 3) / (1 + 2 / 3), 0.5, 2 * 0.5 * 1 / 1.5]
    assert Evaluation(predicted, labels).weighted_f1 == pytest.approx((3 * f1[0] + 2 * f1[1] + 1 * f1[2]) / 6)


def test_the_rate_warms_up_and_then_falls_to_zero_as_transformers_has_it() -> None:
    config, total = Config(warmup_steps=10), 50
    ours = [rate_at(config, step, total) for step in range(total)]
    assert ours[9] == 1.0
    assert max(ours) == 1.0
    assert rate_at(config, total, total) == 0.0
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = transformers.get_linear_schedule_with_warmup(optimizer, 10, total)
    after_warm_up = []
    for _ in range(total):
        after_warm_up.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert ours[10:] == pytest.approx(after_warm_up[10:])


def small(backend: Backend, utterances, tokenizer, total: int = 12) -> tuple[Trainer, Encoded]:
    backend.seed(0)
    config = Config(warmup_steps=2, batch_size=16)
    model = make_model(config, utterances.names, len(tokenizer), 24)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return Trainer(config, model, backend, total), encode(utterances.train, tokenizer, 24)


def run(trainer: Trainer, data: Encoded, steps: int, skip: int = 0) -> list[float]:
    batches = list(train_batches(data, 16, seed=0, epoch=0))[skip : skip + steps]
    return [
        float(loss) for loss in [trainer.train_step(trainer.backend.shard_batch(batch)) for batch in batches]
    ]


def test_loss_falls_and_all_steps_are_one_compilation(backend: Backend, utterances, tokenizer) -> None:
    trainer, data = small(backend, utterances, tokenizer, total=26)
    before = backend.compilations().count
    batch = next(train_batches(data, 16, seed=0, epoch=0))
    losses = [float(trainer.train_step(trainer.backend.shard_batch(batch))) for _ in range(24)]
    assert losses[-1] < 0.9 * losses[0]  # it learns one batch by heart
    assert backend.compilations().count - before == int(backend.compiles_steps)


def test_it_resumes_from_a_checkpoint_bit_for_bit(backend: Backend, utterances, tokenizer) -> None:
    whole, data = small(backend, utterances, tokenizer)
    expected = run(whole, data, 6)
    half, _ = small(backend, utterances, tokenizer)
    run(half, data, 3)
    state = backend.to_host(half.state())
    other, _ = small(backend, utterances, tokenizer)
    other.load_state(state)
    assert run(other, data, 3, skip=3) == expected[3:]
    assert other.learning_rate == whole.learning_rate
    # Notebook 04 with `resume` and fewer epochs than were trained: its run had a negative total.
    short, _ = small(backend, utterances, tokenizer, total=2)
    with pytest.raises(ConfigError, match=r"epochs: \d+ are 2 steps, and the checkpoint has 3: set more"):
        short.load_state(state)


def test_the_outputs_match_transformers_on_the_host_cpu(backend: Backend, utterances, tokenizer) -> None:
    trainer, data = small(backend, utterances, tokenizer)
    host = make_model(trainer.config, utterances.names, len(tokenizer), 24).eval()
    host.load_state_dict(backend.to_host(trainer.model.state_dict()))
    with torch.no_grad():
        logits = host(torch.from_numpy(data.ids[:30]).long(), torch.from_numpy(data.mask[:30])).logits
    found = trainer.evaluate(Encoded(data.ids[:30], data.mask[:30], data.labels[:30]), batch_size=16)
    assert found.predicted.tolist() == logits.argmax(-1).tolist()
    assert found.accuracy == sum(a == b for a, b in zip(found.predicted, data.labels[:30], strict=True)) / 30


def test_accelerate_takes_its_steps_and_its_rate_from_a_run_which_can_stop_it(
    utterances, tokenizer, monkeypatch
) -> None:
    tpulab = pytest.importorskip("tpulab")
    pytest.importorskip("accelerate")
    backend = make("torch_xla" if "torch_xla" in installed_backends() else "cpu", "cpu")
    backend.world()  # counts the processes, before Accelerate takes devices for them
    monkeypatch.setattr(selection, "_current", backend)  # for this test: others choose another one
    from tpulab_recipes.intents.with_accelerate import train_with_accelerate

    config = Config(epochs=1, learning_rate=1e-3)
    run = tpulab.run("accelerated", hyperparameters={"learning_rate": config.learning_rate}, log=False)
    rates: list[float] = []
    run.apply_to(lambda values: rates.append(values["learning_rate"]))
    record = run.log

    def steer(**metrics: object) -> None:
        record(**metrics)
        if run.step_index == 1:
            run.set("learning_rate", 1e-4)
        elif run.step_index == 3:
            run.stop()

    run.log = steer
    found = train_with_accelerate(config, utterances, tokenizer, 24, run)
    assert (len(found.losses), run.step_index, run.stopped) == (4, 4, True)
    assert rates == [1e-3, 1e-4]
    assert len(found.evaluation.predicted) == 480


def test_the_step_has_no_data_dependent_operator(utterances, tokenizer) -> None:
    trainer, data = small(make("cpu", None), utterances, tokenizer)
    batch = trainer.backend.shard_batch(next(train_batches(data, 16, 0, 0)))
    trainer.model.train()
    with forbid_operators():
        trainer._logits_and_loss(batch)[1].backward()


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("text,category\ncafé,a\n".encode("cp1252"), r"train\.csv, line 2: byte \d+ is not UTF-8.*cp1252"),
        (b"text,category\nhello,a\n,b\n", r"train\.csv, row 3: its text is empty"),
        (b"text,category\nhello,a\nbye,\n", r"train\.csv, row 3: its category is empty"),
        (b"text,category\nhello,a\nbye,a\n", "has one intent, a; to tell intents apart takes two"),
    ],
)
def test_tables_that_cannot_be_used_get_a_one_sentence_error(
    content: bytes, output: str, tmp_path: Path
) -> None:
    """Case D02, and a cell that is empty."""
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_bytes(content)
    with pytest.raises(DataError, match=output):
        load_utterances(str(tmp_path))


def test_tables_in_utf_16_are_read(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_bytes("text,category\ncafé,a\nbye,b\n".encode("utf-16"))
    assert load_utterances(str(tmp_path)).train["text"][0] == "café"
