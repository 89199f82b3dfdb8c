"""scikit-learn's own checks, and what its tools do with estimators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import dp_personal as dp

LEFT_OUT = "rows without a finite number are left out: an error would say of private records that there are some"
CLASSES = "labels are those of the parameter `classes`, 0 and 1: classes found in private labels would be published"
REGRESSOR = {"check_supervised_y_no_nan": LEFT_OUT}
CLASSIFIER = {
    "check_classifier_data_not_an_array": CLASSES,
    "check_classifiers_classes": CLASSES,
    "check_classifiers_one_label": CLASSES,
    "check_estimators_dtypes": CLASSES,
    "check_fit2d_1feature": CLASSES,
}

FEW: dict[str, Any] = {"n_rounds": 2, "alpha_grid": [1.0]}
SEEDED: dict[str, Any] = {"ledger": dp.NO_LEDGER, "insecure_seed": 0}
CHECKED: list[tuple[Any, dict[str, str]]] = [
    (dp.PrivatePersonalRegressor(**SEEDED), REGRESSOR),
    (dp.PrivatePersonalClassifier(**SEEDED), CLASSIFIER),
    (dp.PrivateFederatedRegressor(**SEEDED, **FEW), REGRESSOR),
    (dp.PrivateFederatedClassifier(**SEEDED, **FEW), CLASSIFIER),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "expected"), CHECKED, ids=lambda of: type(of).__name__)
def test_checks_of_scikit_learn(estimator: Any, expected: dict[str, str]) -> None:
    results = check_estimator(estimator, on_fail=None, expected_failed_checks=expected)
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) >= 44


ALL = [
    dp.PrivateRecommender,
    dp.PrivatePopularity,
    dp.PrivatePersonalRegressor,
    dp.PrivatePersonalClassifier,
    dp.PrivateFederatedRegressor,
    dp.PrivateFederatedClassifier,
]


@pytest.mark.parametrize("kind", ALL)
def test_parameters_are_copied_and_set(kind: Any) -> None:
    estimator = kind(epsilon=3.0, ledger=dp.NO_LEDGER)
    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()
    assert copy.ledger is dp.NO_LEDGER
    assert copy.set_params(epsilon=1.5).epsilon == 1.5
    assert estimator.epsilon == 3.0
    assert repr(estimator) == f"{kind.__name__}(epsilon=3.0, ledger=NO_LEDGER)"


def test_what_is_not_fitted_raises_the_error_of_scikit_learn() -> None:
    with pytest.raises(NotFittedError) as raised:
        dp.PrivatePersonalRegressor().predict(np.zeros((2, 2)))
    assert isinstance(raised.value, dp.NotFittedError)
    with pytest.raises(NotFittedError):
        dp.PrivateRecommender().personalize([])


@pytest.mark.filterwarnings("ignore")
def test_pipelines_and_searches_take_estimators() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 3)), rng.uniform(-1, 1, 300)
    model = dp.PrivatePersonalRegressor(**SEEDED)
    assert make_pipeline(StandardScaler(), model).fit(X, y).predict(X).shape == (300,)
    search = GridSearchCV(model, {"rank": [1, 2]}, cv=2).fit(pd.DataFrame(X, columns=list("abc")), y)
    assert search.best_params_["rank"] in (1, 2)


def test_groups_reach_fit_by_metadata_routing_and_else_a_ledger_pays_for_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y, users = rng.uniform(-1, 1, (400, 3)), rng.uniform(-1, 1, 400), np.repeat(np.arange(40), 10)
    ledger = dp.Ledger.create(tmp_path / "rows.ledger", epsilon=50.0, delta=1e-4)
    model = dp.PrivatePersonalRegressor(ledger=ledger, feature_range=(-1, 1), target_range=(-1, 1))
    with pytest.raises(dp.BadSetting, match="set_fit_request"):
        cross_val_score(model, X, y, groups=users, cv=GroupKFold(2), error_score="raise")
    assert ledger.as_dict()["n_releases"] == 0
    with config_context(enable_metadata_routing=True):
        asked = clone(model.set_fit_request(groups=True))
        search = GridSearchCV(asked, {"rank": [1, 2]}, cv=GroupKFold(4), error_score="raise").fit(X, y, groups=users)
    # two candidates on four folds, and the best on all rows
    assert len(ledger.as_dict()["runs"]) == 9
    assert "shares a value of the column `user`" in search.best_estimator_.certificate_.to_json()
    pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, privatepersonalregressor__groups=users)
    assert "shares a value of the column `user`" in pipeline[-1].certificate_.to_json()


def test_estimators_need_no_scikit_learn() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
import numpy as np, dp_personal as dp
X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
model = dp.PrivatePersonalRegressor(ledger=dp.NO_LEDGER).fit(X, X[:, 0])
assert model.predict(X).shape == (100,)
try:
    dp.PrivateRecommender().personalize([])
except dp.NotFittedError as error:
    assert "fit" in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
