//! Certificates to test with, and forgeries of them.

use dp_accounting::{
    Budget, Certificate, CertificateBuilder, Error, Guarantee, Ledger, Plan, ReleaseRecord,
    ReleaseRequest, Spend,
};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor};

pub(super) const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};

pub(super) fn run(adjacency: Adjacency) -> (Plan, Vec<ReleaseRecord>) {
    let requests = [
        ReleaseRequest::new("counts-0", 1.0, ReplaceFactor::Two, 17),
        ReleaseRequest::new("gramians-1", 7.3, ReplaceFactor::SqrtTwo, 1_234),
    ];
    paid(TARGET, adjacency, &requests)
}

pub(super) fn paid(
    target: ApproxDp,
    adjacency: Adjacency,
    requests: &[ReleaseRequest],
) -> (Plan, Vec<ReleaseRecord>) {
    let plan = Plan::calibrate(target, adjacency, requests).unwrap();
    let records = records(&plan);
    (plan, records)
}

/// The releases of `plan`, paid from a ledger that holds just enough.
pub(super) fn records(plan: &Plan) -> Vec<ReleaseRecord> {
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    let mut ledger = Ledger::in_memory("ratings-2024", budget).unwrap();
    let spends = ledger.reserve(plan).unwrap();
    spends.iter().map(Spend::record).collect()
}

pub(super) fn builder(adjacency: Adjacency) -> CertificateBuilder {
    let (plan, records) = run(adjacency);
    Certificate::builder(&plan, "ratings-2024")
        .releases(records)
        .released_output("item factors, 32 numbers an item", "everyone")
        .assumption("item ids of the 2024 input are public")
        .not_covered("test RMSE in internal.md, 3 digits")
}

pub(super) fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

pub(super) type Change = fn(&mut Certificate);

/// The guarantee of a private certificate.
pub(super) fn claimed(certificate: &mut Certificate) -> &mut Guarantee {
    certificate.guarantee.as_mut().unwrap()
}

/// `certificate` with a matching digest, as a careful forger would write it.
pub(super) fn rehashed(mut certificate: Certificate) -> Certificate {
    certificate.digest.clear();
    let Err(Error::CertificateMismatch { recomputed, .. }) = certificate.verify() else {
        panic!("an empty digest passed");
    };
    certificate.digest = recomputed.trim_matches('"').to_owned();
    certificate
}

pub(super) fn mismatched_field(certificate: Certificate) -> &'static str {
    match rehashed(certificate).verify() {
        Err(Error::CertificateMismatch { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}
