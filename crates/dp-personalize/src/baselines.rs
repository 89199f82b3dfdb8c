//! Baselines without privacy for the shared representation: alternating minimisation without noise,
//! a user's own data, zero.

use dp_core::{SampleRows, UserSamples, params};
use dp_linalg::{GramAccumulator, cholesky_in_place, cholesky_solve_in_place};
use dp_mechanism::Provenance;

use crate::design::{TINY_RIDGE, UserDesign, min_norm_least_squares, read_rows};
use crate::small::norm;
use crate::{PersonalModel, Result, Subspace};

/// Alternating minimisation without privacy, on all rows: exact projector sum, then steps in which users
/// fit their models and `U` is the exact least-squares solution.
///
/// Not private: its output may be seen only by those who may see the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonPrivateAltMin {
    /// Dimension of the subspace.
    pub rank: usize,
    /// Number of steps.
    pub n_rounds: usize,
}

impl NonPrivateAltMin {
    /// Runs on all users.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless the rank is from 1 to the number of features and their product is at most 1024;
    /// [`crate::Error::Linalg`] when features are so large that sums overflow.
    pub fn fit(&self, samples: &UserSamples) -> Result<Subspace> {
        let (dim, rank) = (samples.n_features(), self.rank);
        params::in_range(
            "rank",
            rank,
            1,
            dim.min(1024 / dim.max(1)),
            "from 1 to dim, rank * dim at most 1024",
        )?;
        let mut subspace = start(samples, rank)?;
        for _ in 0..self.n_rounds {
            subspace = step(&subspace, samples)?;
        }
        Ok(subspace)
    }
}

fn start(samples: &UserSamples, rank: usize) -> Result<Subspace> {
    let dim = samples.n_features();
    let mut gram = GramAccumulator::<f64>::new(dim)?;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for rows in samples.users() {
        read_rows(rows, &mut x, &mut y);
        let mut theta = min_norm_least_squares(&x, &y, dim);
        let length = norm(&theta);
        if length > 0.0 && length.is_finite() {
            theta.iter_mut().for_each(|t| *t /= length);
            gram.add_rows(&theta)?;
        }
    }
    let mut sum = vec![0.0; dim * dim];
    gram.write_full(&mut sum)?;
    Subspace::top_eigenvectors(dim, rank, &sum, Provenance::NonPrivate)
}

fn step(subspace: &Subspace, samples: &UserSamples) -> Result<Subspace> {
    let (dim, rank) = (subspace.dim(), subspace.rank());
    let n = dim * rank;
    let mut gram = GramAccumulator::<f64>::new(n)?;
    let mut design = UserDesign::new(rank);
    let mut designs = Vec::new();
    for rows in samples.users() {
        design.read(rows.iter(), subspace.basis());
        design.solve(TINY_RIDGE);
        designs.clear();
        for (x, _) in rows.iter() {
            designs.extend(
                x.iter()
                    .flat_map(|&x| design.own.iter().map(move |v| f64::from(x) * v)),
            );
        }
        gram.add_rows_with_rhs(&designs, &design.labels)?;
    }
    let mut matrix = vec![0.0; n * n];
    gram.write_full(&mut matrix)?;
    let trace: f64 = matrix.iter().step_by(n + 1).sum();
    let lift = (TINY_RIDGE * trace / n as f64).max(f64::MIN_POSITIVE);
    matrix.iter_mut().step_by(n + 1).for_each(|m| *m += lift);
    let mut solution = gram.rhs().to_vec();
    cholesky_in_place(&mut matrix, n)?;
    cholesky_solve_in_place(&matrix, n, &mut solution)?;
    Subspace::spanned_by(dim, rank, &solution, Provenance::NonPrivate)
}

/// A user's model from their own rows alone: the least-squares solution of smallest norm,
/// `X_j^+ y_j`, without any subspace. Local and free.
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
