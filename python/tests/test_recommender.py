"""`PrivateRecommender` from plan to recommendation."""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_personal as dp

Ratings = dict[str, Any]


def test_the_plan_says_what_is_spent_before_data_are_read(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    plan = recommender.plan()
    assert 1.99 < plan.epsilon <= 2.0
    assert plan.delta == 1e-5
    assert str(len(plan.releases)) in str(plan)
    model = recommender.fit(ratings)
    assert [release["label"] for release in model.certificate_.as_dict()["releases"]] == [
        release["label"] for release in plan.releases
    ]


def test_fit_needs_someone_to_say_what_counts_the_run(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    with pytest.raises(dp.BadSetting, match="NO_LEDGER"):
        recommender.set_params(ledger=None).fit(ratings)


def test_a_fitted_model_recommends_to_one_user(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    model = recommender.fit(ratings)
    assert 1.99 < model.certificate_.epsilon <= 2.0
    model.certificate_.verify()
    factors = model.item_factors_
    assert factors.shape[0] == len(model.items_)
    assert factors is model.item_factors_
    with pytest.raises(ValueError, match="read-only"):
        factors[0, 0] = 1.0
    me = model.personalize({0: 5.0, 1: 1.0})
    best = me.recommend(k=3)
    assert len(best) == 3
    assert {"0", "1"}.isdisjoint(item.item for item in best)
    assert best[0].score >= best[1].score >= best[2].score
    predicted = me.predict([best[0].item, "nowhere"])
    assert predicted[0] == pytest.approx(best[0].score)
    assert np.isnan(predicted[1])
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(me)


def test_items_have_intervals_and_can_be_ranked_by_their_lower_ends(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    me = recommender.fit(ratings).personalize({0: 5.0, 1: 1.0})
    items = me.recommend(100)
    assert all(item.interval is not None and item.interval[0] < item.score < item.interval[1] for item in items)
    cautious = me.recommend(100, rank_by="lower")
    lower = [item.interval[0] for item in cautious if item.interval is not None]
    assert lower == sorted(lower, reverse=True)
    assert recommender.standard_errors_ is not None
    assert recommender.standard_errors_.shape == recommender.item_factors_.shape
    assert (recommender.standard_errors_ > 0).any()
    assert {item.item: item for item in cautious} == {item.item: item for item in items}
    with pytest.raises(ValueError, match="rank_by"):
        me.recommend(rank_by="upper")
    for k in (0, -1):
        with pytest.raises(dp.BadSetting, match=r"k = .*: expected a whole number, 1 or above") as raised:
            me.recommend(k)
        assert raised.value.setting == "k"


def test_factors_are_where_the_model_has_them(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    model = recommender.fit(ratings)
    first, second = np.asarray(model._factors), np.asarray(model._factors)
    assert first.__array_interface__["data"][0] == second.__array_interface__["data"][0]
    kept = model.item_factors_
    expected = kept.copy()
    del model, first, second
    recommender.fit(ratings)
    assert np.array_equal(kept, expected)


def test_implicit_feedback_and_popularity(ratings: Ratings) -> None:
    public: dict[str, Any] = {"ledger": dp.NO_LEDGER, "rating": "stars", "catalogue": [str(i) for i in range(12)]}
    lists = dp.PrivateRecommender(epsilon=20.0, feedback="implicit", min_rating=3.0, n_rounds=2, dim=3, **public).fit(ratings)
    assert len(lists.items_) == 12
    assert {"1", "2"}.isdisjoint(item.item for item in lists.personalize(["1", "2"]).recommend(20))
    popular = dp.PrivatePopularity(epsilon=20.0, **public).fit(ratings)
    counts = np.bincount(ratings["item"], minlength=12)
    best = popular.personalize([]).recommend(12)
    likely = {str(item) for item in np.argsort(counts)[-6:]}
    assert len(likely & {item.item for item in best[:6]}) >= 4


def test_the_same_file_and_seed_give_the_model_of_dp_train_bit_for_bit(tmp_path: Path, ratings_csv: Path) -> None:
    dp_binary = os.environ.get("DP_BINARY")
    if dp_binary is None:
        pytest.skip("set DP_BINARY to the command line `dp`")
    out = tmp_path / "cli"
    flags = "--no-ledger --epsilon 2 --delta 1e-5 --rating-col stars --item-ids-are-public --steps 3 --insecure-seed 7"
    subprocess.run([dp_binary, "train", ratings_csv, "--out", out, *flags.split()], check=True, capture_output=True)
    model = dp.PrivateRecommender(
        epsilon=2.0, ledger=dp.NO_LEDGER, rating="stars", item_ids_are_public=True, n_rounds=3, insecure_seed=7
    )
    with pytest.warns(dp.PrivacyWarning, match="seeded"):
        model.fit(ratings_csv)
    model.save(tmp_path / "py")
    for name in ("item_factors.safetensors", "items.csv"):
        assert (tmp_path / "py" / name).read_bytes() == (out / name).read_bytes(), name
    assert not model.certificate_.is_private
    assert model.certificate_.epsilon == math.inf
    assert "no privacy is promised" in model._repr_html_()
    loaded = dp.load(out)
    assert isinstance(loaded, dp.PrivateRecommender)
    assert np.array_equal(loaded.item_factors_, model.item_factors_)
    assert (loaded.epsilon, loaded.n_rounds, loaded.rating) == (2.0, 3, "stars")
    said = subprocess.run([dp_binary, "verify", tmp_path / "py"], check=False, capture_output=True, text=True)
    assert "promises no privacy" in said.stderr


def test_a_table_gives_the_model_of_the_file(tmp_path: Path, ratings_csv: Path, ratings: Ratings) -> None:
    model = dp.PrivateRecommender(ledger=dp.NO_LEDGER, rating="stars", item_ids_are_public=True, insecure_seed=1)
    with pytest.warns(dp.PrivacyWarning):
        of_file = model.fit(ratings_csv).item_factors_
    with pytest.warns(dp.PrivacyWarning):
        of_table = model.fit(ratings).item_factors_
    assert np.array_equal(of_file, of_table)


def test_saved_models_and_pickles_hold_released_values_alone(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    secret = {**ratings, "user_id": np.array([f"secret-{user}" for user in ratings["user_id"]])}
    model = recommender.fit(secret)
    pickled = pickle.dumps(model)
    assert b"secret-" not in pickled
    copy = pickle.loads(pickled)
    assert np.array_equal(copy.item_factors_, model.item_factors_)
    assert copy.certificate_ == model.certificate_
    model.save(tmp_path / "model")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model")
    loaded = dp.load(tmp_path / "model")
    assert isinstance(loaded, dp.PrivateRecommender)
    mine = {"0": 5.0, "3": 1.0}
    assert loaded.personalize(mine).recommend(4) == model.personalize(mine).recommend(4)
    assert loaded.ledger is None
    assert repr(loaded).startswith("<fitted PrivateRecommender(epsilon=2.0")


def test_a_ledger_of_the_command_line_pays_for_tables(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    # `dp` gives a ledger the name of the file with its extension
    own = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=2.5, delta=1e-5, data_set="ratings.csv")
    recommender.set_params(ledger=own)
    assert recommender.plan().epsilon > 0.0
    recommender.fit(ratings)
    assert own.as_dict()["n_releases"] == len(recommender.plan().releases)
    other = dp.Ledger.create(tmp_path / "a.ledger", epsilon=2.5, delta=1e-5, data_set="ratings.csv")
    with pytest.raises(dp.DpError, match=r"ratings\.csv"):
        recommender.set_params(ledger=other).fit(ratings)
    assert other.as_dict()["n_releases"] == 0


def test_a_ledger_pays_refuses_and_stays_whole(tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=2.5, delta=1e-5)
    recommender.set_params(ledger=ledger).fit(ratings)
    with pytest.raises(dp.BudgetExceeded) as raised:
        recommender.fit(ratings)
    assert isinstance(raised.value, RuntimeError)
    assert ledger.as_dict()["n_releases"] == len(recommender.plan().releases)
    left = raised.value.epsilon_left
    assert left is not None
    assert 0.0 < left < 2.0
    recommender.set_params(epsilon=left * 0.999).fit(ratings)


def test_an_older_ledger_is_refused_until_it_is_accepted(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=20.0, delta=1e-5)
    recommender.set_params(ledger=ledger).fit(ratings)
    older = ledger.path.read_bytes()
    recommender.fit(ratings)
    ledger.path.write_bytes(older)
    for same_data_set in (False, True):
        with pytest.raises(dp.LedgerError, match="older copy"):
            recommender.fit(ratings, same_data_set=same_data_set)
    assert ledger.as_dict()["is_older_copy"]
    with pytest.raises(dp.LedgerError, match="older copy"):
        dp.accounting.OpenLedger(ledger)
    ledger.accept_rollback()
    assert [note["about"] for note in ledger.as_dict()["notes"]] == ["rollback"]
    with dp.accounting.OpenLedger(ledger) as opened:
        spend = opened.spend(dp.accounting.gaussian(noise_multiplier=50.0), label="sum")
    paid = ledger.path.read_bytes()
    ledger.path.write_bytes(older)
    with pytest.raises(dp.LedgerError, match="older copy"):
        dp.accounting.OpenLedger(ledger)
    ledger.path.write_bytes(paid)
    own = dp.accounting.certify([spend], released={"sum": "anyone"})
    assert any("payments are missing" in of["text"] for of in own.as_dict()["assumptions"])
    certificate = recommender.fit(ratings).certificate_
    assert any("payments are missing" in of["text"] for of in certificate.as_dict()["assumptions"])
    assert certificate.unit == "user"
    assert certificate.epsilon < certificate.epsilon_replace < 3 * certificate.epsilon
    assert repr(certificate).endswith(f"{certificate.adjacency})")


def test_renamed_users_are_those_of_the_ledger_if_the_caller_says_so(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=20.0, delta=1e-5)
    recommender.set_params(ledger=ledger).fit(ratings)
    renamed = {**ratings, "user_id": ratings["user_id"] + 1000}
    with pytest.raises(dp.LedgerError, match="fewer than half"):
        recommender.fit(renamed)
    recommender.fit(renamed, same_data_set=True).fit(renamed)


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop", [Stop, KeyboardInterrupt])
def test_an_interrupted_run_goes_on_with_what_it_had_released(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings, stop: type[BaseException]
) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=5.0, delta=1e-5)
    model = recommender.set_params(ledger=ledger, item_ids_are_public=False, catalogue=[str(item) for item in range(12)])
    n_releases = len(model.plan().releases)
    seen: list[int] = []

    def stop_after_one(done: int, total: int) -> None:
        assert total == n_releases
        if done == 1:
            raise stop

    with pytest.raises(stop):
        model.fit(ratings, progress=stop_after_one, resume=tmp_path / "run")
    assert not hasattr(model, "item_factors_")
    paid = ledger.as_dict()["n_releases"]
    assert 1 <= paid < n_releases
    with pytest.warns(dp.DpWarning, match=f"resuming the interrupted run: {paid} of its {n_releases}"):
        model.fit(ratings, progress=lambda done, _: seen.append(done), resume=tmp_path / "run")
    assert ledger.as_dict()["n_releases"] == n_releases
    assert seen[-1] == n_releases
    assert (tmp_path / "run" / "certificate.json").exists()
    with pytest.raises(FileExistsError):
        model.fit(ratings, resume=tmp_path / "run")


def test_what_was_paid_in_a_temporary_folder_is_kept_when_the_run_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=2.5, delta=1e-5)
    model = recommender.set_params(ledger=ledger)

    def stop_after(made: int) -> Callable[[int, int], None]:
        def told(done: int, _: int) -> None:
            if done == made:
                raise Stop

        return told

    with pytest.raises(Stop):
        model.fit(ratings, progress=stop_after(0))
    assert list((tmp_path / "temporary").iterdir()) == []
    with pytest.raises(Stop) as stopped:
        model.fit(ratings, progress=stop_after(2))
    [kept] = (tmp_path / "temporary").iterdir()
    if hasattr(stopped.value, "__notes__"):
        assert str(kept / "run") in stopped.value.__notes__[-1]
    with pytest.warns(dp.DpWarning, match="resuming the interrupted run"):
        model.fit(ratings, resume=kept / "run")
    assert ledger.as_dict()["n_releases"] == len(model.plan().releases)


def test_ctrl_c_reaches_a_run(tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    import _thread

    first = threading.Event()

    def told(done: int, total: int) -> None:
        if not first.is_set():
            first.set()
            _thread.interrupt_main()

    # what runs in the background may have inherited to ignore it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            recommender.fit(ratings, progress=told)
    finally:
        signal.signal(signal.SIGINT, before)


def test_two_fits_at_once_and_other_threads_run_meanwhile(ratings: Ratings) -> None:
    def model() -> dp.PrivateRecommender:
        return dp.PrivateRecommender(ledger=dp.NO_LEDGER, rating="stars", item_ids_are_public=True, n_rounds=2, insecure_seed=3)

    found: list[Any] = []

    def fit() -> None:
        found.append(model().fit(ratings).item_factors_)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=fit) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alone = model().fit(ratings).item_factors_
    assert len(found) == 2
    assert all(np.array_equal(one, alone) for one in found)


def _fit_in_child(method: str) -> bytes:
    import multiprocessing

    with multiprocessing.get_context(method).Pool(1) as pool:
        return bytes(pool.apply(_child))


def _child() -> bytes:
    from conftest import columns

    warnings.simplefilter("ignore")
    model = dp.PrivateRecommender(ledger=dp.NO_LEDGER, rating="stars", item_ids_are_public=True, n_rounds=2, insecure_seed=3)
    return model.fit(columns()).item_factors_.tobytes()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore")
def test_processes_that_are_forked_or_spawned_fit_the_same(method: str) -> None:
    here = _child()
    assert _fit_in_child(method) == here


def test_bad_input_names_table_row_and_column(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    stars = [str(value) for value in ratings["stars"]]
    stars[4] = "secret"
    with pytest.raises(dp.BadInput) as raised:
        recommender.fit({**ratings, "stars": stars})
    error = raised.value
    assert (error.source, error.line, error.column) == ("ratings", 5, 3)
    assert "secret" not in str(error)
    with pytest.raises(dp.BadInput, match="user"):
        recommender.fit({"item": [1], "stars": [1.0]})
    with pytest.raises(dp.BadInput, match="text or whole numbers"):
        recommender.fit({**ratings, "user_id": ratings["user_id"] + 0.5})
    with pytest.raises(FileNotFoundError) as missing:
        recommender.fit("nowhere.csv")
    assert isinstance(missing.value, dp.BadInput)
    with pytest.raises(dp.BadInput, match="found int"):
        recommender.fit(3)


def test_settings_out_of_range_are_named(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    with pytest.raises(dp.BadSetting) as raised:
        recommender.set_params(epsilon=-1.0).fit(ratings)
    assert raised.value.setting == "epsilon"
    with pytest.raises(dp.BadSetting, match="no parameter"):
        recommender.set_params(epsilom=1.0)


def test_what_is_not_fitted_says_so(recommender: dp.PrivateRecommender) -> None:
    with pytest.raises(dp.NotFittedError) as raised:
        recommender.personalize([])
    assert isinstance(raised.value, ValueError | AttributeError)
    with pytest.raises(dp.BadInput, match="no model"):
        dp.load("nowhere")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str], recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    recommender.fit(ratings)
    assert capfd.readouterr() == ("", "")


def test_models_show_themselves_in_notebooks(tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    assert "PrivateRecommender" in recommender._repr_html_()
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=5.0, delta=1e-5)
    model = recommender.set_params(ledger=ledger).fit(ratings)
    page = model.report()
    assert page.html.startswith("<!DOCTYPE html>") or page.html.startswith("<!doctype html>")
    assert "iframe" in page._repr_html_()
    page.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == page.html
    assert "epsilon" in model._repr_html_()
    assert "ratings" in ledger._repr_html_()
    assert "noise multiplier" in model.plan()._repr_html_()
    model.verify()
    model._files["items.csv"] += b"13,\n"
    with pytest.raises(dp.errors.CertificateError):
        model.verify()


def test_certificates_are_files_of_dp(tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    model = recommender.fit(ratings)
    text = model.certificate_.to_json()
    model.save(tmp_path / "model")
    assert (tmp_path / "model" / "certificate.json").read_text() == text
    changed = json.loads(text)
    changed["guarantee"]["epsilon"] = 0.5
    with pytest.raises(dp.errors.CertificateError):
        dp.Certificate(json.dumps(changed)).verify()
    shutil.rmtree(tmp_path / "model")


def test_the_scale_of_ratings_is_learnt_unless_it_is_given() -> None:
    def labels(**given: Any) -> list[str]:
        return [release["label"] for release in dp.PrivateRecommender(**given).plan().releases]

    learnt = labels(item_ids_are_public=True)
    assert labels(item_ids_are_public=True, scale_share=0.05) == learnt
    assert len(labels(item_ids_are_public=True, rating_range=(1, 5))) < len(learnt)
    assert len(labels(item_ids_are_public=True, scale_share=0.0)) < len(learnt)


def test_public_ratings_are_a_prior_as_a_file_or_in_memory(
    recommender: dp.PrivateRecommender, ratings: Ratings, tmp_path: Path
) -> None:
    lines = [f"p{user},{(3 * user + n) % 20},{1 + (user + n) % 5}" for user in range(40) for n in range(6)]
    public = tmp_path / "public.csv"
    public.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    table = dp.evidence(public, tmp_path / "prior.csv", n_tastes=2)
    rows = [line.split(",") for line in table.read_text().splitlines()]
    assert rows[0] == ["item", "bias", "taste_1", "taste_2", "standard_error"]
    with pytest.raises(dp.errors.OutputExists):
        dp.evidence(public, table)

    # the same from a table in memory whose columns have other names
    columns = [line.split(",") for line in lines]
    named = {name: [row[at] for row in columns] for at, name in enumerate(("person", "film"))}
    named["stars"] = [float(row[2]) for row in columns]
    again = dp.evidence(named, tmp_path / "again.csv", n_tastes=2, user="person", item="film", rating="stars")
    assert again.read_text() == table.read_text()
    with pytest.raises(dp.errors.BadInput, match="looked for user"):
        dp.evidence(named, tmp_path / "none.csv")
    with pytest.raises(dp.errors.BadSetting, match="`user` and `item` both name the column film"):
        dp.evidence(named, tmp_path / "none.csv", user="film", item="film")
    assert not (tmp_path / "none.csv").exists()

    seeded = recommender.set_params(insecure_seed=1)
    with pytest.warns(dp.PrivacyWarning):
        without = seeded.fit(ratings).item_factors_.copy()
    assert seeded.prior_votes_ is None
    in_memory = {name: [row[at] if at == 0 else float(row[at]) for row in rows[1:]] for at, name in enumerate(rows[0]) if at < 4}
    fitted = []
    for prior in (table, in_memory):
        with pytest.warns(dp.PrivacyWarning):
            model = seeded.set_params(prior=prior).fit(ratings)
        assert "made from public data, not from these users" in json.dumps(model.certificate_.as_dict())
        fitted.append(model.item_factors_.copy())
        votes = model.prior_votes_
        assert votes is not None
        assert votes.noise_stddev > 0
        assert votes.needed == pytest.approx(8 * votes.noise_stddev)
        assert votes.kept == (votes.sum > votes.needed)
        assert f"{votes.sum:.0f}" in model._repr_html_()
    model.save(tmp_path / "model")
    assert dp.load(tmp_path / "model").prior_votes_ == votes
    assert np.array_equal(fitted[0], fitted[1])
    assert fitted[0].shape != without.shape or not np.array_equal(fitted[0], without)

    with pytest.raises(dp.DpError, match="prior"):
        seeded.set_params(prior={"item": ["elsewhere"], "x": [1.0]}).fit(ratings)


def test_users_who_opt_in_become_evidence_and_are_not_in_the_private_data(
    recommender: dp.PrivateRecommender, ratings: Ratings, tmp_path: Path
) -> None:
    users = sorted({str(user) for user in ratings["user_id"]})
    agreed = [users[1], users[4], "nobody"]
    is_listed = np.array([str(user) in agreed for user in ratings["user_id"]])
    listed, others = ({name: column[part] for name, column in ratings.items()} for part in (is_listed, ~is_listed))
    catalogue = {"item": sorted({str(item) for item in ratings["item"]})}
    seeded = recommender.set_params(insecure_seed=1, item_ids_are_public=False, catalogue=catalogue)
    (tmp_path / "agreed.txt").write_text("\n".join(agreed) + "\n")
    fitted = []
    for opt_in in (agreed, tmp_path / "agreed.txt"):
        with pytest.warns(dp.PrivacyWarning):
            model = seeded.set_params(opt_in=opt_in).fit(ratings)
        said = json.dumps(model.certificate_.as_dict())
        assert "3 listed users (SHA-256" in said
        assert "agreed to contribute without protection" in said
        fitted.append(model.item_factors_.copy())
    assert np.array_equal(fitted[0], fitted[1])

    # the same as evidence made from the ratings of these users, and a run on those of all others
    prior = dp.evidence(listed, tmp_path / "prior.csv", user="user_id", item="item", rating="stars", items=catalogue)
    with pytest.warns(dp.PrivacyWarning):
        by_hand = seeded.set_params(opt_in=None, prior=prior).fit(others)
    assert np.array_equal(fitted[0], by_hand.item_factors_)
    with pytest.warns(dp.PrivacyWarning):
        without = seeded.set_params(prior=None).fit(others)
    assert fitted[0].shape != without.item_factors_.shape or not np.array_equal(fitted[0], without.item_factors_)
    with pytest.raises(dp.BadSetting, match="none of the listed users has ratings"):
        seeded.set_params(opt_in=["nobody"]).fit(ratings)


def test_released_metrics_have_intervals(ratings: dict[str, Any]) -> None:
    model = dp.PrivateRecommender(
        epsilon=20, delta=1e-5, ledger=dp.NO_LEDGER, rating="stars", item_ids_are_public=True, release_metrics=0.2
    ).fit(ratings)
    metrics = model.certificate_.metrics
    assert {of.metric for of in metrics} == {"RMSE", "MAE", "MSE"}  # the last is the gain over a baseline
    assert "model" in {of.method for of in metrics}
    assert all(of.lower <= of.value <= of.upper and of.confidence == 0.95 for of in metrics)
    assert "95 % interval" in model.certificate_._repr_html_()


def test_messages_name_the_parameters_of_python(tmp_path: Path, ratings: dict[str, Any]) -> None:
    with pytest.raises(dp.errors.BadSetting, match="give `catalogue`, a public catalogue"):
        dp.PrivateRecommender(ledger=dp.NO_LEDGER, rating="stars").fit(ratings)
    with pytest.raises(dp.errors.LedgerMissing, match=r"no\.ledger: `dp\.Ledger\.create` makes one"):
        dp.PrivateRecommender(ledger=tmp_path / "no.ledger", rating="stars", item_ids_are_public=True).fit(ratings)


def test_the_nearest_items_are_those_of_the_factors_above_their_noise(
    recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.DpWarning)
        recommender.set_params(epsilon=40.0, dim=3, n_rounds=7, insecure_seed=5).fit(ratings)
    n_tastes = recommender._factors.n_tastes()
    assert n_tastes == 2
    tastes = recommender.item_factors_[:, 1 : 1 + n_tastes]
    lengths = np.linalg.norm(tastes, axis=1)
    shown = 0
    for at, item in enumerate(recommender.items_):
        near = recommender.nearest(item, k=3)
        for other in near:
            to = recommender.items_.index(other.item)
            assert to != at
            assert other.cosine == pytest.approx(tastes[at] @ tastes[to] / lengths[at] / lengths[to])
            assert other.stddev is not None
        assert [of.cosine for of in near] == sorted((of.cosine for of in near), reverse=True)
        shown += len(near)
    assert shown > 0
    with pytest.raises(dp.BadSetting, match="an id of an item"):
        recommender.nearest("nothing")


def test_seeded_noise_is_not_charged_to_a_ledger(tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=4.0, delta=1e-5)
    with pytest.raises(dp.BadSetting, match="`insecure_seed`: cannot be used with `ledger`") as raised:
        recommender.set_params(ledger=ledger, insecure_seed=1).fit(ratings)
    assert raised.value.setting == "insecure_seed"
    assert ledger.as_dict()["n_releases"] == 0


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"no_split": True, "release_metrics": 0.1}, "`release_metrics`: cannot be used with `no_split`"),
        ({"no_split": True, "split_seed": 1}, "`no_split`: cannot be used with `split_seed`"),
        ({"prior": {"item": ["1"], "x": [1.0]}, "opt_in": ["1"]}, "`opt_in`: cannot be used with `prior`"),
        ({"prior_is_public": True}, "`prior_is_public`: needs `prior`"),
        ({"rating_range": (1, 5), "label_center": 3.0}, "`rating_range`: cannot be used with `label_center`"),
        ({"rating_range": (1, 5), "label_bound": 3.0}, "`rating_range`: cannot be used with `label_bound`"),
        ({"rating_range": (1, 5), "scale_share": 0.1}, "`rating_range`: cannot be used with `scale_share`"),
        ({"metric_bound": 1.0}, "`metric_bound`: needs `release_metrics`"),
        ({"scratch": "here"}, "`scratch`: needs `memory`"),
        ({"catalogue": ["1"]}, "`item_ids_are_public`: cannot be used with `catalogue`"),
        ({"dim": [2, 3]}, "`dim`: takes one value"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    recommender: dp.PrivateRecommender, ratings: Ratings, params: dict[str, Any], text: str
) -> None:
    recommender.set_params(**params)
    for call in (recommender.plan, lambda: recommender.fit(ratings)):
        with pytest.raises(dp.BadSetting, match=text):
            call()


def test_what_is_of_the_wrong_type_is_a_dp_error(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    model = recommender.fit(ratings)
    me = model.personalize({1: 5.0, 3: 2.0})
    for kind, call in {
        TypeError: [lambda: me.recommend(2.5), lambda: model.nearest(1, k="x"), lambda: dp.Ledger(True)],
        ValueError: [lambda: me.recommend(rank_by="x"), lambda: me.predict(2.5), lambda: model.nearest(1, k=0)],
    }.items():
        for wrong in call:
            with pytest.raises(dp.DpError) as raised:
                wrong()
            assert isinstance(raised.value, kind)
    with pytest.raises(dp.BadSetting, match="ledger = True: expected the file of a ledger"):
        model.set_params(ledger=True).fit(ratings)
    # text and whole numbers are one id
    assert np.array_equal(me.predict("10"), me.predict(["10"]), equal_nan=False)
    assert np.array_equal(me.predict(10), me.predict(["10"]))


def test_errors_say_what_to_do(tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    def hint(model: Any, data: Any = ratings, **params: Any) -> str:
        with pytest.raises(dp.DpError) as raised:
            model.set_params(**params).fit(data)
        return str(raised.value).partition("\nhint: ")[2]

    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=20.0, delta=1e-5)
    recommender.set_params(ledger=ledger).fit(ratings)
    renamed = {**ratings, "user_id": ratings["user_id"] + 1000}
    assert "`same_data_set=True`" in hint(recommender, renamed)
    assert '`data_set="ratings"`' in hint(recommender, data_set="other")
    assert "smaller epsilon or a larger delta" in hint(recommender, ledger=dp.NO_LEDGER, data_set=None, epsilon=1e-3, delta=1e-30)
    assert hint(recommender, epsilon=2.0, delta=1e-5, rating="value") == "if it has another name, give it as `rating`"
    several = dp.PrivateFederatedRegressor(ledger=ledger, data_set="ratings", n_rounds=2, target="stars", user="user_id")
    assert '`dp.Ledger.create(..., kind="mixed")`' in hint(several)


def test_too_little_data_for_tastes_is_a_warning(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    with pytest.warns(dp.DpWarning, match=r"Too little data for taste factors.*`dim=3` learns two") as warned:
        recommender.set_params(epsilon=0.5).fit(ratings)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Too little data")
        recommender.set_params(epsilon=2.0, dim=3).fit(ratings)
        recommender.set_params(dim=None, method="biases").fit(ratings)
