"""Features and labels as scikit-learn passes them, checked with its error messages but without requiring it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from . import tables
from ._numpy import Array, np
from .errors import BadInput

__all__: list[str] = []


class WrongType(BadInput, TypeError):
    """Values of a type that cannot be used."""


def names_of(X: Any) -> list[str] | None:
    """Names of the columns, if they are strings."""
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    if columns is None or callable(columns):
        return None
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def features(X: Any, expected: int | None = None, model: str = "") -> Array:
    """A matrix of numbers with at least one row and one column."""
    if hasattr(X, "tocoo"):
        raise WrongType("Sparse data was passed for X, but dense data is required: use X.toarray()")
    array = _without_missing(np.asarray(X))
    if array.ndim != 2:  # noqa: PLR2004
        raise BadInput(f"Expected 2D array, got {array.ndim}D array instead. Reshape your data with array.reshape(-1, 1)")
    n_rows, n_columns = array.shape
    if n_rows == 0:
        raise BadInput(f"Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    if n_columns == 0:
        raise BadInput(f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    if expected is not None and n_columns != expected:
        raise BadInput(f"X has {n_columns} features, but {model} is expecting {expected} features as input")
    return numbers(array, "X", names_of(X))


def numbers(array: Array, name: str, columns: list[str] | None = None) -> Array:
    """Floating-point numbers, NaN where a value is missing; `name` is what the array is called in errors."""
    if array.dtype.kind == "c":
        raise BadInput("Complex data not supported")
    try:
        if array.dtype.kind not in "mM":  # a time would become a number of nanoseconds
            return array.astype(np.float64)
    except (TypeError, ValueError):  # their messages contain values
        pass
    raise _not_a_number(array, name, columns)


def _not_a_number(array: Array, name: str, columns: list[str] | None) -> WrongType:
    """The error for the first value that is not a number, with its place."""
    at = next((at for at, value in enumerate(array.flat) if not _is_number(value)), 0)
    row, column = divmod(at, array.size // len(array))
    place = f"{name}: row {row + 1}"
    if columns:
        place += f" of column {columns[column]!r}"
    elif array.ndim > 1:
        place += f" of column {column + 1} ({name}[{row}, {column}])"
    error = WrongType(f"{place} is not a number: every argument must be a number, or a string that contains a number")
    error.source, error.line, error.column = name, row + 1, column + 1
    return error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _without_missing(array: Array) -> Array:
    """The array, with NaN for missing values of pandas."""
    if array.dtype.kind != "O":
        return array
    is_missing = np.array([tables.is_missing(value) for value in array.flat], dtype=bool)
    return np.where(is_missing.reshape(array.shape), np.nan, array)


def labels(y: Any, n_rows: int) -> Array:
    """One label for each row."""
    array = _without_missing(np.asarray(y))
    if array.ndim == 2 and array.shape[1] == 1:  # noqa: PLR2004
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ).",
            _conversion_warning(),
            stacklevel=4,
        )
        array = array.ravel()
    if array.ndim != 1:
        raise BadInput(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    same_length("y", array, n_rows)
    return array


def same_length(name: str, values: Array, n_rows: int) -> None:
    """Refuse values that do not have one entry for each row."""
    if len(values) != n_rows:
        raise BadInput(f"Found input variables with inconsistent numbers of samples: X has {n_rows}, {name} {len(values)}")


def in_classes(y: Array, classes: Sequence[Any]) -> Array:
    """0 for the first class and 1 for the second."""
    negative, positive = classes
    is_positive = y == positive
    is_neither = ~(is_positive | (y == negative))
    if is_neither.any():
        error = BadInput(
            f"Unknown label type: row {int(np.argmax(is_neither)) + 1} of y is neither {negative!r} nor {positive!r}. Only "
            "binary classification is supported. `classes` says which two there are: labels found in the data would be published"
        )
        error.source, error.line = "y", int(np.argmax(is_neither)) + 1
        raise error
    return np.asarray(is_positive, dtype=np.float64)


def _conversion_warning() -> type[Warning]:
    import sys

    if "sklearn.exceptions" in sys.modules:
        theirs: type[Warning] = sys.modules["sklearn.exceptions"].DataConversionWarning
        return theirs
    return UserWarning
