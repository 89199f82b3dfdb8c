"""Generated data for experiments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from . import _native

__all__ = ["synth"]


def synth(
    kind: Literal["ratings", "groups"],
    out: str | os.PathLike[str],
    *,
    n_users: int = 2000,
    n_items: int | None = None,
    n_ratings: int | None = None,
    rows_per_user: int | None = None,
    dim: int | None = None,
    rank: int | None = None,
    data_seed: int | None = None,
) -> list[Path]:
    """Generate data as csv files in a new folder, the files of `dp synth`; returns their names.

    `"ratings"` are long-tailed ratings in stars by users with taste factors, and their items (`n_items`, `n_ratings`).
    `"groups"` are labelled rows of users whose linear models differ in a few directions (`rows_per_user`, `dim`
    features, `rank` directions).
    """
    sizes = {
        "n_users": n_users,
        "n_items": n_items,
        "n_ratings": n_ratings,
        "rows_per_user": rows_per_user,
        "dim": dim,
        "rank": rank,
        "data_seed": data_seed,
    }
    given = [(name, str(size)) for name, size in sizes.items() if size is not None]
    return [Path(file) for file in _native.synth([("kind", kind), ("out", os.fspath(out)), *given])]
