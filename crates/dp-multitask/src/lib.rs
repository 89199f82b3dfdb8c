#![doc = include_str!("../README.md")]

#[macro_use]
mod checked;

mod allocation;
mod baselines;
pub mod bounds;
mod counts;
mod error;
mod factorization;
mod local_bias;
mod public_ratings;
mod regression;
mod solve;
mod tuning;

pub use allocation::{BudgetAllocation, TaskCounts, TaskWeights, UserRule};
pub use baselines::{NonPrivateAls, constant_predictions, user_mean_predictions};
pub use bounds::{improvement_ratio_convex, improvement_ratio_strongly_convex};
pub use counts::{CountContribution, NoisyCounts};
pub use error::{Error, Result};
pub use factorization::{
    ABOVE_NOISE, FactorModel, FactorizationParams, Feedback, GradientRounds, ImplicitFeedback,
    ImplicitSums, ItemGramian, ItemPrior, ItemResiduals, ItemStatistics, ItemUpdate,
    MOST_COOCCURRING, MatrixFactorization, NightContribution, NightState, NightlyFactorization,
    NightlyModel, NightlyParams, PersonalModel, PooledMatrices, RatingScale, RecordSampling,
    ResidualRounds, ScaleContribution, ScoreModel, Scoring, SimilarItem, TasteVotes, UserGramian,
    UserPenalties, UserScratch,
};
pub use local_bias::LocalBias;
pub use public_ratings::{PublicFeatures, PublicItems, PublicRatings};
pub use regression::{
    GradientClip, GradientScratch, Gramian, Iterate, Loss, MultiTaskNoisyGd,
    MultiTaskNoisyGdParams, MultiTaskSsp, MultiTaskSspParams, PooledGramian, RegressionLoss,
    ResidualBounds, ResidualSsp, ResidualSspParams, SspSolve, SspStatistics, StepSize, TaskModels,
    TaskSetup, WeightTotals, WeightedGradients, WithLoss,
};
pub use tuning::{TunedModel, Tuning, TuningParams};

// types from lower-level crates that users of this crate need, so that they can depend on this
// crate alone
#[doc(no_inline)]
pub use dp_accounting::{Budget, Certificate, Ledger, Plan};
#[doc(no_inline)]
pub use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private, UserRow};
#[doc(no_inline)]
#[allow(
    clippy::disallowed_types,
    reason = "users choose where noise comes from"
)]
pub use dp_mechanism::{
    Coordinator, CoordinatorLink, Fitted, FromWorker, NoiseSource, Observed, ObservedSums,
    Observer, Payer, Progress, Provenance, ReleaseEntry, ReleaseList, Round, Run, RunFolder, Shard,
    ShardAnswer, ToWorker, Trainer, WorkerPool,
};
