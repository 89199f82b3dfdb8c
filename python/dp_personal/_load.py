"""Load models saved by this package or by `dp`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ._estimator import Estimator
from ._json import loads
from .errors import BadInput
from .items import PrivateItemRegressor
from .linear import (
    PrivateFederatedClassifier,
    PrivateFederatedRegressor,
    PrivatePersonalClassifier,
    PrivatePersonalRegressor,
)
from .recommender import PrivatePopularity, PrivateRecommender


def load(path: str | os.PathLike[str]) -> Estimator:
    """The fitted estimator of a folder written by `save` or `dp`. Its `ledger` is None."""
    folder = Path(path)
    given = _given(folder)
    is_classifier = given.get("task") == "classification"
    kinds: dict[str, type[Estimator]] = {
        "item_factors.safetensors": PrivatePopularity if given.get("method") == "popularity" else PrivateRecommender,
        "item_vectors.safetensors": PrivateItemRegressor,
        "subspace.safetensors": PrivatePersonalClassifier if is_classifier else PrivatePersonalRegressor,
        "shared.safetensors": PrivateFederatedClassifier if is_classifier else PrivateFederatedRegressor,
    }
    for name, kind in kinds.items():
        if (folder / name).exists():
            return kind._of_folder(folder)
    raise BadInput(f"{folder} holds no model that `dp` or `save` wrote")


def _given(folder: Path) -> dict[str, Any]:
    """The settings of a run as recorded in its report; models of earlier versions have none."""
    report = folder / "report.json"
    run = loads(report.read_text()).get("run") if report.exists() else None
    given: dict[str, Any] = (run or {}).get("given", {})
    return given
