"""Linear models of many users: the shared part is private, and each user's personal part is fitted locally."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from . import _arrays, _native, tables
from ._estimator import Estimator, Given, Listener, Progress
from ._numpy import Array, np
from .errors import BadInput, BadSetting, DpWarning, PrivacyWarning, bad_setting
from .plan import Plan

__all__ = [
    "PersonalLinear",
    "PrivateFederatedClassifier",
    "PrivateFederatedRegressor",
    "PrivatePersonalClassifier",
    "PrivatePersonalRegressor",
]

_L = TypeVar("_L", bound="_Linear")

_MOST_NAMES = 20
"""In a message."""
_ROWS = "rows"
"""In place of `groups`: every row is one user."""


class PersonalLinear:
    """One user's personal linear model: private, local and free. It is not pickled.

    `coef_` and `intercept_` are in the model's units: of the inputs that `features_` of the estimator names, and of a
    target that its range maps to -1 to 1. `predict` answers in the target's own units.
    """

    def __init__(self, of: _Linear, people: _native.People) -> None:
        self._of = of
        self._people = people
        models = people.models()
        _, self.n_rows, self.intercept_, coefficients = models[0] if models else ("", 0, 0.0, [])
        self.coef_: Array = np.array(coefficients)

    def predict(self, X: Any) -> Array:
        """A prediction for each row: a value, or one of two classes."""
        return self._of._answers(self._of._predicted(self._people, X, None))

    def predict_proba(self, X: Any) -> Array:
        """For classifiers: the probabilities of the classes for each row."""
        return self._of._probabilities(self._of._predicted(self._people, X, None))

    def __repr__(self) -> str:
        return f"<PersonalLinear: one user's private model from a {type(self._of).__name__}>"

    def __reduce__(self) -> str:
        raise TypeError("a user's own model is private and is not pickled: make it anew from the user's rows")


@dataclass(kw_only=True, repr=False, eq=False)
class _Linear(Estimator):
    """Predict a number or a class from features, for rows of many users."""

    target: str | None = None
    features: Sequence[str] | None = None
    max_rows: int | None = None
    bounds: Any = None
    feature_range: Sequence[float] | None = None
    target_range: Sequence[float] | None = None
    learning_rate: float | None = None
    l2_penalty: Sequence[float] | None = None
    sparse: int | None = None
    test_share: float | None = None
    held_out_users: float | None = None
    release_metrics: float | None = None
    metric_bound: float | None = None

    _settings: ClassVar[dict[str, str]] = {**Estimator._settings, "catalogue": "items"}
    _public_tables: ClassVar[dict[str, tuple[str, ...]]] = {"bounds": ("column", "lower", "upper")}
    _task: ClassVar[str] = "regression"

    def _plan_json(self, given: Given) -> str:
        raise NotImplementedError

    def _fit_json(self, given: Given, data: str | _native.Table, listener: Any) -> str:
        raise NotImplementedError

    def _given(self, **more: Any) -> Given:
        return super()._given(**more, task=self._task)

    def _public_value(self, name: str) -> Any:
        value = super()._public_value(name)
        return bounds_table(value) if name == "bounds" else value

    def plan(self) -> Plan:
        """What `fit` will release and spend, before any data are read."""
        return self._plan(self._plan_json, data="rows")

    def fit(
        self: _L,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        progress: Progress = False,
        resume: str | os.PathLike[str] | None = None,
        same_data_set: bool = False,
    ) -> _L:
        """Learn the shared part, and pay for it in the ledger before any noise is drawn.

        With `y`, `X` is a matrix of features and `groups` gives the user of each row, or is "rows" if every row is one
        person. Without `groups` each row counts as a person too, with a warning, and a ledger is refused: it is charged for
        people. Without `y`, `X` is a table or the name of a file, with columns for users, target and features. `progress`,
        `resume` and `same_data_set` are those of `PrivateRecommender.fit`.
        """
        self._check_parameters()
        if y is None and not _is_table(X):
            raise BadInput(f"requires y to be passed, but the target y is None: {type(self).__name__} learns from labels")
        self._check_groups(y, groups)
        named: dict[str, Any] = {}
        table = tables.source(X, "rows") if y is None else None
        if table is None:
            table, named = self._table(X, y, groups)
        with tables.naming_columns(table, "rows"):
            self._run(self._fit_json, table, progress=progress, resume=resume, data="rows", same_data_set=same_data_set, **named)
        return self

    def _check_parameters(self) -> None:
        pass

    def _check_groups(self, y: Any, groups: Any) -> None:
        """Refuse users that are said twice, or not at all where a ledger pays for them."""
        if isinstance(groups, str) and groups != _ROWS:
            raise bad_setting("groups", groups, f'the user of each row, or "{_ROWS}" if every row is one person')
        if y is None:
            if groups is not None:
                raise BadInput("groups goes with y: of a table the users are a column, which `user` names")
        elif groups is None:
            if self._has_ledger():
                raise BadSetting(
                    f'`groups` is None, and a ledger is charged for people: give the user of each row, or groups="{_ROWS}" if '
                    "every row is one person. Searches of scikit-learn pass groups on only after `set_fit_request(groups=True)`"
                )
            text = "without groups every row is a user of its own: the guarantee is for rows, not for people with several rows"
            warnings.warn(text, PrivacyWarning, stacklevel=3)

    def _table(self, X: Any, y: Any, groups: Any) -> tuple[_native.Table, dict[str, Any]]:
        """Rows as a table, and the settings that identify its columns."""
        array = _arrays.features(X)
        labels = self._labels(_arrays.labels(y, len(array)))
        by_row = groups is None or isinstance(groups, str)
        # never the ids of people in other data of a ledger
        users = np.array([f"row {at}" for at in range(len(array))], dtype=object) if by_row else _users(groups, len(array))
        names = _arrays.names_of(X) or [f"x{at}" for at in range(array.shape[1])]
        user, target = self.user or ("row" if by_row else "user"), self.target or "target"
        if {user, target} & set(names) or user == target:
            raise BadInput(f"X: a column is called {user!r} or {target!r}: rename it, or set `user` and `target`")
        columns = {user: users, **dict(zip(names, array.T, strict=True)), target: labels}
        return tables.of_columns(columns, "rows"), {"user": user, "target": target}

    def _load(self, folder: Path) -> None:
        super()._load(folder)
        self._linear = _native.Linear.read(os.fspath(folder))
        self.shared_: Array = np.asarray(self._linear)
        self.features_: list[str] = self._linear.features()
        names = self._linear.columns()
        self.n_features_in_ = len(names)
        if names != [f"x{at}" for at in range(len(names))]:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _learned(self) -> str:
        rows, columns = self.shared_.shape
        return f"{rows} by {columns} numbers that users of {self.n_features_in_} features share."

    def personalize(self, X: Any, y: Any = None) -> PersonalLinear:
        """One user's personal model, from that user's own rows: local, nothing is spent and nothing leaves.

        `X` and `y` are features and labels of the user's rows, or `X` is a table or the name of a file with both. A table
        with a user column must have one user's rows alone.
        """
        self._check_is_fitted()
        return PersonalLinear(self, self._people(X, y, None, of_one=True))

    def _people(self, X: Any, y: Any, groups: Any, *, of_one: bool = False) -> _native.People:
        if y is None:
            table, user = tables.source(X, "history"), self.user if groups is not None else None
        else:
            array = self._matrix(X)
            columns = dict(zip(self._linear.columns(), array.T, strict=True))
            columns[self._linear.target()] = self._labels(_arrays.labels(y, len(array)))
            table, user = _with_users(columns, _users(groups, len(array)), "history")
        with tables.naming_columns(table, "history"):
            return self._linear.personalize(table, user, self._balanced(), of_one)

    def _matrix(self, X: Any) -> Array:
        """The features of training: by name if both have names, else by position."""
        names, given = self._linear.columns(), _arrays.names_of(X)
        if given and set(names) <= set(given):
            X = X.select(names) if hasattr(X, "select") else X[names]
        elif given and hasattr(self, "feature_names_in_"):
            missing = [name for name in names if name not in given]
            raise BadInput(
                "The feature names should match those that were passed during fit. Feature names seen at fit time, yet now "
                f"missing: {', '.join(missing[:_MOST_NAMES])}{' and others' if len(missing) > _MOST_NAMES else ''}"
            )
        return _arrays.features(X, self.n_features_in_, type(self).__name__)

    def _balanced(self) -> bool:
        """Whether both classes of a user's rows have equal weight."""
        return False

    def _nobody(self) -> _native.People:
        """Personal models of no users: every user is treated as one without rows."""
        empty = {name: np.empty(0) for name in [*self._linear.columns(), self._linear.target()]}
        return self._linear.personalize(tables.of_columns(empty, "history"), None, False, False)

    def _predicted(self, people: _native.People, X: Any, groups: Any, listener: Listener | None = None) -> Array:
        """The models' output for each row: a value, or the probability of the second class."""
        names, listener = self._linear.columns(), listener or Listener(progress=False)
        if groups is None and _is_read_as_table(X):
            table = tables.source(X, "rows")
            with tables.naming_columns(table, "rows"):
                return np.array(self._linear.predict(people, table, None, listener))
        array = self._matrix(X)
        is_whole = np.isfinite(array).all(axis=1)
        columns = dict(zip(names, array[is_whole].T, strict=True))
        users = _users(groups, len(array))
        rows, user = _with_users(columns, None if users is None else users[is_whole], "rows")
        predicted = np.full(len(array), np.nan)
        predicted[is_whole] = self._linear.predict(people, rows, user, listener)
        return predicted

    def predict(self, X: Any, *, groups: Any = None, history: tuple[Any, Any, Any] | None = None) -> Array:
        """A prediction for each row; NaN, or the first class for classifiers, if a feature is missing.

        No training data are stored: without `history`, rows are predicted as those of an unknown user. `history` is
        `(X, y, groups)`, labelled rows of users, and `groups` gives the user of each row to predict; it may be left out if
        the history is of one user.
        """
        return self._answers(self._scores(X, groups, history))

    def _scores(self, X: Any, groups: Any, history: tuple[Any, Any, Any] | None) -> Array:
        self._check_is_fitted()
        if history is not None and not (isinstance(history, (tuple, list)) and len(history) == len(("X", "y", "groups"))):
            raise BadInput("history is (X, y, groups): features, labels and users of the labelled rows")
        people = self._nobody() if history is None else self._people(*history)
        if groups is None and not _is_read_as_table(X) and len(people.models()) > 1:
            raise BadInput("history has the rows of several users: give the user of each row to predict as `groups`")
        listener = Listener(progress=False)
        predicted = self._predicted(people, X, groups, listener)
        if history is None:
            unknown = "without `history` rows are predicted as those of an unknown user, whatever `groups`"
            listener.warnings = [f"no training data are kept: {unknown}"] if groups is not None else []
        for text in listener.warnings:
            warnings.warn(text, DpWarning, stacklevel=3)
        return predicted

    def _labels(self, y: Array) -> Array:
        return _arrays.numbers(y, "y")

    def _answers(self, scores: Array) -> Array:
        return scores

    def _probabilities(self, scores: Array) -> Array:  # noqa: ARG002
        raise AttributeError(f"{type(self).__name__} predicts values and has no classes")

    def score(self, X: Any, y: Any, *, groups: Any = None, history: tuple[Any, Any, Any] | None = None) -> float:
        """The coefficient of determination of the predictions.

        Without `history` this is the score for unknown users, who are predicted without rows of their own.
        """
        predicted = self.predict(X, groups=groups, history=history)
        true = self._labels(_arrays.labels(y, len(predicted)))
        errors, spread = true - predicted, true - np.mean(true)
        return float(1.0 - (errors @ errors) / (spread @ spread))

    def set_fit_request(self: _L, *, groups: bool | str | None = True) -> _L:
        """Ask the searches and pipelines of scikit-learn, with its metadata routing enabled, to pass `groups` to `fit`."""
        request = self._no_request()
        request.fit.add_request(param="groups", alias=groups)
        self._metadata_request = request  # `clone` copies an attribute of this name
        return self

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's metadata routing passes to `fit`."""
        if hasattr(self, "_metadata_request"):
            return copy.deepcopy(self._metadata_request)
        request = self._no_request()
        request.fit.add_request(param="groups", alias=None)
        return request

    def _no_request(self) -> Any:
        from sklearn.utils.metadata_routing import MetadataRequest

        return MetadataRequest(owner=type(self).__name__)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(poor_score=True),
            input_tags=InputTags(allow_nan=True),
            non_deterministic=self.insecure_seed is None,
        )


