"""Downloading from tables of addresses, against a server on this machine."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ddpm.picture_server import PictureServer, serving
from tpulab_recipes.common.errors import DataError, StorageError
from tpulab_recipes.common.progress import Silent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.download import DownloadOptions, download, fetch_shard, plan
from tpulab_recipes.images.fetch import Fetcher, FetchLimits
from tpulab_recipes.images.shards import read_images


@pytest.fixture
def server() -> Iterator[PictureServer]:
    with serving() as server:
        yield server


def _table(folder: Path, name: str, urls: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    columns = {
        "URL": urls,
        "TEXT": [f"caption {i}" for i in range(len(urls))],
        "score": np.linspace(3, 8, len(urls)),
    }
    pq.write_table(pa.table(columns), folder / name)


def _options(folder: Path) -> DownloadOptions:
    return DownloadOptions(
        data_dir=str(folder / "tables"),
        write_dir=str(folder / "images"),
        image_size=32,
        processes_count=1,
        thread_count=8,
        url_col="URL",
        caption_col="TEXT",
        score_col="score",
        samples_per_shard=8,
        image_format="png",
        limits=FetchLimits(timeout_s=60, max_bytes=200_000, retries=1, per_host=3),
    )


def test_images_are_fetched_resized_and_kept_in_the_order_of_the_table(
    server: PictureServer, tmp_path: Path
) -> None:
    kinds = [
        "ok-1",
        "missing-1",
        "flaky-2",
        "text-1",
        "huge-1",
        "private-1",
        "short-1",
        "ok-2",
        "ok-3",
        "ok-4",
    ]
    urls = [f"{server.url}/{kind}" for kind in kinds] + ["ftp://example.invalid/x", "nonsense"]
    _table(tmp_path / "tables", "a.parquet", urls)
    done = download(_options(tmp_path), Silent())
    assert done["shards"] == 2
    assert done["images"] == 5
    assert done["problems"] == {
        "not_http": 2,
        "http_404": 1,
        "not_an_image": 1,
        "too_large": 1,
        "disallowed": 1,
        "ConnectionError": 1,
    }
    images = list(read_images(Folder(tmp_path / "images"), "images-a-00000.tfrecord", "png"))
    assert [image.caption for image in images] == ["caption 0", "caption 2", "caption 7"]
    assert images[0].pixels.shape == (32, 43, 3)
    assert (images[0].height, images[0].width) == (96, 128)
    assert images[1].aesth_score == pytest.approx(3 + 5 * 2 / 11)
    assert server.most_at_once <= 3
    assert server.requests["/missing-1"] == 1
    assert server.requests["/flaky-2"] == 2
    assert all("tpulab" in agent for agent in server.agents)


def test_an_interrupted_download_continues_with_the_missing_images(
    server: PictureServer, tmp_path: Path
) -> None:
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/ok-{i}" for i in range(20)])
    options = _options(tmp_path)
    Folder(options.write_dir).make()
    first = plan(options)[0][0]
    fetch_shard(options, first, Fetcher(options.limits), Silent())
    requested = sum(server.requests.values())
    assert requested == 8
    assert download(options, Silent())["images"] == 20
    assert sum(server.requests.values()) == 20
    assert download(options, Silent())["images"] == 20
    assert sum(server.requests.values()) == 20


def test_one_host_gets_few_requests_at_a_time_however_many_processes_there_are(
    server: PictureServer, tmp_path: Path
) -> None:
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/ok-{i}" for i in range(24)])
    options = replace(_options(tmp_path), processes_count=2)
    # Answers wait until as many requests as are allowed have come together.
    server.gathers = 3
    assert download(options, Silent())["images"] == 24
    assert server.most_at_once == 3
    # More come where more are allowed: the count above is one that can fail.
    server.most_at_once, server.gathers = 0, 4
    limits = replace(options.limits, per_host=8)
    download(replace(options, limits=limits, write_dir=str(tmp_path / "more")), Silent())
    assert server.most_at_once > 3


def test_a_download_that_is_stopped_requests_no_more(
    server: PictureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first row is over without a request; those of the others are answered when the fetcher has stopped.
    urls = ["nonsense", *(f"{server.url}/ok-{i}" for i in range(200))]
    _table(tmp_path / "tables", "a.parquet", urls)
    server.gathers = 200
    stop = Fetcher.stop

    def stop_and_answer(fetcher: Fetcher) -> None:
        stop(fetcher)
        with server.arrivals:
            server.gathers = 0
            server.arrivals.notify_all()

    monkeypatch.setattr(Fetcher, "stop", stop_and_answer)

    class Interrupted(Silent):
        def advance(self, *_: object) -> None:
            raise KeyboardInterrupt

    options = replace(_options(tmp_path), samples_per_shard=len(urls))
    with pytest.raises(KeyboardInterrupt):
        download(options, Interrupted())
    assert sum(server.requests.values()) <= options.limits.per_host
    assert not list((tmp_path / "images").iterdir())


def test_progress_is_reported_for_each_image(server: PictureServer, tmp_path: Path) -> None:
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/ok-{i}" for i in range(5)])
    reported: list[tuple[int, str]] = []

    class Reported(Silent):
        def advance(self, count: int, note: str = "") -> None:
            reported.append((count, note))

    download(_options(tmp_path), Reported())
    assert reported == [(1, "")] * 5


def test_small_images_are_left_out(server: PictureServer, tmp_path: Path) -> None:
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/ok-1"])
    with pytest.raises(DataError, match="too_small"):
        download(replace(_options(tmp_path), min_image_size=97), Silent())


def test_tables_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    options = _options(tmp_path)
    with pytest.raises(StorageError, match="does not exist"):
        plan(options)
    (tmp_path / "tables").mkdir()
    with pytest.raises(DataError, match=r"no \.parquet"):
        plan(options)
    _table(tmp_path / "tables", "a.parquet", ["http://127.0.0.1/x"])
    with pytest.raises(DataError, match="has no column 'caption'; it has URL, TEXT, score"):
        plan(replace(options, caption_col="caption"))
    _table(tmp_path / "tables", "a.parquet", [])
    with pytest.raises(DataError, match="has no rows"):
        plan(options)
    (tmp_path / "tables" / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        plan(options)


def test_the_report_of_a_shard_lists_the_missing_images(server: PictureServer, tmp_path: Path) -> None:
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/missing-{i}" for i in range(3)])
    with pytest.raises(DataError, match="None of the images"):
        download(_options(tmp_path), Silent())
    report = json.loads((tmp_path / "images" / "images-a-00000.json").read_text())
    assert report["source"] == "a.parquet"
    assert (report["rows"], report["images"], report["problems"]) == (3, 0, {"http_404": 3})
    assert report["left_out"][1] == [1, f"{server.url}/missing-1", "http_404"]


# Case D16.
def test_tables_added_later_change_no_shard_that_is_complete(server: PictureServer, tmp_path: Path) -> None:
    _table(tmp_path / "tables", "part-1.parquet", [f"{server.url}/ok-{i}" for i in (1, 2)])
    _table(tmp_path / "tables", "part-3.parquet", [f"{server.url}/ok-{i}" for i in (3, 4)])
    assert download(_options(tmp_path), Silent())["images"] == 4
    _table(tmp_path / "tables", "part-0.parquet", [f"{server.url}/ok-5"])
    _table(tmp_path / "tables", "part-2.parquet", [f"{server.url}/ok-6"])
    assert download(_options(tmp_path), Silent())["images"] == 6
    assert set(server.requests.values()) == {1}
    images = Folder(tmp_path / "images")
    assert sum(len(list(read_images(images, name, "png"))) for name in images.names(".tfrecord")) == 6


def test_rows_that_change_are_downloaded_again(server: PictureServer, tmp_path: Path) -> None:
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/ok-{i}" for i in range(10)])
    download(_options(tmp_path), Silent())
    _table(tmp_path / "tables", "a.parquet", [f"{server.url}/ok-{i}" for i in [*range(9), 12, 13]])
    assert download(_options(tmp_path), Silent())["images"] == 11
    # The first shard of eight is the same.
    assert [server.requests[f"/ok-{i}"] for i in (0, 7, 8, 12, 13)] == [1, 1, 2, 1, 1]


def test_corrected_captions_scores_and_classes_are_taken_without_another_request(
    server: PictureServer, tmp_path: Path
) -> None:
    urls = [f"{server.url}/ok-1", f"{server.url}/missing-2", f"{server.url}/ok-3"]
    table = tmp_path / "tables" / "a.parquet"
    table.parent.mkdir()
    options = replace(_options(tmp_path), class_col="class")

    def stored() -> list[tuple[str, float, int | None]]:
        images = read_images(Folder(tmp_path / "images"), "images-a-00000.tfrecord", "png", class_col="class")
        return [(image.caption, image.aesth_score, image.label) for image in images]

    columns = {"URL": urls, "TEXT": ["a", "b", "c"], "score": [4.0, 5.0, math.nan], "class": [1, 2, 3]}
    pq.write_table(pa.table(columns), table)
    download(options, Silent())
    assert stored() == [("a", 4.0, 1), ("c", 0.0, 3)]
    columns |= {"TEXT": ["a", "b", "corrected"], "score": [4.0, 5.0, 7.0], "class": [1, 2, 9]}
    pq.write_table(pa.table(columns), table)
    assert download(options, Silent())["problems"] == {"http_404": 1}
    assert stored() == [("a", 4.0, 1), ("corrected", 7.0, 9)]
    assert set(server.requests.values()) == {1}


@pytest.mark.parametrize(
    ("name", "encoding", "delimiter"),
    [("a.csv", "utf-8-sig", ","), ("a.csv", "utf-16", ","), ("a.tsv", "utf-8", "\t")],
)
def test_text_tables(server: PictureServer, tmp_path: Path, name: str, encoding: str, delimiter: str) -> None:
    rows = [
        ["URL", "TEXT", "score", "class"],
        [f" {server.url}/ok-1", "a fox,\n\u65e5\u672c", "6.5", "3"],
        [f"{server.url}/ok-2", "", "", ""],
    ]
    (tmp_path / "tables").mkdir()
    with open(tmp_path / "tables" / name, "w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    options = replace(_options(tmp_path), class_col="class")
    assert download(options, Silent())["images"] == 2
    (shard,) = Folder(tmp_path / "images").names(".tfrecord")
    images = list(read_images(Folder(tmp_path / "images"), shard, "png"))
    assert [(one.caption, one.aesth_score) for one in images] == [("a fox,\n\u65e5\u672c", 6.5), ("", 0.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("URL,TEXT\nhttp://x/1,caf\xe9\n".encode("cp1252"), r"a\.csv, line 2: byte 23 is not UTF-8"),
        (b'URL,TEXT\nhttp://x/1,"a"b\n', r"a\.csv, line 2: ',' expected after '\"'"),
        (b"URL,TEXT,score\nhttp://x/1,a,high\n", r"a\.csv, row 0: 'score' is 'high', not a number"),
        (b"URL,TEXT,class\nhttp://x/1,a,1.5\n", r"a\.csv, row 0: 'class' is '1.5', not a whole number"),
        (b"URL;TEXT\nhttp://x/1;a\n", r"a\.csv has no column 'URL'; it has URL;TEXT"),
    ],
)
def test_text_tables_that_cannot_be_used_are_named(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_bytes(text)
    columns = {name: name if name.encode() in text else None for name in ("score", "class")}
    with pytest.raises(DataError, match=words):
        plan(replace(_options(tmp_path), score_col=columns["score"], class_col=columns["class"]))


def test_a_table_without_rows_is_skipped_and_binary_columns_are_read(
    server: PictureServer, tmp_path: Path
) -> None:
    _table(tmp_path / "tables", "a.parquet", [])
    _table(tmp_path / "tables", "c.parquet", [])
    binary = pa.table({"URL": pa.array([f"{server.url}/ok-1".encode()], pa.binary()), "TEXT": [None]})
    pq.write_table(binary, tmp_path / "tables" / "b.parquet")
    done = download(replace(_options(tmp_path), score_col=None), Silent())
    assert (done["images"], done["tables_without_rows"]) == (1, ["a.parquet", "c.parquet"])
    (image,) = read_images(Folder(tmp_path / "images"), "images-b-00000.tfrecord", "png")
    assert image.caption == ""


def test_an_outage_is_not_remembered(tmp_path: Path) -> None:
    with serving() as server:
        port = server.server_address[1]
        urls = [*(f"{server.url}/ok-{i}" for i in range(3)), f"{server.url}/missing-1"]
    _table(tmp_path / "tables", "a.parquet", urls)
    with pytest.raises(DataError, match="None of the images could be downloaded"):
        download(_options(tmp_path), Silent())
    with serving(port) as server:
        assert download(_options(tmp_path), Silent())["images"] == 3
        # What a server refuses for good is not requested again, and nothing that is there.
        assert download(_options(tmp_path), Silent())["problems"] == {"http_404": 1}
        assert set(server.requests.values()) == {1}
    images = list(read_images(Folder(tmp_path / "images"), "images-a-00000.tfrecord", "png"))
    assert [image.caption for image in images] == ["caption 0", "caption 1", "caption 2"]


def test_processes_that_decode_end_with_a_download_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from tpulab_recipes.images.shards import decoders\n"
        "import os, time\n"
        "if __name__ == '__main__':\n"
        "    pool = decoders(2).__enter__()\n"
        "    print(*{f.result() for f in [pool.submit(os.getpid) for _ in range(8)]}, flush=True)\n"
        "    time.sleep(600)\n"
    )
    (tmp_path / "main.py").write_text(script)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "main.py"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout
    workers = [int(word) for word in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    until = time.monotonic() + 60
    while any(_is_running(pid) for pid in workers):
        assert time.monotonic() < until, f"still running: {workers}"
        time.sleep(0.05)


def test_processes_that_decode_ignore_an_interrupt_of_the_terminal(tmp_path: Path) -> None:
    script = (
        "from tpulab_recipes.images.shards import decoders\n"
        "import signal, time\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, lambda *_: print('interrupted', flush=True))\n"
        "    with decoders(2) as pool:\n"
        "        print('started', flush=True)\n"
        "        time.sleep(2)\n"
        "        print(pool.submit(abs, -3).result(), flush=True)\n"
    )
    (tmp_path / "main.py").write_text(script)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "main.py"], text=True, start_new_session=True, **pipes
    )
    assert parent.stdout
    assert parent.stdout.readline() == "started\n"
    for _ in range(4):  # While they start, and later.
        os.killpg(parent.pid, signal.SIGINT)
        time.sleep(0.3)
    out, err = parent.communicate(timeout=60)
    assert (parent.returncode, out.splitlines()[-1], err) == (0, "3", "")


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    # Nobody may be there to collect its exit code.
    return state != "Z"
