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
import sys
import tarfile
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any, ClassVar, Literal

import numpy as np

from tpulab_recipes.common.errors import ConfigError, DataError, StorageError
from tpulab_recipes.common.inputs import decoded, unexpected_kind
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.download import open_parquet, text_of
from tpulab_recipes.images.shards import (
    Row,
    ShardOptions,
    ShardReport,
    SkippedImage,
    class_of,
    decoders,
    image_record,
    read_report,
    write_shard,
)

Kind = Literal["folder", "imagenet", "cifar10", "parquet", "webdataset"]
IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".jp2"),
    # Not read, but named in the report.
    *(".heic", ".heif"),
)
#: The reason of files that cannot be opened, which the next import tries again.
UNREADABLE = "unreadable_file"
#: The reason of images whose caption is no text, or whose class is not a whole number.
UNUSABLE_TEXT = "caption_or_class"
#: Files of a folder that are read at a time: a bucket answers each in tens of milliseconds.
READS_AT_A_TIME = 32
CLASS_COLUMNS = ("label", "class", "cls")
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
    """parquet: column of the classes, webdataset: their key in the JSON; empty: no classes. None: `label`,
    `class` or `cls`, if there is one."""
    split: str = "train"
    """cifar10: `train` or `test`. parquet: only files whose path contains this word, if there are any."""


#: An image file, or pixels, or the reason why there is none, and what is known of it.
Item = tuple[bytes | np.ndarray | SkippedImage, Row]


@dataclass(frozen=True)
class Part:
    """The source of one shard."""

    name: str
    fingerprint: int
    read: Callable[[], Iterator[Item]]


def import_images(kind: Kind, options: ImportOptions, progress: Progress) -> dict[str, Any]:
    """Writes the shards that are missing. Returns the sums over all shards. Raises `DataError` where no
    image can be used."""
    if kind == "cifar10":
        # Its images are small enough to be stored without loss.
        options = replace(options, image_size=options.image_size or 32, image_format="png")
    options = replace(options, image_size=options.image_size or 256)
    for flag, size in (("image_size", 1), ("min_image_size", 1), ("samples_per_shard", 1)):
        if getattr(options, flag) < size:
            raise ConfigError(f"--{flag.replace('_', '-')}", f"must be at least {size}.")
    if Folder(options.data_dir).same_as(options.write_dir):
        raise ConfigError("--write-dir", f"{options.write_dir} is the folder that is read; name another.")
    parts = _SOURCES[kind](options)
    out = Folder(options.write_dir).make()
    stored = set(out.names(may_be_absent=True))
    odd = re.compile(r"[^\w.-]+")
    named = [(f"images-{odd.sub('-', part.name).strip('-.')}", part) for part in parts]
    doubled = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    if doubled:
        raise DataError(f"{options.data_dir}: two parts would become the shard {doubled[0]}; rename one.")
    reports = {name: read_report(out, name, stored) for name, _ in named}
    work = [
        (name, part)
        for name, part in named
        if (found := reports[name]) is None
        or found.fingerprint != part.fingerprint
        or UNREADABLE in found.problems
    ]
    note = f"{len(named) - len(work)} of {len(named)} shards are complete"
    progress.start("shards", len(work), note)
    read = 0
    with decoders(options.processes_count if work else 0) as pool:
        for name, part in work:
            report = ShardReport(source=part.name, rows=0, fingerprint=part.fingerprint)
            records: dict[int, bytes] = {}
            numbered = enumerate(part.read())
            # As many at a time as keep all processes busy; a part may not fit the memory.
            while batch := list(itertools.islice(numbered, 16 * max(1, options.processes_count))):
                made: list[tuple[int, Row, Any]] = []
                for number, (data, row) in batch:
                    if isinstance(data, SkippedImage):
                        made.append((number, row, data))
                        continue
                    wanted = data, row, options, f"{name}-{number}"
                    made.append((number, row, pool.submit(image_record, *wanted) if pool else wanted))
                for number, row, pending in made:
                    try:
                        if isinstance(pending, SkippedImage):
                            raise pending
                        records[number] = pending.result() if pool else image_record(*pending)
                    except SkippedImage as error:
                        report.left_out.append((number, row.source, str(error)))
                report.rows += len(batch)
                read += len(batch)
                progress.advance(0, f"{note}; {read:,} images")
            write_shard(out, name, records, report)
            reports[name] = report
            progress.advance(1)
    progress.finish()
    complete = [one for one in reports.values() if one]
    problems = sum((Counter(report.problems) for report in complete), Counter[str]())
    images = sum(report.images for report in complete)
    if not images:
        first = next((f"; the first is {row[1]}" for one in complete for row in one.left_out), "")
        if UNUSABLE_TEXT in problems:
            first += "; classes are numbers: --class-col names their column, --class-col '' leaves them out"
        raise DataError(f"{options.data_dir}: none of the images can be used ({dict(problems)}{first}).")
    return {"shards": len(named), "images": images, "left_out": problems.total(), "problems": dict(problems)}


