"""Private recommendations from start to end on generated ratings: `python python/examples/recommend.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import dp_personal as dp


def made_up_ratings(n_users: int = 3000, n_items: int = 200) -> dict[str, np.ndarray]:
    """Ratings of 1 to 5 by two kinds of users; any table of polars, pandas, pyarrow or duckdb works as well."""
    rng = np.random.default_rng(1)
    tastes, items = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.2)
    stars = 3 + (tastes[user] * items[item]).sum(axis=1) + 0.5 * rng.normal(size=len(user))
    return {"user_id": user, "item": item, "stars": np.clip(np.round(2 * stars) / 2, 1, 5)}


def main() -> None:
    """Plan, train, check, and recommend items to a user who was not in training."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.Ledger.create(Path(folder) / "ratings.ledger", epsilon=4.0, delta=1e-5)
        model = dp.PrivateRecommender(
            epsilon=2.0, delta=1e-5, ledger=ledger, rating="stars", catalogue=[str(item) for item in range(200)]
        )
        print(model.plan())
        model.fit(made_up_ratings(), progress=True)
        model.certificate_.verify()
        print(f"\n{model.certificate_}, factors of shape {model.item_factors_.shape}")
        print(f"\n{ledger.show()}")
        me = model.personalize({0: 5.0, 1: 1.0, 2: 4.5, 3: 2.0})
        for best in me.recommend(k=5):
            print(f"item {best.item:>3}  {best.score:.2f} stars")


if __name__ == "__main__":
    main()
