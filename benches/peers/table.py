"""Writes the recorded comparisons as a table into a Markdown file, between the two markers there.

    table.py COMPARISONS.jsonl FILE.md
"""

import json
import os
import pathlib
import platform
import sys

BEGIN, END = "<!-- compare.sh: begin -->", "<!-- compare.sh: end -->"


def duration(seconds):
    for unit, size in [("s", 1.0), ("ms", 1e-3), ("us", 1e-6)]:
        if seconds >= size:
            break
    return f"{seconds / size:.3g} {unit}"


def rounded(ratio):
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}"


def row(line):
    peer, ours = line["peer_seconds"], line["our_seconds"]
    ratio = None if peer is None else peer / ours
    beside = ("given up", "") if ratio is None else (duration(peer), rounded(ratio))
    return f"| {line['what']} | {line['peer']} | {beside[0]} | {duration(ours)} | {beside[1]} |"


def table(lines):
    head = ["| what | peer | peer takes | ours takes | ratio |", "|---|---|---|---|---|"]
    written = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}."
    return "\n".join([BEGIN, *head, *map(row, lines), "", written, END])


def main():
    comparisons, target = map(pathlib.Path, sys.argv[1:])
    lines = [json.loads(line) for line in comparisons.read_text("utf-8").splitlines()]
    text = target.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{target}: the marks {BEGIN} and {END} must stand there once each")
    before, rest = text.split(BEGIN)
    written = before + table(lines) + rest.split(END)[1]
    part = target.with_suffix(".md.part")
    part.write_text(written, "utf-8")
    part.replace(target)


if __name__ == "__main__":
    main()