def _folder(options: ImportOptions, *, classes: bool = False) -> list[Part]:
    """Images in a folder and the folders below it, `samples_per_shard` to a part. The caption is that of
    `metadata.csv` or `metadata.jsonl` (columns `file_name` and `text`, as Hugging Face's image folders have
    them), else of a `.txt` file beside the image, else empty; with `classes`, the folder's name, and its
    number is the class."""
    folder = Folder(options.data_dir)
    hidden = re.compile(r"(^|/)\.")
    files = {name: size for name, size in folder.tree().items() if not hidden.search(name)}
    images = [name for name in files if name.lower().endswith(IMAGE_SUFFIXES)]
    if not images:
        raise DataError(f"{options.data_dir} holds no images ({', '.join(IMAGE_SUFFIXES)}).")
    captions = {} if classes else _metadata(folder, files)
    if unused := len(captions.keys() - files.keys()):
        print(f"{unused} captions are for images that are not here", file=sys.stderr)
    groups: dict[str, list[str]] = {}
    for name in images:
        groups.setdefault(posixpath.dirname(name), []).append(name)
    labels = {group: number for number, group in enumerate(sorted(groups))}

    def text_beside(name: str) -> str:
        stem = posixpath.splitext(name)[0]
        return f"{stem}.TXT" if f"{stem}.TXT" in files else f"{stem}.txt"

    def item(name: str) -> Item:
        group, text = posixpath.dirname(name), text_beside(name)
        try:
            if classes:
                return folder.get(name), Row(name, posixpath.basename(group).replace("_", " "), labels[group])
            caption = captions.get(name)
            if caption is None:
                caption = decoded(folder.get(text), text).strip() if text in files else ""
            return folder.get(name), Row(name, caption)
        except DataError:
            return SkippedImage("caption"), Row(text)
        except StorageError as error:
            # For example a link that is broken or leads to itself. An unreachable bucket ends the import.
            if folder.remote and not isinstance(error.__cause__, FileNotFoundError | PermissionError):
                raise
            return SkippedImage(UNREADABLE), Row(name)

    def read(names: Sequence[str]) -> Iterator[Item]:
        with ThreadPoolExecutor(READS_AT_A_TIME) as threads:
            for first in range(0, len(names), 2 * READS_AT_A_TIME):
                yield from threads.map(item, names[first : first + 2 * READS_AT_A_TIME])

    parts: list[Part] = []
    size = options.samples_per_shard
    for group, names in sorted(groups.items()):
        for number, first in enumerate(range(0, len(names), size)):
            some = names[first : first + size]
            known = [
                (
                    name,
                    files[name],
                    captions.get(name),
                    files.get(text_beside(name)),
                    classes and labels[group],
                )
                for name in some
            ]
            mark = zlib.crc32(repr(known).encode())
            parts.append(Part(f"{group or 'folder'}-{number:05d}", mark, partial(read, some)))
    return parts