@dataclass(kw_only=True, repr=False, eq=False)
class _Classifier(_Linear):
    """Classifier with two classes, given by the parameter `classes`: classes found in labels would be published."""

    _task: ClassVar[str] = "classification"
    _not_settings: ClassVar[frozenset[str]] = _Linear._not_settings | {"classes", "class_weight"}

    classes: Sequence[Any] = (0, 1)
    threshold: float | None = None
    class_weight: str | Mapping[Any, float] | None = None

    def _check_parameters(self) -> None:
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:  # noqa: PLR2004
            raise BadSetting(f"`classes` are two, the second the one whose probability is learned; got {self.classes!r}")
        self._balanced()

    def _balanced(self) -> bool:
        if isinstance(self.class_weight, Mapping):
            weights = [self.class_weight.get(name, 1.0) for name in self.classes]
            if not all(0.0 < weight < np.inf for weight in weights):
                raise BadSetting(f"`class_weight` has weights above 0; got {self.class_weight!r}")
        elif self.class_weight not in (None, "balanced"):
            raise BadSetting(f"`class_weight` is None, 'balanced' or weights by class; got {self.class_weight!r}")
        return self.class_weight == "balanced"

    def _load(self, folder: Path) -> None:
        super()._load(folder)
        self.classes_: Array = np.asarray(self.classes)

    def _labels(self, y: Array) -> Array:
        return _arrays.in_classes(y, self.classes)

    def _predicted(self, people: _native.People, X: Any, groups: Any, listener: Listener | None = None) -> Array:
        scores = super()._predicted(people, X, groups, listener)
        if not isinstance(self.class_weight, Mapping):
            return scores
        no, yes = (self.class_weight.get(name, 1.0) for name in self.classes)
        return np.asarray(yes * scores / (yes * scores + no * (1.0 - scores)))

    def _answers(self, scores: Array) -> Array:
        return np.asarray(self.classes_[(scores > 0.5).astype(np.intp)])  # noqa: PLR2004

    def _probabilities(self, scores: Array) -> Array:
        return np.column_stack([1.0 - scores, scores])

    def predict_proba(self, X: Any, *, groups: Any = None, history: tuple[Any, Any, Any] | None = None) -> Array:
        """Probabilities of the two classes for each row; `groups` and `history` as for `predict`."""
        return self._probabilities(self._scores(X, groups, history))

    def score(self, X: Any, y: Any, *, groups: Any = None, history: tuple[Any, Any, Any] | None = None) -> float:
        """The share of rows whose class is predicted."""
        return float(np.mean(np.asarray(y) == self.predict(X, groups=groups, history=history)))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "classifier", None
        tags.classifier_tags = ClassifierTags(poor_score=True, multi_class=False)
        return tags


