#![doc = include_str!("../README.md")]

mod allocation;
mod baselines;
mod counts;
mod error;
mod factorization;
mod local_bias;

pub use allocation::TaskWeights;
pub use baselines::{NonPrivateAls, constant_predictions, user_mean_predictions};
pub use counts::{CountContribution, NoisyCounts};
pub use error::{Error, Result};
pub use factorization::{
    Checkpoint, CheckpointFolder, FactorModel, FactorizationParams, FittedModel, ItemStatistics,
    MatrixFactorization, Pay, PersonalModel, Progress, Provenance, Released, Scoring,
    UserPenalties, UserScratch,
};
pub use local_bias::LocalBias;
