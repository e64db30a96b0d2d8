"""Data: shapes, encoders, TFRecord files, shards, and the order in which batches come."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tensorboardX.record_writer import RecordWriter
from tpulab_recipes.common.errors import DataError, StorageError
from tpulab_recipes.common.progress import Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.encode import encode
from tpulab_recipes.ddpm.data.encodings import encode_record
from tpulab_recipes.ddpm.data.pipeline import EncodingSource, ShapesSource
from tpulab_recipes.ddpm.data.shapes import all_shapes, draw_shapes, recognise, write_shape_images
from tpulab_recipes.ddpm.data.small_encoders import PatchPca, encode_text, fit_patch_pca
from tpulab_recipes.ddpm.presets import SMALL
from tpulab_recipes.images.frechet import frechet_distance, image_features
from tpulab_recipes.images.messages import decode_example, decode_tensor, encode_example, encode_tensor
from tpulab_recipes.images.shards import read_images
from tpulab_recipes.images.tfrecord import masked_crc, read_records, record_places, write_record
from tpulab_recipes.runtime.prefetch import prefetched


def test_every_kind_of_shape_is_drawn_equally_often_and_recognised() -> None:
    drawn = draw_shapes(320, seed=3)
    counts = {shape: drawn.shapes.count(shape) for shape in all_shapes()}
    assert set(counts.values()) == {10}
    right = [recognise(image) == shape for image, shape in zip(drawn.images, drawn.shapes, strict=True)]
    assert np.mean(right) > 0.98


def test_noise_is_not_recognised_as_the_requested_shape() -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, (320, 16, 16, 3))
    shapes = draw_shapes(320, seed=3).shapes
    assert np.mean([recognise(image) == shape for image, shape in zip(noise, shapes, strict=True)]) < 0.15


def test_the_linear_encoder_is_exact_on_its_span_and_close_on_shapes() -> None:
    pca = PatchPca.shipped()
    images = draw_shapes(64, seed=8).images
    latents = pca.encode(images)
    assert latents.shape == (64, 8, 8, 8)
    assert latents.std() == pytest.approx(1, abs=0.1)
    within = 0.1 * np.random.default_rng(0).standard_normal((4, 8, 8, 8))
    np.testing.assert_allclose(pca.encode(pca.decode(within)), within, atol=1e-5)
    assert np.abs(pca.decode(latents) - images).mean() < 0.02


def test_the_shipped_basis_equals_the_output_of_its_command() -> None:
    made = fit_patch_pca(draw_shapes(2048, seed=20).images)
    shipped = PatchPca.shipped()
    np.testing.assert_allclose(made["basis"], shipped.basis, atol=1e-6)
    np.testing.assert_allclose(made["scale"], shipped.scale, rtol=1e-6)


def test_words_have_the_same_states_wherever_they_stand() -> None:
    one, other, empty = encode_text(["a red circle", "red", ""])
    np.testing.assert_array_equal(one[1], other[0])
    np.testing.assert_array_equal(empty, 0)
    np.testing.assert_array_equal(one[3:], 0)


def test_files_are_byte_for_byte_those_of_another_writer(tmp_path: Path) -> None:
    """tensorboardX writes the same format with its own code."""
    records = [b"one", b"", b"three" * 1000]
    writer = RecordWriter(str(tmp_path / "theirs"))
    buffer = io.BytesIO()
    for record in records:
        writer.write(record)
        write_record(buffer, record)
    writer.close()
    assert (tmp_path / "theirs").read_bytes() == buffer.getvalue()


def test_checksums_match_the_standard() -> None:
    crc = 0x8A9136AA  # CRC-32C of 32 zero bytes, RFC 3720, B.4
    assert masked_crc(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_records_survive_and_damage_is_found_wherever_it_is() -> None:
    buffer = io.BytesIO()
    records = [b"one", b"", b"three" * 100]
    for record in records:
        write_record(buffer, record)
    whole = buffer.getvalue()
    assert list(read_records(io.BytesIO(whole), "f")) == records
    assert [length for _, length in record_places(io.BytesIO(whole), "f")] == [3, 0, 500]
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        with pytest.raises(DataError):
            list(read_records(io.BytesIO(bytes(damaged)), "f"))
    ends = {0, 19, 35, len(whole)}
    for cut in range(1, len(whole)):
        if cut not in ends:
            with pytest.raises(DataError):
                list(read_records(io.BytesIO(whole[:cut]), "f"))


def test_examples_and_tensors_survive() -> None:
    example = {"text": "häuser", "bytes": b"\x00\xff", "number": 3, "numbers": [1.5, 2.5]}
    found = decode_example(encode_example(example))
    assert found == {
        "text": ["häuser".encode()],
        "bytes": [b"\x00\xff"],
        "number": [3],
        "numbers": [1.5, 2.5],
    }
    for array in (
        np.float32(3.5),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.ones(4, ml_dtypes.bfloat16),
    ):
        back = decode_tensor(encode_tensor(np.asarray(array)))
        np.testing.assert_array_equal(back, array)
        assert back.dtype == np.asarray(array).dtype
    with pytest.raises(DataError, match="no message of the kind Example"):
        decode_example(b"\xff\xff\xff")


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 shapes, as images in two shards, and encoded."""
    folder = tmp_path_factory.mktemp("encoded")
    write_shape_images(Folder(folder / "images"), 600, per_shard=320)
    config = SMALL.but({"dataset.args.image_format": "png", "dataset.args.number_encodings_per_shard": 300})
    done = encode(config, str(folder / "images"), str(folder / "data"), Silent())
    assert done == {"shards": 2, "encoded": 2, "images": 600}
    return folder