@dataclass(kw_only=True, repr=False, eq=False)
class _Personal(_Linear):
    """A subspace that users share."""

    _command: ClassVar[str] = "personalize"

    rank: int = 1
    intercept: str | None = None
    method: str | None = None
    n_steps: int | None = None
    gradient_clip: float | None = None

    def _plan_json(self, given: Given) -> str:
        return _native.personalize_plan(given)

    def _fit_json(self, given: Given, data: str | _native.Table, listener: Any) -> str:
        return _native.personalize_fit(given, data, listener)


@dataclass(kw_only=True, repr=False, eq=False)
class PrivatePersonalRegressor(_Personal):
    """Personal linear regressions in a subspace that all users share and that is learned with user-level privacy.

    Parameters are settings of `dp personalize` (`dp personalize --help` and `docs/reference/dp-personalize.md`
    describe each); None leaves a setting at its default. `bounds` are public ranges by column: a file, a table, or a
    mapping of names to pairs.
    """


@dataclass(kw_only=True, repr=False, eq=False)
class PrivatePersonalClassifier(_Classifier, _Personal):
    """Personal logistic models in a subspace that all users share and that is learned with user-level privacy.

    Parameters are those of `PrivatePersonalRegressor`, the two `classes`, and for tables the `threshold` above which a
    target belongs to the second class. With `class_weight="balanced"` both classes of a user's own rows have equal
    weight in the predictions of the user's personal model, however many rows each has; the output of `predict_proba` is
    then no longer calibrated. This is a local choice: nothing that is shared or spent depends on it. A mapping of
    classes to weights, with 1 as the default, multiplies odds in the same way.
    """


