"""Linear models of many users, from arrays and from tables."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dp_personal as dp

N_USERS, N_ROWS, N_FEATURES = 200, 20, 4
RANGES: dict[str, Any] = {"feature_range": (-1.0, 1.0)}


def rows(seed: int = 0) -> tuple[Any, Any, Any]:
    """Users whose coefficients lie along one direction, in -1 to 1."""
    rng = np.random.default_rng(seed)
    direction = np.array([1.0, -1.0, 0.5, 0.0])
    users = np.repeat(np.arange(N_USERS), N_ROWS)
    X = rng.uniform(-1, 1, (N_USERS * N_ROWS, N_FEATURES))
    strength = rng.normal(size=N_USERS)[users]
    y = np.clip(0.3 * strength * (X @ direction) + 0.02 * rng.normal(size=len(X)), -1, 1)
    return X, y, users


ESTIMATORS: list[Any] = [
    lambda: dp.PrivatePersonalRegressor(epsilon=20.0, ledger=dp.NO_LEDGER, target_range=(-1.0, 1.0), **RANGES),
    lambda: dp.PrivatePersonalClassifier(epsilon=20.0, ledger=dp.NO_LEDGER, **RANGES),
    lambda: dp.PrivateFederatedRegressor(
        epsilon=20.0, ledger=dp.NO_LEDGER, n_rounds=5, alpha_grid=[1.0], target_range=(-1.0, 1.0), **RANGES
    ),
    lambda: dp.PrivateFederatedClassifier(epsilon=20.0, ledger=dp.NO_LEDGER, n_rounds=5, alpha_grid=[1.0], **RANGES),
]


def labels_for(model: Any, y: Any) -> Any:
    return (y > 0).astype(int) if isinstance(model, dp.PrivatePersonalClassifier | dp.PrivateFederatedClassifier) else y


@pytest.mark.parametrize("make", ESTIMATORS)
def test_every_estimator_plans_fits_personalizes_and_pickles(tmp_path: Path, make: Any) -> None:
    X, y, users = rows()
    model = make()
    y = labels_for(model, y)
    plan = model.plan()
    assert plan.epsilon <= 20.0
    model.fit(X, y, groups=users)
    model.certificate_.verify()
    assert model.certificate_.epsilon <= 20.0
    assert model.n_features_in_ == N_FEATURES
    assert not model.shared_.flags.writeable
    mine = users == 0
    me = model.personalize(X[mine][:15], y[mine][:15])
    assert me.n_rows == 15
    assert len(me.coef_) == len(model.features_)
    own = me.predict(X[mine][15:])
    of_all = model.predict(X[mine][15:], groups=users[mine][15:], history=(X[mine][:15], y[mine][:15], users[mine][:15]))
    assert np.array_equal(own, of_all)
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(me)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X))
    model.save(tmp_path / "model")
    loaded = dp.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.get_params()["epsilon"] == 20.0
    assert np.array_equal(loaded.personalize(X[mine], y[mine]).coef_, model.personalize(X[mine], y[mine]).coef_)


def test_own_models_beat_what_knows_nobody() -> None:
    X, y, users = rows()
    model = ESTIMATORS[0]().fit(X, y, groups=users)
    X, y, users = rows(1)
    first = np.tile(np.arange(N_ROWS) < 6, N_USERS)
    history = (X[first], y[first], users[first])
    own = model.score(X[~first], y[~first], groups=users[~first], history=history)
    assert own > 0.6
    assert own > model.score(X[~first], y[~first]) + 0.5


def test_classes_are_those_of_the_parameter() -> None:
    X, y, users = rows()
    named = np.where(y > 0, "yes", "no")
    model = dp.PrivatePersonalClassifier(epsilon=20.0, ledger=dp.NO_LEDGER, classes=("no", "yes"), **RANGES)
    model.fit(X, named, groups=users)
    mine = users == 3
    me = model.personalize(X[mine], named[mine])
    assert set(me.predict(X)) <= {"no", "yes"}
    probabilities = me.predict_proba(X)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(me.predict(X) == "yes", probabilities[:, 1] > 0.5)
    model.set_params(class_weight="balanced")
    shift = np.log(np.sum(named[mine] == "no") / np.sum(named[mine] == "yes"))
    odds = [np.log(p[:, 1] / p[:, 0]) for p in (probabilities, model.personalize(X[mine], named[mine]).predict_proba(X))]
    assert shift != 0.0
    assert np.allclose(odds[1] - odds[0], shift)
    with pytest.raises(dp.BadSetting, match="class_weight"):
        model.set_params(class_weight="even").personalize(X[mine], named[mine])
    weighed = model.set_params(class_weight={"yes": 3.0}).personalize(X[mine], named[mine]).predict_proba(X)
    assert np.allclose(np.log(weighed[:, 1] / weighed[:, 0]) - odds[0], np.log(3.0))
    model.set_params(class_weight=None)
    named[7] = "secret"
    with pytest.raises(dp.BadInput, match="row 8") as raised:
        model.fit(X, named, groups=users)
    assert "secret" not in str(raised.value)


def test_a_table_gives_the_model_of_the_arrays(tmp_path: Path) -> None:
    X, y, users = rows()
    frame = pl.DataFrame({"who": users, **{f"x{at}": X[:, at] for at in range(N_FEATURES)}, "value": y})
    frame.write_csv(tmp_path / "rows.csv")
    params: dict[str, Any] = {"target_range": (-1.0, 1.0), "user": "who", "target": "value", "insecure_seed": 4, **RANGES}
    model = dp.PrivatePersonalRegressor(ledger=dp.NO_LEDGER, **params)
    with pytest.warns(dp.PrivacyWarning):
        of_arrays = model.fit(X, y, groups=users).shared_
    for table in (frame, frame.to_pandas(), tmp_path / "rows.csv"):
        with pytest.warns(dp.PrivacyWarning):
            assert np.array_equal(model.fit(table).shared_, of_arrays)
    me = model.personalize(frame.filter(pl.col("who") == 0))
    assert me.n_rows == N_ROWS
    assert me.predict(frame).shape == (len(frame),)
    bounds = {**{f"x{at}": (-1.0, 1.0) for at in range(N_FEATURES)}, "value": (-1.0, 1.0)}
    other = dp.PrivatePersonalRegressor(ledger=dp.NO_LEDGER, user="who", target="value", insecure_seed=4, bounds=bounds)
    with pytest.warns(dp.PrivacyWarning):
        assert np.array_equal(other.fit(frame).shared_, of_arrays)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_one_users_table_with_a_user_column_predicts_as_arrays_do(tmp_path: Path, make: Any) -> None:
    X, y, users = rows()
    model = make()
    y = labels_for(model, y)
    model.fit(X, y, groups=users)
    mine = users == 0
    expected = model.personalize(X[mine], y[mine]).predict(X)
    frame = pd.DataFrame({"user": users.astype(str), **{f"x{at}": X[:, at] for at in range(N_FEATURES)}, "target": y})
    frame[mine].to_csv(tmp_path / "mine.csv", index=False)
    for table in (frame[mine], tmp_path / "mine.csv"):
        me = model.personalize(table)
        assert np.array_equal(me.predict(X), expected)
        # of rows that name users, too: they are predicted as this user's
        assert np.allclose(me.predict(frame.drop(columns="target")), expected)
    with pytest.raises(dp.DpError, match="200 users; expected those of one"):
        model.personalize(frame)


def test_without_groups_rows_are_users_and_the_certificate_says_so() -> None:
    X, y, _ = rows()
    model = ESTIMATORS[0]()
    with pytest.warns(dp.PrivacyWarning, match="every row is a user of its own") as warned:
        model.fit(X[:300], y[:300])
    assert warned[0].filename == __file__
    assert "shares a value of the column `row`" in model.certificate_.to_json()


@pytest.mark.parametrize("history", [pd.DataFrame({"user": [1]}), (np.zeros((1, 4)), [0.0])])
def test_a_history_is_three_things(history: Any) -> None:
    X, y, users = rows()
    model = ESTIMATORS[0]().fit(X, y, groups=users)
    with pytest.raises(dp.BadInput, match=r"\(X, y, groups\)"):
        model.predict(X, history=history)


@pytest.mark.parametrize(
    ("command", "kind", "params"),
    [
        ("personalize", dp.PrivatePersonalRegressor, {"rank": 2}),
        ("personalize", dp.PrivatePersonalClassifier, {"threshold": 0.1}),
        ("federate", dp.PrivateFederatedRegressor, {"n_rounds": 3, "alpha_grid": [1.0, math.inf]}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_same_file_and_seed_give_the_model_of_dp_bit_for_bit(
    tmp_path: Path, command: str, kind: Any, params: dict[str, Any]
) -> None:
    dp_binary = os.environ.get("DP_BINARY")
    if dp_binary is None:
        pytest.skip("set DP_BINARY to the command line `dp`")
    X, y, users = rows()
    frame = pl.DataFrame({"user": users, **{f"x{at}": X[:, at] for at in range(N_FEATURES)}, "target": y})
    frame.write_csv(tmp_path / "rows.csv")
    model = kind(epsilon=2.0, ledger=dp.NO_LEDGER, insecure_seed=9, **RANGES, **params).fit(tmp_path / "rows.csv")
    flags = [
        f"--{name.replace('n_rounds', 'rounds').replace('_', '-')}={','.join(map(str, np.atleast_1d(value)))}"
        for name, value in {**RANGES, **params}.items()
    ]
    if kind is dp.PrivatePersonalClassifier:
        flags.append("--task=classification")
    flags += ["--no-ledger", "--epsilon=2", "--delta=1e-5", "--insecure-seed=9", f"--out={tmp_path / 'cli'}"]
    flags += ["--rank=1"] if command == "personalize" and "rank" not in params else []
    subprocess.run([dp_binary, command, tmp_path / "rows.csv", *flags], check=True, capture_output=True)
    name = "subspace.safetensors" if command == "personalize" else "shared.safetensors"
    model.save(tmp_path / "py")
    assert (tmp_path / "py" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()
    loaded = dp.load(tmp_path / "cli")
    assert type(loaded) is kind
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_names_of_columns_stay_with_the_model() -> None:
    X, y, users = rows()
    frame = pl.DataFrame({name: X[:, at] for at, name in enumerate("abcd")})
    model = ESTIMATORS[0]().fit(frame, y, groups=users)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    assert np.array_equal(model.predict(frame), model.predict(X))
    with pytest.raises(dp.BadInput, match="called 'user'"):
        model.fit(frame.rename({"a": "user"}), y, groups=users)
    with pytest.raises(dp.BadInput, match="inconsistent"):
        model.fit(X, y, groups=users[:-1])


def test_federated_ratings_of_public_items(ratings: dict[str, Any]) -> None:
    items = pl.DataFrame({"item": range(12), "genres": ["drama|war", "comedy"] * 6, "year": [1990 + at for at in range(12)]})
    model = dp.PrivateFederatedRegressor(
        epsilon=5.0, ledger=dp.NO_LEDGER, catalogue=items, target="stars", target_range=(1.0, 5.0), n_rounds=3, alpha_grid=[1.0]
    )
    model.fit(ratings)
    assert "drama" in " ".join(model.features_)


def test_values_that_are_no_numbers_are_named_by_place() -> None:
    X, y, groups = rows()
    model = ESTIMATORS[0]()

    def refused(X: Any, y: Any, said: str, groups: Any = groups) -> dp.BadInput:
        with pytest.raises(dp.BadInput) as raised:
            model.fit(X, y, groups=groups)
        assert str(raised.value).startswith(said)
        assert "secret" not in str(raised.value)
        return raised.value

    wrong = X.astype(object)
    wrong[4, 2] = "secret"
    error = refused(wrong, y, "X: row 5 of column 3 (X[4, 2]) is not a number")
    assert (error.source, error.line, error.column) == ("X", 5, 3)
    names = ["age", "height", "weight", "size"]
    refused(pd.DataFrame(wrong, columns=names), y, "X: row 5 of column 'weight' is not a number")
    refused(pl.DataFrame(X, schema=names).with_columns(size=pl.lit("secret")), y, "X: row 1 of column 'size' is not a number")
    times = pd.DataFrame(X, columns=names).assign(age=pd.Timestamp("2026-01-01"))
    refused(times, y, "X: row 1 of column 'age' is not a number")
    refused(times[["age"]], y, "X: row 1 of column 'age' is not a number")
    refused(X, ["secret"] * len(X), "y: row 1 is not a number")
    for users in (groups.astype(np.float64), np.datetime64("2026-01-01", "us") + groups):
        refused(X, y, "groups: ids are text or whole numbers", users)


def test_missing_values_of_pandas_are_missing() -> None:
    X, y, groups = rows()
    names = list("abcd")
    holes = pd.DataFrame(X, columns=names).astype("Float64")
    holes.iloc[3, 1] = pd.NA
    gaps = pd.Series(y).astype("Float64")
    gaps[5] = pd.NA
    expected = X.copy(), y.copy()
    expected[0][3, 1] = expected[1][5] = np.nan
    model = ESTIMATORS[0]().set_params(insecure_seed=1, no_split=True)
    users = pd.Series(groups).astype("Int64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.PrivacyWarning)
        shared = model.fit(*expected, groups=groups).shared_
        assert np.array_equal(model.fit(holes, gaps, groups=users).shared_, shared)
    assert np.isnan(model.predict(holes[:5])).tolist() == [False, False, False, True, False]
    users[4] = pd.NA
    with pytest.raises(dp.BadInput, match=r"^rows:5:1: expected an id for the user; the field is empty"):
        model.fit(X, y, groups=users)


def test_renamed_columns_are_not_matched_by_position() -> None:
    X, y, groups = rows()
    names = list("abcd")
    model = ESTIMATORS[0]().fit(pl.DataFrame(X, schema=names), y, groups=groups)
    assert list(model.feature_names_in_) == names
    me = model.personalize(X[:20], y[:20])
    for kind in (pl.DataFrame, pd.DataFrame):
        renamed = kind(dict(zip(["a", "B", "c", "D"], X.T, strict=True)))
        for call in (
            model.predict,
            me.predict,
            lambda X: model.predict(X, groups=groups),
            lambda X: model.score(X, y),
            lambda X: model.personalize(X, y),
            lambda X: model.predict(X, groups=groups, history=(X, y, groups)),
        ):
            with pytest.raises(dp.BadInput, match=r"should match those that were passed during fit.*now missing: b, d$"):
                call(renamed)
    assert np.array_equal(model.predict(X), model.predict(pd.DataFrame(X, columns=names)))  # arrays have no names
    of_arrays = ESTIMATORS[0]().fit(X, y, groups=groups)
    assert np.array_equal(of_arrays.predict(X), of_arrays.predict(pd.DataFrame(X, columns=names)))


def test_columns_are_matched_by_name() -> None:
    X, y, groups = rows()
    names = [f"x{at}" for at in range(N_FEATURES)]
    frame = pl.DataFrame(X, schema=names)
    model = ESTIMATORS[0]().fit(frame, y, groups=groups)
    first = frame[:30], y[:30], groups[:30]
    expected = model.predict(frame[:5], groups=groups[:5], history=first)
    turned = frame.select(names[::-1])
    history = turned[:30], y[:30], groups[:30]
    assert np.array_equal(model.predict(turned[:5], groups=groups[:5], history=history), expected)
    assert np.array_equal(model.personalize(turned[:20], y[:20]).coef_, model.personalize(X[:20], y[:20]).coef_)


def test_a_ledger_pays_for_people_and_not_for_rows(tmp_path: Path) -> None:
    X, y, users = rows()
    ledger = dp.Ledger.create(tmp_path / "rows.ledger", epsilon=40.0, delta=1e-5)
    model = ESTIMATORS[0]().set_params(ledger=ledger)
    with pytest.raises(dp.BadSetting, match=r'`groups` is None, and a ledger is charged for people.*groups="rows"'):
        model.fit(X[:200], y[:200])
    with pytest.raises(dp.BadSetting, match="groups = 'people': expected the user of each row"):
        model.fit(X[:200], y[:200], groups="people")
    assert ledger.as_dict()["n_releases"] == 0
    model.set_params(epsilon=2.0).fit(X[:200], y[:200], groups="rows")
    # people whose ids are the numbers of these rows are other people
    with pytest.raises(dp.LedgerError, match="users match") as raised:
        model.fit(X[:200], y[:200], groups=np.arange(200))
    assert "`same_data_set=True`" in str(raised.value)
    frame = pl.DataFrame({"user": users, **{f"x{at}": X[:, at] for at in range(N_FEATURES)}, "target": y})
    with pytest.raises(dp.BadInput, match="groups goes with y"):
        model.fit(frame, groups=users)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_predictions_know_whose_rows_they_are_or_say_that_they_do_not(make: Any) -> None:
    X, y, users = rows()
    model = make()
    y = labels_for(model, y)
    model.fit(X, y, groups=users)
    history = (X, y, users)
    for call in (
        lambda: model.predict(X, history=history),
        lambda: model.score(X, y, history=history),
        lambda: model.predict(X, groups="rows", history=history),
    ):
        with pytest.raises(dp.DpError, match="the user of each row"):
            call()
    mine = users == 0
    own = model.predict(X, history=(X[mine], y[mine], users[mine]))
    assert np.array_equal(own, model.predict(X, history=(X[mine], y[mine], None)))
    assert np.array_equal(own, model.personalize(X[mine], y[mine]).predict(X))
    with pytest.warns(dp.DpWarning, match="rows: 1 of 2 users have no rows in the history") as warned:
        model.predict(X[:40], groups=users[:40], history=(X[mine], y[mine], users[mine]))
    assert warned[0].filename == __file__
    with pytest.warns(dp.DpWarning, match="without `history` rows are predicted as those of an unknown user") as warned:
        of_groups = model.predict(X, groups=users)
    assert warned[0].filename == __file__
    assert np.array_equal(of_groups, model.predict(X))


def test_one_epsilon_is_meant() -> None:
    X, y, users = rows()
    for make in ESTIMATORS:
        for setting in ({"epsilon": [0.5, 1.0]}, {"delta": (1e-5,)}):
            model = make().set_params(**setting)
            for call in (model.plan, lambda model=model: model.fit(X, labels_for(model, y), groups=users)):
                with pytest.raises(dp.BadSetting, match="expected one number") as raised:
                    call()
                assert raised.value.setting == next(iter(setting))
    with pytest.raises(dp.BadSetting, match="`rank`: takes one value"):
        ESTIMATORS[0]().set_params(rank=[1, 2]).plan()


def test_settings_that_exclude_each_other_are_refused_as_on_the_command_line() -> None:
    X, y, users = rows()
    personal, federated = ESTIMATORS[0](), ESTIMATORS[2]()

    def refused(model: Any, text: str, **params: Any) -> None:
        model.set_params(**params)
        for call in (model.plan, lambda: model.fit(X, y, groups=users)):
            with pytest.raises(dp.BadSetting, match=text):
                call()
        model.set_params(**dict.fromkeys(params))

    refused(personal, "`release_metrics`: cannot be used with `no_split`", release_metrics=0.1, no_split=True)
    for held_out in ({"test_share": 0.1}, {"held_out_users": 0.1}, {"split_seed": 1}):
        refused(personal, "`no_split`: cannot be used with", **held_out, no_split=True)
    refused(federated, "`no_split`: cannot be used with `test_share`", test_share=0.1, no_split=True)
    refused(federated, "`metric_bound`: needs `release_metrics`", metric_bound=1.0)
