//! One file a workflow.

pub mod audit;
pub mod demo;
pub mod evaluate;
pub mod federate;
pub mod input;
pub mod ledger;
pub mod personalize;
pub mod predict;
pub mod recommend;
pub mod report;
mod resume;
pub mod synth;
pub mod train;
pub mod tune;
pub mod verify;
