"""`download`: from parquet tables of addresses and captions to TFRecord shards of resized images.

Shard N of a table is written whole when all its images have been tried, so an interrupted download goes on
with the shards that are missing. Beside each shard lies a report of what could not be had, and why.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Literal

from tpulab_recipes.common.errors import DataError, MissingPackage
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.fetch import Fetcher, FetchLimits, NoImageError
from tpulab_recipes.images.files import decode_image, encode_image, resize_smallest_side
from tpulab_recipes.images.messages import encode_example
from tpulab_recipes.images.shards import CLASS_KEY, SCORE_KEY
from tpulab_recipes.images.tfrecord import write_record


@dataclass(frozen=True, kw_only=True)
class DownloadOptions:
    data_dir: str
    """Folder of .parquet tables."""
    write_dir: str
    """Folder for the shards of images."""
    image_size: int = 256
    """Smaller side after resizing."""
    min_image_size: int = 64
    """Skip smaller images."""
    processes_count: int = 16
    """Processes that decode and resize."""
    thread_count: int = 256
    """Requests at a time, in all; `--limits.per-host` bounds those to one host."""
    caption_col: str = "caption"
    """Column of the captions."""
    url_col: str = "url"
    """Column of the addresses."""
    score_col: str | None = None
    """Column of the aesthetic scores, if there is one."""
    class_col: str | None = None
    """Column of the classes, for networks that know classes."""
    samples_per_shard: int = 10_000
    """Images of a shard."""
    image_format: Literal["jpg", "png"] = "jpg"
    limits: FetchLimits = field(default_factory=FetchLimits)


@dataclass(frozen=True)
class ShardTask:
    table: str
    first: int
    rows: int
    name: str


def download(options: DownloadOptions, progress: Progress) -> dict[str, Any]:
    """Fetches everything that is not there yet. Returns the sums over all shards."""
    out = Folder(options.write_dir).make()
    tasks = plan(options)
    there = set(out.names(may_be_absent=True))
    missing = [task for task in tasks if f"{task.name}.json" not in there]
    images = sum(task.rows for task in missing)
    progress.start(
        "download", images, f"{len(tasks) - len(missing)} of {len(tasks)} shards are there already"
    )
    fetcher = Fetcher(options.limits)
    with ExitStack() as stack:
        decoders = None
        if missing and options.processes_count > 1:
            # Spawned: a forked child of a process with threads may hang.
            decoders = stack.enter_context(
                ProcessPoolExecutor(options.processes_count, mp_context=get_context("spawn"))
            )
        for task in missing:
            fetch_shard(options, task, fetcher, progress, decoders)
    progress.finish()
    totals: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    for task in tasks:
        with out.read(f"{task.name}.json") as file:
            report = json.load(file)
        totals.update(shards=1, images=report["images"])
        problems.update(report["problems"])
    if totals["images"] == 0:
        raise DataError(
            f"None of the images could be had ({dict(problems)}); are the addresses reachable from here?"
        )
    return dict(totals) | {"problems": dict(problems)}


def plan(options: DownloadOptions) -> list[ShardTask]:
    """The shards of all tables. Raises `DataError` where a column is missing or a table is empty."""
    tables = Folder(options.data_dir)
    names = tables.names(".parquet")
    if not names:
        raise DataError(f"{options.data_dir} holds no .parquet files.")
    tasks = []
    for number, name in enumerate(names):
        with tables.read(name) as file:
            parquet = _open_parquet(file, name)
        columns, rows = parquet.schema_arrow.names, parquet.metadata.num_rows
        for column in _columns(options).values():
            if column not in columns:
                raise DataError(
                    f"{name} has no column {column!r}; it has {', '.join(columns)}. "
                    "Name yours with --caption-col, --url-col, --score-col and --class-col."
                )
        if rows == 0:
            raise DataError(f"{name} has no rows.")
        if options.class_col and not _is_integer(parquet.schema_arrow.field(options.class_col)):
            raise DataError(
                f"{name}: the column {options.class_col!r} does not hold whole numbers; classes are numbered "
                "from 0."
            )
        for part, first in enumerate(range(0, rows, options.samples_per_shard)):
            count = min(options.samples_per_shard, rows - first)
            tasks.append(ShardTask(name, first, count, f"images-{number:05d}-{part:05d}"))
    return tasks


def fetch_shard(
    options: DownloadOptions,
    task: ShardTask,
    fetcher: Fetcher,
    progress: Progress,
    decoders: Executor | None = None,
) -> None:
    """Fetches, resizes and writes one shard, then its report, which says that it is whole. Only this process
    asks hosts for images; `decoders` are processes that do the rest."""

    def one(number: int, row: dict[str, Any]) -> bytes:
        wanted = fetcher.get(str(row["url"])), row, options, f"{task.name}-{number}"
        return decoders.submit(_example, *wanted).result() if decoders else _example(*wanted)

    problems: Counter[str] = Counter()
    kept: dict[int, bytes] = {}
    with ThreadPoolExecutor(max(1, options.thread_count), thread_name_prefix="fetch") as threads:
        running = {
            threads.submit(one, number, row): number for number, row in enumerate(_rows(options, task))
        }
        try:
            for future in as_completed(running):
                try:
                    kept[running[future]] = future.result()
                except NoImageError as error:
                    problems[str(error)] += 1
                progress.advance(1)
        except BaseException:
            # An error, Ctrl-C: requests that wait are abandoned.
            fetcher.stop()
            threads.shutdown(cancel_futures=True)
            raise
    out = Folder(options.write_dir)
    if kept:
        with out.write(f"{task.name}.tfrecord") as file:
            for number in sorted(kept):
                write_record(file, kept[number])
    report = {"table": task.table, "rows": task.rows, "images": len(kept)}
    out.put(f"{task.name}.json", json.dumps(report | {"problems": dict(problems.most_common())}))


def _example(data: bytes, row: dict[str, Any], options: DownloadOptions, key: str) -> bytes:
    try:
        pixels = decode_image(data, str(row["url"]))
    except DataError as error:
        raise NoImageError("not_an_image") from error
    height, width = pixels.shape[:2]
    if min(height, width) < options.min_image_size:
        raise NoImageError("too_small")
    resized = resize_smallest_side(pixels, options.image_size)
    about = {"height": height, "width": width, "url": row["url"]}
    if row.get("score") is not None:
        about[SCORE_KEY] = float(row["score"])
    if row.get("class") is not None:
        about[CLASS_KEY] = int(row["class"])
    # The names of img2dataset's other formats; its TFRecords have no `json`, and a feature for each column.
    return encode_example(
        {
            "key": key,
            options.image_format: encode_image(resized, options.image_format),
            "txt": str(row["caption"] or ""),
            "json": json.dumps(about),
        }
    )


def _columns(options: DownloadOptions) -> dict[str, str]:
    """What we need of a row, and the columns that have it."""
    columns = {
        "url": options.url_col,
        "caption": options.caption_col,
        "score": options.score_col,
        "class": options.class_col,
    }
    return {name: column for name, column in columns.items() if column}


def _rows(options: DownloadOptions, task: ShardTask) -> Iterator[dict[str, Any]]:
    columns = _columns(options)
    with Folder(options.data_dir).read(task.table) as file:
        table = _open_parquet(file, task.table).read(columns=list(columns.values()))
    for row in table.slice(task.first, task.rows).to_pylist():
        yield {name: row[column] for name, column in columns.items()}


def _open_parquet(file: Any, name: str) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPackage("pyarrow", "Reading parquet tables") from error
    try:
        return pq.ParquetFile(pa.BufferReader(io.BytesIO(file.read()).getbuffer()))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{name} cannot be read as parquet: {error}") from error


def _is_integer(field: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(field.type))


def download_with_img2dataset(options: DownloadOptions) -> None:
    """The same through img2dataset, which shows its own progress and goes on where it stopped."""
    try:
        from img2dataset import download
    except ImportError as error:
        raise MissingPackage("img2dataset", "--downloader img2dataset") from error
    download(
        url_list=options.data_dir,
        input_format="parquet",
        url_col=options.url_col,
        caption_col=options.caption_col,
        save_additional_columns=[name for name in (options.score_col, options.class_col) if name] or None,
        output_folder=options.write_dir,
        output_format="tfrecord",
        image_size=options.image_size,
        min_image_size=options.min_image_size,
        resize_mode="keep_ratio",
        resize_only_if_bigger=False,
        processes_count=options.processes_count,
        thread_count=options.thread_count,
        number_sample_per_shard=options.samples_per_shard,
        incremental_mode="incremental",
    )
