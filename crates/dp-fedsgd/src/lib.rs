#![doc = include_str!("../README.md")]

mod batches;
pub mod bounds;
mod error;
mod federated;
mod local_choice;
mod objective;
mod paid;
mod places;
mod ppsgd;
mod selection;
mod watch;

pub use batches::{HeldBatches, StreamedBatches, UserBatches};
pub use error::{Error, Result};
pub use federated::{
    Client, OpenRound, Rejection, Reply, RoundMessage, RoundOutcome, Server, UpdateMessage,
};
pub use local_choice::{ChosenModel, LocalChoice};
pub use objective::{
    AdditiveLoss, AdditiveModel, Gradients, Minibatch, PersonalizedObjective, Point,
};
pub use ppsgd::{
    BatchReduction, ClipSchedule, FittedPpSgd, KeptRound, LocalModels, LocalTraining,
    Participation, PpSgd, PpSgdParams, Provenance, PublicEarlyStopping, RoundEnd, SharedModel,
    StepSchedule,
};
pub use selection::AlphaSelection;
pub use watch::{Observed, ObservedRound, RoundWatch, Watch};
