"""Folders in buckets, against one in memory that behaves like Google's."""

from __future__ import annotations

import gc
import io
import json
from pathlib import Path

import numpy as np
import pytest
from ddpm.bucket import Bucket, bucket
from ddpm.picture_server import serving
from tpulab_recipes.common.errors import StorageError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import EncodingSource
from tpulab_recipes.ddpm.data.shapes import write_shape_images
from tpulab_recipes.ddpm.export.exporter import export_to_diffusers, write_export
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import SMALL

__all__ = ["bucket"]


def test_a_download_goes_into_a_folder_that_has_no_objects_yet(bucket: dict[str, bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with serving() as server:
        table = io.BytesIO()
        pq.write_table(pa.table({"url": [f"{server.url}/ok-1"], "caption": ["one"]}), table)
        bucket["b/tables/a.parquet"] = table.getvalue()
        flags = ["--data_dir", "bucket://b/tables", "--write_dir", "bucket://b/images"]
        assert main(["download", *flags, "--downloader", "own", "--processes-count", "1", "--quiet"]) == 0
    assert json.loads(bucket["b/images/images-a-00000.json"])["images"] == 1
    assert "b/images/images-a-00000.tfrecord" in bucket


def test_encodings_go_into_a_folder_that_has_no_objects_yet(bucket: dict[str, bytes], tmp_path: Path) -> None:
    write_shape_images(Folder("bucket://b/images"), 8)
    flags = ["--data_dir", "bucket://b/images", "--write_dir", "bucket://b/data"]
    requested = ["encode", "--preset", "small", "--dataset.args.image-format", "png", *flags, "--quiet"]
    assert main(requested) == 0
    assert json.loads(bucket["b/data/encodings-shapes-00000.json"])["images"] == 8
    # Training reads them there, by place.
    (tmp_path / "data").mkdir()
    name = "encodings-shapes-00000-000.tfrecord"
    (tmp_path / "data" / name).write_bytes(bucket[f"b/data/{name}"])
    config = SMALL.but({"train.batch_size": 4})
    there, here = (
        next(EncodingSource(folder, config).batches(1))
        for folder in ("bucket://b/data", str(tmp_path / "data"))
    )
    np.testing.assert_array_equal(there["image"], here["image"])
    # An input that has no objects is a mistake all the same.
    requested[requested.index("bucket://b/images")] = "bucket://b/imags"
    assert main(requested) == 1


def test_an_export_is_written_to_the_named_folder(
    bucket: dict[str, bytes], tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    params = Network(tiny).init(0)
    write_export(params, tiny, "bucket://b/exported")
    here = export_to_diffusers(params, tiny, "exported")
    files = {str(file.relative_to(here)): file.read_bytes() for file in here.rglob("*") if file.is_file()}
    assert {f"b/exported/{name}": data for name, data in files.items()} == bucket
    assert "unet/diffusion_pytorch_model.safetensors" in files
    with pytest.raises(StorageError, match="no folder of this machine"):
        export_to_diffusers(params, tiny, "bucket://b/exported")
    assert [entry.name for entry in tmp_path.iterdir()] == ["exported"]


def test_a_write_that_fails_in_the_middle_leaves_the_old_content(bucket: dict[str, bytes]) -> None:
    folder = Folder("bucket://b/data")
    with folder.write("whole") as file:
        file.write(b"x" * 200)
    for name in ("whole", "new"):
        with pytest.raises(KeyboardInterrupt):
            _interrupted(folder, name)
    # Python closes an unreferenced file, which must not create an object either.
    gc.collect()
    assert bucket == {"b/data/whole": b"x" * 200}


def _interrupted(folder: Folder, name: str) -> None:
    with folder.write(name) as file:
        # Longer than one piece, so that an upload is under way.
        file.write(b"y" * 100)
        raise KeyboardInterrupt


def _raised_by(module: str, name: str, text: str, code: object = None) -> Exception:
    """An error of a library that need not be installed: it is recognised by its module."""
    error: Exception = type(name, (Exception,), {"__module__": module, "code": code})(text)
    return error


@pytest.mark.parametrize(
    ("fault", "output"),
    [
        (_raised_by("gcsfs.retry", "HttpError", "Invalid Credentials, 401", 401), "gcloud auth"),
        (_raised_by("gcsfs.retry", "HttpError", "Invalid bucket name: 'B', 400", 400), "name of the bucket"),
        (_raised_by("google.auth.exceptions", "RefreshError", "Reauthentication\nis needed."), "gcloud auth"),
        (_raised_by("aiohttp.client_exceptions", "ServerDisconnectedError", "gone"), "connection failed"),
        (ValueError("Bad Request: b/images\nThe name is invalid"), "name of the bucket"),
        (OSError("Forbidden: b/images\nno access"), "Forbidden"),
    ],
    ids=["credentials", "name", "login", "connection", "request", "forbidden"],
)
def test_a_refusal_of_a_bucket_is_reported_in_one_sentence(
    fault: Exception,
    output: str,
    bucket: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bucket == {}
    monkeypatch.setattr(Bucket, "fault", fault)
    flags = ["--data_dir", "bucket://b/images", "--write_dir", "bucket://b/data", "--quiet"]
    assert main(["encode", "--preset", "small", *flags]) == 1
    error = capsys.readouterr().err
    assert output in error
    assert len(error.strip().splitlines()) == 1


def test_a_fault_of_the_program_is_not_reported_as_a_bucket_error(
    bucket: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bucket == {}
    monkeypatch.setattr(Bucket, "fault", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        Folder("bucket://b/images").names()


def test_event_files_in_a_bucket_are_refused_before_the_training(
    bucket: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorBoard's writer took the address for the name of a local folder."""
    command = ["train", "--preset", "small", "--global-dir", "bucket://b/run", "--tensorboard", "--quiet"]
    assert main([*command, "--steps", "1"]) == 1
    assert "event files cannot be written to bucket://b/run/logs; metrics.jsonl is" in capsys.readouterr().err
    assert not bucket
