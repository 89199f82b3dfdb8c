//! The tests of this crate except `ledger_torture`, in one binary.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]

#[path = "../shared/mod.rs"]
mod shared;

mod calibration;
mod certificate;
mod conformance;
mod convolution;
mod doc_numbers;
mod extremes;
mod filter;
mod floors;
mod golden;
mod hostile_input;
mod ledger;
mod pld;
mod properties;
mod questions;
mod rdp;
mod reference_values;
mod saddle_point;
mod sampled_schedule;
mod soundness;
