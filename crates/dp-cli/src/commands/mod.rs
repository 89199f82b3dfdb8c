//! Commands that answer questions without touching data.

pub(crate) mod account;
mod answers;
pub(crate) mod calibrate;
pub(crate) mod completions;
