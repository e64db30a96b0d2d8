"""`download`: from tables of addresses and captions to TFRecord shards of resized images.

A shard belongs to some rows of one table and is named after that table, so tables that are added later change
no other shard. An interrupted download resumes with the missing shards, and retries images that failed for a
temporary reason, such as a server that was down. Corrected captions, scores and classes need no new request.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tpulab_recipes.common.errors import DataError, MissingPackage
from tpulab_recipes.common.inputs import HEAD, decoded, unexpected_kind
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.fetch import Fetcher, FetchLimits, may_pass
from tpulab_recipes.images.shards import (
    Row,
    ShardOptions,
    ShardReport,
    SkippedImage,
    class_of,
    corrected_record,
    decoders,
    image_record,
    number,
    read_report,
    stored_records,
    write_shard,
)

#: Between the cells of text tables, by their endings.
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, kw_only=True)
class DownloadOptions(ShardOptions):
    data_dir: str
    """Folder of .parquet, .csv or .tsv tables."""
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
    limits: FetchLimits = field(default_factory=FetchLimits)


@dataclass(frozen=True)
class ShardTask:
    table: str
    rows: Sequence[Row]
    name: str

    @property
    def fingerprint(self) -> int:
        return zlib.crc32("\n".join(row.source for row in self.rows).encode())

    @property
    def texts(self) -> int:
        return zlib.crc32(repr([(row.caption, row.score, row.label) for row in self.rows]).encode())


def download(options: DownloadOptions, progress: Progress) -> dict[str, Any]:
    """Fetches everything that is missing. Returns the sums over all shards."""
    out = Folder(options.write_dir).make()
    tasks, empty = plan(options)
    stored = set(out.names(may_be_absent=True))
    work: list[tuple[ShardTask, ShardReport | None, list[int]]] = []
    for task in tasks:
        report = read_report(out, task.name, stored)
        if report is None or report.fingerprint != task.fingerprint:
            work.append((task, None, list(range(len(task.rows)))))
        else:
            again = [row for row, _, reason in report.left_out if may_pass(reason)]
            if again or report.texts != task.texts:
                work.append((task, report, again))
    notes = [f"{len(tasks) - len(work)} of {len(tasks)} shards are complete"]
    if empty:
        notes.append(f"without rows: {', '.join(empty)}")
    progress.start("download", sum(len(rows) for *_, rows in work), "; ".join(notes))
    fetcher = Fetcher(options.limits)
    with ExitStack() as stack:
        pool = stack.enter_context(decoders(options.processes_count if work else 0))
        for task, report, rows in work:
            fetch_shard(options, task, fetcher, progress, pool, report=report, rows=rows)
    progress.finish()
    stored = set(out.names())
    totals: Counter[str] = Counter(shards=len(tasks), images=0)
    problems: Counter[str] = Counter()
    for task in tasks:
        report = read_report(out, task.name, stored)
        if report is None:
            raise DataError(f"{options.write_dir}/{task.name}.json is damaged; delete it and download again.")
        totals["images"] += report.images
        problems.update(report.problems)
    if totals["images"] == 0:
        raise DataError(
            f"None of the images could be downloaded ({dict(problems)}). Check that their addresses can be "
            "reached from this machine, then run the same command again."
        )
    return dict(totals) | {"problems": dict(problems.most_common()), "tables_without_rows": empty}


def plan(options: DownloadOptions) -> tuple[list[ShardTask], list[str]]:
    """The shards of all tables, and the tables without rows. Raises `DataError` where a column is missing or
    no table has a row."""
    tables = Folder(options.data_dir)
    names = [name for name in tables.names() if name.endswith((".parquet", *_DELIMITERS))]
    if not names:
        raise DataError(f"{options.data_dir} holds no .parquet, .csv or .tsv files.")
    tasks, empty = [], []
    for name in names:
        rows = _rows(tables, name, options)
        if not rows:
            empty.append(name)
        for part, first in enumerate(range(0, len(rows), options.samples_per_shard)):
            shard = f"images-{name.removesuffix('.parquet')}-{part:05d}"
            tasks.append(ShardTask(name, rows[first : first + options.samples_per_shard], shard))
    if not tasks:
        raise DataError(f"{options.data_dir}: {', '.join(empty)} has no rows.")
    return tasks, empty


def fetch_shard(
    options: DownloadOptions,
    task: ShardTask,
    fetcher: Fetcher,
    progress: Progress,
    pool: Executor | None = None,
    *,
    report: ShardReport | None = None,
    rows: Sequence[int] | None = None,
) -> None:
    """Fetches these rows of a shard (None: all) and writes it whole, with what an earlier `report` says it
    holds already. Only this process sends requests; the processes of `pool` decode and resize."""

    def one(number: int, row: Row) -> bytes:
        wanted = fetcher.get(row.source), row, options, f"{task.name}-{number}"
        return pool.submit(image_record, *wanted).result() if pool else image_record(*wanted)

    out = Folder(options.write_dir)
    wanted = range(len(task.rows)) if rows is None else rows
    records = stored_records(out, task.name) if report and report.images else {}
    changed = report is not None and report.texts != task.texts
    if changed:
        records = {number: corrected_record(record, task.rows[number]) for number, record in records.items()}
    left_out = {row: (source, reason) for row, source, reason in (report.left_out if report else [])}
    found = len(records)
    with ThreadPoolExecutor(max(1, options.thread_count), thread_name_prefix="fetch") as threads:
        running = {threads.submit(one, number, task.rows[number]): number for number in wanted}
        try:
            for future in as_completed(running):
                number = running[future]
                try:
                    records[number] = future.result()
                    left_out.pop(number, None)
                except SkippedImage as error:
                    left_out[number] = (task.rows[number].source, str(error))
                progress.advance(1)
        except BaseException:
            # An error, Ctrl-C: waiting requests are abandoned.
            fetcher.stop()
            threads.shutdown(cancel_futures=True)
            raise
    if report and len(records) == found and not changed:
        return
    made = ShardReport(source=task.table, rows=len(task.rows), fingerprint=task.fingerprint, texts=task.texts)
    made.left_out = [(row, *left_out[row]) for row in sorted(left_out)]
    write_shard(out, task.name, records, made)


def _rows(tables: Folder, name: str, options: DownloadOptions) -> list[Row]:
    wanted = {
        "url": options.url_col,
        "caption": options.caption_col,
        "score": options.score_col,
        "class": options.class_col,
    }
    columns = {kind: column for kind, column in wanted.items() if column}
    there, table = _table(tables, name, columns.values())
    for column in columns.values():
        if column not in there:
            raise DataError(
                f"{name} has no column {column!r}; it has {', '.join(there)}. "
                "Name yours with --caption-col, --url-col, --score-col and --class-col."
            )

    def cell(values: dict[str, Any], kind: str) -> Any:
        return values[columns[kind]] if kind in columns else None

    rows = []
    for row, values in enumerate(table):
        place, score = f"{name}, row {row}", cell(values, "score")
        rows.append(
            Row(
                source=text_of(cell(values, "url")).strip(),
                caption=text_of(cell(values, "caption")),
                score=None if score in (None, "") else number(score, columns["score"], place),
                label=class_of(cell(values, "class"), columns.get("class", ""), place),
            )
        )
    return rows


def _table(tables: Folder, name: str, wanted: Collection[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of all columns, and each row with the `wanted` ones."""
    delimiter = next((each for ending, each in _DELIMITERS.items() if name.endswith(ending)), None)
    if delimiter is None:
        with open_parquet(tables, name) as parquet:
            there = list(parquet.schema_arrow.names)
            return there, parquet.read(columns=[each for each in there if each in wanted]).to_pylist()
    try:
        reader = csv.DictReader(
            io.StringIO(decoded(tables.get(name), name), newline=""), delimiter=delimiter, strict=True
        )
        return list(reader.fieldnames or ()), list(reader)
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.reader.line_num}: {error}.") from error


def text_of(value: Any) -> str:
    """The text of a cell: columns written by other tools hold bytes, nothing (NaN too), or several captions,
    of which the first counts."""
    if isinstance(value, list | tuple):
        return text_of(value[0]) if value else ""
    if value is None or value != value:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@contextmanager
def open_parquet(folder: Folder, name: str) -> Iterator[Any]:
    """`pyarrow.parquet.ParquetFile`, which reads only the needed columns. Raises `DataError` for a damaged
    file or another format."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPackage("pyarrow", "Reading parquet tables") from error
    with folder.read(name) as file:
        try:
            yield pq.ParquetFile(pa.PythonFile(file, mode="r"))
        except (pa.ArrowException, OSError) as error:
            file.seek(0)
            kind = unexpected_kind(file.read(HEAD))
            reason = f"it {kind}" if kind else " ".join(str(error).split()).rstrip(".")
            raise DataError(f"{name} cannot be read as parquet: {reason}.") from error


def download_with_img2dataset(options: DownloadOptions) -> None:
    """Downloads with img2dataset, which shows its own progress and resumes where it stopped."""
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
