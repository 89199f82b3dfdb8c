#![doc = include_str!("../README.md")]

mod batches;
mod error;
mod federated;
mod objective;
mod paid;
mod ppsgd;
mod watch;

pub use batches::{HeldBatches, StreamedBatches, UserBatches};
pub use error::{Error, Result};
pub use federated::{
    Client, OpenRound, Rejection, RoundMessage, RoundOutcome, Server, UpdateMessage,
};
pub use objective::{
    AdditiveLoss, AdditiveModel, Gradients, Minibatch, PersonalizedObjective, Point,
};
pub use ppsgd::{
    BatchReduction, ClipSchedule, FittedPpSgd, KeptRound, LocalModels, LocalTraining,
    Participation, PpSgd, PpSgdParams, Provenance, PublicEarlyStopping, RoundEnd, SharedModel,
    StepSchedule,
};
pub use watch::{Observed, Watch};
