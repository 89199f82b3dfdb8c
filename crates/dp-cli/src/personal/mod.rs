//! Personal models in a shared subspace: what `dp personalize`, `dp predict` and the reproductions on real data have in
//! common.

mod fit;
mod flags;
mod frame;
mod inputs;
mod methods;
mod peers;

pub(crate) use fit::{Fit, Method, MethodSettings};
pub(crate) use flags::{Ranges, columns_of, shares_of, task_of};
pub(crate) use frame::{Personal, Users};
pub(crate) use inputs::{Column, Inputs, Intercept, Task};
pub(crate) use methods::{Errors, MethodName, UserErrors};
pub(crate) use peers::{Peers, errors_in_subspace, errors_of_users, pay_apart};