def _metadata(folder: Folder, files: Mapping[str, int]) -> dict[str, str]:
    """Captions by the names of their images. Raises `DataError` for a file whose names are those of no
    image: it would condition nothing, silently."""
    captions: dict[str, str] = {}
    # macOS stores é as e with an accent, and a table may hold it as one character.
    composed = {unicodedata.normalize("NFC", name): name for name in files}
    for name in files:
        place, base = posixpath.split(name)
        if base not in ("metadata.csv", "metadata.jsonl"):
            continue
        text = decoded(folder.get(name), name)
        found: dict[str, str] = {}
        try:
            rows = (
                csv.DictReader(io.StringIO(text, newline=""), strict=True)
                if base.endswith(".csv")
                # Characters that Unicode counts as line ends occur within texts.
                else [json.loads(line) for line in text.split("\n") if line.strip()]
            )
            for row in rows:
                caption = text_of(row.get("text", row.get("caption"))).strip()
                image = posixpath.normpath(posixpath.join(place, row["file_name"].replace("\\", "/")))
                image = image if image in files else composed.get(unicodedata.normalize("NFC", image), image)
                if found.setdefault(image, caption) != caption:
                    raise DataError(f"{name} has two captions for {image}; keep one row.")
        except (ValueError, KeyError, AttributeError, TypeError, csv.Error) as error:
            raise DataError(f"{name} cannot be read: it needs file_name and text for each image.") from error
        if found and not found.keys() & files.keys():
            raise DataError(f"{name} names no image that is here; its first is {next(iter(found))!r}.")
        captions |= found
    return captions


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
        parts.append(Part(posixpath.basename(name), zlib.crc32(data), partial(iter, rows)))
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
    sizes = {name: size for name, size in folder.tree().items() if name.endswith(".parquet")}
    names = [name for name in sizes if options.split in name] or list(sizes)
    if not names:
        raise DataError(f"{options.data_dir} holds no .parquet files.")
    parts, damaged = [], []
    for name in names:
        try:
            with open_parquet(folder, name) as table:
                columns, rows = table.schema_arrow.names, table.metadata.num_rows
        except DataError as error:
            damaged.append(error)
            parts.append(Part(name.removesuffix(".parquet"), sizes[name], partial(_no_items, error)))
            continue
        image = _column(name, columns, options.image_col, ("image", "img", "jpg", "png"))
        if image is None:
            raise DataError(
                f"{name} has the columns {', '.join(columns)}; name the one of the images by --image-col."
            )
        caption = _column(name, columns, options.caption_col, ("caption", "text", "txt"))
        label = _column(name, columns, options.class_col, CLASS_COLUMNS)
        if rows:
            mark = zlib.crc32(f"{image} {caption} {label} {rows} {sizes[name]}".encode())
            read = partial(_rows_of_table, folder, name, image, caption, label)
            parts.append(Part(name.removesuffix(".parquet"), mark, read))
    if not parts:
        raise DataError(f"{options.data_dir}: {', '.join(names)} has no rows.")
    if len(damaged) == len(parts):
        raise damaged[0]
    return parts


def _no_items(error: DataError) -> Iterator[Item]:
    yield SkippedImage("damaged_file"), Row(str(error))


def _rows_of_table(
    folder: Folder, name: str, image: str, caption: str | None, label: str | None
) -> Iterator[Item]:
    wanted = [column for column in (image, caption, label) if column]
    number = 0
    try:
        with open_parquet(folder, name) as table:
            groups = ([group] for group in range(table.num_row_groups))
            reads = (table.iter_batches(256, columns=wanted, row_groups=group) for group in groups)
            for batch in itertools.chain.from_iterable(reads):
                for values in batch.to_pylist():
                    cell = values[image]
                    data = cell.get("bytes") if isinstance(cell, dict) else cell
                    place, text = f"{name}, row {number}", text_of(values.get(caption)) if caption else ""
                    number += 1
                    if isinstance(data, bytes):
                        yield _described(data, place, text, values.get(label or ""))
                    else:
                        yield SkippedImage("no_image"), Row(place, text)
    except DataError as error:
        yield from _no_items(error)


