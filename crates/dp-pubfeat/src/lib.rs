#![doc = include_str!("../README.md")]

mod alternating;
mod am_implicit;
mod am_residual;
mod convex;
pub mod cost;
mod dp_sgd;
mod encoder;
mod error;
mod features;
pub mod federated;
mod learn;
#[cfg(privacy_mutants)]
mod mutants;
mod problem;
mod residual;
mod ssp;
mod trainer;

pub use alternating::{
    AmSsp, AmSspParams, PersonalVector, RatingStatistics, UserStep, UserStepScratch,
};
pub use am_implicit::{
    AmImplicitSsp, AmImplicitSspParams, LikesContribution, LikesModel, LikesShare, LikesStep,
};
pub use am_residual::{
    AmResidualSsp, AmResidualSspParams, FeatureErrors, FeatureModel, FeaturePrior, FeatureWeights,
    LevelStep, PriorVariances, RoundContribution, RoundScratch,
};
pub use convex::{
    ConvexLoss, ConvexSsp, ConvexSspParams, CurvatureContribution, Logistic, Squared,
};
pub use dp_sgd::{Alternating, DpSgd, DpSgdParams, EncoderGradients, GradientScratch};
pub use encoder::{
    IdEncoder, JacobianEntry, LinearEncoder, Optimiser, OptimiserState, PublicEncoder, SparseRows,
    TwoLayerEncoder,
};
pub use error::{Error, Result};
pub use features::{FeatureKernel, ItemFeatures, ItemFeaturesBuilder, ItemKernel, SparseKernel};
pub use learn::{
    CollectiveFactorization, CollectiveParams, Descent, EncoderDescent, KernelRidge,
    PooledStatistics, RidgeNoise, StatisticsLearner, ValueDescent, ValueDescentParams,
};
pub use problem::{
    ExampleWeights, ItemNumbers, ProblemSetup, ProtectedUnit, UnitValues, WeightRule,
};
pub use residual::{
    ResidualContribution, ResidualSsp, ResidualSspParams, ShrinkingBound, TotalsContribution,
};
pub use ssp::{ItemStatistics, SampledSsp, SampledSspParams, Ssp, SspContribution, SspParams};
pub use trainer::With;

// types that programs need together with the algorithms, so that they depend on this crate alone
pub use dp_accounting::{Budget, Certificate, Ledger, Plan};
pub use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private, UserRow};
#[allow(clippy::disallowed_types, reason = "for those who drive runs")]
pub use dp_mechanism::{
    ClientPolicy, ClientRecord, Fitted, NoiseSource, Observed, ObservedSums, Observer, Progress,
    Provenance, ReleaseList, Round, Run, RunFolder, Trainer,
};
