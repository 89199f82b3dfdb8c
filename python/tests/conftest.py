"""Small data that every test can train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_personal as dp

N_USERS, N_ITEMS = 60, 12


def columns(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Ratings of users in taste groups, as columns with integer ids."""
    rng = np.random.default_rng(seed)
    tastes, items = rng.normal(size=N_USERS), rng.normal(size=N_ITEMS)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.6)
    rating = np.clip(np.round(3 + 2 * tastes[user] * items[item]), 1, 5)
    return {"user_id": user, "item": item, "stars": rating.astype(np.float64)}


@pytest.fixture
def ratings() -> dict[str, np.ndarray[Any, Any]]:
    return columns()


@pytest.fixture
def ratings_csv(tmp_path: Path, ratings: dict[str, np.ndarray[Any, Any]]) -> Path:
    path = tmp_path / "ratings.csv"
    rows = zip(ratings["user_id"], ratings["item"], ratings["stars"], strict=True)
    path.write_text("user_id,item,stars\n" + "".join(f"{u},{i},{r:g}\n" for u, i, r in rows))
    return path


@pytest.fixture
def recommender() -> dp.PrivateRecommender:
    return dp.PrivateRecommender(
        epsilon=2.0,
        delta=1e-5,
        ledger=dp.NO_LEDGER,
        rating="stars",
        item_ids_are_public=True,
        n_rounds=2,
    )
