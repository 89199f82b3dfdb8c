"""The server: ledger, noise, and no users."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import dp_personal as dp
from dp_personal import devices, flower

app = ServerApp()


def recommender(catalogue: str, **more: object) -> dp.PrivateRecommender:
    """Item factors, from the silos' ratings."""
    return dp.PrivateRecommender(dim=2, catalogue=catalogue, user="user", item="item", rating="rating", **more)


def subspace(catalogue: str, **more: object) -> dp.PrivatePersonalRegressor:  # noqa: ARG001
    """A subspace that personal linear models share, from the silos' rows."""
    ranges = {"feature_range": (-1.0, 1.0), "target_range": (-3.0, 3.0)}
    return dp.PrivatePersonalRegressor(rank=1, user="user", target="y", **ranges, **more)


def federated(catalogue: str, **more: object) -> dp.PrivateFederatedRegressor:  # noqa: ARG001
    """Linear models that are partly shared and partly personal, learned in rounds."""
    ranges = {"feature_range": (-1.0, 1.0), "target_range": (-3.0, 3.0)}
    return dp.PrivateFederatedRegressor(alpha_grid=[0.5], n_rounds=3, user="user", target="y", **ranges, **more)


def on_devices(catalogue: str, **more: object) -> dp.PrivateFederatedRegressor:  # noqa: ARG001
    """The same on users' own devices, all of which are asked in each round."""
    ranges = {"feature_range": (-1.0, 1.0), "target_range": (-3.0, 3.0)}
    asked = {"sampling_probability": 1.0, "n_users": 500.0, "no_split": True}
    return dp.PrivateFederatedRegressor(alpha_grid=[0.5], n_rounds=2, user="user", target="y", **asked, **ranges, **more)


def items(catalogue: str, **more: object) -> devices.PrivateItemRegressor:
    """Item vectors, from one message of each device with its user's vector and examples."""
    return devices.PrivateItemRegressor(catalogue=catalogue, features=["kind"], dim=2, label_bound=1.0, max_examples=8, **more)


ROWS = ["user", "a", "b", "c", "y"]
MODELS = {
    "recommender": (recommender, ["user", "item", "rating"]),
    "subspace": (subspace, ROWS),
    "federated": (federated, ROWS),
    "devices": (on_devices, ROWS[1:]),
    "items": (items, []),
}


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train on all silos or devices, and save what was released."""
    config, out = context.run_config, str(context.run_config["out"])
    make, columns = MODELS[str(config["model"])]
    model = make(
        str(config["catalogue"]),
        epsilon=float(config["epsilon"]),
        ledger=dp.NO_LEDGER,  # for real data: the file of a ledger, and same_data_set=True below
        insecure_seed=None if int(config["seed"]) < 0 else int(config["seed"]),  # for tests only
    )

    def progress(done: int, total: int) -> None:
        Path(f"{out}.progress").write_text(f"{done} of {total}\n")

    n_devices, round_time = int(config["n-devices"]), float(config["round-time"])
    if config["model"] == "devices":
        devices.fit(grid, model, n_devices, columns=columns, round_time=round_time, progress=progress)
    elif config["model"] == "items":
        devices.fit_items(grid, model, n_devices, round_time=round_time, progress=progress)
    else:
        flower.fit(grid, model, int(config["n-silos"]), columns=columns, progress=progress)
    model.save(out)
