//! Algorithms 1, 2 and 3 of Bietti et al. 2022.

mod algorithm;
mod local;
mod params;
mod shared;

pub use algorithm::PpSgd;
pub use algorithm::{N_USERS_IS_PUBLIC, PpSgdTrainer, PublicEarlyStopping};
pub(crate) use local::{LocalState, LocalStep, StepScratch};
pub use params::ClipSchedule;
use params::ClipState;
pub use params::{BatchReduction, LocalTraining, Participation, PpSgdParams, StepSchedule};
pub use shared::{KeptRound, LocalModels, PpSgdModel, SharedModel};
pub(crate) use shared::{RoundLayout, SharedState};
