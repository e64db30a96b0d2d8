"""The saved outputs of a notebook belong to its current code; checked without running anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ..lesson import CHECKOUT
from ..refresh_notebooks import KEPT, WIDGET, code_hash, presentable, saved

FILES = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))


def output(kind: str, **fields: Any) -> Any:
    return nbformat.v4.new_output(kind, **fields)  # type: ignore[no-untyped-call]


def read(file: Path) -> Any:
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)  # type: ignore[no-untyped-call]
    return notebook


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_outputs_of_a_notebook_come_from_its_own_code_and_need_no_kernel(file: Path) -> None:
    notebook = read(file)
    outputs = [one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs]
    assert notebook.metadata.tpulab.outputs_of == code_hash(notebook)
    shown = {mime for one in outputs for mime in one.get("data", {})}
    pages = "".join(one.data.get("text/html", "") for one in outputs if "data" in one)
    assert "image/png" in shown or "<svg" in pages, "no figure"
    assert ": running</title>" not in pages, "a run has ended, and its picture does not show it"
    assert shown <= set(KEPT)


def test_the_voice_in_notebook_08_is_understood_and_stops() -> None:
    """`npm test` trains it for a few epochs only."""
    cells = read(CHECKOUT / "notebooks" / "08-english-tts.ipynb").cells
    (text,) = ("".join(one.text for one in cell.outputs) for cell in cells if cell.id == "words")
    share = re.match(r"(\d+)% of the words", text)
    late = re.search(r"ends them (-?\d+) to (-?\d+) frames", text)
    assert share
    assert late
    assert int(share[1]) >= 70
    assert all(abs(int(frames)) <= 3 for frames in late.groups())


def test_notebook_08_plays_a_person_before_and_after_training() -> None:
    cells = read(CHECKOUT / "notebooks" / "08-english-tts.ipynb").cells
    (shown,) = (cell.outputs[-1].data["text/html"] for cell in cells if cell.id == "person")
    assert shown.count("<audio controls") == 4
    assert "after training" in shown


def test_the_hash_covers_the_code_alone_and_equals_the_hash_of_the_check() -> None:
    cells = [nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell("print(1)\nprint(2)")]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    expected = "22a5a25d40baed887195ee64cc4829af234b62db7abe498a4d663bf02e5a0190"
    assert code_hash(notebook) == expected
    assert expected in (CHECKOUT / "scripts" / "check" / "tracked-files.spec.mjs").read_text()


def test_printed_lines_are_kept_and_warnings_are_not() -> None:
    assert presentable(output("stream", name="stdout", text="loss 0.1")).text == "loss 0.1"
    assert presentable(output("stream", name="stderr", text="a warning")) is None


def test_text_printed_in_pieces_is_one_output_up_to_the_next_figure() -> None:
    figure = output("display_data", data={"image/png": "aGk="})
    pieces = [output("stream", name="stdout", text=text) for text in ("one\n", "two\n", "three\n")]
    warning = output("stream", name="stderr", text="a warning")
    kept = saved([pieces[0], warning, pieces[1], figure, pieces[2]])
    assert [each.get("text", "figure") for each in kept] == ["one\ntwo\n", "figure", "three\n"]


def test_a_widgets_picture_is_kept() -> None:
    live = {WIDGET: {"model_id": "1"}, "text/plain": "Widget()"}
    assert presentable(output("display_data", data=live)) is None
    pictured = presentable(output("display_data", data={**live, "text/html": "<svg></svg>"}))
    assert pictured.data == {"text/html": "<svg></svg>"}


def test_a_result_has_no_execution_count() -> None:
    kept = presentable(output("execute_result", data={"text/plain": "3"}, execution_count=7))
    assert (kept.output_type, kept.data, "execution_count" in kept) == (
        "display_data",
        {"text/plain": "3"},
        False,
    )


def test_the_error_of_a_cell_ends_the_refresh() -> None:
    with pytest.raises(RuntimeError, match="ValueError: no such file"):
        presentable(output("error", ename="ValueError", evalue="no such file", traceback=[]))
