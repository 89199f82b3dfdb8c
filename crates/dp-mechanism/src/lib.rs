#![doc = include_str!("../README.md")]
// After the quantisers there are only integers, and no operation that can overflow or panic
// unnoticed. Exceptions are marked with a reason.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod client_policy;
mod client_sampling;
mod contribution;
mod error;
mod exponential;
mod gram_sum;
mod grid;
mod kronecker_sum;
#[cfg(privacy_mutants)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    clippy::indexing_slicing,
    reason = "bugs on purpose; in no other build"
)]
mod mutants;
mod noise_source;
mod paced;
mod payment;
mod quantile;
mod random_bits;
mod release;
mod run;
mod sampler;
mod scalar;
mod sum_backend;
mod summed_users;
#[cfg(test)]
mod test_support;
mod vector_sum;

pub use client_policy::{AskedRound, ClientPolicy, ClientRecord, KnownRun, Lifetime, Refusal};
pub use client_sampling::{
    ClientSample, ClientSampling, FixedSizeSampling, PaidSample, PoissonSampling, RoundKey,
};
pub use contribution::{FactorBuffer, FactorContribution, SparseBuffer, VectorContribution};
pub use error::{Error, Result};
pub use exponential::{ExponentialMechanism, ScoreChange, ScoreSum, SelectedIndex};
pub use gram_sum::{GramContribution, GramGrids, GramLayout, GramSums, gram_contribution};
pub use grid::Grid;
pub use kronecker_sum::{
    KroneckerContribution, KroneckerGrid, KroneckerSum, OffDiagonalNoise, RowsBuffer,
    kronecker_contribution,
};
pub use noise_source::NoiseSource;
pub use paced::{PacedLifetime, ReleasedNight};
pub use quantile::{PrivateQuantile, ReleasedQuantile};
pub use release::{ReleasedGrams, ReleasedVector};
pub use run::{
    ByteLink, BytePool, ChannelLink, ChannelPool, Coordinator, CoordinatorLink, DealUsers, Dealing,
    Fitted, FromWorker, GridForm, LedgerPayer, Observed, ObservedSums, Observer, OneUser, OpenSum,
    PaidLine, Payer, Progress, Provenance, RELEASE_LIST_SCHEMA, ReleaseEntry, ReleaseForm,
    ReleaseKind, ReleaseList, Round, Run, RunFolder, Shard, ToWorker, Trainer, TrainerCheck,
    TrainerLaw, WorkerPool, plan_for, try_grids, worker_channels,
};
pub use sampler::{DiscreteGaussian, FlooredGaussian, TV_LOG2_PER_DISCRETE_DRAW, TV_LOG2_PER_DRAW};
pub use scalar::{ReleasedScalar, release_scalar_sum, release_user_count};
pub use sum_backend::{
    InProcess, NoisyShare, ShardAnswer, ShardSum, Sharded, Share, ShareServer, SumBackend,
    SumRequest, Tally, TwoServers,
};
pub use vector_sum::{PaidSum, VectorSum, vector_contribution};
