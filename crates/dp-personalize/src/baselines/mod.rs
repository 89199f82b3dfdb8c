//! What a private shared representation is measured against.

mod non_private;
mod single_model;

use dp_core::SampleRows;

pub use non_private::NonPrivateAltMin;
pub use single_model::{FittedSingleModel, SingleModel, SingleModelParams, SingleModelStatistics};

use crate::PersonalModel;
use crate::design::{min_norm_least_squares, read_rows};

/// A user's model from own rows alone: the least-squares solution of smallest norm, `X_j^+ y_j`, without any subspace. Local and
/// free.
#[must_use]
pub fn own_data_model(rows: SampleRows<'_>, n_features: usize) -> PersonalModel {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    read_rows(rows, &mut x, &mut y);
    PersonalModel::of_coefficients(min_norm_least_squares(&x, &y, n_features))
}

/// The model that predicts 0.
#[must_use]
pub fn zero_model(n_features: usize) -> PersonalModel {
    PersonalModel::of_coefficients(vec![0.0; n_features])
}
