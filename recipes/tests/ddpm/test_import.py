"""Importing data sets from disk: folders, CIFAR-10, parquet and WebDataset."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tpulab_recipes.common.errors import ConfigError, DataError, StorageError
from tpulab_recipes.common.progress import Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.data.pipeline import EncodingSource
from tpulab_recipes.ddpm.presets import CIFAR10
from tpulab_recipes.ddpm.training.train_step import diffusion_loss
from tpulab_recipes.images.files import decode_image, encode_image
from tpulab_recipes.images.importing import ImportOptions, import_images
from tpulab_recipes.images.messages import decode_example
from tpulab_recipes.images.shards import CaptionedImage, decoders, read_images, stored_records


def _picture(red: int, size: tuple[int, int] = (20, 30)) -> bytes:
    return encode_image(np.full((*size, 3), (red, 10, 20), np.uint8), "png")


def _options(tmp_path: Path, **changed: Any) -> ImportOptions:
    options = ImportOptions(
        data_dir=str(tmp_path / "data"),
        write_dir=str(tmp_path / "images"),
        image_size=16,
        processes_count=1,
        samples_per_shard=4,
        image_format="png",
    )
    return replace(options, **changed)


def _images(tmp_path: Path, class_col: str | None = None) -> list[CaptionedImage]:
    folder = Folder(tmp_path / "images")
    names = folder.names(".tfrecord")
    return [image for name in names for image in read_images(folder, name, "png", class_col=class_col)]


def test_a_folder_with_texts_beside_the_images(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "below").mkdir(parents=True)
    for number in range(6):
        (data / f"{number}.png").write_bytes(_picture(number))
        (data / f"{number}.txt").write_text(f"caption {number}\n", encoding="utf-8-sig")
    (data / "below" / "x.PNG").write_bytes(_picture(100))
    (data / "below" / "x.TXT").write_text("in capitals")
    (data / "torn.png").write_bytes(_picture(7)[:60])
    (data / "page.jpg").write_text("<!DOCTYPE html><title>404</title>")
    (data / ".hidden.png").write_bytes(_picture(8))
    done = import_images("folder", _options(tmp_path), Silent())
    assert done == {"shards": 3, "images": 7, "left_out": 2, "problems": {"not_an_image": 2}}
    images = _images(tmp_path)
    assert sorted(image.caption for image in images) == [*(f"caption {n}" for n in range(6)), "in capitals"]
    assert {image.pixels.shape for image in images} == {(16, 24, 3)}
    reports = [json.loads(file.read_text()) for file in (tmp_path / "images").glob("*.json")]
    assert {row[1] for report in reports for row in report["left_out"]} == {"torn.png", "page.jpg"}


def test_an_image_with_too_many_pixels_is_refused_without_a_warning(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 10_000, 10_000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", b""), (b"IEND", b""))
    body = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    (tmp_path / "big").write_bytes(data := b"\x89PNG\r\n\x1a\n" + b"".join(body))
    with pytest.raises(DataError, match="big has 10000 x 10000 pixels; at most 64,000,000 are read"):
        decode_image(data, "big")
    # In a process of its own: pytest collects warnings.
    code = (
        "import contextlib, tpulab_recipes.images.files as files\n"
        "with contextlib.suppress(files.DataError): files.decode_image(open('big', 'rb').read())"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True)
    assert ended.stderr == b""


def test_a_deleted_shard_with_a_report_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.png").write_bytes(_picture(1))
    import_images("folder", _options(tmp_path), Silent())
    (shard,) = (tmp_path / "images").glob("*.tfrecord")
    before = shard.read_bytes()
    shard.unlink()
    assert import_images("folder", _options(tmp_path), Silent())["images"] == 1
    assert shard.read_bytes() == before


def test_images_of_every_kind_are_used_or_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / ".ipynb_checkpoints").mkdir(parents=True)
    (data / ".ipynb_checkpoints" / "copy.png").write_bytes(_picture(1))
    ramp = np.linspace(0, 255, 20 * 30 * 3).reshape(20, 30, 3).astype(np.uint8)
    image = Image.fromarray(ramp)
    for name in ("1.avif", "2.jfif", "3.jp2", "new\nline.png", "\u65e5\u672c.png"):
        image.save(data / name, "JPEG" if name.endswith("jfif") else None)
    (data / os.fsdecode(b"caf\xe9.png")).write_bytes(_picture(2))
    Image.new("RGB", (20_000, 10)).save(data / "long.png")
    Image.new("RGB", (1, 1)).save(data / "one.png")
    (data / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    avif = bytearray((data / "1.avif").read_bytes())
    avif[-20:] = b"\xff" * 20
    (data / "torn.avif").write_bytes(avif)
    (data / "latin.png").write_bytes(_picture(3))
    (data / "latin.txt").write_bytes("caf\xe9".encode("cp1252"))
    (data / "gone.png").symlink_to("nowhere.png")
    (data / "loop.png").symlink_to("loop.png")
    done = import_images("folder", _options(tmp_path, samples_per_shard=100), Silent())
    assert done["images"] == 7
    assert done["problems"] == {
        "caption": 1,
        "heic": 1,
        "not_an_image": 1,
        "too_elongated": 1,
        "unreadable_file": 2,
    }
    report = json.loads((tmp_path / "images" / "images-folder-00000.json").read_text())
    assert {tuple(row[1:]) for row in report["left_out"]} == {
        ("latin.txt", "caption"),
        ("phone.heic", "heic"),
        ("torn.avif", "not_an_image"),
        ("long.png", "too_elongated"),
        ("gone.png", "unreadable_file"),
        ("loop.png", "unreadable_file"),
    }


def test_unreadable_and_replaced_files_are_read_by_the_next_import(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.png").write_bytes(_picture(1))
    (data / "late.png").symlink_to("other")
    (data / "torn.png").write_bytes(_picture(2)[:50])
    options = _options(tmp_path, samples_per_shard=2)
    assert import_images("folder", options, Silent())["problems"] == {"unreadable_file": 1, "not_an_image": 1}
    (data / "other").write_bytes(_picture(3))
    (data / "torn.png").write_bytes(_picture(2))
    assert import_images("folder", options, Silent()) == {
        "shards": 2,
        "images": 3,
        "left_out": 0,
        "problems": {},
    }


def test_folders_whose_names_have_no_latin_letters(tmp_path: Path) -> None:
    for name in ("\u732b", "\u72ac", os.fsdecode(b"caf\xe9")):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "1.png").write_bytes(_picture(1))
    import_images("imagenet", _options(tmp_path), Silent())
    assert [image.caption for image in _images(tmp_path)] == ["caf?", "\u72ac", "\u732b"]


def test_an_import_continues_and_takes_changes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(8):
        (data / f"{number}.png").write_bytes(_picture(number))
    import_images("folder", _options(tmp_path), Silent())
    shards = sorted((tmp_path / "images").glob("*.tfrecord"))
    times = [shard.stat().st_mtime_ns for shard in shards]
    (data / "7.txt").write_text("corrected")
    import_images("folder", _options(tmp_path), Silent())
    assert [shard.stat().st_mtime_ns == time for shard, time in zip(shards, times, strict=True)] == [
        True,
        False,
    ]
    assert [image.caption for image in _images(tmp_path)] == [""] * 7 + ["corrected"]


def test_captions_of_hugging_faces_image_folders(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for split in ("a", "b"):
        (data / split).mkdir(parents=True)
        (data / split / "1.png").write_bytes(_picture(1))
    (data / "a" / "metadata.csv").write_text('file_name,text\n1.png,"one, two"\n')
    (data / "b" / "metadata.jsonl").write_text('{"file_name": "1.png", "text": "three"}\n')
    import_images("folder", _options(tmp_path), Silent())
    assert [image.caption for image in _images(tmp_path)] == ["one, two", "three"]
    lines = '{"file_name": ".\\\\1.png", "text": "one\u2028line and half a \\ud83d"}\n'
    (data / "b" / "metadata.jsonl").write_text(lines, encoding="utf-8")
    import_images("folder", _options(tmp_path), Silent())
    assert [image.caption for image in _images(tmp_path)] == ["one, two", "one\u2028line and half a ?"]
    (data / "b" / "metadata.jsonl").write_text('{"file_name": "1", "text": "three"}\n')
    with pytest.raises(DataError, match=r"metadata\.jsonl names no image that is here; its first is 'b/1'"):
        import_images("folder", _options(tmp_path), Silent())
    (data / "b" / "metadata.jsonl").write_text('{"name": "1.png"}\n')
    with pytest.raises(DataError, match=r"b/metadata\.jsonl cannot be read: it needs file_name and text"):
        import_images("folder", _options(tmp_path), Silent())


def test_accented_names_match_however_the_disk_spells_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / unicodedata.normalize("NFD", "caf\xe9.png")).write_bytes(_picture(1))
    (data / "metadata.csv").write_text("file_name,text\ncaf\xe9.png,a cup\ngone.png,none\n", encoding="utf-8")
    import_images("folder", _options(tmp_path), Silent())
    assert [image.caption for image in _images(tmp_path)] == ["a cup"]
    assert "1 captions are for images that are not here" in capsys.readouterr().err


def test_a_caption_is_never_the_text_of_a_list_or_of_a_missing_value(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    columns = {"image": [_picture(1), _picture(2), _picture(3)], "text": [["a dog", "an animal"], [], ["b"]]}
    pq.write_table(pa.table(columns), data / "a.parquet")
    pq.write_table(pa.table({"image": [_picture(4)], "text": [float("nan")]}), data / "b.parquet")
    import_images("parquet", _options(tmp_path), Silent())
    assert [image.caption for image in _images(tmp_path)] == ["a dog", "", "b", ""]
    archive, one = tmp_path / "archives", tmp_path / "of_archives"
    archive.mkdir()
    with tarfile.open(archive / "a.tar.bz2", "w:bz2") as tar:
        for name, content in (("7.input.png", _picture(5)), ("7.json", b'{"caption": ["a cat", "a pet"]}')):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    import_images("webdataset", _options(tmp_path, data_dir=str(archive), write_dir=str(one)), Silent())
    (name,) = Folder(one).names(".tfrecord")
    assert [image.caption for image in read_images(Folder(one), name, "png")] == ["a cat"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("file_name,text\na.png,red\n./a.png,blue\n", "metadata.csv has two captions for a.png"),
        ('file_name,text\na.png,"red\nb.png,blue\n', "metadata.csv cannot be read"),
    ],
)
def test_a_table_that_would_give_wrong_captions_is_refused(tmp_path: Path, table: str, problem: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.png").write_bytes(_picture(1))
    (tmp_path / "data/metadata.csv").write_text(table)
    with pytest.raises(DataError, match=problem):
        import_images("folder", _options(tmp_path), Silent())


def test_an_import_into_the_folder_that_it_reads_and_sizes_below_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.png").write_bytes(_picture(1))
    for changed in ({"write_dir": f"{tmp_path}/data/."}, {"samples_per_shard": 0}, {"image_size": -1}):
        with pytest.raises(ConfigError, match=r"is the folder that is read|must be at least 1"):
            import_images("folder", _options(tmp_path, **changed), Silent())
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["a.png"]


def test_folders_of_imagenet_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for number, name in enumerate(["n02", "n01", "n03"]):
        folder = tmp_path / "data" / "train" / name
        folder.mkdir(parents=True)
        (folder / f"{name}_1.JPEG").write_bytes(_picture(number))
    import_images("imagenet", _options(tmp_path), Silent())
    assert [(i.label, i.caption) for i in _images(tmp_path, "class")] == [(0, "n01"), (1, "n02"), (2, "n03")]


def _cifar(rows: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (rows, 3072), np.uint8), rng.integers(0, 10, rows)


@pytest.mark.parametrize("form", ["python", "binary", "archive"])
def test_cifar10_as_it_is_published(tmp_path: Path, form: str) -> None:
    """Formats: https://www.cs.toronto.edu/~kriz/cifar.html."""
    values, labels = _cifar()
    (tmp_path / "data").mkdir()
    if form == "binary":
        rows = np.concatenate([labels[:, None].astype(np.uint8), values], axis=1)
        (tmp_path / "data" / "data_batch_1.bin").write_bytes(rows.tobytes())
        data_dir = tmp_path / "data"
    else:
        # As Python 2 wrote it: text keys are bytes.
        batch = pickle.dumps({b"data": values, b"labels": labels.tolist()}, protocol=2)
        (tmp_path / "data" / "data_batch_1").write_bytes(batch)
        (tmp_path / "data" / "test_batch").write_bytes(batch)
        data_dir = tmp_path / "data"
        if form == "archive":
            data_dir = tmp_path / "cifar-10-python.tar.gz"
            with tarfile.open(data_dir, "w:gz") as archive:
                archive.add(tmp_path / "data", "cifar-10-batches-py")
    done = import_images("cifar10", _options(tmp_path, data_dir=str(data_dir), image_size=0), Silent())
    assert done["images"] == 5
    for image, row, label in zip(_images(tmp_path, "class"), values, labels, strict=True):
        np.testing.assert_array_equal(image.pixels, row.reshape(3, 32, 32).transpose(1, 2, 0))
        assert image.label == label


