"""Recommenders: private item factors, and each user's personal part."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from . import _native, tables
from ._estimator import Estimator, Progress
from ._json import loads
from ._numpy import Array, Floats, np
from .errors import DpWarning, SettingType, bad_setting
from .plan import Plan

__all__ = [
    "ItemVectors",
    "Personalized",
    "PrivatePopularity",
    "PrivateRecommender",
    "Recommendation",
    "SimilarItem",
    "TasteVotes",
]

_R = TypeVar("_R", bound="_Ratings")


class Recommendation(NamedTuple):
    """A recommended item."""

    item: str
    score: float
    """The predicted rating, or with implicit feedback a score that ranks items."""
    title: str | None
    interval: tuple[float, float] | None = None
    """The 95 % interval of the score from the mechanism's noise; None where the model has no standard errors of its factors.
    The user's own fit is taken as exact. The sampling of ratings is included with the method am-ssp and not otherwise."""


class SimilarItem(NamedTuple):
    """An item with its similarity to another one."""

    item: str
    cosine: float
    """Cosine of the taste factors of both, -1 to 1."""
    title: str | None
    stddev: float | None = None
    """Standard deviation of `cosine` that is due to the noise; None where standard errors are not known."""


def _count(k: Any) -> int:
    """How many items are wanted."""
    expected = "a whole number, 1 or above"
    try:
        n = operator.index(k)
    except TypeError:
        raise bad_setting("k", k, expected, SettingType) from None
    if n < 1:
        raise bad_setting("k", k, expected)
    return n


class TasteVotes(NamedTuple):
    """The released outcome of the users' vote on taste factors, those of a prior or learned ones."""

    sum: float
    """Sum of the votes, each from -1 (against the taste factors) to 1, with noise."""
    noise_stddev: float
    needed: float
    """The taste factors are kept if `sum` is above this."""
    kept: bool


class Personalized:
    """One user's personal part of a model: private, local and free. It is not pickled."""

    def __init__(self, own: _native.Own) -> None:
        self._own = own

    def recommend(self, k: int = 10, *, rank_by: str = "score") -> list[Recommendation]:
        """The best items that the user has not rated, best first; empty if `says_nothing`.

        `rank_by` "lower" ranks by the lower end of each item's interval, so that the noisiest items do not come first. It needs a
        model with standard errors of its factors, which those of earlier versions may lack. `docs/reference/dp-recommend.md`
        says what the intervals cover.
        """
        if rank_by not in ("score", "lower"):
            raise bad_setting("rank_by", rank_by, '"score" or "lower"')
        best = self._own.recommend(_count(k), rank_by == "lower")
        return [Recommendation(item, score, title, interval) for item, title, score, interval in best]

    def predict(self, items: Any) -> Floats:
        """Predicted ratings, or scores, of ids of items (text or a whole number is one id); NaN for an unknown item."""
        return np.array(self._own.predict(tables.ids(items, "items")))

    @property
    def vector(self) -> Floats:
        """The user's vector, as private as the history: a score is its inner product with the item vector, plus `offset`."""
        return np.array(self._own.vector())

    @property
    def offset(self) -> float:
        """The constant that the user adds to every score."""
        return self._own.offset

    @property
    def says_nothing(self) -> bool:
        """Whether the model has no basis for ranking items for this user."""
        return self._own.says_nothing

    @property
    def orders_alike(self) -> bool:
        """Whether the user's ratings do not change the order of items, which is then the same for all users."""
        return self._own.orders_alike

    @property
    def n_unknown_items(self) -> int:
        """Number of the user's records of items that the model does not know."""
        return self._own.n_unknown_items

    def __repr__(self) -> str:
        return "<Personalized: one user's private part of a model>"

    def __reduce__(self) -> str:
        raise TypeError("a user's own part of a model is private and is not pickled: make it anew from the history")


