"""The code in documentation pages about the package runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
OURS = ("# both sides\n", "# dp_personal\n")


def blocks(page: Path) -> list[str]:
    """A page's Python blocks that are ours; each begins with a comment that names its library."""
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert all(re.match(r"# [\w ]+\n", block) for block in found), "a block does not say whose it is"
    return [block for block in found if block.startswith(OURS)]


def test_the_page_for_those_who_come_from_elsewhere_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours = blocks(DOCS / "coming-from.md")
    assert len(ours) == 7
    names: dict[str, Any] = {}
    for block in ours:
        exec(compile(block, "coming-from.md", "exec"), names)
    assert len(names["best"]) == 5
    assert names["probabilities"].shape == (3, 2)
    # numbers that the page states
    assert (f"{names['exact']:.4f}", f"{names['stated']:.4f}") == ("1.5347", "1.6708")
    assert f"{names['bound']:.4f}" == "1.0274"


def test_the_page_for_data_scientists_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(DOCS / "roles" / "data-scientist.md"):
        exec(compile(block, "data-scientist.md", "exec"), names)
    assert len(names["best"]) == len(names["cautious"]) == 5
    assert {metric.method for metric in names["model"].certificate_.metrics} >= {"model"}
