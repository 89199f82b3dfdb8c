"""Pages about models."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

__all__ = ["Report"]


class Report:
    """The page of `dp report` about a model: released values only. It displays itself in notebooks."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, which is self-contained."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Report: {len(self.html)} characters of HTML; `save` writes them>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 40em; border: 0"></iframe>'
