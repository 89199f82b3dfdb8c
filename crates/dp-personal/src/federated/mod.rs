//! Partly shared and partly personal models: common code of `dp federate` and the reproductions of
//! Bietti et al. 2022.

#![allow(
    missing_debug_implementations,
    reason = "users' data and their figures are not for messages"
)]

mod convergence;
mod figures;
mod items;
mod own_choice;
mod parts;
mod spending;
mod training;

pub use convergence::{Convergence, Turning};
pub use figures::{Figures, UserFigures, coefficients, losses_of_users};
pub use items::{DescribedItems, ItemTable};
pub use own_choice::{
    OWN_ROWS, Offer, chosen, folded_in, offered, offered_by, pooled, users_choose,
};
pub use parts::{Group, HoldOut, PartedUser, Parts};
pub use spending::{ADJACENCY, Paid, Spending};
pub use training::{RunSettings, Trainer, alpha_name, alpha_of, alpha_value};
pub(crate) use training::{batches_of, objective};
