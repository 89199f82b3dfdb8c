"""Tables of Python libraries, passed without a copy where possible.

Anything with `__arrow_c_stream__` is accepted: frames of polars and pandas, tables of pyarrow, relations of duckdb.
Also accepted are the name of a file (csv, tsv, Parquet, ..., as `dp` reads them), a mapping of names to arrays, and,
for user-item matrices, numpy arrays and scipy's sparse matrices.
"""

from __future__ import annotations

import contextlib
import numbers
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from . import _native
from ._numpy import Array, np
from .errors import BadInput, BadSetting, DpError

__all__: list[str] = []

Source = "str | _native.Table"


def source(data: Any, name: str, *, only_read: bool = False) -> str | _native.Table:
    """Return a file's name unchanged, and anything else as a table called `name`; `only_read` is that of `of_columns`."""
    if isinstance(data, str | os.PathLike):
        return os.fsdecode(data)
    if isinstance(data, _native.Table):
        return data
    if isinstance(data, Mapping):
        return of_columns(data, name, only_read=only_read)
    if hasattr(data, "__arrow_c_stream__") and type(data).__name__ != "Series":  # which has a stream too, but no named columns
        try:
            return _native.Table.from_arrow(name, data)
        except Exception:  # pandas without pyarrow, or a column of objects that pyarrow refuses with a message that quotes them
            if not hasattr(data, "columns") or not hasattr(data.columns, "is_unique"):
                raise
        if not data.columns.is_unique:
            raise BadInput(f"{name}: several columns have the same name")
        return of_columns({str(column): data[column] for column in data.columns}, name, only_read=only_read)
    if hasattr(data, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return _native.Table.from_arrow(name, from_dataframe(data))
    raise BadInput(
        f"{name}: expected a table with `__arrow_c_stream__` (polars, pandas, pyarrow, duckdb), a mapping of names to "
        f"arrays or the name of a file; found {type(data).__name__}{_HINTS.get(type(data).__name__, '')}"
    )


_HINTS = {"LazyFrame": ": call its `collect()`", "Series": ": a table has named columns, as `series.to_frame()` has"}


_READ = "text, whole numbers, floating-point numbers or booleans"
_NOT_READ = " (of a type that is not read)"
"""Added to the names of such columns, so that a table may have them as long as nothing uses them."""


def of_columns(columns: Mapping[str, Any], name: str, *, only_read: bool = False) -> _native.Table:
    """A table of arrays by name, copied once; with `only_read` it has no columns of types that are not read."""
    typed = [(key, *_values(values)) for key, values in columns.items()]
    return _native.Table.from_columns(
        name,
        [
            (key + _NOT_READ, "str", content) if kind == "other" else (key, kind, content)
            for key, kind, content in typed
            if kind != "other" or not only_read
        ],
    )


def _values(values: Any) -> tuple[str, Any]:
    """Type and content of a column."""
    array = np.asarray(values)
    is_numpys = isinstance(getattr(values, "dtype", array.dtype), np.dtype)
    if array.dtype.kind in "mM" or array.ndim != 1:  # as objects, times could be whole numbers
        return _other(len(values))
    if array.dtype.kind == "b":
        return "b1", array.tobytes()
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return "i8", array.astype(np.int64).tobytes()
    if array.dtype.kind == "f" and is_numpys:  # those of pandas and polars may be whole numbers with missing values
        return "f8", array.astype(np.float64).tobytes()
    return _objects(array.tolist() if is_numpys else values)


def _objects(values: Iterable[Any]) -> tuple[str, Any]:
    found = [None if is_missing(value) else value for value in values]
    present = [value for value in found if value is not None]
    if all(map(_is_id, present)):
        return "str", ["" if value is None else str(value) for value in found]
    if all(isinstance(value, numbers.Real) for value in present):
        return "f8", np.array([np.nan if value is None else value for value in found], dtype=np.float64).tobytes()
    return _other(len(found))


def _other(n_rows: int) -> tuple[str, Any]:
    """A column of a type that is not read: its content is not even a number."""
    return "other", ["?"] * n_rows


def is_missing(value: object) -> bool:
    """Whether this is one of the missing values of Python, numpy and pandas."""
    is_nan = isinstance(value, float) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}


def _is_id(value: object) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


_IDS = (
    "ids are text or whole numbers. pandas and numpy store whole numbers with missing values as floating-point numbers: leave "
    "out what has no id, and convert the rest with `astype('int64')`"
)


