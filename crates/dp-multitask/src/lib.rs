#![doc = include_str!("../README.md")]

#[macro_use]
mod checked;

mod allocation;
mod baselines;
mod batch_solve;
pub mod bounds;
mod counts;
mod error;
mod factorization;
mod local_bias;
mod paid;
mod regression;
mod tuning;
mod watch;

pub use allocation::{
    BudgetAllocation, TaskCounts, TaskWeights, UserRule, improvement_ratio_convex,
    improvement_ratio_strongly_convex,
};
pub use baselines::{NonPrivateAls, constant_predictions, user_mean_predictions};
pub use counts::{CountContribution, NoisyCounts};
pub use error::{Error, Result};
pub use factorization::{
    Checkpoint, CheckpointFolder, FactorModel, FactorizationParams, Feedback, FittedModel,
    GradientRounds, ImplicitFeedback, ImplicitSums, ItemGramian, ItemResiduals, ItemStatistics,
    ItemUpdate, MatrixFactorization, Pay, PersonalModel, PooledMatrices, Progress, Provenance,
    RecordSampling, Released, ResidualRounds, ScoreModel, Scoring, UserGramian, UserPenalties,
    UserScratch,
};
pub use local_bias::LocalBias;
pub use regression::{
    FittedRegression, GradientClip, GradientScratch, Gramian, Iterate, Loss, MultiTaskNoisyGd,
    MultiTaskNoisyGdParams, MultiTaskSsp, MultiTaskSspParams, PooledGramian, RegressionLoss,
    ResidualBounds, ResidualSsp, ResidualSspParams, SspSolve, SspStatistics, StepSize, TaskModels,
    TaskSetup, WeightTotals, WeightedGradients,
};
pub use tuning::{TunedModel, Tuning, TuningParams};
pub use watch::{Observed, ObservedSums, Watch};
