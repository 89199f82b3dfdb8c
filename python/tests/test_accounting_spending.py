from pathlib import Path

import pytest

import dp_personal as dp
from dp_personal import accounting
from dp_personal.accounting import events as ev

RELEASED = {"histogram": "the public"}


def test_a_ledger_pays_for_releases_of_ones_own_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "survey.ledger"
    ledger = dp.Ledger.create(path, epsilon=1.0, delta=1e-5)
    half = ev.Gaussian(2**0.5 * 3.73064)
    with accounting.OpenLedger(ledger) as book:
        assert (book.epsilon, book.delta, book.n_releases) == (1.0, 1e-5, 0)
        whole = book.remaining
        assert whole == pytest.approx(1 / 3.730631634815942, rel=1e-5)
        first = book.spend(half, label="histogram")
        assert book.affords(half)
        assert book.remaining == pytest.approx(whole / 2**0.5, rel=1e-4)
    with accounting.OpenLedger(path) as book:  # a later run
        assert book.n_releases == 1
        second = book.spend(half, label="means")
        assert first.release_id != second.release_id
        before = book.balance
        assert not book.affords(half)
        with pytest.raises(dp.BudgetExceeded):
            book.spend(half, label="more")
        with pytest.raises(dp.BudgetExceeded):
            book.spend_all({"a": ev.Gaussian(1e6), "b": half})
        assert book.balance == before
        assert book.cost(half) == pytest.approx(before.budget / 2, rel=1e-3)
    shown = ledger.as_dict()
    assert "histogram" in str(shown)
    assert "more" not in ledger.show()


def test_a_ledger_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "survey.ledger"
    with accounting.OpenLedger.create(path, epsilon=1.0, delta=1e-5):
        with pytest.raises(dp.LedgerInUse):
            accounting.OpenLedger(path)
        with pytest.raises(FileExistsError):
            accounting.OpenLedger.create(path, epsilon=1.0, delta=1e-5)
    book = accounting.OpenLedger(path)
    book.close()
    with pytest.raises(ValueError, match="closed"):
        book.spend(ev.Gaussian(100.0), label="late")
    with pytest.raises(dp.errors.LedgerMissing):
        accounting.OpenLedger(tmp_path / "other.ledger")
    with pytest.raises(dp.LedgerError, match="data set"):
        accounting.OpenLedger(path, data_set="other")
    with pytest.raises(dp.LedgerError, match="adjacency"):
        accounting.OpenLedger(path, adjacency="replace-user")


def test_ledgers_of_other_kinds_count_other_mechanisms(tmp_path: Path) -> None:
    training = ev.Gaussian(1.0).poisson_sampled(0.01).repeat(500)
    with (
        accounting.OpenLedger.create(tmp_path / "gaussian.ledger", epsilon=4.0, delta=1e-5) as book,
        pytest.raises(dp.DpError, match="poisson-sampled"),
    ):
        book.spend(training, label="training")
    with accounting.OpenLedger.create(tmp_path / "mixed.ledger", epsilon=4.0, delta=1e-5, kind="mixed") as book:
        book.spend(training, label="training")
        book.spend(ev.Laplace(10.0), label="count")
        assert "Renyi" in book.balance.measure
    adjacency: accounting.Adjacency = "replace-record"
    path = tmp_path / "schedule.ledger"
    with accounting.OpenLedger.create(path, epsilon=8.0, delta=1e-5, kind="schedule", adjacency=adjacency) as book:
        spends = book.spend_all([("training", training), ("count", ev.Laplace(10.0))])
        with pytest.raises(dp.BudgetExceeded):
            book.spend(ev.Gaussian(1e6), label="more")
    certificate = accounting.certify(spends, released=RELEASED)
    expected = accounting.compose(training, ev.Laplace(10.0)).epsilon(1e-5, adjacency=adjacency)
    assert certificate.epsilon == pytest.approx(expected, rel=1e-5)
    accounting.check_covered(certificate, path)


def test_a_certificate_of_ones_own_follows_from_its_releases(tmp_path: Path) -> None:
    path = tmp_path / "survey.ledger"
    with accounting.OpenLedger.create(path, epsilon=1.0, delta=1e-5) as book:
        spends = [book.spend(ev.Gaussian(8.0), label=f"query-{i}") for i in range(3)]
    certificate = accounting.certify(spends, released=RELEASED, assumptions=["every person has one row"])
    certificate.verify()
    assert certificate.delta == 1e-5
    assert certificate.epsilon == pytest.approx(accounting.gaussian(noise_multiplier=8.0, releases=3).epsilon(1e-5), rel=1e-5)
    accounting.check_covered(certificate, dp.Ledger(path))

    file = tmp_path / "certificate.json"
    file.write_text(certificate.to_json())
    assert accounting.read_certificate(file) == certificate == accounting.read_certificate(tmp_path)

    with accounting.OpenLedger.create(tmp_path / "other.ledger", epsilon=1.0, delta=1e-5, data_set="survey"):
        pass
    with pytest.raises(dp.DpError, match="query-0"):
        accounting.check_covered(certificate, tmp_path / "other.ledger")
    edited = dp.Certificate(certificate.to_json().replace('"noise_multiplier": 8.0', '"noise_multiplier": 9.0', 1))
    with pytest.raises(dp.errors.CertificateError):
        edited.verify()
    with pytest.raises(dp.BadSetting):
        accounting.certify([], released=RELEASED)


def test_what_is_no_certificate_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        accounting.read_certificate(tmp_path)
    (tmp_path / "certificate.json").write_text("not JSON")
    with pytest.raises(dp.errors.CertificateError):
        accounting.read_certificate(tmp_path)
