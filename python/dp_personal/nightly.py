"""A recommender, or a shared subspace, that is updated every night with one budget for each user's lifetime."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _html, _native, tables
from ._estimator import Listener
from ._json import loads
from .errors import BadInput, DpError, DpWarning, InputMissing
from .linear import PrivatePersonalRegressor, bounds_table
from .recommender import PrivateRecommender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Given = list[tuple[str, str]]

__all__ = ["Nightly", "NightlySubspace"]

logger = logging.getLogger("dp_personal")

_NAMES = {"user_col": "user", "item_col": "item", "rating_col": "rating", "target_col": "target"}
"""What settings of the command line are called here."""


def _given(lists: Mapping[str, Iterable[object]] | None = None, **settings: Any) -> _Given:
    """Names and values of the given settings; those in `lists` have one entry for each element."""
    given = []
    for name, value in settings.items():
        if value is None or value is False:
            continue
        text = "true" if value is True else str(value)
        given.append((name, text))
    return given + [(name, str(value)) for name, values in (lists or {}).items() for value in values]


class _Nights:
    """A folder with a lifetime's nights, which Python and the command line share."""

    def __init__(self, state: str | os.PathLike[str]) -> None:
        self.path = Path(state)

    def status(self, *, show_internal: bool = False) -> dict[str, Any]:
        """The nights that were made, and the users' remaining budget.

        `refused` is the error that the next night would be refused with whatever its data, such as a missing file; or None.
        With `show_internal`, `internal_by_night` contains held-out metrics, which are computed from private data.
        """
        json, _ = _native.nightly_status(_given(state=os.fspath(self.path), show_internal=show_internal))
        return loads(json)

    def erase(self, users: Iterable[object]) -> int:
        """Erase users by their ids in the ratings (text is one id); returns the number of ids given.

        They add nothing to later nights, even if records of theirs appear again. A tombstone of each is kept under the
        secret key, and `internal-erasures.csv` has the time and the number of ids.
        """
        listed = tables.ids(users, "users")
        given = _given(state=os.fspath(self.path), lists={"users": listed})
        json, _ = _native.nightly_erase(given)
        return int(loads(json)["n_erased"])

    def publish(self, dest: str | os.PathLike[str], *, force: bool = False) -> None:
        """Copy exactly those files of the last model that its certificate covers."""
        _native.nightly_publish(_given(state=os.fspath(self.path), dest=os.fspath(dest), force=force))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self.path)!r})"

    def _repr_html_(self) -> str:
        try:
            status = self.status()
        except DpError:
            facts = _html.alarm("its status cannot be read: `status()` says why")
        else:
            spent, left = status["epsilon_spent_by_the_first_users"], status["epsilon_left_to_the_first_users"]
            facts = _html.facts(
                [
                    ("lifetime of each user", _html.guarantee(status["lifetime_epsilon"], status["delta"])),
                    ("horizon", _html.count(status["horizon"], "night")),
                    ("made", _html.count(status["n_paid"], "night")),
                    ("last night", "none" if status["last_night"] is None else str(status["last_night"])),
                    ("first users", f"\u03b5 {spent:.4g} spent, {left:.4g} left"),
                ]
            )
            if status["refused"] is not None:
                facts = _html.alarm(f"the next night would be refused: {status['refused']}") + facts
        return _html.card(type(self).__name__, self.path.name, facts)

    def _model_folder(self) -> Path:
        if not self.path.is_dir():
            raise InputMissing(f"{self.path} does not exist: `create` makes the state of nights")
        folder = self.path / "model"
        if not folder.is_dir():
            raise BadInput(f"{self.path} has no model yet: run a night")
        return folder

    def _begin(self, init: Callable[[_Given], tuple[str, str]], given: _Given) -> None:
        with tables.naming_settings(_NAMES):
            _, text = init(given)
        logger.info("%s", text)

    def _release(
        self, run: Callable[[_Given, Any, Listener], tuple[str, str]], given: _Given, data: Any, name: str
    ) -> dict[str, Any]:
        """Make a night's release; what was made."""
        listener = Listener(progress=False)
        table = tables.source(data, name)
        with tables.naming_columns(table, name), tables.naming_settings(_NAMES):
            json, text = run(given, table, listener)
        logger.info("%s", text)
        for warning in listener.warnings:
            warnings.warn(warning, DpWarning, stacklevel=3)
        return loads(json)