def test_encoded_shapes_are_the_shapes_to_the_precision_of_bf16(encoded: Path) -> None:
    names = Folder(encoded / "data").names(".tfrecord")
    assert names == [
        "encodings-shapes-00000-000.tfrecord",
        "encodings-shapes-00000-001.tfrecord",
        "encodings-shapes-00001-000.tfrecord",
    ]
    with Folder(encoded / "data").read(names[0]) as file:
        first = decode_example(next(read_records(file, names[0])))
    drawn = draw_shapes(600, seed=0)
    latents = decode_tensor(first["image"][0])
    assert latents.dtype == ml_dtypes.bfloat16
    expected = PatchPca.shipped().encode(drawn.images[:1])[0]
    np.testing.assert_allclose(latents.astype(np.float32), expected, atol=0.08)
    assert first["txt"][0].decode() == drawn.captions[0]
    # Four words, without the padding.
    assert decode_tensor(first["clip_emb"][0]).shape == (4, 32)
    assert float(decode_tensor(first["aesth_score"][0])) == pytest.approx(drawn.scores[0], rel=0.01)


def test_encoding_again_encodes_only_missing_shards(encoded: Path) -> None:
    config = SMALL.but({"dataset.args.image_format": "png", "dataset.args.number_encodings_per_shard": 300})
    data = encoded / "data"
    before = {file.name: file.read_bytes() for file in data.iterdir()}
    (data / "encodings-shapes-00001.json").unlink()
    (data / "encodings-shapes-00001-000.tfrecord").unlink()
    done = encode(config, str(encoded / "images"), str(data), Silent())
    assert done["encoded"] == 1
    assert {file.name: file.read_bytes() for file in data.iterdir()} == before


def test_a_deleted_shard_with_a_report_is_named_by_training_and_encoded_again(encoded: Path) -> None:
    config = SMALL.but({"dataset.args.image_format": "png", "dataset.args.number_encodings_per_shard": 300})
    data = encoded / "data"
    before = {file.name: file.read_bytes() for file in data.iterdir()}
    (data / "encodings-shapes-00001-000.tfrecord").unlink()
    with pytest.raises(DataError, match=r"shapes-00001-000\.tfrecord does not exist.* run `encode` again"):
        EncodingSource(str(data), config)
    (data / "encodings-shapes-00000.json").write_text("{")
    assert encode(config, str(encoded / "images"), str(data), Silent())["encoded"] == 2
    assert {file.name: file.read_bytes() for file in data.iterdir()} == before


def _config(batch: int) -> Config:
    return replace(SMALL, train=replace(SMALL.train, batch_size=batch))


def test_batches_continue_where_they_were_and_every_epoch_holds_every_image_once(encoded: Path) -> None:
    for source in (EncodingSource(str(encoded / "data"), _config(60)), ShapesSource(_config(60), count=600)):
        batches = list(islice(source.batches(0), 20))
        assert batches[0]["image"].shape == (60, 8, 8, 8)
        assert batches[0]["clip_emb"].shape == (60, 8, 32)
        for start in (1, 7, 13):
            again = next(source.batches(start))
            for name, value in again.items():
                np.testing.assert_array_equal(value, batches[start][name])
        scores = [
            np.concatenate([batch["aesth_score"] for batch in epoch]).astype(np.float32)
            for epoch in (batches[:10], batches[10:])
        ]
        np.testing.assert_array_equal(np.sort(scores[0]), np.sort(scores[1]))
        assert (scores[0] != scores[1]).any()


def test_hosts_share_the_images_without_overlap(encoded: Path) -> None:
    hosts = [EncodingSource(str(encoded / "data"), _config(20), process=i, processes=2) for i in range(2)]
    seen: list[set[bytes]] = []
    for host in hosts:
        batches = islice(host.batches(0), host.batches_per_epoch)
        seen.append({row.tobytes() for batch in batches for row in batch["image"]})
    assert not seen[0] & seen[1]
    assert len(seen[0]) == len(seen[1]) > 100
    shapes = [ShapesSource(_config(100), count=600, process=i, processes=3) for i in range(3)]
    rows = [next(source.batches(0))["image"] for source in shapes]
    whole = next(ShapesSource(_config(300), count=600).batches(0))["image"]
    np.testing.assert_array_equal(np.concatenate(rows), whole)


