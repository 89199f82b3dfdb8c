//! Personalised private SGD: Bietti et al. 2022.

mod figure1a;
mod frontier;
mod threshold;

use super::ReproduceArgs;
use super::report::Row;
use crate::error::Result;

pub(super) fn figure1a(args: &ReproduceArgs) -> Result<Vec<Row>> {
    figure1a::rows(args)
}

pub(super) fn frontier(args: &ReproduceArgs) -> Result<Vec<Row>> {
    frontier::rows(args)
}

pub(super) fn threshold(args: &ReproduceArgs) -> Result<Vec<Row>> {
    threshold::rows(args)
}
