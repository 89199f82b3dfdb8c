#![doc = include_str!("../README.md")]

mod alt_min;
mod baselines;
mod batched;
mod cache;
mod design;
mod embedding;
mod error;
mod exponential;
mod init;
mod interval;
#[cfg(test)]
mod lane_users;
mod local_fit;
mod metrics;
mod model_prior;
mod nightly;
mod residual;
#[cfg(test)]
#[allow(
    clippy::disallowed_types,
    reason = "each release is made by itself, apart from any run"
)]
mod sensitivity_tests;
mod single_model;
mod small;
mod subspace;
mod theory;
mod user_prior;
mod user_rows;
mod weighed;

pub use alt_min::{AltMin, AltMinParams, Embedding, Initialisation, RowSplit, UserBatches};
pub use baselines::{NonPrivateAltMin, own_data_model, zero_model};
pub use embedding::{
    ConvexLoss, DpGdEmbedding, GradientScratch, RowUse, SspEmbedding, SspMatrix, SspRhs,
    SspScratch, SubspaceGradients, SymmetricNoise,
};
pub use error::{Error, Result};
pub use exponential::{
    CandidateGains, Candidates, ExponentialSelection, ExponentialSelectionParams, GainScratch,
    SelectionLoss,
};
pub use init::{ProjectorScratch, ProjectorSum, SamplePairs};
pub use interval::SeedMean;
pub use local_fit::{LocalFit, PersonalModel};
pub use metrics::{ClassScores, GroundTruth};
pub use model_prior::{ModelPrior, ModelVotes};
pub use nightly::{NightlySubspace, NightlySubspaceModel, NightlySubspaceParams, SubspaceState};
pub use residual::{
    DirectionMoments, MomentScratch, ResidualAltMin, ResidualAltMinParams, ResidualEnergy,
    ResidualScratch, ResidualStep, Whitening,
};
pub use single_model::{SingleModel, SingleModelParams, SingleModelStatistics};
pub use subspace::Subspace;
pub use theory::UtilityRates;
pub use user_prior::{LevelSums, PriorVotes, UserLevels, UserPrior};
pub use weighed::{OwnLevel, SharedParts, WeighedFit};

// Types from lower-level crates that a fit needs.
pub use dp_accounting::{Budget, Certificate, Ledger, Plan};
pub use dp_core::{Adjacency, ApproxDp, Private, SampleRows, UserSamples, UserSamplesBuilder};
pub use dp_mechanism::{
    Coordinator, Fitted, Observer, Payer, Progress, Provenance, ReleaseList, Round, Run, Shard,
    Trainer,
};
#[allow(
    clippy::disallowed_types,
    reason = "for those who start a run; no trainer sees them"
)]
pub use {dp_accounting::Spend, dp_mechanism::NoiseSource};
