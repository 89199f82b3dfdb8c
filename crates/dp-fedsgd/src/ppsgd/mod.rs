//! Algorithms 1, 2 and 3 of Bietti et al. 2022.

mod algorithm;
mod clip;
mod fit;
mod fold_in;
mod layout;
mod local_state;
mod model;
mod params;
mod plan;
mod ratio;
mod round;
mod run;
mod schedule;
#[cfg(test)]
mod scratch_tests;
mod stopping;
mod sum_source;
mod trust;

pub use algorithm::PpSgd;
pub use clip::ClipSchedule;
pub(crate) use clip::ClipState;
pub(crate) use layout::RoundLayout;
pub(crate) use local_state::{LocalState, LocalStep, StepScratch};
pub use model::{FittedPpSgd, KeptRound, LocalModels, Provenance, SharedModel};
pub use params::{BatchReduction, LocalTraining, Participation, PpSgdParams};
pub(crate) use plan::noise_multiplier;
pub(crate) use run::Run;
pub use schedule::StepSchedule;
pub use stopping::{PublicEarlyStopping, RoundEnd};