class Nightly(_Nights):
    """A recommender that is trained every night: the state of `dp nightly init`.

    All nights of a user are one Gaussian event of `lifetime_epsilon`, however many there are: the ledger pays for it
    when the state is created.
    """

    @classmethod
    def create(
        cls,
        state: str | os.PathLike[str],
        *,
        items: Any,
        lifetime_epsilon: float,
        delta: float,
        rating_range: Sequence[float] | None = None,
        feedback: Literal["explicit", "implicit"] = "explicit",
        min_rating: float | None = None,
        horizon: int = 365,
        pace: float = 0.4,
        tastes: int = 8,
        most_items: int | None = None,
        feature_cols: Sequence[str] = (),
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        ledger: str | os.PathLike[str] | None = None,
        data_set: str | None = None,
    ) -> Nightly:
        """Reserve the budget of all nights and create the folder.

        `items` is a public catalogue: a table, the name of a file or a list of ids. `rating_range` is the smallest and the
        largest rating, also public. With `feedback="implicit"` records are likes. `feature_cols` are columns of the catalogue
        with features that items have in common, such as genres and year. `user`, `item` and `rating` name columns of the
        ratings for all nights. Without a `ledger` the state has a separate one. If an earlier call was interrupted, the same
        call continues without paying twice.
        """
        nights = cls(state)
        with tables.public_files([("items", items, ("item",))]) as files:
            given = _given(
                state=os.fspath(nights.path),
                items=files.get("items", items),
                lifetime_epsilon=lifetime_epsilon,
                delta=delta,
                feedback=feedback,
                min_rating=min_rating,
                horizon=horizon,
                pace=pace,
                tastes=tastes,
                most_items=most_items,
                user_col=user,
                item_col=item,
                rating_col=rating,
                ledger=None if ledger is None else os.fspath(ledger),
                data_set=data_set,
                lists={"rating_range": rating_range or (), "feature_cols": feature_cols},
            )
            nights._begin(_native.nightly_init, given)
        return nights

    def run(
        self,
        ratings: Any,
        *,
        night: int | None = None,
        restored: bool = False,
        items: Any = None,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        held_out: bool = True,
    ) -> dict[str, Any]:
        """Make tonight's release from all current ratings, and the model that follows from all nights.

        `ratings` is a table or the name of a file; `night` is a number above all earlier ones that must not follow from
        the data, by default the number of days since the state was created. For a night that was made before, nothing
        is paid and the model is written again. `restored` is for the first night after the state was restored from a
        copy; it needs `night`, above all nights made so far. `items` is a catalogue with new items. `user`, `item` and
        `rating` name columns, by default those given to `create`. With `held_out` a tenth of the ratings tests the model;
        the results are for the owner of the state only.
        """
        with tables.public_files([("items", items, ("item",))]) as files:
            given = _given(
                state=os.fspath(self.path),
                ratings="ratings",
                night=night,
                restored=restored,
                items=files.get("items", items),
                user_col=user,
                item_col=item,
                rating_col=rating,
                no_split=not held_out,
            )
            return self._release(_native.nightly_run, given, ratings, "ratings")

    def model(self) -> PrivateRecommender:
        """The model of the last night."""
        return PrivateRecommender._of_folder(self._model_folder())


class NightlySubspace(_Nights):
    """A subspace that users' linear models share, trained every night on labelled rows: the state of `dp nightly init-rows`.

    The budget is that of `Nightly`.
    """

    @classmethod
    def create(
        cls,
        state: str | os.PathLike[str],
        *,
        target: str,
        features: Sequence[str],
        rank: int,
        lifetime_epsilon: float,
        delta: float,
        feature_range: Sequence[float] | None = None,
        target_range: Sequence[float] | None = None,
        bounds: Any = None,
        intercept: Literal["own", "shared", "none"] = "own",
        max_rows: int = 256,
        horizon: int = 365,
        pace: float = 0.4,
        user: str | None = None,
        ledger: str | os.PathLike[str] | None = None,
        data_set: str | None = None,
    ) -> NightlySubspace:
        """Reserve the budget of all nights and create the folder.

        `target` and `features` are names of columns. `feature_range` and `target_range` are public ranges; `bounds` is
        for columns with ranges of their own: a file or a table `column,lower,upper`, or a mapping of names to pairs. `user`,
        the ledger and interruptions: as `Nightly.create`.
        """
        nights = cls(state)
        with tables.public_files([("bounds", bounds_table(bounds), ("column", "lower", "upper"))]) as files:
            given = _given(
                state=os.fspath(nights.path),
                target_col=target,
                rank=rank,
                lifetime_epsilon=lifetime_epsilon,
                delta=delta,
                bounds=files.get("bounds", bounds),
                intercept=intercept,
                max_rows=max_rows,
                horizon=horizon,
                pace=pace,
                user_col=user,
                ledger=None if ledger is None else os.fspath(ledger),
                data_set=data_set,
                lists={"feature_cols": features, "feature_range": feature_range or (), "target_range": target_range or ()},
            )
            nights._begin(_native.nightly_init_rows, given)
        return nights

    def run(
        self,
        rows: Any,
        *,
        night: int | None = None,
        restored: bool = False,
        user: str | None = None,
        held_out: bool = True,
    ) -> dict[str, Any]:
        """Make tonight's release from all current rows, and the subspace that follows from all nights.

        `rows` is a table or the name of a file. With `held_out` a fifth of each user's rows tests the model; the other
        arguments are those of `Nightly.run`.
        """
        given = _given(
            state=os.fspath(self.path),
            rows="rows",
            night=night,
            restored=restored,
            user_col=user,
            no_split=not held_out,
        )
        return self._release(_native.nightly_run_rows, given, rows, "rows")

    def model(self) -> PrivatePersonalRegressor:
        """The model of the last night."""
        return PrivatePersonalRegressor._of_folder(self._model_folder())
