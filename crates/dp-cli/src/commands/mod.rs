//! One file a command.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod calibrate;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod evaluate;
pub(crate) mod federate;
pub(crate) mod input;
pub(crate) mod ledger;
pub(crate) mod personalize;
pub(crate) mod predict;
pub(crate) mod recommend;
pub(crate) mod report;
pub(crate) mod reproduce;
mod resume;
pub(crate) mod synth;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod verify;
