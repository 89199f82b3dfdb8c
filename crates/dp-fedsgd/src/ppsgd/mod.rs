//! Algorithms 1, 2 and 3 of Bietti et al. 2022.

mod algorithm;
mod baselines;
mod clip;
mod fold_in;
mod local;
mod params;
mod shared;
mod trainer;

pub use algorithm::PpSgd;
pub use clip::ClipSchedule;
use clip::ClipState;
pub(crate) use local::{LocalState, LocalStep, StepScratch};
pub use params::{BatchReduction, LocalTraining, Participation, PpSgdParams, StepSchedule};
pub use shared::{KeptRound, LocalModels, PpSgdModel, SharedModel};
pub(crate) use shared::{RoundLayout, SharedState};
pub use trainer::{PpSgdTrainer, PublicEarlyStopping};
