"""Item vectors learned by SSP-c from users' vectors and examples."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from . import _native, tables
from ._estimator import Estimator
from ._json import loads
from ._numpy import Array, Floats, np
from .plan import Plan

__all__ = ["PrivateItemRegressor"]


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateItemRegressor(Estimator):
    """Item vectors `v` that predict labels `<u, v>` from users' given vectors `u`; `dp_personal.devices.fit_items` learns them.

    SSP-c of Krichene et al. 2024: sums over users with noise, released once, for every item `j` in the public `catalogue`:

        A_j = sum w u u^T + noise,  b_j = sum w y u + noise,  w = 1 / sqrt(number of the user's examples)

    and from them, with the catalogue's columns `features`, a ridge regression that knows the noise (kernel
    `(1 - own_share) X X^T / mean + own_share I`). Neither users' vectors nor labels may have been made from other users'
    data, unless it was released. All settings are public and must not be chosen by looking at the data.
    """

    catalogue: Any = None
    """Public table of the items, each once, or its file: `item` and columns of features."""
    features: Sequence[str] | None = None
    """Columns of `catalogue`; all others if None, unless one has numbers only."""
    min_items: int | None = None
    """Values of features that fewer items share are left out; 2 if None."""
    dim: int | None = None
    """Length of the vectors, 1 to 256."""
    vector_norm: float = 1.0
    """Bound on the norm of a user's vector, 1e-6 to 1e6; devices shorten longer ones."""
    label_bound: float | None = None
    """Bound on the absolute value of labels, in their unit, 1e-6 to 1e6; devices clip larger ones."""
    max_examples: int | None = None
    """Examples that a device sends at most, 1 to 65536: with `dim` it sets the length of its message."""
    item_norm: float = 1.0
    """A guess of the norm of item vectors, 1e-6 to 1e6."""
    own_share: float = 0.1
    """Share of the variance of item vectors that features do not explain, from 0, below 1."""

    _command: ClassVar[str] = "items"
    _settings: ClassVar[dict[str, str]] = {**Estimator._settings, "catalogue": "items"}
    _public_tables: ClassVar[dict[str, tuple[str, ...]]] = {"catalogue": ("item",)}
    _not_settings: ClassVar[frozenset[str]] = Estimator._not_settings | {"user", "split_seed", "no_split"}

    def plan(self) -> Plan:
        """What `fit_items` will release and spend, and the noise multipliers that devices are told."""
        return self._plan(_native.items_plan, data="devices")

    def _load(self, folder: Path) -> None:
        super()._load(folder)
        content = self._files["item_vectors.safetensors"]
        start = 8 + int.from_bytes(content[:8], "little")
        tensors: dict[str, Any] = loads(content[8:start].decode())
        header = loads(tensors["__metadata__"]["dp_personal"])
        arrays: dict[str, Array] = {}
        for name in ("item_vectors", "matrices", "right_hand_sides", "standard_errors"):
            if name not in tensors:
                continue  # a model of an earlier version has no standard errors
            shape, offset = tensors[name]["shape"], start + tensors[name]["data_offsets"][0]
            arrays[name] = np.frombuffer(content, "<f8", math.prod(shape), offset).reshape(shape)
        self.item_vectors_: Floats = arrays["item_vectors"]
        """Released item vectors, a row for each of `items_`."""
        self.standard_errors_: Floats | None = arrays.get("standard_errors")
        """Standard errors of `item_vectors_`, from the noise and the prior; None for a model of an earlier version."""
        n_items, dim = self.item_vectors_.shape
        self.matrices_: Floats = arrays["matrices"].reshape(n_items, dim, dim)
        """Released noisy `A_j`; `noise_stddevs_[0]` is the standard deviation on a diagonal entry, `sqrt(2)` less elsewhere."""
        self.right_hand_sides_: Floats = arrays["right_hand_sides"]
        """Released noisy `b_j`, with noise of standard deviation `noise_stddevs_[1]`."""
        self.noise_stddevs_: tuple[float, float] = tuple(header["noise_stddevs"])
        self._vector_norm = float(header["vector_norm"])
        with (folder / "items.csv").open(newline="", encoding="utf-8") as file:
            self.items_: list[str] = [row["item"] for row in csv.DictReader(file)]

    def _learned(self) -> str:
        n_items, dim = self.item_vectors_.shape
        return f"{n_items} items, vectors of length {dim}"

    def predict(self, vector: Any, items: Any = None) -> Floats:
        """Scores of items, all if None, for a user's vector, shortened as in training: inner products. NaN for unknown items.

        Computed here from released values; a score is as private as the vector.
        """
        self._check_is_fitted()
        u = np.asarray(vector, dtype=float)
        norm = float(np.linalg.norm(u))
        scores = self.item_vectors_ @ (u * min(1.0, self._vector_norm / norm) if norm else u)
        if items is None:
            return scores
        by_item = dict(zip(self.items_, scores, strict=True))
        return np.array([by_item.get(item, math.nan) for item in tables.ids(items, "items")])
