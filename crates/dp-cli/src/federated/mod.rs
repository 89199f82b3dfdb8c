//! Models that users learn partly together and partly alone: what `dp federate` and the reproductions of Bietti et al. 2022 have
//! in common.

mod convergence;
mod figures;
mod items;
mod own_choice;
mod parts;
mod spending;
mod training;

pub(crate) use convergence::Convergence;
pub(crate) use figures::{Figures, UserFigures, coefficients, losses_of_users};
pub(crate) use items::{DescribedItems, ItemTable};
pub(crate) use own_choice::{folded_in, rows as rows_to_choose_by, with_shared};
pub(crate) use parts::{Group, Parts, Shares};
pub(crate) use spending::{ADJACENCY, Paid, Spending};
pub(crate) use training::{RunSettings, Trainer, alpha_name, alpha_of, alpha_value};
