//! Reading a ledger while a writer is active, and checking a certificate against it.

use std::fs;

use dp_accounting::{Certificate, Error, Ledger, LedgerSummary, Spend};
use dp_core::DpEvent;

use super::support::{budget, open, plan, scratch};

#[test]
fn an_audit_reads_beside_a_writer_and_changes_nothing() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let part = plan(0.5);
    let spends = ledger.reserve(&part).unwrap();
    let before = fs::read(&path).unwrap();
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!((summary.releases.len(), summary.torn), (2, false));
    assert_eq!(summary.balance, ledger.balance());
    assert_eq!(
        summary.releases,
        spends.iter().map(Spend::record).collect::<Vec<_>>()
    );
    // a torn end is reported, is counted if it can be read, is not a release, and stays unchanged
    drop(ledger);
    fs::write(&path, &before[..before.len() - 5]).unwrap();
    let torn = Ledger::audit(&path).unwrap();
    assert_eq!((torn.releases.len(), torn.torn), (1, true));
    assert_eq!(torn.balance, summary.balance);
    assert_eq!(fs::read(&path).unwrap().len(), before.len() - 5);
    for bytes in [&b""[..], b"{", b"x\n", &before[1..]] {
        assert!(matches!(
            LedgerSummary::from_bytes(bytes),
            Err(Error::LedgerCorrupt { .. })
        ));
    }
}

#[test]
fn a_certificate_is_covered_only_by_the_ledger_that_paid() {
    let (_folder, path) = scratch();
    let part = plan(0.5);
    let mut ledger = open(&path).unwrap();
    let records: Vec<_> = ledger
        .reserve(&part)
        .unwrap()
        .iter()
        .map(Spend::record)
        .collect();
    let certificate = Certificate::builder(&part, "ratings")
        .releases(records)
        .build()
        .unwrap();
    let summary = Ledger::audit(&path).unwrap();
    summary.covers(&certificate).unwrap();
    let mut unpaid = Ledger::in_memory("ratings", budget()).unwrap();
    let records = unpaid
        .reserve(&part)
        .unwrap()
        .iter()
        .map(Spend::record)
        .collect();
    let elsewhere = Certificate::builder(&part, "ratings")
        .releases(records)
        .build()
        .unwrap();
    let mut dearer = certificate.clone();
    dearer.releases[1].event = DpEvent::gaussian(1e-3);
    let mut longer = certificate.clone();
    longer.releases[0].n_draws += 1;
    for wrong in [elsewhere, dearer, longer] {
        assert!(matches!(
            summary.covers(&wrong),
            Err(Error::NotInLedger { .. })
        ));
    }
    let mut other = certificate;
    other.data_set_id = "else".to_owned();
    assert!(matches!(
        summary.covers(&other),
        Err(Error::CertificateMismatch {
            field: "data_set_id",
            ..
        })
    ));
}
