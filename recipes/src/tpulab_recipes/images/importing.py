"""`import`: data sets that people have on disk or at Hugging Face become shards of images.

A source is cut into parts; each part becomes one shard, is written whole, and is written again only when its
rows have changed. What cannot be used is left out, and its name and reason stand in the shard's report.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import pickle
import posixpath
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any, ClassVar, Literal

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.inputs import unexpected_kind
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.download import open_parquet, text_of
from tpulab_recipes.images.shards import (
    LeftOut,
    Row,
    ShardOptions,
    ShardReport,
    decoders,
    image_record,
    read_report,
    write_shard,
)

Kind = Literal["folder", "imagenet", "cifar10", "parquet", "webdataset"]
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
#: The names of the classes of CIFAR-10, in its order (batches.meta).
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, kw_only=True)
class ImportOptions(ShardOptions):
    data_dir: str
    """Where the data set is: a folder here, in a bucket or at hf://datasets/OWNER/NAME, or an archive."""
    image_size: int = 0
    """Smaller side after resizing. 0: 256, and 32 for cifar10."""
    min_image_size: int = 1
    """Skip smaller images."""
    image_col: str | None = None
    """parquet: column of the images. None: the first one that holds images."""
    caption_col: str | None = None
    """parquet: column of the captions. None: `caption`, `text` or `txt`, if there is one."""
    class_col: str | None = None
    """parquet: column of the classes. None: `label`, `class` or `cls`, if there is one."""
    split: str = "train"
    """cifar10: `train` or `test`. parquet: only files whose path contains this word, if there are any."""


#: An image file, or pixels, and what is known of it.
Item = tuple[bytes | np.ndarray, Row]


@dataclass(frozen=True)
class Part:
    """What becomes one shard. `read` yields an item for each of `rows` rows, or the reason why there is
    none."""

    name: str
    rows: int
    fingerprint: int
    read: Callable[[], Iterator[Item | tuple[LeftOut, Row]]]


def import_images(kind: Kind, options: ImportOptions, progress: Progress) -> dict[str, Any]:
    """Writes the shards that are missing. Returns the sums over all shards. Raises `DataError` where no
    image can be used."""
    if kind == "cifar10":
        # Its images are small enough to be stored without loss.
        options = replace(options, image_size=options.image_size or 32, image_format="png")
    options = replace(options, image_size=options.image_size or 256)
    parts = _SOURCES[kind](options)
    out = Folder(options.write_dir).make()
    stored = set(out.names(may_be_absent=True))
    named = [(f"images-{re.sub(r'[^A-Za-z0-9._-]+', '-', part.name).strip('-.')}", part) for part in parts]
    doubled = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    if doubled:
        raise DataError(f"{options.data_dir}: two parts would become the shard {doubled[0]}; rename one.")
    reports = {name: read_report(out, name) if f"{name}.json" in stored else None for name, _ in named}
    work = [
        (name, part)
        for name, part in named
        if (found := reports[name]) is None or found.fingerprint != part.fingerprint
    ]
    note = f"{len(named) - len(work)} of {len(named)} shards are complete"
    progress.start("import", sum(part.rows for _, part in work), note)
    with decoders(options.processes_count if work else 0) as pool:
        for name, part in work:
            report = ShardReport(source=part.name, rows=part.rows, fingerprint=part.fingerprint)
            records: dict[int, bytes] = {}
            numbered = enumerate(part.read())
            # As many at a time as keep all processes busy; a part may not fit the memory.
            while batch := list(itertools.islice(numbered, 16 * max(1, options.processes_count))):
                made: list[tuple[int, Row, Any]] = []
                for number, (data, row) in batch:
                    if isinstance(data, LeftOut):
                        made.append((number, row, data))
                        continue
                    wanted = data, row, options, f"{name}-{number}"
                    made.append((number, row, pool.submit(image_record, *wanted) if pool else wanted))
                for number, row, pending in made:
                    try:
                        if isinstance(pending, LeftOut):
                            raise pending
                        records[number] = pending.result() if pool else image_record(*pending)
                    except LeftOut as error:
                        report.left_out.append((number, row.source, str(error)))
                    progress.advance(1)
            write_shard(out, name, records, report)
            reports[name] = report
    progress.finish()
    complete = [one for one in reports.values() if one]
    problems = sum((Counter(report.problems) for report in complete), Counter[str]())
    images = sum(report.images for report in complete)
    if not images:
        raise DataError(f"{options.data_dir}: none of the images can be used ({dict(problems)}).")
    return {"shards": len(named), "images": images, "left_out": problems.total(), "problems": dict(problems)}


