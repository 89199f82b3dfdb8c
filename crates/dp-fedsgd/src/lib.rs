#![doc = include_str!("../README.md")]

mod batches;
pub mod bounds;
mod error;
mod federated;
mod local_choice;
mod objective;
mod ppsgd;
mod selection;

pub use batches::{HeldBatches, StreamedBatches, UserBatches};
pub use error::{Error, Result};
pub use federated::{
    Client, ClientState, OpenRound, Rejection, Reply, RoundClients, RoundMessage, RoundOutcome,
    Server, UpdateMessage,
};
pub use local_choice::{ChosenModel, LocalChoice};
pub use objective::{
    AdditiveLoss, AdditiveModel, Gradients, Minibatch, PersonalizedObjective, Point,
};
pub use ppsgd::{
    BatchReduction, ClipSchedule, KeptRound, LocalModels, LocalTraining, N_USERS_IS_PUBLIC,
    Participation, PpSgd, PpSgdModel, PpSgdParams, PpSgdTrainer, PublicEarlyStopping, SharedModel,
    StepSchedule,
};
pub use selection::{AlphaSelection, SelectedRun};

// types from other crates that a program needs: see "One dependency" in the README
pub use dp_accounting::{Budget, Certificate, Ledger, Plan};
pub use dp_core::{
    Adjacency, ApproxDp, Interactions, Private, SampleRows, UserRow, UserSamples,
    UserSamplesBuilder,
};
#[allow(
    clippy::disallowed_types,
    reason = "programs hand a noise source to a run; nothing here draws from one"
)]
pub use dp_mechanism::NoiseSource;
pub use dp_mechanism::{
    ClientPolicy, ClientRecord, ClientSampling, Coordinator, Fitted, FixedSizeSampling, Observed,
    ObservedSums, Observer, PoissonSampling, Progress, Provenance, ReleaseList, Round, Run, Shard,
    Trainer,
};
