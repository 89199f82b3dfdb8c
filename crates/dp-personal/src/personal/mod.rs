//! Personal models in a shared subspace: common code of `dp personalize`, `dp predict` and the
//! reproductions on real data.

#![allow(
    missing_debug_implementations,
    reason = "users' data and their figures are not for messages"
)]

mod baselines;
mod columns;
mod fit;
mod inputs;
mod methods;
mod users;

pub use baselines::{
    Baselines, errors_in_subspace, errors_of_users, reserve_in_memory, whole_space,
};
pub use columns::{Ranges, columns_of, shares_of, task_of};
pub use fit::{Fit, Method, MethodSettings, PriorShares, SubspaceFit};
pub use inputs::{Column, Inputs, Intercept, Task};
pub use methods::{ClassFigures, Errors, MethodName, UserErrors, scored};
pub use users::{OwnFit, Personal, Users};
