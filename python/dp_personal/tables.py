"""Tables of Python libraries, passed without a copy where possible.

Anything with `__arrow_c_stream__` is accepted: frames of polars and pandas, tables of pyarrow, relations of duckdb.
Also accepted are the name of a file (csv, tsv, Parquet, ..., as `dp` reads them), a mapping of names to arrays, and,
for user-item matrices, numpy arrays and scipy's sparse matrices.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _native
from ._numpy import Array, np
from .errors import BadInput

__all__: list[str] = []

Source = "str | _native.Table"


def source(data: Any, name: str) -> str | _native.Table:
    """Return a file's name unchanged, and anything else as a table called `name`."""
    if isinstance(data, str | os.PathLike):
        return os.fsdecode(data)
    if isinstance(data, _native.Table):
        return data
    if isinstance(data, Mapping):
        return of_columns(data, name)
    if hasattr(data, "__arrow_c_stream__") and type(data).__name__ != "Series":  # which has a stream too, but no named columns
        try:
            return _native.Table.from_arrow(name, data)
        except ImportError:  # pandas without pyarrow
            if not data.columns.is_unique:
                raise BadInput(f"{name}: several columns have the same name") from None
            return of_columns({str(column): data[column] for column in data.columns}, name)
    if hasattr(data, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return _native.Table.from_arrow(name, from_dataframe(data))
    raise BadInput(
        f"{name}: expected a table with `__arrow_c_stream__` (polars, pandas, pyarrow, duckdb), a mapping of names to "
        f"arrays or the name of a file; found {type(data).__name__}{_HINTS.get(type(data).__name__, '')}"
    )


_HINTS = {"LazyFrame": ": call its `collect()`", "Series": ": a table has named columns, as `series.to_frame()` has"}


def of_columns(columns: Mapping[str, Any], name: str) -> _native.Table:
    """A table of arrays by name, copied once."""
    return _native.Table.from_columns(name, [(key, *_values(values)) for key, values in columns.items()])


def _values(values: Any) -> tuple[str, Any]:
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return "b1", array.tobytes()
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return "i8", array.astype(np.int64).tobytes()
    if array.dtype.kind == "f":
        return "f8", array.astype(np.float64).tobytes()
    return "str", ["" if _is_missing(value) else str(value) for value in array.tolist()]


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}  # pandas' missing values


def is_matrix(data: Any) -> bool:
    """Whether this is a matrix of users by items."""
    is_dense = isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.names is None  # noqa: PLR2004
    return is_dense or (hasattr(data, "tocoo") and hasattr(data, "nnz"))


def of_matrix(matrix: Any, names: Sequence[str], name: str) -> _native.Table:
    """Users by row and items by column: the stored entries of a sparse matrix, and of a dense one those that are not NaN."""
    if hasattr(matrix, "tocoo"):
        entries = matrix.tocoo()
        users, items, values = entries.row, entries.col, entries.data
    else:
        users, items = np.nonzero(~np.isnan(matrix.astype(np.float64, copy=False)))
        values = matrix[users, items]
    return of_columns(dict(zip(names, (users, items, values), strict=True)), name)


def of_history(history: Any, names: Sequence[str]) -> str | _native.Table:
    """One user's own records: a table or a file, a mapping of items to ratings, or only items."""
    item, rating = names
    if isinstance(history, Mapping) and item not in history:
        return of_columns({item: _ids(history), rating: list(history.values())}, "history")
    if isinstance(history, list | tuple | set):
        return of_columns({item: _ids(history)}, "history")
    return source(history, "history")


def _ids(items: Iterable[Any]) -> Array:
    return np.array([str(item) for item in items], dtype=object)


def to_csv(data: Any, names: Sequence[str]) -> bytes:
    """A public table as the bytes of a csv file; a list, array or series becomes one column with the first name."""
    if isinstance(data, list | tuple | set) or getattr(data, "ndim", len(getattr(data, "shape", ()))) == 1:
        data = {names[0]: _ids(data)}
    table = source(data, "table")
    if isinstance(table, str):
        raise TypeError("the name of a file is no table in memory")
    return table.to_csv()