class ItemVectors:
    """Released item vectors for serving recommendations: numpy, faiss, or any library that reads Arrow.

    The inner product of a row with `Personalized.vector` orders items as `Personalized.recommend` does, because item
    biases are a column of the rows. Polars, duckdb, pandas (`DataFrame.from_arrow`) and pyarrow accept this object as a
    table of `item`, `title` and `vector`, a fixed-size list in single precision.
    """

    def __init__(self, factors: _native.Factors) -> None:
        self._factors = factors
        self.ids: list[str] = factors.items()
        """Ids of the items, in the order of the rows."""

    @cached_property
    def matrix(self) -> Array:
        """One row for each item, as required by `faiss.IndexFlatIP(matrix.shape[1])`: float32, C-contiguous and read-only."""
        matrix: Array = np.ascontiguousarray(np.asarray(self._factors), dtype=np.float32)
        matrix.flags.writeable = False
        return matrix

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as an Arrow stream, in its own schema."""
        return self._factors.arrow_stream()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<ItemVectors: {len(self)} items of {self._factors.__array_interface__['shape'][1]} numbers>"


@dataclass(kw_only=True, repr=False, eq=False)
class _Ratings(Estimator):
    """Item factors learned from ratings."""

    item: str | None = None
    rating: str | None = None
    catalogue: Any = None
    item_ids_are_public: bool = False
    min_rating: float | None = None
    memory: str | None = None
    """Keep the ratings of a file on disk and about so much of them in memory, such as "4GB"."""
    scratch: str | os.PathLike[str] | None = None
    """With `memory`: the folder for them, else the system's folder for temporary files. They are not encrypted."""

    _command: ClassVar[str] = "train"
    _settings: ClassVar[dict[str, str]] = {**Estimator._settings, "catalogue": "items"}
    _public_tables: ClassVar[dict[str, tuple[str, ...]]] = {"catalogue": ("item",)}

    def _names(self) -> tuple[str, str, str]:
        return self.user or "user", self.item or "item", self.rating or "rating"

    def plan(self) -> Plan:
        """What `fit` will release and spend, before any data are read."""
        return self._plan(_native.train_plan, ratings="ratings")

    def fit(
        self: _R,
        ratings: Any,
        y: object = None,  # noqa: ARG002
        *,
        progress: Progress = False,
        resume: str | os.PathLike[str] | None = None,
        same_data_set: bool = False,
    ) -> _R:
        """Learn item factors from ratings, and pay for them in the ledger before any noise is drawn.

        `ratings` is a table with a row for each rating, the name of a file, or a matrix of users by items: of a sparse
        one the stored entries, of a dense one, such as a numpy array with two dimensions, those that are not NaN. An array
        whose columns are users, items and ratings is not a table: give the data frame that it came from. `progress` reports
        each release: True writes to stderr, a function is called with the number of releases made and the total. `resume`
        names a folder for the run: a run that was interrupted, for example by Ctrl-C, continues from there with what it had
        released and paid. `same_data_set` declares that these are the ledger's data although few of its users are among
        them, because they were renamed or left.
        """
        is_matrix = tables.is_matrix(ratings)
        if is_matrix and ratings.shape[1] == len(self._names()):
            text = "a matrix is users by items, and this one has 3 items: if its columns are user, item and rating, give a table"
            warnings.warn(text, DpWarning, stacklevel=2)
        data = tables.of_matrix(ratings, self._names(), "ratings") if is_matrix else tables.source(ratings, "ratings")
        named = dict(zip(("user", "item", "rating"), self._names(), strict=True)) if is_matrix else {}
        with tables.naming_columns(data, "ratings"):
            self._run(
                _native.train_fit, data, progress=progress, resume=resume, ratings="ratings", same_data_set=same_data_set, **named
            )
        return self

    def _load(self, folder: Path) -> None:
        super()._load(folder)
        self._factors = _native.Factors.read(os.fspath(folder))
        self.item_factors_: Floats = np.asarray(self._factors)
        errors = self._factors.standard_errors()
        self.standard_errors_: Floats | None = None if errors is None else np.array(errors).reshape(self.item_factors_.shape)
        """Standard errors of `item_factors_`, in the same shape; None where they are not known."""
        self.items_: list[str] = self._factors.items()
        self.titles_: list[str | None] = self._factors.titles()

    def item_vectors(self) -> ItemVectors:
        """The item factors for serving: a matrix with ids that is ready for faiss, and an Arrow table."""
        self._check_is_fitted()
        return ItemVectors(self._factors)

    def nearest(self, item: Any, k: int = 10) -> list[SimilarItem]:
        """The `k` items with the most similar taste factors, most similar first: post-processing, nothing is spent.

        Items whose tastes are within their noise are left out, since their direction is random; the list is empty for
        such an item.
        """
        self._check_is_fitted()
        if str(item) not in self.items_:
            raise bad_setting("item", item, "an id of an item of the model (`items_`)")
        near = self._factors.nearest(self.items_.index(str(item)), _count(k))
        return [SimilarItem(self.items_[at], cosine, self.titles_[at], stddev) for at, cosine, stddev in near]

    def _learned(self) -> str:
        n_tastes = self._factors.n_tastes()
        tastes = f"{n_tastes} tastes" if n_tastes else "no tastes"
        return f"{len(self.item_factors_)} items, each with a bias and {tastes}."

    def personalize(
        self,
        history: Any,
        *,
        min_rating: float | None = None,
        new_items: Any = None,
    ) -> Personalized:
        """One user's personal part, from that user's own records: local, nothing is spent and nothing leaves.

        `history` is a table or the name of a file, a mapping of items to ratings, or with implicit feedback a list of
        items. `new_items` is a table or the name of a file of items that are not in the model; they are ranked too if it
        was trained with features.
        """
        self._check_is_fitted()
        user, item, rating = self._names()
        own = tables.of_history(history, (item, rating))
        named: Sequence[str | None] = (self.user, self.item, self.rating)
        if not isinstance(own, str) and item in own.column_names():
            named = (self.user and user, item, rating if rating in own.column_names() else None)
        factors = self._factors
        if new_items is not None:
            with self._folder() as folder, tables.public_files([("new_items", new_items, ("item",))]) as files:
                factors = _native.Factors.read(os.fspath(folder), files.get("new_items") or os.fspath(new_items))
        with tables.naming_columns(own, "history"):
            return Personalized(factors.personalize(own, list(named), min_rating))


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateRecommender(_Ratings):
    """Recommend items, with user-level differential privacy for everybody whose ratings are used in training.

    Parameters are settings of `dp train` (`dp train --help` and `docs/reference/dp-train.md` describe each); None leaves
    a setting at its default. `ledger` is the file of a ledger, a `Ledger`, or `NO_LEDGER`.

    Item ids are published with the model: `catalogue` is a public list of items (a table, a file or a list of ids);
    without it, `item_ids_are_public=True` declares that every id in the ratings is public.

    `prior` is a public table with a column `item` and columns of numbers, such as the output of `evidence` or
    embeddings of texts: the mean of an item's parameters is learned as a linear map of them, at no cost. It must not be
    computed from these users' data. It may also name the folder of an earlier model, for which `ledger` must have paid
    unless `prior_is_public` declares that anybody may know it.

    `opt_in` lists users who contribute without protection (ids, or a file with an id on each line): they are removed
    from the private data, and their ratings are used like those of `evidence`.
    """

    _public_tables: ClassVar[dict[str, tuple[str, ...]]] = {
        **_Ratings._public_tables,
        "prior": ("item",),
        "opt_in": ("user",),
    }

    feedback: str = "explicit"
    method: str = "auto"
    prior: Any = None
    prior_is_public: bool = False
    opt_in: Any = None
    features: Sequence[str] | None = None
    min_items: int | None = None
    dim: int | None = None
    no_global_effects: bool = False
    n_rounds: int | None = None
    rating_range: Sequence[float] | None = None
    weight_exponent: float | None = None
    clip_norm: float | None = None
    label_center: float | None = None
    label_bound: float | None = None
    scale_share: float | None = None
    item_ridge_factor: float | None = None
    score_model: str | None = None
    head_fraction: float | None = None
    count_share: float | None = None
    release_metrics: float | None = None
    metric_bound: float | None = None

    def _load(self, folder: Path) -> None:
        super()._load(folder)
        report = loads(self._files.get("report.json", b"{}").decode())
        of_prior, of_tastes = report.get("prior_votes"), report.get("taste_votes")
        self.prior_votes_: TasteVotes | None = TasteVotes(**of_prior) if of_prior else None
        """The outcome of the users' vote on the taste factors of `prior`; None if they did not vote."""
        self.taste_votes_: TasteVotes | None = TasteVotes(**of_tastes) if of_tastes else None
        """The outcome of their vote on newly learned taste factors; None if they did not vote."""

    def _released_warnings(self) -> list[str]:
        no_tastes = self._factors.no_tastes()
        released = super()._released_warnings()
        if no_tastes is None or self.dim is not None or self.method in ("am-ssp", "biases", "popularity"):
            return released
        more = "More users or a larger epsilon would allow them; `dim=3` learns two anyway, which may be mostly noise"
        return [*released, f"{no_tastes}. {more}"]

    def _learned(self) -> str:
        votes = self.prior_votes_
        if votes is None:
            return super()._learned()
        outcome = "kept" if votes.kept else "not kept, its columns inform item biases"
        voted = f"{votes.sum:.0f} \u00b1 {votes.noise_stddev:.0f} ({outcome}; needs more than {votes.needed:.0f})"
        return f"{super()._learned()} Users voted on the prior's taste factors: {voted}."


@dataclass(kw_only=True, repr=False, eq=False)
class PrivatePopularity(_Ratings):
    """Popularity of items, with user-level differential privacy: the whole budget is spent on the counts.

    Parameters are those of `PrivateRecommender` with implicit feedback and the method `popularity`.
    """

    def _given(self, **more: Any) -> list[tuple[str, str]]:
        return super()._given(**more, feedback="implicit", method="popularity")
