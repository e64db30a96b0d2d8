"""Data that is not captioned shapes: shards of img2dataset, pixels, classes. Through the commands."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ddpm.picture_server import serving
from ddpm.tiny import SHALLOW, TRAINING, flags
from tpulab_recipes.common.log_writers import read_json_lines
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.data.shapes import all_shapes, draw_shapes, to_uint8
from tpulab_recipes.images.files import encode_image
from tpulab_recipes.images.messages import decode_example, decode_tensor, encode_example
from tpulab_recipes.images.shards import read_images
from tpulab_recipes.images.tfrecord import read_records, write_record

SHALLOW_NETWORK = flags(
    SHALLOW
    | TRAINING
    | {
        "model.args.num_res_blocks": 1,
        "model.args.param_dtype": "fp32",
        "model.args.remat_levels": -1,
        "dataset.args.image_size": 16,
        "dataset.args.image_format": "png",
    }
)


def _img2dataset_record(number: int, score: object) -> bytes:
    """As the TFRecord writer of img2dataset makes it (img2dataset/writer.py, TFRecordSampleWriter.write): the
    image under its format, the caption as `txt`, and a feature for each column and each thing it found."""
    pixels = to_uint8(draw_shapes(4, seed=2).images)[number]
    return encode_example(
        {
            "key": f"00000000{number}",
            "jpg": encode_image(pixels, "jpg"),
            "txt": f"caption {number}",
            "url": f"http://127.0.0.1/{number}.jpg",
            "caption": f"caption {number}",
            "aesthetic": score,
            "label": number,
            "status": "success",
            "error_message": "",
            "width": 16,
            "height": 16,
            "original_width": 640,
            "original_height": 480,
            "exif": "{}",
            "sha256": "0" * 64,
        }
    )


def _encodings(folder: Path) -> list[dict[str, list[object]]]:
    found = []
    for name in Folder(folder).names(".tfrecord"):
        with Folder(folder).read(name) as file:
            found += [decode_example(data) for data in read_records(file, name)]
    return found


def test_shards_of_img2dataset_keep_their_scores_and_the_sizes_before_resizing(tmp_path: Path) -> None:
    images, data = tmp_path / "images", tmp_path / "data"
    images.mkdir()
    with (images / "00000.tfrecord").open("wb") as file:
        # A missing value is written as an empty text.
        for number, score in enumerate((5.5, 6.25, "")):
            write_record(file, _img2dataset_record(number, score))
    flags = ["--data_dir", str(images), "--write_dir", str(data), "--score_col", "aesthetic", "--quiet"]
    assert main(["encode", "--preset", "small", *flags]) == 0
    for key, expected in (("aesth_score", [5.5, 6.25, 0]), ("height", [480] * 3), ("width", [640] * 3)):
        found = [float(decode_tensor(record[key][0])) for record in _encodings(data)]  # type: ignore[arg-type]
        assert found == expected, key


def test_our_own_shards_are_read_with_the_same_flag(tmp_path: Path) -> None:
    tables, images = tmp_path / "tables", tmp_path / "images"
    tables.mkdir()
    with serving() as server:
        columns = {"url": [f"{server.url}/ok-1"], "caption": ["one"], "aesthetic": [7.5], "label": [3]}
        pq.write_table(pa.table(columns), tables / "a.parquet")
        flags = ["--data_dir", str(tables), "--write_dir", str(images), "--downloader", "own", "--quiet"]
        assert main(["download", *flags, "--score_col", "aesthetic", "--class_col", "label"]) == 0
    (image,) = read_images(
        Folder(images), "images-a-00000.tfrecord", "jpg", score_col="aesthetic", class_col="label"
    )
    assert (image.aesth_score, image.label, image.height, image.width) == (7.5, 3, 96, 128)


def test_classes_that_are_words_are_refused_before_anything_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"url": ["http://127.0.0.1/x"], "caption": ["x"], "label": ["cat"]}), buffer)
    (tmp_path / "a.parquet").write_bytes(buffer.getvalue())
    flags = ["--data_dir", str(tmp_path), "--write_dir", str(tmp_path / "images"), "--downloader", "own"]
    assert main(["download", *flags, "--class_col", "label", "--quiet"]) == 1
    assert "a.parquet, row 0: 'label' is 'cat', not a number" in capsys.readouterr().err


def _train_and_sample(tmp_path: Path, preset: str, settings: Mapping[str, Any], *more: str) -> np.ndarray:
    """All commands on 32 shapes. Returns the images at the end."""
    images, data, run, out = (str(tmp_path / name) for name in ("images", "data", "run", "pictures"))
    config = ["--preset", preset, *SHALLOW_NETWORK, *flags(settings)]
    assert main(["shapes", "--write_dir", images, "--count", "32"]) == 0
    assert main(["encode", *config, "--data_dir", images, "--write_dir", data, "--quiet"]) == 0
    assert main(["train", *config, "--global_dir", run, data, "--steps", "2"]) == 0
    checkpoints = f"{run}/checkpoints_recent"
    folders = ["--save_dir", out, "--num_steps", "2", "--npz", "--quiet", *more]
    assert main(["evaluate", "--checkpoint_dir", checkpoints, *folders]) == 0
    return np.asarray(np.load(f"{out}/images.npz")["images"])


@pytest.mark.long
def test_an_evaluation_of_many_images_saves_some_and_counts_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"in_dimensions": [16, 16, 3], "train.snapshot_freq": 0, "dataset.held_out_share": 0.25}
    more = ["--num_images", "80", "--max_batch_size", "32", "--reference_dir", str(tmp_path / "more")]
    assert main(["shapes", "--write_dir", str(tmp_path / "more"), "--count", "70"]) == 0
    whole = _train_and_sample(tmp_path, "cifar10", settings, *more)
    assert len(whole) == 80
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (figures["images"], figures["reference_images"]) == (80, 70)
    checkpoints, out = str(tmp_path / "run" / "checkpoints_recent"), tmp_path / "few"
    flags_of_few = [
        "--save_dir",
        str(out),
        "--save_images",
        "35",
        "--num_steps",
        "2",
        "--npz",
        "--quiet",
        *more,
    ]
    assert main(["evaluate", "--checkpoint_dir", checkpoints, *flags_of_few]) == 0
    few = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert few == figures | {"folder": str(out)}
    assert len(list(out.glob("image_*.png"))) == 35
    np.testing.assert_array_equal(np.load(out / "images.npz")["images"], whole[:35])


@pytest.mark.long
def test_pixels_are_trained_and_sampled_without_an_encoder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "in_dimensions": [16, 16, 3],
        "train.snapshot_freq": 2,
        "model.eval_sampling_num_steps": 2,
        "dataset.held_out_share": 0.25,
    }
    made = _train_and_sample(tmp_path, "cifar10", settings, "--num_images", "3")
    assert made.shape == (3, 16, 16, 3)
    # The evaluator inside the training has sampled, and compared with data that was held out.
    assert "held out: 8 of 32 records" in capsys.readouterr().err
    (row,) = [row for row in read_json_lines(str(tmp_path / "run" / "logs")) if "frechet" in row]
    assert row["step"] == 2
    assert np.isfinite(row["frechet"])
    assert row["held_out_images"] == 8
    assert (tmp_path / "run" / "logs" / "samples_0000002.png").read_bytes().startswith(b"\x89PNG")
    first = decode_tensor(_encodings(tmp_path / "data")[0]["image"][0])  # type: ignore[arg-type]
    np.testing.assert_allclose(first.astype(np.float32), draw_shapes(32, seed=0).images[0], atol=0.01)
    # The published network predicts x, so it can be distilled.
    folders = ["--checkpoint_dir", str(tmp_path / "run" / "checkpoints_recent")]
    folders += ["--write_dir", str(tmp_path / "students"), "--quiet"]
    rounds = {"distill.start_num_steps": 4, "distill.end_num_steps": 2, "distill.steps_per_halving": 2}
    assert main(["distill", *folders, "--data_dir", str(tmp_path / "data"), *flags(rounds)]) == 0
    assert (tmp_path / "students").is_dir()


def test_classes_are_trained_and_sampled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latents = {"in_dimensions": [8, 8, 8], "model.args.out_ch": 8, "model.vae_id": "small"}
    made = _train_and_sample(tmp_path, "imagenet256", latents, "--classes", "3,999")
    assert made.shape == (2, 16, 16, 3)
    kinds = all_shapes()
    expected = [kinds.index(shape) for shape in draw_shapes(32, seed=0).shapes]
    assert [record["class"] for record in _encodings(tmp_path / "data")] == [[one] for one in expected]
    # Images without a class, and classes that the network does not have, are refused.
    settings = ["--preset", "imagenet256", *SHALLOW_NETWORK, *flags(latents)]
    folders = ["--data_dir", str(tmp_path / "images"), "--write_dir", str(tmp_path / "other"), "--quiet"]
    few = ["--model.conditioning.num-classes", "5"]
    assert main(["encode", *settings, *few, *folders]) == 1
    assert "classes are numbered from 0 to 4" in capsys.readouterr().err
    bare = tmp_path / "bare"
    bare.mkdir()
    with (bare / "a.tfrecord").open("wb") as file:
        write_record(
            file, encode_example({"png": encode_image(np.zeros((16, 16, 3), np.uint8), "png"), "txt": ""})
        )
    folders[1] = str(bare)
    assert main(["encode", *settings, *folders]) == 1
    assert "--class-col" in capsys.readouterr().err


def test_a_large_class_is_stored_exactly(tmp_path: Path) -> None:
    """bfloat16, in which all else is stored, would make 1000 of 999."""
    (tmp_path / "images").mkdir()
    with (tmp_path / "images" / "a.tfrecord").open("wb") as file:
        pixels = encode_image(np.zeros((16, 16, 3), np.uint8), "png")
        write_record(file, encode_example({"png": pixels, "txt": "", "json": json.dumps({"class": 999})}))
    latents = {"in_dimensions": [8, 8, 8], "model.args.out_ch": 8, "model.vae_id": "small"}
    folders = ["--data_dir", str(tmp_path / "images"), "--write_dir", str(tmp_path / "data"), "--quiet"]
    assert main(["encode", "--preset", "imagenet256", *SHALLOW_NETWORK, *flags(latents), *folders]) == 0
    assert _encodings(tmp_path / "data")[0]["class"] == [999]
