//! Personalised private SGD: Bietti et al. 2022.

mod figure1a;

use serde_json::{Value, json};

use super::ReproduceArgs;
use super::report::Row;
use crate::error::Result;

pub(super) fn figure1a(args: &ReproduceArgs) -> Result<Vec<Row>> {
    figure1a::rows(args)
}

/// An `alpha` as JSON, which has no infinity.
fn alpha_value(alpha: f64) -> Value {
    if alpha.is_infinite() {
        json!("inf")
    } else {
        json!(alpha)
    }
}
