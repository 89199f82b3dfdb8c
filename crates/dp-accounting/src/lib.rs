#![doc = include_str!("../README.md")]
#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "a negated comparison is how a check refuses NaN as well"
)]

mod books;
mod engines;
mod error;
pub mod questions;

pub use engines::accountant::{Accountant, Method, PrivacyBound};
pub use engines::gaussian::GdpAccountant;
pub use engines::pld::PldAccountant;
pub use engines::rdp::RdpAccountant;
pub use engines::saddle_point::SaddlePointAccountant;
pub use engines::tightest::TightestAccountant;
pub use engines::trade_off::{TradeOff, trade_off};
pub use engines::zcdp::ZcdpAccountant;
pub use engines::{calibrate, gdp, rdp};

pub use books::allowance::{DELTA_RESERVE, SAMPLER_TOTAL_VARIATION, usable_delta};
pub use books::certificate::{
    Artifact, Assumption, CERTIFICATE_SCHEMA, Certificate, CertificateBuilder, Guarantee,
    GuaranteeKind, Making, NotMade, Project, ReleasedMetric, ReleasedOutput, Status, Verified, utc,
};
pub use books::figures::{rounded_down, rounded_up};
pub use books::filter::{
    GaussianFilter, IndividualGaussianFilter, Odometer, OrderBalance, RdpFilter,
};
pub use books::ledger::{
    Balance, Budget, BudgetKind, LEDGER_SCHEMA, Ledger, LedgerEntry, LedgerNight, LedgerNote,
    LedgerSummary, LifetimeState, Standing, hex, sha256_hex,
};
pub use books::pace::Pace;
pub use books::plan::{Plan, PlannedRelease, ReleaseRequest, Requests};
pub use books::spend::{NightSpend, ReleaseRecord, Reservation, Spend};
pub use books::statement::{Attacker, PrivacyStatement};

pub use error::{Error, Measure, Result};