def test_a_batch_of_cifar10_runs_no_code(tmp_path: Path) -> None:
    class Command:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data_batch_1").write_bytes(pickle.dumps(Command()))
    with pytest.raises(DataError, match=r"data_batch_1 cannot be read .*system does not belong"):
        import_images("cifar10", _options(tmp_path), Silent())
    assert not (tmp_path / "ran").exists()
    (tmp_path / "data" / "data_batch_1").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match="it is a Git LFS pointer"):
        import_images("cifar10", _options(tmp_path), Silent())


def test_tables_with_images_as_at_hugging_face(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    image = pa.array(
        [{"bytes": _picture(1), "path": "1.png"}, {"bytes": None, "path": "2.png"}],
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    table = pa.table({"img": image, "label": [7, 8], "text": ["seven", None]})
    pq.write_table(table, tmp_path / "data" / "train-00000.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "data" / "train-00001.parquet")
    pq.write_table(table, tmp_path / "data" / "test-00000.parquet")
    done = import_images("parquet", _options(tmp_path), Silent())
    assert (done["images"], done["problems"]) == (1, {"no_image": 1})
    assert [(one.label, one.caption) for one in _images(tmp_path, "class")] == [(7, "seven")]
    with pytest.raises(DataError, match="no column 'picture'; it has img, label, text"):
        import_images("parquet", _options(tmp_path, image_col="picture"), Silent())


def test_one_damaged_table_of_several_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    table = pa.table({"image": [_picture(n) for n in range(40)], "label": [float(n) for n in range(40)]})
    pq.write_table(table, tmp_path / "data" / "a.parquet", row_group_size=10)
    pq.write_table(table, tmp_path / "data" / "b.parquet", row_group_size=10)
    whole = (tmp_path / "data" / "b.parquet").read_bytes()
    (tmp_path / "data" / "b.parquet").write_bytes(whole[: len(whole) // 2])
    # The footer is whole, the pages of the third group of rows are not.
    place = (
        pq.ParquetFile(tmp_path / "data" / "a.parquet").metadata.row_group(2).column(0).dictionary_page_offset
    )
    damaged = bytearray((tmp_path / "data" / "a.parquet").read_bytes())
    damaged[place : place + 30] = bytes([255]) * 30
    (tmp_path / "data" / "c.parquet").write_bytes(damaged)
    done = import_images("parquet", _options(tmp_path), Silent())
    assert (done["images"], done["problems"]) == (60, {"damaged_file": 2})
    assert [image.label for image in _images(tmp_path, "class")] == [*range(40), *range(20)]
    report = json.loads((tmp_path / "images" / "images-b.json").read_text())
    assert report["left_out"][0][1].startswith("b.parquet cannot be read as parquet")


def test_a_file_that_is_no_table_is_named_with_its_kind(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for content, kind in (
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it is a Git LFS pointer"),
        ("<html><body>404</body></html>", "it is an HTML page"),
        ("", "it is empty"),
    ):
        (tmp_path / "data" / "a.parquet").write_text(content)
        with pytest.raises(DataError, match=f"a.parquet cannot be read as parquet: {kind}"):
            import_images("parquet", _options(tmp_path), Silent())


def test_planning_the_work_does_not_read_whole_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    noise = [encode_image(rng.integers(0, 256, (64, 64, 3), np.uint8), "png") for _ in range(64)]
    pq.write_table(pa.table({"image": noise}), tmp_path / "data" / "a.parquet", row_group_size=8)
    size = (tmp_path / "data" / "a.parquet").stat().st_size
    count = 0
    usual = Folder.read

    @contextmanager
    def counting(folder: Folder, name: str) -> Iterator[Any]:
        with usual(folder, name) as file:
            plain = file.read

            def read(length: int = -1) -> bytes:
                nonlocal count
                found = plain(length)
                count += len(found)
                return bytes(found)

            yield SimpleNamespace(
                read=read,
                seek=file.seek,
                tell=file.tell,
                close=file.close,
                closed=False,
                seekable=lambda: True,
            )

    monkeypatch.setattr(Folder, "read", counting)
    assert import_images("parquet", _options(tmp_path, image_size=64), Silent())["images"] == 64
    assert size <= count < 1.5 * size


def test_archives_of_webdataset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()

    def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))

    with tarfile.open(tmp_path / "data" / "0.tar", "w") as archive:
        add(archive, "a/1.png", _picture(1))
        add(archive, "a/1.txt", b"one")
        add(archive, "a/1.cls", b"3")
        add(archive, "a/2.json", b'{"caption": "two", "label": 4}')
        add(archive, "a/2.png", _picture(2))
        add(archive, "a/3.png", _picture(3))
        add(archive, "a/3.cls", b"three")
        add(archive, "a/4.txt", b"a text without its image")
        add(archive, "a/._5.png", b"what macOS adds")
    done = import_images("webdataset", _options(tmp_path), Silent())
    assert (done["images"], done["problems"]) == (2, {"caption_or_class": 1, "no_image": 1})
    assert [(i.label, i.caption) for i in _images(tmp_path, "class")] == [(3, "one"), (4, "two")]
    whole = (tmp_path / "data" / "0.tar").read_bytes()
    (tmp_path / "data" / "0.tar").write_bytes(whole[:700])
    with pytest.raises(DataError, match=r"0\.tar cannot be read as an archive"):
        import_images("webdataset", _options(tmp_path), Silent())
    (tmp_path / "data" / "0.tar").write_bytes(whole[:3700])
    (tmp_path / "data" / "1.tar").write_bytes(whole)
    done = import_images("webdataset", _options(tmp_path), Silent())
    assert done["images"] == 3
    assert done["problems"] == {"caption_or_class": 1, "no_image": 1, "damaged_file": 1}


def test_links_and_repeated_names_in_an_archive(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with tarfile.open(tmp_path / "data" / "0.tar", "w") as archive:
        for red in (1, 2):
            member = tarfile.TarInfo("/tmp/one.png")
            member.size = len(_picture(red))
            archive.addfile(member, io.BytesIO(_picture(red)))
        for name, kind in (("../two.png", tarfile.SYMTYPE), ("three.png", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    done = import_images("webdataset", _options(tmp_path), Silent())
    assert (done["images"], done["problems"]) == (2, {"not_an_image": 2})
    assert sorted(tmp_path.iterdir()) == [tmp_path / "data", tmp_path / "images"]
    whole = (tmp_path / "data" / "0.tar").read_bytes()
    # Within the header of a member, which tarfile takes for the end.
    (tmp_path / "data" / "0.tar").write_bytes(whole[:2100])
    assert import_images("webdataset", _options(tmp_path), Silent())["problems"] == {"damaged_file": 1}


def test_a_class_that_is_no_number_is_counted_in_tables_and_archives(tmp_path: Path) -> None:
    classes = [3, "4", "cat", 2.5, -1, None, ["5"], {"id": 6}, True]
    tables, archives = tmp_path / "tables", tmp_path / "archives"
    tables.mkdir()
    archives.mkdir()
    for number, of_class in enumerate(classes):
        columns = {"image": [_picture(number)], "text": [str(number)], "label": [of_class]}
        pq.write_table(pa.table(columns), tables / f"{number}.parquet")
    with tarfile.open(archives / "a.tar", "w") as archive:
        for number, of_class in enumerate(classes):
            about = json.dumps({"caption": str(number), "label": of_class}).encode()
            for name, content in ((f"{number}.png", _picture(number)), (f"{number}.json", about)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    for kind, data in (("parquet", tables), ("webdataset", archives)):
        images = tmp_path / f"images-{kind}"
        options = _options(tmp_path, data_dir=str(data), write_dir=str(images))
        done = import_images(kind, options, Silent())
        assert (done["images"], done["problems"]) == (5, {"caption_or_class": 4})
        found = {}
        for name in Folder(images).names(".tfrecord"):
            records = [
                decode_example(one)["json"][0] for one in stored_records(Folder(images), name[:-9]).values()
            ]
            found |= {json.loads(one)["url"]: json.loads(one).get("class") for one in records}
        assert [found[key] for key in sorted(found)] == [3, 4, None, None, 1]
        done = import_images(kind, replace(options, class_col=""), Silent())
        assert (done["images"], done["problems"]) == (9, {})


def test_a_decoder_that_is_killed_ends_the_import_with_what_to_do() -> None:
    def work() -> None:
        with decoders(2) as pool:
            assert pool is not None
            pool.submit(os._exit, 9).result()

    with pytest.raises(DataError, match=r"A process that decodes images was killed.* smaller --processes"):
        work()


def test_a_source_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(_picture(1))
    with pytest.raises(StorageError, match="is no folder"):
        import_images("folder", _options(tmp_path, data_dir=str(tmp_path / "one.png")), Silent())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.png").write_bytes(_picture(1))
    with pytest.raises(StorageError, match="is no folder"):
        import_images("folder", _options(tmp_path, write_dir=str(tmp_path / "one.png")), Silent())
    (tmp_path / "data" / "one.png").unlink()
    (tmp_path / "data").rmdir()
    with pytest.raises(StorageError, match="does not exist"):
        import_images("folder", _options(tmp_path), Silent())
    (tmp_path / "data").mkdir()
    for kind, words in (("folder", "no images"), ("cifar10", "no data_batch"), ("parquet", "no .parquet")):
        with pytest.raises(DataError, match=words):
            import_images(kind, _options(tmp_path), Silent())  # type: ignore[arg-type]
    (tmp_path / "data" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match="none of the images can be used"):
        import_images("folder", _options(tmp_path), Silent())


def test_cifar10_goes_from_the_archive_into_training(tmp_path: Path) -> None:
    values, labels = _cifar(16)
    (tmp_path / "data").mkdir()
    rows = np.concatenate([labels[:, None].astype(np.uint8), values], axis=1)
    (tmp_path / "data" / "data_batch_1.bin").write_bytes(rows.tobytes())
    folders = {name: str(tmp_path / name) for name in ("data", "images", "encoded")}
    flags = ["--data-dir", folders["data"], "--write-dir", folders["images"], "--processes-count", "1"]
    assert main(["import", "cifar10", *flags, "--quiet"]) == 0
    flags = ["--data-dir", folders["images"], "--write-dir", folders["encoded"], "--quiet"]
    assert main(["encode", "--preset", "cifar10", *flags]) == 0
    source = EncodingSource(folders["encoded"], CIFAR10.but({"train.batch_size": 8}))
    batch = next(source.batches(0))["image"]
    assert batch.shape == (8, 32, 32, 3)
    # bf16 has eight digits.
    known = {tuple(row.reshape(3, 32, 32)[:, 0, 0]) for row in values}
    assert all(tuple(np.rint((image[0, 0] + 1) * 127.5).astype(int)) in known for image in batch)


def test_half_of_the_images_are_mirrored_where_a_preset_requests_it() -> None:
    config = CIFAR10.but({"train.batch_size": 64})
    seen: list[np.ndarray] = []

    class Network:
        def __init__(self) -> None:
            self.config = config

        def apply(self, _: Any, z: Any, *__: Any) -> Any:
            seen.append(np.asarray(z))
            return z

    ramp = np.broadcast_to(np.linspace(-1, 1, 32)[None, None, :, None], (64, 32, 32, 3)).astype(np.float32)
    diffusion_loss(Network())({}, {"image": jnp.asarray(ramp)}, jax.random.key(0))  # type: ignore[arg-type]
    slopes = (seen[0][:, :, 16:].mean(axis=(1, 2, 3)) - seen[0][:, :, :16].mean(axis=(1, 2, 3))) > 0
    assert 16 <= slopes.sum() <= 48
