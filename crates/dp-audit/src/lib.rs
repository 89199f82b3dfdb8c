#![doc = include_str!("../README.md")]
#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "a negated comparison is how a check refuses NaN as well"
)]

mod black_box;
mod canary;
mod epsilon;
mod error;
mod frequencies;
mod kernel;
mod oracles;
mod release;
mod report;
mod run;
mod sampler;
mod sampling;
mod selection;
mod sensitivity;
mod sequential;
pub mod statistics;
pub mod testing;
mod trainer;
mod view;

pub use black_box::{BlackBoxAudit, audit_black_box};
pub use canary::Canaries;
pub use epsilon::{EpsilonAudit, audit_epsilon};
pub use error::{Error, Result};
pub use frequencies::{FrequencyAudit, audit_frequencies, audit_uniform_words};
pub use kernel::{observe_grams, observe_vector, vector_view};
#[cfg(feature = "pubfeat")]
pub use oracles::{
    DpSgdOracle, FeatureRounds, FeatureRoundsOracle, PublicFeatures, PublicFeaturesOracle,
};
#[cfg(feature = "multitask")]
pub use oracles::{FactorizationOracle, TuningOracle};
#[cfg(feature = "fedsgd")]
pub use oracles::{PpSgdOracle, SgdRound, SgdRun};
pub use release::{ReleaseAudit, audit_independence, audit_release, draws_needed};
pub use report::{Check, Verdict};
pub use run::{AuditedRun, RunAudit, RunSettings, audit_run, claim_of};
pub use sampler::{SamplerAudit, audit_discrete_sampler, audit_sampler};
pub use sampling::{SamplingAudit, audit_fixed_size, audit_poisson};
pub use selection::{RangeAudit, audit_range};
pub use sensitivity::{SensitivityAudit, audit_sensitivity, without_user};
pub use sequential::{GuessingGame, NoiseWatch};
pub use trainer::{AuditedTrainer, AuditedUsers, Oracle, Watch, differs};
pub use view::{Entries, Layout, View};
