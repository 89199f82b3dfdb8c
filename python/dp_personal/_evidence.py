"""Item information from public ratings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _native, tables

__all__ = ["evidence"]

_COLUMNS = {"user_col": "user", "item_col": "item", "rating_col": "rating", "feature_cols": "features"}


def evidence(
    ratings: Any,
    out: str | os.PathLike[str],
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    items: Any = None,
    features: Sequence[str] | None = None,
    n_tastes: int = 9,
) -> Path:
    """Create a table for `PrivateRecommender(prior=...)` from public ratings: the file of `dp evidence`; returns its name.

    `ratings` is a table or a file of ratings that anybody may see, by people who are not in the private data, with the ids of
    the private items; `user`, `item` and `rating` name its columns. `items` is a table or a file of items, each of which gets
    a row, and `features` are columns of it that are used where ratings are few. This has no privacy: whoever sees the table
    may learn about the ratings.
    """
    table = tables.source(ratings, "ratings")
    given = [("kind", "ratings"), ("ratings", "ratings"), ("out", os.fspath(out)), ("n_tastes", str(n_tastes))]
    named = {"user_col": user, "item_col": item, "rating_col": rating}
    given += [(setting, name) for setting, name in named.items() if name is not None]
    given += [("feature_cols", name) for name in features or ()]
    with (
        tables.public_files([("items", items, ("item",))]) as files,
        tables.naming_columns(table, "ratings"),
        tables.naming_settings(_COLUMNS),
    ):
        if items is not None:
            given.append(("items", files.get("items") or os.fspath(items)))
        return Path(_native.evidence(given, table))
