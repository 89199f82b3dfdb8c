from pathlib import Path

import pytest

import dp_personal as dp


def test_a_ledger_is_made_once_and_shown(tmp_path: Path) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=4.0, delta=1e-5)
    shown = dp.Ledger(ledger.path)
    assert shown.as_dict()["data_set"] == "ratings"
    assert "ratings" in shown.show()
    with pytest.raises(FileExistsError) as raised:
        dp.Ledger.create(ledger.path, epsilon=4.0, delta=1e-5)
    assert isinstance(raised.value, dp.LedgerError)


def test_a_ledger_that_is_missing_is_a_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(dp.errors.LedgerMissing) as raised:
        dp.Ledger(tmp_path / "none.ledger").show()
    assert isinstance(raised.value, FileNotFoundError)
