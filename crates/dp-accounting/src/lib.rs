#![doc = include_str!("../README.md")]

mod accountant;
mod allowance;
mod certificate;
mod error;
pub mod gdp;
mod ledger;
mod plan;
mod rounding;
mod spend;

pub use accountant::GdpAccountant;
pub use allowance::{DELTA_RESERVE, SAMPLER_TOTAL_VARIATION, usable_delta};
pub use certificate::{
    Artifact, CERTIFICATE_SCHEMA, Certificate, CertificateBuilder, Guarantee, GuaranteeKind,
    Project, ReleasedOutput, Status, Verified,
};
pub use error::{Error, Result};
pub use ledger::{Budget, LEDGER_SCHEMA, Ledger};
pub use plan::{Plan, PlannedRelease, ReleaseRequest};
pub use spend::{ReleaseRecord, Spend};