def _described(image: bytes, place: str, text: str, label: Any) -> Item:
    """The image with its caption and class; left out where the class is none, such as a name: training by
    classes would miss it, and nobody would know why."""
    try:
        return image, Row(place, text, class_of(label, "class", place))
    except DataError:
        return SkippedImage(UNUSABLE_TEXT), Row(place)


def _column(table: str, columns: Sequence[str], requested: str | None, usual: Sequence[str]) -> str | None:
    if requested and requested not in columns:
        raise DataError(f"{table} has no column {requested!r}; it has {', '.join(columns)}.")
    found = next((name for name in usual if name in columns), None)
    return found if requested is None else requested or None


def _webdataset(options: ImportOptions) -> list[Part]:
    """Tar archives in which files of one image have one stem: an image, and `.txt`, `.json` or `.cls`."""
    folder = Folder(options.data_dir)
    sizes = folder.tree().items()
    archives = [one for one in sizes if re.search(r"\.(tar(\.(gz|bz2|xz))?|tgz)$", one[0])]
    if not archives:
        raise DataError(f"{options.data_dir} holds no .tar archives.")
    keys = (".cls", *CLASS_COLUMNS) if options.class_col is None else (options.class_col,)
    return [
        Part(
            name,
            zlib.crc32(f"{name} {size} {options.class_col}".encode(errors="backslashreplace")),
            partial(_samples, folder, name, keys),
        )
        for name, size in archives
    ]


def _members(file: IO[bytes], name: str, size: int) -> Iterator[tuple[str, str, bytes]]:
    """(stem, ending, content) of each file, read once from front to back. A link has no content: what it
    leads to may be outside of the archive."""
    try:
        with tarfile.open(fileobj=file, mode="r|*") as tar:
            for member in tar:
                folder, base = posixpath.split(member.name)
                stem, _, ending = base.partition(".")
                held = tar.extractfile(member) if member.isfile() else None
                if stem and (held or member.issym() or member.islnk()):
                    yield posixpath.join(folder, stem), f".{ending.lower()}", held.read() if held else b""
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{name} cannot be read as an archive: {error}.") from error
    if name.endswith(".tar") and size % tarfile.BLOCKSIZE:
        raise DataError(f"{name} is cut off: {size} bytes are not whole blocks of {tarfile.BLOCKSIZE}.")


def _samples(folder: Folder, name: str, keys: Sequence[str]) -> Iterator[Item]:
    try:
        with folder.read(name) as file:
            members = _members(file, name, folder.size(name))
            for stem, group in itertools.groupby(members, key=lambda member: member[0]):
                files: dict[str, bytes] = {}
                for _, ending, content in group:
                    if ending in files:
                        # Another image of the same name.
                        yield _sample(files, f"{name}: {stem}", keys)
                        files = {}
                    files[ending] = content
                yield _sample(files, f"{name}: {stem}", keys)
    except DataError as error:
        # The images before the damage are used.
        yield from _no_items(error)


def _sample(files: Mapping[str, bytes], place: str, keys: Sequence[str]) -> Item:
    # Members have names such as `000.input.jpg` too.
    image = next((content for ending, content in files.items() if ending.endswith(IMAGE_SUFFIXES)), None)
    if image is None:
        return SkippedImage("no_image"), Row(place)
    try:
        about: dict[str, Any] = json.loads(files.get(".json", b"{}"))
        about |= {".cls": files[".cls"].decode()} if ".cls" in files else {}
        text = decoded(files[".txt"], place) if ".txt" in files else text_of(about.get("caption"))
    except (ValueError, DataError, AttributeError, TypeError):
        return SkippedImage(UNUSABLE_TEXT), Row(place)
    label = next((about[key] for key in keys if about.get(key) is not None), None)
    return _described(image, place, text.strip(), label)


_SOURCES: dict[str, Callable[[ImportOptions], list[Part]]] = {
    "folder": _folder,
    "imagenet": _imagenet,
    "cifar10": _cifar10,
    "parquet": _parquet,
    "webdataset": _webdataset,
}