def _chunks(
    name: str, rows: Sequence[Row], options: ImportOptions, read: Callable[[Row], bytes]
) -> Iterator[Part]:
    """Parts of `samples_per_shard` files."""
    size = options.samples_per_shard

    def reader(some: Sequence[Row]) -> Iterator[Item | tuple[LeftOut, Row]]:
        for row in some:
            try:
                yield read(row), row
            except (OSError, DataError) as error:
                yield LeftOut(type(error).__name__), row

    for number, first in enumerate(range(0, len(rows), size)):
        some = rows[first : first + size]
        mark = zlib.crc32(repr([(row.source, row.caption, row.label) for row in some]).encode())
        yield Part(f"{name}-{number:05d}", len(some), mark, partial(reader, some))


def _folder(options: ImportOptions, *, classes: bool = False) -> list[Part]:
    """Images in a folder and the folders below it. The caption is that of `metadata.csv` or
    `metadata.jsonl` (columns `file_name` and `text`, as Hugging Face's image folders have them), else of a
    `.txt` file beside the image, else empty; with `classes`, the folder's name, and its number is the
    class."""
    folder = Folder(options.data_dir)
    files = [name for name in folder.tree() if not posixpath.basename(name).startswith(".")]
    images = [name for name in files if name.lower().endswith(IMAGE_SUFFIXES)]
    if not images:
        raise DataError(f"{options.data_dir} holds no images ({', '.join(IMAGE_SUFFIXES)}).")
    captions = _metadata(folder, files)
    texts, groups = set(files), sorted({posixpath.dirname(name) for name in images})
    labels = {group: number for number, group in enumerate(groups)}

    def row(name: str) -> Row:
        group, text = posixpath.dirname(name), posixpath.splitext(name)[0] + ".txt"
        if classes:
            return Row(name, posixpath.basename(group).replace("_", " "), labels[group])
        if name in captions:
            return Row(name, captions[name])
        return Row(name, _text(folder.get(text), text).strip() if text in texts else "")

    parts: list[Part] = []
    for group in groups:
        rows = [row(name) for name in images if posixpath.dirname(name) == group]
        parts += _chunks(group or "folder", rows, options, lambda row: folder.get(row.source))
    return parts


def _metadata(folder: Folder, files: Sequence[str]) -> dict[str, str]:
    captions: dict[str, str] = {}
    for name in files:
        base = posixpath.basename(name)
        if base not in ("metadata.csv", "metadata.jsonl"):
            continue
        text = _text(folder.get(name), name)
        try:
            rows = (
                list(csv.DictReader(io.StringIO(text)))
                if base.endswith(".csv")
                else [json.loads(line) for line in text.splitlines() if line.strip()]
            )
            for row in rows:
                caption = row.get("text", row.get("caption"))
                captions[posixpath.join(posixpath.dirname(name), row["file_name"])] = str(caption or "")
        except (ValueError, KeyError, AttributeError, csv.Error) as error:
            raise DataError(f"{name} cannot be read: it needs file_name and text for each image.") from error
    return captions


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 (byte {error.start}); convert it first.") from error


