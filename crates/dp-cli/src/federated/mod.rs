//! Models that users learn partly together and partly alone: what `dp federate` and the reproductions of Bietti et al. 2022 have
//! in common.

mod figures;
mod items;
mod parts;
mod spending;
mod training;

pub(crate) use figures::{Figures, UserFigures, losses_of_users};
pub(crate) use items::{ItemTable, samples_of_ratings};
pub(crate) use parts::{Parts, Shares};
pub(crate) use spending::{ADJACENCY, Paid, Spending};
pub(crate) use training::{RunSettings, Trainer, alpha_name, alpha_value};
