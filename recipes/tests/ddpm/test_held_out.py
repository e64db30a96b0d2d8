"""What is held out for the evaluator: training never reads it, whoever trains and whatever is added."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tpulab_recipes.common.errors import ConfigError, DataError, StorageError
from tpulab_recipes.common.progress import Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data import encoders
from tpulab_recipes.ddpm.data.encode import encode
from tpulab_recipes.ddpm.data.pipeline import EncodingSource, Examples
from tpulab_recipes.ddpm.data.shapes import write_shape_images
from tpulab_recipes.ddpm.data.small_encoders import encode_text
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import PRESETS, SMALL
from tpulab_recipes.ddpm.training import evaluator
from tpulab_recipes.ddpm.training.evaluator import EncodingsEvaluator

#: Of shards with 300, 20 and 280 records.
SHARE, HELD_OUT = 0.1, 30 + 2 + 28


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 shapes, encoded into three shards."""
    folder = tmp_path_factory.mktemp("held-out")
    write_shape_images(Folder(folder / "images"), 600, per_shard=320)
    config = SMALL.but({"dataset.args.image_format": "png", "dataset.args.number_encodings_per_shard": 300})
    encode(config, str(folder / "images"), str(folder / "data"), Silent())
    return folder / "data"


def _config(batch: int, **dataset: object) -> Config:
    return replace(
        SMALL,
        train=replace(SMALL.train, batch_size=batch),
        dataset=replace(SMALL.dataset, **dataset),  # type: ignore[arg-type]
    )


