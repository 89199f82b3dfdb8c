//! Tables of users' rows, from the tables that audits deal in.

use dp_core::{Interactions, SampleRows, UserSamples, UserSamplesBuilder};

use crate::Result;

/// The table as rows of users, all of them, with rows or without.
pub(super) fn samples_of(
    data: &Interactions,
    n_features: usize,
    max_rows: usize,
) -> Result<UserSamples> {
    let mut builder = UserSamplesBuilder::new(n_features, max_rows)?;
    for (user, row) in (0..).zip(data.users()) {
        builder.push(user, &vec![f32::NAN; n_features], 0.0)?; // known even without rows
        for (x, y) in SampleRows::of(row, n_features).iter() {
            builder.push(user, x, y)?;
        }
    }
    Ok(builder.build().0)
}
