//! The built binary, run the way an operator runs it.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]

mod account;
mod arguments;
mod audit;
mod binding;
mod calibrate;
mod demo;
mod evaluate;
mod explorations;
mod feature_columns;
mod features;
mod features_implicit;
mod federate;
mod head;
mod hostile_ratings;
mod implicit;
mod input_files;
mod insecure_seed;
mod item_ids;
mod ledger;
mod ledger_kinds;
mod logs;
mod malformed;
mod memory;
mod new_items;
mod nightly;
mod output_folder;
mod parquet;
mod personalize;
mod predict;
mod prior;
mod publish;
mod python;
mod quality;
mod ranges;
mod real_data;
mod recommend;
mod released_files;
mod report;
mod resume;
mod resume_every_command;
mod screen;
mod settings;
mod support;
mod synth;
mod train;
mod tune;
mod verify;
mod warnings;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_dp");
