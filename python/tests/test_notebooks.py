"""What the committed notebooks show; `notebooks/run.py` runs them."""

from __future__ import annotations

import html
import importlib.util
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("run", NOTEBOOKS / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["account", "groups", "recommend"])
def test_committed_notebooks_have_outputs_that_name_no_machine(name: str) -> None:
    run = runner()
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert run.has_outputs(notebook)
    assert run.machine_names(notebook) == []
    kinds = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert "text/html" in kinds
    assert "image/png" in kinds
    assert "insecure_seed" not in str(notebook.cells)


def test_embedded_report_pages_have_the_current_style() -> None:
    sheet = (Path(__file__).parents[2] / "crates" / "dp-page" / "src" / "page.css").read_text()
    notebook = nbformat.read(NOTEBOOKS / "recommend.ipynb", as_version=4)
    shown = [output.get("data", {}).get("text/html", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [html.unescape(text) for text in shown if "srcdoc" in text]
    assert pages
    assert all(sheet in page for page in pages), "run notebooks/run.py --write recommend"


@pytest.mark.parametrize(
    "text",
    ["/tmp/tmpab12cd34/ratings.ledger", "in /home/somebody", "dp-personal-x8_ab2cd/run", "C:\\Users\\somebody", "tmpab12cd34"],
)
def test_names_of_machines_are_found(text: str) -> None:
    run = runner()
    shown = nbformat.v4.new_output("display_data", data={"text/html": f"<p>{text}</p>"})
    printed = nbformat.v4.new_output("stream", text=text)
    for output in (shown, printed):
        cell = nbformat.v4.new_code_cell("1", execution_count=1, outputs=[output])
        assert run.machine_names(nbformat.v4.new_notebook(cells=[cell]))
    cell = nbformat.v4.new_code_cell("1", execution_count=2, outputs=[printed])
    assert not run.has_outputs(nbformat.v4.new_notebook(cells=[cell]))
