#![doc = include_str!("../README.md")]
#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "a negated comparison is how a check refuses NaN as well"
)]

mod accountant;
mod allowance;
pub mod calibrate;
mod certificate;
mod composition;
mod error;
mod figures;
mod filter;
mod gauss_legendre;
pub mod gdp;
mod ledger;
mod loss;
mod plan;
mod pld;
mod profile;
pub mod questions;
pub mod rdp;
mod rounding;
mod saddle_point;
mod schedule;
mod spend;
mod statement;
mod tightest;
mod tuning;
mod zcdp;

pub use accountant::{Accountant, Method, PrivacyBound};
pub use allowance::{DELTA_RESERVE, SAMPLER_TOTAL_VARIATION, usable_delta};
pub use certificate::{
    Artifact, CERTIFICATE_SCHEMA, Certificate, CertificateBuilder, Guarantee, GuaranteeKind,
    Project, ReleasedOutput, Status, Verified,
};
pub use error::{Error, Result};
pub use figures::{rounded_down, rounded_up};
pub use filter::{GaussianFilter, IndividualGaussianFilter, Odometer, OrderBalance, RdpFilter};
pub use gdp::GdpAccountant;
pub use ledger::{Balance, Budget, BudgetKind, LEDGER_SCHEMA, Ledger, LedgerSummary, Measure};
pub use plan::{Plan, PlannedRelease, ReleaseRequest};
pub use pld::PldAccountant;
pub use rdp::RdpAccountant;
pub use saddle_point::SaddlePointAccountant;
pub use spend::{ReleaseRecord, Reservation, Spend};
pub use statement::{Attacker, PrivacyStatement};
pub use tightest::TightestAccountant;
pub use zcdp::ZcdpAccountant;
