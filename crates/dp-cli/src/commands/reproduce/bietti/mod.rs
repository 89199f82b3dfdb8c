//! Personalised private SGD: Bietti et al. 2022.

mod figure1a;

use super::ReproduceArgs;
use super::report::Row;
use crate::error::Result;

pub(super) fn figure1a(args: &ReproduceArgs) -> Result<Vec<Row>> {
    figure1a::rows(args)
}
