#![doc = include_str!("../README.md")]

mod batches;
mod error;
mod objective;

pub use batches::{HeldBatches, StreamedBatches, UserBatches};
pub use error::{Error, Result};
pub use objective::{
    AdditiveLoss, AdditiveModel, Gradients, Minibatch, PersonalizedObjective, Point,
};
