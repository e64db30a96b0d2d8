"""Reading, drawing and batching images, against hand-made files and plain counting."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from tpulab_recipes.fashion_mnist.data import Images, eval_batches, load, synthetic_folder, train_batches
from tpulab_recipes.images.garments import draw_dataset
from tpulab_recipes.images.idx import IdxError, read_idx, write_idx


def test_reads_the_published_format_byte_for_byte(tmp_path: Path) -> None:
    # As the format's description has it: magic 0x00000803, then 2 images of 2 x 3.
    (tmp_path / "images").write_bytes(struct.pack(">IIII", 0x803, 2, 2, 3) + bytes(range(12)))
    assert np.array_equal(read_idx(str(tmp_path / "images")), np.arange(12, dtype=np.uint8).reshape(2, 2, 3))


@pytest.mark.parametrize("shape", [(0,), (5,), (3, 4, 5)])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_written_files_are_read_again(tmp_path: Path, shape: tuple[int, ...], suffix: str) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    write_idx(tmp_path / f"x{suffix}", array)
    assert np.array_equal(read_idx(str(tmp_path / f"x{suffix}")), array)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not begin"),
        (b"PK\x03\x04 a zip file", "does not begin"),
        (struct.pack(">I", 0xD03), "type 0x0d"),
        (struct.pack(">II", 0x803, 2), "within its header"),
        (struct.pack(">II", 0x801, 5) + b"abc", "should hold"),
        # Without the time of day, which would be part of the test's name and another in each process.
        (gzip.compress(struct.pack(">II", 0x801, 5) + b"abcde", mtime=0)[:-9], "cut off or damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_its_fault(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(IdxError, match=says):
        read_idx(str(tmp_path / "x"))


def test_a_folder_without_the_files_states_which_files_are_expected(tmp_path: Path) -> None:
    with pytest.raises(IdxError, match=r"There is no file.*four files"):
        load(str(tmp_path), "train")


def test_reads_through_addresses_that_fsspec_knows(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name, array in (
        ("images-idx3", np.zeros((3, 28, 28), np.uint8)),
        ("labels-idx1", np.arange(3, dtype=np.uint8)),
    ):
        write_idx(tmp_path / "x.gz", array)
        memory.pipe(f"/bucket/t10k-{name}-ubyte.gz", (tmp_path / "x.gz").read_bytes())
    assert load("memory://bucket", "test").labels.tolist() == [0, 1, 2]


def test_a_missing_file_in_a_bucket_is_reported_as_one_in_a_folder() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(IdxError, match=r"There is no file memory://nowhere.*four files"):
        load("memory://nowhere", "train")


def test_a_bucket_without_the_package_for_it_states_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as if it were not installed
    with pytest.raises(
        IdxError, match=r"gs://my-bucket/fashion.*install it with `.*python.* -m pip install gcsfs`"
    ):
        load("gs://my-bucket/fashion", "train")


def test_drawn_images_have_the_format_all_classes_and_depend_only_on_the_seed() -> None:
    pixels, labels = draw_dataset(40, seed=3)
    assert (pixels.shape, pixels.dtype, labels.dtype) == ((40, 28, 28), np.uint8, np.uint8)
    assert np.bincount(labels).tolist() == [4] * 10
    again, _ = draw_dataset(40, seed=3)
    other, _ = draw_dataset(40, seed=4)
    assert np.array_equal(pixels, again)
    assert not np.array_equal(pixels, other)


def test_drawn_classes_look_different_and_images_of_one_class_do_not_repeat() -> None:
    pixels, labels = draw_dataset(200, seed=0)
    means = np.stack([pixels[labels == label].mean(axis=0) for label in range(10)])
    apart = np.abs(means[:, None] - means[None]).mean(axis=(2, 3)) + 1e9 * np.eye(10)
    assert apart.min() > 5
    assert len({image.tobytes() for image in pixels}) == 200


def test_the_cache_is_made_once_and_read_as_the_real_one_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = synthetic_folder(train=30, test=10)
    before = {file.name: file.stat().st_mtime_ns for file in Path(folder).iterdir()}
    assert synthetic_folder(train=30, test=10) == folder
    assert before == {file.name: file.stat().st_mtime_ns for file in Path(folder).iterdir()}
    assert (len(load(folder, "train")), len(load(folder, "test"))) == (30, 10)


def images(count: int) -> Images:
    return Images(
        np.arange(count, dtype=np.uint8)[:, None, None].repeat(28, 1).repeat(28, 2),
        np.arange(count, dtype=np.uint8) % 10,
    )


def test_training_batches_are_whole_and_no_image_comes_twice_in_an_epoch() -> None:
    batches = list(train_batches(images(23), 5, seed=0, epoch=0))
    assert [batch["pixels"].shape for batch in batches] == [(5, 28, 28)] * 4
    seen = [int(image[0, 0]) for batch in batches for image in batch["pixels"]]
    assert len(set(seen)) == 20
    other = next(iter(train_batches(images(23), 5, seed=0, epoch=1)))
    assert seen[:5] != [int(image[0, 0]) for image in other["pixels"]]


@pytest.mark.parametrize("count", [1, 5, 12, 23])
def test_evaluation_counts_every_image_once_in_one_shape(count: int) -> None:
    batches = list(eval_batches(images(count), 5))
    assert {batch["pixels"].shape for batch in batches} == {(5, 28, 28)}
    counted = [
        int(image[0, 0])
        for batch in batches
        for image, counts in zip(batch["pixels"], batch["counts"], strict=True)
        if counts
    ]
    assert counted == list(range(count))
    assert sum(float(batch["counts"].sum()) for batch in batches) == count