def _imagenet(options: ImportOptions) -> list[Part]:
    """`train/n01440764/*.JPEG` and the like, or the folder of these folders: a class for each folder, in
    the order of their names, which is the usual one."""
    folder = Folder(options.data_dir)
    inside = posixpath.join(options.data_dir, options.split)
    if any(name.startswith(f"{options.split}/") for name in folder.tree()):
        return _folder(replace(options, data_dir=inside), classes=True)
    return _folder(options, classes=True)


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays and plain values; anything else could run code."""

    _ALLOWED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong into CIFAR-10")
        return super().find_class(module, name)


def _cifar10(options: ImportOptions) -> list[Part]:
    """The python or the binary version, as a folder or as the archive that is published."""
    wanted = "test_batch" if options.split == "test" else "data_batch"
    files: dict[str, bytes] = {}
    if options.data_dir.endswith((".tar.gz", ".tgz", ".tar")):
        place, name = posixpath.split(options.data_dir)
        archive = Folder(place or ".").get(name)
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                for member in tar:
                    held = tar.extractfile(member) if member.isfile() and wanted in member.name else None
                    if held:
                        files[member.name] = held.read()
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            kind = unexpected_kind(archive[:512]) or "is damaged"
            raise DataError(f"{options.data_dir} cannot be read as an archive: it {kind}.") from error
    else:
        folder = Folder(options.data_dir)
        files = {name: folder.get(name) for name in folder.tree() if wanted in posixpath.basename(name)}
    if not files:
        raise DataError(f"{options.data_dir} holds no {wanted} of CIFAR-10 (python or binary version).")
    parts = []
    for name, data in sorted(files.items()):
        pixels, labels = _cifar10_batch(data, name)
        rows: list[Item] = [
            (pixels[n], Row(f"{posixpath.basename(name)}/{n}", CIFAR10[label], int(label)))
            for n, label in enumerate(labels)
        ]
        parts.append(Part(posixpath.basename(name), len(rows), zlib.crc32(data), partial(iter, rows)))
    return parts


def _cifar10_batch(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """UInt8[image, 32, 32, 3] and the classes. Formats: https://www.cs.toronto.edu/~kriz/cifar.html."""
    if data[:1] != b"\x80":
        if not data or len(data) % 3073:
            kind = unexpected_kind(data[:512]) or "is cut off"
            raise DataError(f"{name} is not a batch of CIFAR-10: it {kind}.")
        table = np.frombuffer(data, np.uint8).reshape(-1, 3073)
        values, labels = table[:, 1:], table[:, 0]
    else:
        try:
            batch = _PlainUnpickler(io.BytesIO(data), encoding="bytes").load()
            values, labels = np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"])
            values = values.reshape(len(labels), 3072)
        except (pickle.UnpicklingError, KeyError, ValueError, TypeError, EOFError, AttributeError) as error:
            raise DataError(f"{name} cannot be read as a batch of CIFAR-10: {error}.") from error
    if labels.size and labels.max() >= len(CIFAR10):
        raise DataError(f"{name} has the class {labels.max()}; CIFAR-10 has ten.")
    return values.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels


def _parquet(options: ImportOptions) -> list[Part]:
    """Tables with the image files in a column, as data sets at Hugging Face have them."""
    folder = Folder(options.data_dir)
    names = [name for name in folder.tree() if name.endswith(".parquet")]
    names = [name for name in names if options.split in name] or names
    if not names:
        raise DataError(f"{options.data_dir} holds no .parquet files.")
    parts = []
    for name in names:
        table = open_parquet(folder, name)
        columns = table.schema_arrow.names
        image = _column(name, columns, options.image_col, ("image", "img", "jpg", "png"))
        if image is None:
            raise DataError(
                f"{name} has the columns {', '.join(columns)}; name the one of the images by --image-col."
            )
        caption = _column(name, columns, options.caption_col, ("caption", "text", "txt"))
        label = _column(name, columns, options.class_col, ("label", "class", "cls"))
        rows = table.metadata.num_rows
        if rows:
            mark = zlib.crc32(f"{image} {caption} {label} {rows} {folder.size(name)}".encode())
            read = partial(_rows_of_table, folder, name, image, caption, label)
            parts.append(Part(name.removesuffix(".parquet"), rows, mark, read))
    if not parts:
        raise DataError(f"{options.data_dir}: {', '.join(names)} has no rows.")
    return parts


