//! Personal models in a shared subspace: what `dp personalize`, `dp predict` and the reproductions on real data have in
//! common.

#![allow(
    missing_debug_implementations,
    reason = "users' data and their figures are not for messages"
)]

mod columns;
mod fit;
mod frame;
mod inputs;
mod methods;
mod peers;

pub use columns::{Ranges, columns_of, shares_of, task_of};
pub use fit::{Fit, Method, MethodSettings};
pub use frame::{OwnFit, Personal, Users};
pub use inputs::{Column, Inputs, Intercept, Task};
pub use methods::{ClassFigures, Errors, MethodName, UserErrors, scored};
pub use peers::{Peers, errors_in_subspace, errors_of_users, pay_apart, whole_space};