def _trained_on(source: EncodingSource) -> set[bytes]:
    """The images of an epoch and a half: the second one deals other records to a host."""
    batches = islice(source.batches(0), source.batches_per_epoch * 3 // 2)
    return {image.tobytes() for batch in batches for image in batch["image"]}


def _held_out(source: EncodingSource, count: int = 600) -> set[bytes]:
    examples = source.examples(count)
    assert examples.held_out
    return {image.tobytes() for image in examples.rows["image"]}


@pytest.mark.parametrize("processes", [1, 2])
def test_training_reads_all_records_except_held_out_ones(data: Path, processes: int) -> None:
    config = _config(60 // processes, held_out_share=SHARE)
    hosts = [EncodingSource(str(data), config, process=i, processes=processes) for i in range(processes)]
    held_out = _held_out(hosts[0])
    assert len(held_out) == HELD_OUT
    assert hosts[0].held_out_text == "held out: 60 of 600 records"
    trained = [_trained_on(host) for host in hosts]
    assert all(not seen & held_out for seen in trained)
    assert all(len(seen) > 100 for seen in trained)
    if processes == 1:
        assert len(trained[0]) == 600 - HELD_OUT
    # Every host gets the same records, whatever the seed.
    assert _held_out(hosts[-1]) == held_out
    assert _held_out(EncodingSource(str(data), replace(config, seed=5))) == held_out


def test_held_out_records_stay_so_when_shards_are_added(data: Path, tmp_path: Path) -> None:
    config = _config(20, held_out_share=SHARE)
    first = sorted(data.glob("*.tfrecord"))[0]
    shutil.copy(first, tmp_path / first.name)
    before = _held_out(EncodingSource(str(tmp_path), config))
    assert len(before) == 30
    assert before < _held_out(EncodingSource(str(data), config))


def test_few_examples_come_from_all_shards(data: Path) -> None:
    """Shards may be sorted: the first of them would be of one kind."""
    source = EncodingSource(str(data), _config(20, held_out_share=SHARE))
    few = source.examples(3).rows["image"]
    assert few.shape[0] == 3
    shards = []
    for shard in sorted(data.glob("*.tfrecord")):
        (data / "alone").mkdir(exist_ok=True)
        shutil.copy(shard, data / "alone" / "a.tfrecord")
        alone = EncodingSource(str(data / "alone"), _config(8, held_out_share=SHARE))
        shards.append(_held_out(alone))
    shutil.rmtree(data / "alone")
    assert [sum(image.tobytes() in shard for image in few) for shard in shards] == [2, 0, 1]


def test_a_separate_folder_is_held_out_and_the_rest_is_trained_on(data: Path, tmp_path: Path) -> None:
    """The share then says nothing."""
    first = sorted(data.glob("*.tfrecord"))[0]
    shutil.copy(first, tmp_path / first.name)
    rest = tmp_path / "rest"
    rest.mkdir()
    for shard in sorted(data.glob("*.tfrecord"))[1:]:
        shutil.copy(shard, rest / shard.name)
    source = EncodingSource(str(rest), _config(20, held_out_share=SHARE, held_out_dir=str(tmp_path)))
    assert len(_trained_on(source)) == 300
    assert len(_held_out(source)) == 300
    assert str(tmp_path) in source.held_out_text
    with pytest.raises(ConfigError, match=r"held_out_dir.*is the folder that training reads"):
        EncodingSource(str(rest), _config(20, held_out_dir=f"{rest}/"))
    with pytest.raises(StorageError, match="does not exist"):
        EncodingSource(str(rest), _config(20, held_out_dir=str(tmp_path / "none"))).examples(1)


def test_holding_out_too_much_is_reported(data: Path) -> None:
    with pytest.raises(DataError, match=r"held out: 540 of 600 records\), too few"):
        EncodingSource(str(data), _config(80, held_out_share=0.9))


def test_without_held_out_data_the_report_names_training_data(data: Path) -> None:
    source = EncodingSource(str(data), _config(60, held_out_share=0.0))
    assert source.held_out_text == "nothing is held out"
    examples = source.examples(16)
    assert not examples.held_out
    assert {image.tobytes() for image in examples.rows["image"]} <= _trained_on(source)


def test_the_evaluator_requests_held_out_records(data: Path, shallow: Config) -> None:
    """The same weights, seeds and number of images, with words of its own and words that training reads."""
    found = {}
    for share in (SHARE, 0.0):
        config = replace(shallow, dataset=replace(shallow.dataset, held_out_share=share))
        source = EncodingSource(str(data), config)
        evaluate = EncodingsEvaluator(Network(config), source, count=8, steps=2)
        examples = source.examples(8)
        for name, rows in examples.rows.items():
            np.testing.assert_array_equal(evaluate.shown.rows[name], rows)
        states = encode_text(examples.captions, examples.rows["clip_emb"].shape[1])
        np.testing.assert_allclose(examples.rows["clip_emb"].astype(np.float32), states, atol=2**-7)
        shown = evaluate(Network(config).init(0))
        assert shown.captions == examples.captions
        found[share] = shown.figures
    assert found[SHARE]["held_out_images"] == 8
    assert found[0.0]["held_out_images"] == 0
    # Compared with other images.
    assert found[SHARE]["frechet"] != found[0.0]["frechet"]


def test_a_distance_by_inception_takes_the_number_of_samples_that_is_requested(
    data: Path, shallow: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[tuple[str, list[tuple[int, ...]]]] = []

    def distance(kind: str, *sets: Iterable[np.ndarray]) -> float:
        for pieces in sets:
            measured.append((kind, [piece.shape for piece in pieces]))
        return 0.25

    monkeypatch.setattr(evaluator, "inception_distance", distance)
    loaded: list[str] = []
    monkeypatch.setattr(evaluator, "require_inception", lambda: loaded.append("before training"))
    requested = {"dataset.held_out_share": 0.5, "train.snapshot_distance": "kid"}
    config = shallow.but(requested | {"train.snapshot_images": 120})
    evaluate = EncodingsEvaluator(Network(config), EncodingSource(str(data), config), steps=2)
    assert loaded == ["before training"]
    found = evaluate(Network(config).init(0))
    assert found.figures == {"kid": 0.25, "held_out_images": 120}
    assert len(found.images) == 120
    pieces = [(16, 16, 16, 3)] * 7 + [(8, 16, 16, 3)]
    assert measured == [("kid", pieces), ("kid", pieces)]
    few = shallow.but(requested)
    with pytest.raises(ConfigError, match=r"snapshot_images.*kid compares at least 100 images, and .* 16"):
        EncodingsEvaluator(Network(few), EncodingSource(str(data), few))


def test_samples_are_scored_by_the_captions_of_held_out_records(
    data: Path, shallow: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[tuple[int, ...], list[str]]] = []

    def call(function: str, images: np.ndarray, captions: list[str], name: str) -> np.ndarray:
        assert (function.rpartition(":")[2], name) == ("clip_scores", "a/clip")
        calls.append((images.shape, captions))
        return np.full(len(images), 10.0 * len(calls))

    monkeypatch.setattr(encoders, "call", call)
    config = shallow.but({"train.snapshot_clip": "a/clip", "dataset.held_out_share": SHARE})
    config = config.but({"train.snapshot_images": 20})
    source = EncodingSource(str(data), config)
    captions = source.examples(20).captions
    captions[3] = ""
    monkeypatch.setattr(source, "examples", lambda count: Examples(_rows(source, count), captions, True))
    found = EncodingsEvaluator(Network(config), source, steps=1)(Network(config).init(0))
    # The one without a caption does not count.
    assert [shape for shape, _ in calls] == [(16, 16, 16, 3), (3, 16, 16, 3)]
    assert [caption for _, some in calls for caption in some] == [one for one in captions if one]
    assert found.figures["clip_score"] == pytest.approx((16 * 10 + 3 * 20) / 19)
    monkeypatch.setattr(source, "examples", lambda count: Examples(_rows(source, count), [""] * count, True))
    with pytest.raises(ConfigError, match=r"snapshot_clip.* those that are held out are empty"):
        EncodingsEvaluator(Network(config), source)


def _rows(source: EncodingSource, count: int) -> dict[str, np.ndarray]:
    return EncodingSource(source.describe()["source"], source.config).examples(count).rows


def test_encoded_data_has_something_held_out_unless_it_is_switched_off() -> None:
    assert {name: preset.dataset.held_out_share for name, preset in PRESETS.items()} == {
        name: 0.0 if name == "small" else 0.01 for name in PRESETS
    }
