//! Learning with public features: Krichene et al. 2024.

mod cost;
mod methods;
mod ml1m;
mod plots;
mod resamples;
mod set_up;
mod synthetic;

use serde_json::Value;

use super::ReproduceArgs;
use super::report::Row;
use dp_personal::error::Result;

pub(super) fn synthetic(args: &ReproduceArgs) -> Result<Vec<Row>> {
    synthetic::rows(args)
}

pub(super) fn resamples(args: &ReproduceArgs) -> Result<Vec<Row>> {
    resamples::rows(args)
}

pub(super) fn cost(args: &ReproduceArgs) -> Result<Vec<Row>> {
    cost::rows(args)
}

pub(super) fn ml1m(args: &ReproduceArgs) -> Result<Vec<Row>> {
    ml1m::rows(args)
}

/// The figure of a reproduction, if it has one.
pub(super) fn plot(name: &str, rows: &[Value]) -> Option<String> {
    let chart = match name {
        "krichene2024-synthetic" => plots::synthetic(rows),
        "krichene2024-resamples" => plots::resamples(rows),
        "krichene2024-cost" => plots::cost(rows),
        "krichene2024-ml1m" => return Some(dp_page::stacked(&plots::ml1m(rows))),
        _ => return None,
    };
    Some(chart.svg())
}
