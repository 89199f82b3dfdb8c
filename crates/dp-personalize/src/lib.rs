#![doc = include_str!("../README.md")]

mod alt_min;
mod baselines;
mod beside;
mod design;
mod embedding;
mod error;
mod exponential;
mod init;
mod interval;
mod kept;
#[cfg(test)]
mod lane_users;
mod local_fit;
mod metrics;
mod paid;
mod residual;
#[cfg(test)]
mod sensitivity_tests;
mod small;
mod subspace;
mod theory;
mod user_rows;
mod watch;

pub use alt_min::{
    AltMin, AltMinParams, Embedding, FittedSubspace, Initialisation, RowSplit, UserBatches,
};
pub use baselines::{
    FittedSingleModel, NonPrivateAltMin, SingleModel, SingleModelParams, SingleModelStatistics,
    own_data_model, zero_model,
};
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
pub use metrics::GroundTruth;
pub use residual::{
    DirectionMoments, MomentScratch, ResidualAltMin, ResidualAltMinParams, ResidualEnergy,
    ResidualScratch, ResidualStep, Whitening,
};
pub use subspace::{Provenance, Subspace};
pub use theory::UtilityRates;
pub use watch::{RoundEnd, RoundWatch};