def _rows_of_table(
    folder: Folder, name: str, image: str, caption: str | None, label: str | None
) -> Iterator[Item | tuple[LeftOut, Row]]:
    wanted = [column for column in (image, caption, label) if column]
    number = 0
    for batch in open_parquet(folder, name).iter_batches(256, columns=wanted):
        for values in batch.to_pylist():
            cell = values[image]
            data = cell.get("bytes") if isinstance(cell, dict) else cell
            number_of_class = values.get(label) if label else None
            row = Row(
                f"{name}, row {number}",
                text_of(values.get(caption)) if caption else "",
                number_of_class if isinstance(number_of_class, int) else None,
            )
            number += 1
            if isinstance(data, bytes):
                yield data, row
            else:
                yield LeftOut("no_image"), row


def _column(table: str, columns: Sequence[str], requested: str | None, usual: Sequence[str]) -> str | None:
    if requested and requested not in columns:
        raise DataError(f"{table} has no column {requested!r}; it has {', '.join(columns)}.")
    return requested or next((name for name in usual if name in columns), None)


def _webdataset(options: ImportOptions) -> list[Part]:
    """Tar archives in which files of one image have one stem: an image, and `.txt`, `.json` or `.cls`."""
    folder = Folder(options.data_dir)
    names = [name for name in folder.tree() if name.endswith((".tar", ".tar.gz", ".tgz"))]
    if not names:
        raise DataError(f"{options.data_dir} holds no .tar archives.")
    parts = []
    for name in names:
        with folder.read(name) as file:
            stems = {stem for stem, ending, _ in _members(file, name) if ending in IMAGE_SUFFIXES}
        if stems:
            mark = zlib.crc32(f"{len(stems)} {folder.size(name)}".encode())
            parts.append(Part(name, len(stems), mark, partial(_samples, folder, name)))
    if not parts:
        raise DataError(f"{options.data_dir}: {', '.join(names)} has no images.")
    return parts


def _members(file: IO[bytes], name: str) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    try:
        with tarfile.open(fileobj=file) as tar:
            for member in tar:
                if member.isfile():
                    folder, base = posixpath.split(member.name)
                    stem, _, ending = base.partition(".")
                    held = tar.extractfile(member)
                    assert held is not None
                    yield posixpath.join(folder, stem), f".{ending.lower()}", held.read
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{name} cannot be read as an archive: {error}.") from error


def _samples(folder: Folder, name: str) -> Iterator[Item | tuple[LeftOut, Row]]:
    with folder.read(name) as file:
        members = _members(file, name)
        for stem, group in itertools.groupby(members, key=lambda member: member[0]):
            files = {ending: read() for _, ending, read in group}
            ending = next((ending for ending in files if ending in IMAGE_SUFFIXES), None)
            if ending is None:
                continue
            about: dict[str, Any] = {}
            try:
                about = json.loads(files.get(".json", b"{}"))
                label = int(files[".cls"]) if ".cls" in files else about.get("label", about.get("class"))
                caption = _text(files[".txt"], stem) if ".txt" in files else str(about.get("caption") or "")
            except (ValueError, DataError, AttributeError):
                yield LeftOut("caption_or_class"), Row(f"{name}: {stem}")
                continue
            yield files[ending], Row(f"{name}: {stem}", caption.strip(), label)


_SOURCES: dict[str, Callable[[ImportOptions], list[Part]]] = {
    "folder": _folder,
    "imagenet": _imagenet,
    "cifar10": _cifar10,
    "parquet": _parquet,
    "webdataset": _webdataset,
}
