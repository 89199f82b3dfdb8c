//! Private regression of many tasks.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]
#![allow(clippy::disallowed_types, reason = "tests drive runs")]

mod bounds;
mod convergence;
mod neighbours;
mod settings;
mod support;
