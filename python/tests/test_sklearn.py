"""scikit-learn's own checks, and what its tools do with estimators."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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
