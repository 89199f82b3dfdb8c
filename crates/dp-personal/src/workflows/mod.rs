//! The workflows, one per file.

pub mod audit;
pub mod demo;
pub mod evaluate;
pub mod evidence;
pub mod federate;
pub mod input;
pub mod items;
pub mod ledger;
pub mod nightly;
pub mod personalize;
pub mod predict;
pub(crate) mod private_run;
pub mod publish;
pub mod recommend;
pub mod recompute;
pub mod report;
pub mod similar;
pub mod synth;
pub mod train;
pub mod tune;
pub mod verify;
