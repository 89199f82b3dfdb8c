"""Notebook displays of models, certificates, plans, ledgers and answers.

Semantic tables that are readable without any style, and a style that takes its colours from the surrounding page: light
or dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import repeat

__all__: list[str] = []

_STYLE = """<style>
.dp-card{max-width:44rem;margin:.3em 0;padding:.9em 1.1em;border:1px solid color-mix(in srgb,currentColor 22%,transparent);
border-radius:.5em;font-size:13px;line-height:1.5;text-align:left}
.dp-card p{margin:.35em 0}
.dp-card .dp-kind{font-size:11px;letter-spacing:.08em;text-transform:uppercase;opacity:.65}
.dp-card .dp-head{font-size:19px;font-weight:600;margin:.1em 0 .3em}
.dp-card .dp-alarm{color:#d9480f;font-weight:600}
.dp-card table{border-collapse:collapse;width:100%;margin:.5em 0;background:none;border:0;font-size:13px}
.dp-card tr{background:none;border:0}
.dp-card th,.dp-card td{text-align:left;vertical-align:top;padding:.22em 1em .22em 0;border:0;background:none;
border-bottom:1px solid color-mix(in srgb,currentColor 12%,transparent)}
.dp-card th{font-weight:400;opacity:.65;white-space:nowrap}
.dp-card .dp-number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.dp-card .dp-track{display:block;min-width:6em;height:.55em;margin-top:.45em;border-radius:.3em;overflow:hidden;
background:color-mix(in srgb,currentColor 14%,transparent)}
.dp-card .dp-track i{display:block;height:100%;background:#2f80c3}
.dp-card summary{cursor:pointer;opacity:.75}
.dp-card ul{margin:.3em 0;padding-left:1.3em}
.dp-card code{background:none;color:inherit;padding:0;font-size:12px;overflow-wrap:anywhere}
</style>"""


def card(kind: str, head: str, *parts: str) -> str:
    """A box with a label and its main value at the top; parts are HTML."""
    title = f'<p class="dp-kind">{escape(kind)}</p><p class="dp-head">{escape(head)}</p>'
    return f'{_STYLE}<div class="dp-card">{title}{"".join(parts)}</div>'


def guarantee(epsilon: float, delta: float) -> str:
    """A guarantee in short form."""
    return f"\u03b5 {epsilon:.4g} at \u03b4 {delta:.2g}".replace("e-0", "e-")


def text(sentence: str) -> str:
    """A paragraph."""
    return f"<p>{escape(sentence)}</p>"


def alarm(sentence: str) -> str:
    """A highlighted paragraph."""
    return f'<p class="dp-alarm">{escape(sentence)}</p>'


def code(source: str) -> str:
    """A code expression."""
    return f"<p><code>{escape(source)}</code></p>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in pairs)
    return f"<table>{''.join(rows)}</table>"


def bar(share: float) -> str:
    """A share of 1, as a bar."""
    percent = 100.0 * min(max(share, 0.0), 1.0)
    return f'<span class="dp-track" title="{percent:.1f} %"><i style="width:{percent:.1f}%"></i></span>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], bars: Sequence[float] | None = None) -> str:
    """Rows of text; cells that begin with a digit are numbers. `bars` contains a share for each row, drawn at its end."""
    rows = list(rows)
    kinds = map(_align, rows[0]) if rows else repeat("")
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(header, kinds, strict=False))
    lines = [f"<tr>{head}{'<th></th>' if bars else ''}</tr>"]
    for at, row in enumerate(rows):
        cells = "".join(f"<td{_align(cell)}>{escape(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}{f'<td>{bar(bars[at])}</td>' if bars else ''}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _align(cell: str) -> str:
    return ' class="dp-number"' if cell[:1].isdigit() and "-" not in cell[1:5] else ""


def more(title: str, content: str) -> str:
    """Content that is collapsed until it is opened."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def count(n: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def items(entries: Iterable[str]) -> str:
    """A list."""
    return f"<ul>{''.join(f'<li>{escape(entry)}</li>' for entry in entries)}</ul>"
