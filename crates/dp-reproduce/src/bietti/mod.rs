//! Personalised private SGD: Bietti et al. 2022.

mod figure1a;
mod frontier;
mod plots;
mod threshold;

use serde_json::Value;

use super::ReproduceArgs;
use super::report::Row;
use dp_personal::error::Result;

pub(super) fn figure1a(args: &ReproduceArgs) -> Result<Vec<Row>> {
    figure1a::rows(args)
}

pub(super) fn frontier(args: &ReproduceArgs) -> Result<Vec<Row>> {
    frontier::rows(args)
}

pub(super) fn threshold(args: &ReproduceArgs) -> Result<Vec<Row>> {
    threshold::rows(args)
}

/// The figure of a reproduction, if it has one.
pub(super) fn plot(name: &str, rows: &[Value]) -> Option<String> {
    let chart = match name {
        "bietti2022-figure1a" | "bietti2022-synthetic" => plots::figure1a(rows),
        "bietti2022-frontier" => plots::frontier(rows),
        "bietti2022-threshold" => plots::threshold(rows),
        _ => return None,
    };
    Some(chart.svg())
}
