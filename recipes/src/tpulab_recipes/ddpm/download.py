"""`download`: from parquet tables of addresses and captions to TFRecord shards of resized images.

Shard N of a table is written whole when all its images have been tried, so an interrupted download goes on
with the shards that are missing. Beside each shard lies a report of what could not be had, and why.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any

from tpulab_recipes.ddpm.data.fetch import Fetcher, FetchLimits, count_problems
from tpulab_recipes.ddpm.data.image_shards import CLASS_KEY, SCORE_KEY
from tpulab_recipes.ddpm.data.images import decode_image, encode_image, resize_smallest_side
from tpulab_recipes.ddpm.data.protos import encode_example
from tpulab_recipes.ddpm.data.storage import Folder
from tpulab_recipes.ddpm.data.tfrecord import write_record
from tpulab_recipes.ddpm.errors import DataError, MissingPackage, RecipeError
from tpulab_recipes.ddpm.progress import Progress


@dataclass(frozen=True)
class DownloadOptions:
    data_dir: str
    write_dir: str
    image_size: int = 256
    min_image_size: int = 64
    processes_count: int = 16
    thread_count: int = 256
    caption_col: str = "caption"
    url_col: str = "url"
    score_col: str | None = None
    class_col: str | None = None
    samples_per_shard: int = 10_000
    image_format: str = "jpg"
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
    workers = min(options.processes_count, len(missing))
    if workers <= 1:
        for task in missing:
            fetch_shard(options, task, on_done=lambda: progress.advance(1))
    else:
        # Spawned: a forked child of a process with threads may hang.
        with (
            TemporaryDirectory(prefix="tpulab-fetch-") as gates,
            ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        ):
            fetch = partial(fetch_shard, options, gates=gates)
            for task, _ in zip(missing, pool.map(fetch, missing), strict=True):
                progress.advance(task.rows)
    progress.finish()
    reports = [json.loads(_read(out, f"{task.name}.json")) for task in tasks]
    totals: dict[str, Any] = {"shards": len(tasks), "images": sum(report["images"] for report in reports)}
    problems: dict[str, int] = {}
    for report in reports:
        for name, count in report["problems"].items():
            problems[name] = problems.get(name, 0) + count
    if totals["images"] == 0:
        raise DataError(
            f"None of the images could be had ({problems}); are the addresses reachable from here?"
        )
    return totals | {"problems": problems}


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
        wanted = [options.url_col, options.caption_col, options.score_col, options.class_col]
        for column in wanted:
            if column and column not in columns:
                raise DataError(
                    f"{name} has no column {column!r}; it has {', '.join(columns)}. "
                    "Name yours with --caption_col, --url_col, --score_col and --class_col."
                )
        if rows == 0:
            raise DataError(f"{name} has no rows.")
        if options.class_col and not _holds_whole_numbers(parquet, options.class_col):
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
    gates: str | None = None,
    on_done: Callable[[], None] | None = None,
) -> None:
    """Fetches, resizes and writes one shard, then its report, which says that it is whole. `gates` as for
    `Fetcher`."""
    rows = list(_rows(options, task))
    threads = max(1, options.thread_count // max(1, options.processes_count))
    fetcher = Fetcher(threads, options.limits, gates)
    problems: list[str] = []
    kept: dict[int, bytes] = {}
    for result in fetcher.fetch(((index, str(row["url"])) for index, row in enumerate(rows)), on_done):
        if result.data is None:
            problems.append(result.problem or "unknown")
            continue
        row = rows[result.row]
        try:
            kept[result.row] = _example(result.data, row, options, f"{task.name}-{result.row}")
        except DataError:
            problems.append("not_an_image")
        except _TooSmall:
            problems.append("too_small")
    out = Folder(options.write_dir)
    if kept:
        with out.write(f"{task.name}.tfrecord") as file:
            for index in sorted(kept):
                write_record(file, kept[index])
    report = {
        "table": task.table,
        "rows": task.rows,
        "images": len(kept),
        "problems": count_problems(problems),
    }
    with out.write(f"{task.name}.json") as file:
        file.write(json.dumps(report).encode())


class _TooSmall(Exception):
    pass


def _example(data: bytes, row: dict[str, Any], options: DownloadOptions, key: str) -> bytes:
    pixels = decode_image(data, str(row["url"]))
    height, width = pixels.shape[:2]
    if min(height, width) < options.min_image_size:
        raise _TooSmall
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


def _rows(options: DownloadOptions, task: ShardTask) -> Iterator[dict[str, Any]]:
    columns = {"url": options.url_col, "caption": options.caption_col}
    if options.score_col:
        columns["score"] = options.score_col
    if options.class_col:
        columns["class"] = options.class_col
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


def _holds_whole_numbers(parquet: Any, column: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(parquet.schema_arrow.field(column).type))


def _read(folder: Folder, name: str) -> bytes:
    with folder.read(name) as file:
        return file.read()


__all__ = ["DownloadOptions", "RecipeError", "ShardTask", "download", "fetch_shard", "plan"]
