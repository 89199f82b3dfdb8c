"""Models that were saved, by this package or by `dp`."""

from __future__ import annotations

import os
from pathlib import Path

from ._estimator import Estimator
from ._json import loads
from .errors import BadInput
from .recommender import PrivatePopularity, PrivateRecommender


def load(path: str | os.PathLike[str]) -> Estimator:
    """The fitted estimator of a folder that `save` or `dp` wrote. Its `ledger` is None."""
    folder = Path(path)
    if (folder / "item_factors.safetensors").exists():
        return (PrivatePopularity if _setting(folder, "method") == "popularity" else PrivateRecommender)._of_folder(folder)
    raise BadInput(f"{folder} holds no model that `dp` or `save` wrote")


def _setting(folder: Path, name: str) -> object:
    report = folder / "report.json"
    run = loads(report.read_text()).get("run") if report.exists() else None
    return (run or {}).get("given", {}).get(name)
