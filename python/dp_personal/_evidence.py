"""Item information from public ratings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from . import _native

__all__ = ["evidence"]


def evidence(
    ratings: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    items: str | os.PathLike[str] | None = None,
    features: Sequence[str] | None = None,
    n_tastes: int = 9,
) -> Path:
    """Create a table for `PrivateRecommender(prior=...)` from public ratings: the file of `dp evidence`; returns its name.

    `ratings` is a file of ratings that anybody may see, by people who are not in the private data, with the ids of the
    private items. `items` is a table of items, each of which gets a row, and `features` are columns of it that are used
    where ratings are few. This has no privacy: whoever sees the table may learn about the ratings.
    """
    given = [("kind", "ratings"), ("ratings", os.fspath(ratings)), ("out", os.fspath(out)), ("n_tastes", str(n_tastes))]
    if items is not None:
        given.append(("items", os.fspath(items)))
    if features is not None:
        given += [("feature_cols", name) for name in features]
    return Path(_native.evidence(given))