@dataclass(kw_only=True, repr=False, eq=False)
class _Federated(_Linear):
    """A model that users share in part, learned in rounds."""

    _command: ClassVar[str] = "federate"
    _public_tables: ClassVar[dict[str, tuple[str, ...]]] = {**_Linear._public_tables, "catalogue": ("item",)}

    alpha_grid: Sequence[float] | None = None
    intercept: str | None = None
    catalogue: Any = None
    n_rounds: int | None = None
    clip_norm: float | None = None
    shrink: float | None = None
    batch_size: int | None = None
    sampling_probability: float | None = None
    n_users: float | None = None
    choice_share: float | None = None
    validation_share: float | None = None
    loss_range: float | None = None

    def _load(self, folder: Path) -> None:
        super()._load(folder)
        self.alpha_: float | None = self._linear.alpha()
        """The ratio of global to local steps: 0 for models of each user alone, infinite for one that all users share."""

    def _plan_json(self, given: Given) -> str:
        return _native.federate_plan(given)

    def _fit_json(self, given: Given, data: str | _native.Table, listener: Any) -> str:
        return _native.federate_fit(given, data, listener)


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateFederatedRegressor(_Federated):
    """Linear regressions that are partly shared and partly personal, learned in rounds with user-level privacy.

    Parameters are settings of `dp federate` (`dp federate --help` and `docs/reference/dp-federate.md` describe each);
    None leaves a setting at its default. With `catalogue`, a public table of items, rows are ratings of these.
    """


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateFederatedClassifier(_Classifier, _Federated):
    """Logistic models that are partly shared and partly personal, learned in rounds with user-level privacy.

    Parameters are those of `PrivateFederatedRegressor`, the two `classes`, and for tables the `threshold` above which a
    target belongs to the second class.
    """


