"""Run the notebooks and check their output: `python python/notebooks/run.py [--write] [NAME ...]`.

Every cell must run without errors, and no output, new or committed, may contain a folder name of the machine. `--write`
saves new outputs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent
SECONDS = 600
MACHINE = re.compile(
    r"(?<![\w.])(/(?:tmp|home|root|usr|opt|var|private|Users|mnt)/[\w.-]+|[A-Z]:\\\\?Users)|dp-personal-\w{8}|tmp[a-z0-9_]{8}"
)
"""Folders of machines, and names that `tempfile` makes up."""


def machine_names(notebook: Any) -> list[str]:
    """Parts of a notebook's outputs that identify the machine that ran it; images are ignored."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown = {kind: text for kind, text in output.get("data", {}).items() if not kind.startswith("image/")}
            found += [match[0] for match in MACHINE.finditer(json.dumps([shown, output.get("text", "")]))]
    return found


def has_outputs(notebook: Any) -> bool:
    """Whether the notebook was run from start to end before it was committed."""
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    return counts == list(range(1, len(counts) + 1)) and any(cell.get("outputs") for cell in notebook.cells)


def executed(notebook: Any) -> Any:
    """The notebook with new outputs, run in a separate folder."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
        NotebookClient(notebook, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": folder}}).execute()
    return notebook


def main() -> None:
    """Run, check, and save if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="save the new outputs")
    parser.add_argument("names", nargs="*", help="notebooks without their ending; all of them by default")
    given = parser.parse_args()
    failed = False
    for path in sorted(HERE.glob("*.ipynb")):
        if given.names and path.stem not in given.names:
            continue
        notebook = nbformat.read(path, as_version=4)
        wrong = [] if given.write else [f"committed: {name}" for name in machine_names(notebook)]
        if not given.write and not has_outputs(notebook):
            wrong.append("outputs are missing: run it with --write")
        began = time.monotonic()
        try:
            wrong += machine_names(executed(notebook))
        except CellExecutionError as error:
            wrong.append(str(error))
        print(f"{path.name}: {time.monotonic() - began:.0f} s", *wrong, sep="\n  ")
        failed |= bool(wrong)
        if given.write and not wrong:
            nbformat.write(notebook, path)
    sys.exit(failed)


if __name__ == "__main__":
    main()
