#![doc = include_str!("../README.md")]

mod accountant;
mod allowance;
mod certificate;
mod composition;
mod error;
pub mod gdp;
mod ledger;
mod loss;
mod plan;
mod pld;
mod profile;
mod rounding;
mod spend;
mod tightest;

pub use accountant::{Accountant, Method, PrivacyBound};
pub use allowance::{DELTA_RESERVE, SAMPLER_TOTAL_VARIATION, usable_delta};
pub use certificate::{
    Artifact, CERTIFICATE_SCHEMA, Certificate, CertificateBuilder, Guarantee, GuaranteeKind,
    Project, ReleasedOutput, Status, Verified,
};
pub use error::{Error, Result};
pub use gdp::GdpAccountant;
pub use ledger::{Budget, LEDGER_SCHEMA, Ledger};
pub use plan::{Plan, PlannedRelease, ReleaseRequest};
pub use pld::PldAccountant;
pub use spend::{ReleaseRecord, Spend};
pub use tightest::TightestAccountant;