def bounds_table(bounds: Any) -> Any:
    """Public ranges by column as a table, if they are a mapping of names to pairs."""
    if not isinstance(bounds, Mapping) or isinstance(next(iter(bounds.values()), None), str):
        return bounds
    lower, upper = zip(*bounds.values(), strict=True) if bounds else ((), ())
    return {"column": list(bounds), "lower": list(lower), "upper": list(upper)}


def _is_table(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__") or isinstance(X, str | os.PathLike | Mapping | _native.Table)


def _is_read_as_table(X: Any) -> bool:
    """Whether rows to predict keep their user column, if they have one."""
    return _is_table(X) and not hasattr(X, "__array__")


def _with_users(columns: dict[str, Array], users: Array | None, name: str) -> tuple[_native.Table, str | None]:
    """A table of columns, with a user column if the users are known, and its name."""
    if users is None:
        return tables.of_columns(columns, name), None
    user = next(candidate for candidate in _candidates() if candidate not in columns)
    return tables.of_columns({user: users, **columns}, name), user


def _users(groups: Any, n_rows: int) -> Array | None:
    """The user of each row."""
    if groups is None:
        return None
    if isinstance(groups, str):
        raise bad_setting("groups", groups, "the user of each row")
    users = tables.id_column(groups, "groups")
    _arrays.same_length("groups", users, n_rows)
    return users


def _candidates() -> Iterator[str]:
    yield "user"
    at = 0
    while True:
        at += 1
        yield f"user {at}"