def test_batches_of_sorted_shards_are_as_mixed_as_a_uniform_draw(tmp_path: Path) -> None:
    """64 kinds with 32 records each, one after the other, as ImageNet's shards have them."""
    config = _config(64).but({"model.conditioning.clip_width": 0})
    for shard in range(8):
        with open(tmp_path / f"{shard}.tfrecord", "wb") as file:
            for kind in range(8 * shard, 8 * shard + 8):
                for _ in range(32):
                    arrays = {"image": np.zeros((8, 8, 8)), "aesth_score": kind}
                    write_record(file, encode_record(arrays, ""))
    batches = list(islice(EncodingSource(str(tmp_path), config).batches(0), 32))
    kinds = [len(set(batch["aesth_score"].tolist())) for batch in batches]
    # Of 64 draws among 64 kinds 1 - 1/e are different: 40.6, and a little more without replacement.
    assert np.mean(kinds) > 39, kinds


def test_processes_that_read_make_the_same_batches(encoded: Path) -> None:
    config = _config(60)
    several = replace(config, dataset=replace(config.dataset, read_workers=1, read_ahead=1))
    expected = list(islice(EncodingSource(str(encoded / "data"), config).batches(7), 3))
    batches = EncodingSource(str(encoded / "data"), several).batches(7)
    for one, other in zip(expected, islice(batches, 3), strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])
    batches.close()  # type: ignore[attr-defined]


def test_unreadable_data_are_named(encoded: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        EncodingSource(str(tmp_path / "nowhere"), _config(8))
    with pytest.raises(DataError, match=r"holds no \.tfrecord"):
        EncodingSource(str(tmp_path), _config(8))
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        EncodingSource(str(tmp_path), _config(8))
    (tmp_path / "a.tfrecord").write_bytes(b"not a record file at all")
    with pytest.raises(DataError, match="not a TFRecord file"):
        EncodingSource(str(tmp_path), _config(8))
    with pytest.raises(DataError, match="too few"):
        EncodingSource(str(encoded / "data"), _config(1000))
    wrong = SMALL.but({"model.conditioning": {"t5_width": 8, "t5_length": 2}})
    with pytest.raises(DataError, match="has no 't5_emb'"):
        next(EncodingSource(str(encoded / "data"), wrong).batches(0))
    with pytest.raises(DataError, match="image_format"):
        next(read_images(Folder(encoded / "images"), "shapes-00000.tfrecord", "jpg"))


def test_a_damaged_record_is_found_while_training_reads(encoded: Path, tmp_path: Path) -> None:
    source = encoded / "data" / "encodings-shapes-00000-000.tfrecord"
    data = bytearray(source.read_bytes())
    data[500] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        list(islice(EncodingSource(str(tmp_path), _config(60)).batches(0), 5))


def test_reading_ahead_passes_errors_on_and_ends_with_its_reader() -> None:
    def failing() -> Iterator[dict[str, np.ndarray]]:
        yield {"image": np.zeros(1)}
        raise DataError("the disk is gone")

    with prefetched(failing(), 2) as batches:
        next(batches)
        with pytest.raises(DataError, match="disk is gone"):
            next(batches)

    # By name: threads of libraries come and go meanwhile.
    def readers() -> int:
        return sum(thread.name == "tpulab-prefetch" for thread in threading.enumerate())

    with prefetched(({"image": np.zeros(1)} for _ in iter(int, 1)), 1) as batches:
        next(batches)
        assert readers() == 1
    assert readers() == 0


def test_the_frechet_distance_matches_two_gaussians_and_grows_with_damage() -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((200_000, 3)) * [1, 2, 3]
    second = rng.standard_normal((200_000, 3)) * [2, 2, 1] + [1, 0, 0]
    # For diagonal covariances: squared distance of the means, and of the deviations.
    assert frechet_distance(first, second) == pytest.approx(1 + 1 + 0 + 4, abs=0.1)
    images = draw_shapes(256, seed=1).images
    reference = image_features(draw_shapes(256, seed=2).images)
    distances = [
        frechet_distance(reference, image_features(images + noise * rng.standard_normal(images.shape)))
        for noise in (0, 0.1, 0.3, 1)
    ]
    assert distances == sorted(distances)
    assert distances[0] < 0.2 * distances[-1]


def test_a_generator_ends_with_the_block_that_prefetches_it() -> None:
    ended = []

    def items() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.append(True)

    source = items()  # Another reference, as the frames of an error have.
    with prefetched(source, 2) as batches:
        assert next(batches) == 0
    assert ended == [True]
