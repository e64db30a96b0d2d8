"""Source that a notebook prints is the current source of the recipes. A lesson that shows a step which no
longer exists misleads, and nothing else notices it: the notebook's own code has not changed."""

from __future__ import annotations

import ast
import html
import re
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ..lesson import CHECKOUT

SOURCES = CHECKOUT / "recipes" / "src"
#: Saved before the last change of their recipes. Remove an entry when its notebook is run again
#: (`npm run notebooks -- NAME`).
STALE: set[str] = set()
FILES = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))


def module_file(module: str) -> Path | None:
    base = SOURCES / module.replace(".", "/")
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


def source_of(module: str, path: list[str]) -> str | None:
    """The result of `inspect.getsource` for `module.path`, without importing anything. None: not found."""
    file = module_file(module)
    if file is None:
        return None
    text = file.read_text()
    tree: Any = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                if (name.asname or name.name) == path[0]:
                    return source_of(node.module, [name.name, *path[1:]])
    for step in path:
        kinds = (ast.FunctionDef, ast.ClassDef)
        tree = next((one for one in tree.body if isinstance(one, kinds) and one.name == step), None)
        if tree is None:
            return None
    first = min([tree.lineno, *(one.lineno for one in tree.decorator_list)])
    lines = text.splitlines()[first - 1 : tree.end_lineno]
    return textwrap.dedent("\n".join(lines)).rstrip()


def printed(file: Path) -> list[tuple[str, str, str]]:
    """Cell, the name in it, and its saved and current source."""
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    imported: dict[str, tuple[str, str]] = {}
    for cell in code:
        plain = "\n".join(
            line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))
        )
        for node in ast.walk(ast.parse(plain)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tpulab_recipes"):
                imported |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
    found = []
    for cell in code:
        calls = re.findall(r"show_source\(([^)]*)\)\s*$", cell.source)
        names = [name.strip() for name in ",".join(calls).split(",") if name.strip()]
        shown = "".join(one.data.get("text/html", "") for one in cell.outputs if "data" in one)
        text = html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", "", shown, flags=re.S))
        for name in names:
            root, *rest = name.split(".")
            if root in imported:
                module, first = imported[root]
                source = source_of(module, [first, *rest])
                if source is not None:
                    found.append((f"{cell.id}: {name}", text, source))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_source_that_a_notebook_prints_matches_the_recipe(file: Path) -> None:
    def squeezed(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    if file.stem in STALE:
        pytest.xfail("this notebook has to be run again")
    stale = [name for name, saved, source in printed(file) if squeezed(source) not in squeezed(saved)]
    assert stale == [], "run `npm run notebooks -- NAME` again: the recipe has changed since"


def test_the_printed_sources_are_found() -> None:
    """For most notebooks, so that the test above compares something."""
    assert sum(len(printed(file)) for file in FILES) >= 8
