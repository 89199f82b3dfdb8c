"""Features and labels as scikit-learn passes them, checked with its error messages but without requiring it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ._numpy import Array, np
from .errors import BadInput

__all__: list[str] = []


class SparseInput(BadInput, TypeError):
    """A sparse matrix was given where a dense one is needed."""


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
        raise SparseInput("Sparse data was passed for X, but dense data is required: use X.toarray()")
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise BadInput("Complex data not supported")
    if array.ndim != 2:  # noqa: PLR2004
        raise BadInput(f"Expected 2D array, got {array.ndim}D array instead. Reshape your data with array.reshape(-1, 1)")
    n_rows, n_columns = array.shape
    if n_rows == 0:
        raise BadInput(f"Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    if n_columns == 0:
        raise BadInput(f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    if expected is not None and n_columns != expected:
        raise BadInput(f"X has {n_columns} features, but {model} is expecting {expected} features as input")
    return array.astype(np.float64)


def labels(y: Any, n_rows: int) -> Array:
    """One label for each row."""
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:  # noqa: PLR2004
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ).",
            _conversion_warning(),
            stacklevel=4,
        )
        array = array.ravel()
    if array.ndim != 1:
        raise BadInput(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    if array.dtype.kind == "c":
        raise BadInput("Complex data not supported")
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