def ids(values: Any, name: str) -> list[str]:
    """Ids as text, of which text or a whole number is one; `name` is what they are called in errors."""
    if not isinstance(values, Iterable) and not _is_id(values):
        raise BadInput(f"{name}: expected ids, found {type(values).__name__}")
    found = [values] if _is_id(values) else list(values)
    if not all(map(_is_id, found)):
        raise BadInput(f"{name}: {_IDS}")
    return [str(value) for value in found]


def id_column(values: Any, name: str) -> Array:
    """An array of ids, one for each row; empty text where one is missing."""
    kind, content = _values(values)
    if kind not in ("i8", "str"):
        raise BadInput(f"{name}: {_IDS}")
    return np.asarray(values) if kind == "i8" else np.array(content, dtype=object)


@contextlib.contextmanager
def naming_columns(table: str | _native.Table, name: str) -> Iterator[None]:
    """Add the names of columns to errors of the compiled part about the table called `name`, and what to do."""
    try:
        yield
    except BadInput as error:
        if isinstance(table, _native.Table) and error.source == name:
            error.args = (_with_column(error, name, table.column_names()), *error.args[1:])
        role = str(error).partition(" column not found")[0].rpartition(" ")[2]
        if role in ("user", "item", "rating", "target"):
            error.args = (f"{error}\nhint: if it has another name, give it as `{role}`", *error.args[1:])
        raise


@contextlib.contextmanager
def naming_settings(names: Mapping[str, str]) -> Iterator[None]:
    """Give settings in errors the names that they have here."""
    try:
        yield
    except DpError as error:
        for setting, name in names.items():
            error.args = tuple(text.replace(f"`{setting}`", f"`{name}`") for text in error.args)
        if isinstance(error, BadSetting) and error.setting is not None:
            error.setting = names.get(error.setting, error.setting)
        raise


def _with_column(error: BadInput, table: str, names: list[str]) -> str:
    text = str(error)
    if error.column is None:
        sought = text.partition("looked for ")[2].partition(";")[0].casefold().split(", ")
        unread = {name.removesuffix(_NOT_READ).casefold(): at for at, name in enumerate(names, 1) if name.endswith(_NOT_READ)}
        error.column = next((unread[name] for name in sought if name in unread), None)
        if error.column is None:
            return text
    name = names[error.column - 1]
    column = f"{table}: column {name.removesuffix(_NOT_READ)!r}"
    if name.endswith(_NOT_READ) or text.endswith("floating point numbers or booleans"):
        return f"{column} has a type that is not read, such as dates or lists: convert it to {_READ}"
    if "column of text or whole numbers" in text:
        return f"{column} holds floating-point numbers or booleans, but {_IDS}"
    return f"{text} (column {name!r})"


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
        return of_columns({item: ids(history, "history"), rating: list(history.values())}, "history")
    if isinstance(history, list | tuple | set):
        return of_columns({item: ids(history, "history")}, "history")
    return source(history, "history")


@contextlib.contextmanager
def public_files(given: Iterable[tuple[str, Any, Sequence[str]]]) -> Iterator[dict[str, str]]:
    """Files that workflows read for public tables in memory, by name; errors name the tables.

    `given` are names, tables or names of files, and the columns of plain lists.
    """
    with tempfile.TemporaryDirectory(prefix="dp-personal-") as folder:
        files = {}
        for name, value, columns in given:
            if value is None or isinstance(value, str | os.PathLike):
                continue
            path = Path(folder) / f"{name}.csv"
            path.write_bytes(to_csv(value, columns, name))
            files[name] = os.fspath(path)
        try:
            yield files
        except DpError as error:
            error.args = tuple(renamed(text, files) for text in error.args)
            if isinstance(error, BadInput) and error.source is not None:
                error.source = renamed(error.source, files)
            raise


def renamed(text: str, files: dict[str, str]) -> str:
    """Replace the file names that stand for tables in memory with their names."""
    for name, path in files.items():
        text = text.replace(path, name)
    return text


def to_csv(data: Any, columns: Sequence[str], name: str) -> bytes:
    """A public table as the bytes of a csv file; a list, array or series becomes one column with the first name."""
    if isinstance(data, list | tuple | set) or getattr(data, "ndim", len(getattr(data, "shape", ()))) == 1:
        data = {columns[0]: ids(data, name)}
    return cast(_native.Table, source(data, name, only_read=True)).to_csv()
