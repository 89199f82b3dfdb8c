//! One user's rows seen through a basis, and least squares on them. Nothing here leaves the user.

use dp_core::SampleRows;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::small::inner;

/// Ridge relative to the mean eigenvalue of the user's own Gramian, where nothing else is said: enough to solve a
/// matrix without full rank, too little to matter otherwise.
pub(crate) const TINY_RIDGE: f64 = 1e-9;

/// Working memory for one user: rows through the basis `(n_rows, rank)`, labels, solution.
#[derive(Default)]
pub(crate) struct UserDesign {
    pub(crate) rank: usize,
    pub(crate) projected: Vec<f64>,
    pub(crate) labels: Vec<f64>,
    pub(crate) own: Vec<f64>,
    gram: Vec<f64>,
    /// The basis by columns.
    columns: Vec<f64>,
}

/// Inner product of features and a column, eight sums side by side.
fn mixed_inner(x: &[f32], b: &[f64]) -> f64 {
    let (eights, others) = (x.chunks_exact(8), b.chunks_exact(8));
    let rest = eights.remainder().iter().zip(others.remainder());
    let rest: f64 = rest.map(|(&x, b)| f64::from(x) * b).sum();
    let mut sums = [0.0_f64; 8];
    for (x, b) in eights.zip(others) {
        for ((sum, &x), b) in sums.iter_mut().zip(x).zip(b) {
            *sum += f64::from(x) * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

impl UserDesign {
    pub(crate) fn new(rank: usize) -> Self {
        Self {
            rank,
            own: vec![0.0; rank],
            gram: vec![0.0; rank * rank],
            ..Self::default()
        }
    }

    /// Reads `(x^T B, y)` of the rows, `B` of shape `(n_features, rank)`.
    pub(crate) fn read<'a>(&mut self, rows: impl Iterator<Item = (&'a [f32], f32)>, basis: &[f64]) {
        self.projected.clear();
        self.labels.clear();
        self.columns.clear();
        for k in 0..self.rank {
            self.columns.extend(basis.iter().skip(k).step_by(self.rank));
        }
        let dim = (basis.len() / self.rank).max(1);
        for (x, y) in rows {
            self.labels.push(y.into());
            let columns = self.columns.chunks_exact(dim);
            self.projected.extend(columns.map(|b| mixed_inner(x, b)));
        }
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.labels.len()
    }

    /// `Z^T Z` and its trace.
    pub(crate) fn gram(&mut self) -> (Vec<f64>, f64) {
        let rank = self.rank;
        let mut gram = std::mem::take(&mut self.gram);
        gram.clear();
        gram.resize(rank * rank, 0.0);
        for z in self.projected.chunks_exact(rank) {
            for (a, row) in gram.chunks_exact_mut(rank).enumerate() {
                row.iter_mut().zip(z).for_each(|(g, b)| *g += z[a] * b);
            }
        }
        let trace = gram.iter().step_by(rank + 1).sum();
        (gram, trace)
    }

    /// `v = (Z^T Z + ridge tr(Z^T Z)/k I)^-1 Z^T y` into `own`. Where that has no finite solution: zeros, and false.
    pub(crate) fn solve(&mut self, ridge: f64) -> bool {
        let rank = self.rank;
        let trace;
        (self.gram, trace) = self.gram();
        self.own.fill(0.0);
        for (z, y) in self.projected.chunks_exact(rank).zip(&self.labels) {
            self.own.iter_mut().zip(z).for_each(|(o, z)| *o += z * y);
        }
        let lift = ridge * trace / rank as f64;
        self.gram
            .iter_mut()
            .step_by(rank + 1)
            .for_each(|g| *g += lift);
        let solved = cholesky_in_place(&mut self.gram, rank)
            .and_then(|()| cholesky_solve_in_place(&self.gram, rank, &mut self.own));
        if solved.is_err() || self.own.iter().any(|v| !v.is_finite()) {
            self.own.fill(0.0);
            return false;
        }
        true
    }

    /// `y_i - z_i^T v` of each row.
    pub(crate) fn residuals(&self) -> impl Iterator<Item = f64> + '_ {
        let rows = self.projected.chunks_exact(self.rank);
        rows.zip(&self.labels).map(|(z, y)| y - inner(z, &self.own))
    }

    /// Mean squared error over the rows when each is left out of the fit at this ridge, by the diagonal of the hat
    /// matrix; infinite where a row cannot be left out.
    pub(crate) fn leave_one_out(&mut self, ridge: f64) -> f64 {
        if !self.solve(ridge) {
            return f64::INFINITY;
        } // the factor is left in `gram`
        let rank = self.rank;
        let mut total = 0.0;
        for (z, y) in self.projected.chunks_exact(rank).zip(&self.labels) {
            let mut across = z.to_vec();
            if cholesky_solve_in_place(&self.gram, rank, &mut across).is_err() {
                return f64::INFINITY;
            }
            let kept = 1.0 - inner(z, &across);
            let error = (y - inner(z, &self.own)) / kept;
            total += error * error;
        }
        if total.is_finite() {
            total / self.n_rows().max(1) as f64
        } else {
            f64::INFINITY
        }
    }
}

/// All rows of a user, for what wants them in double precision: `(n_rows, n_features)`.
pub(crate) fn read_rows(rows: SampleRows<'_>, x: &mut Vec<f64>, y: &mut Vec<f64>) {
    x.clear();
    y.clear();
    for (features, label) in rows.iter() {
        x.extend(features.iter().map(|&x| f64::from(x)));
        y.push(label.into());
    }
}

/// Least squares of smallest norm, `X^+ y`, of rows `(n_rows, dim)`, up to a ridge of [`TINY_RIDGE`]; zeros where
/// that has no finite solution.
pub(crate) fn min_norm_least_squares(x: &[f64], y: &[f64], dim: usize) -> Vec<f64> {
    let n_rows = y.len();
    if n_rows >= dim {
        let mut design = UserDesign::new(dim);
        design.projected.extend_from_slice(x);
        design.labels.extend_from_slice(y);
        design.solve(TINY_RIDGE);
        return design.own;
    }
    let row = |i: usize| &x[i * dim..(i + 1) * dim];
    let mut theta = vec![0.0; dim];
    let mut gram: Vec<f64> = (0..n_rows * n_rows)
        .map(|at| inner(row(at / n_rows), row(at % n_rows)))
        .collect();
    let trace: f64 = gram.iter().step_by(n_rows + 1).sum();
    let lift = TINY_RIDGE * trace / n_rows.max(1) as f64;
    gram.iter_mut().step_by(n_rows + 1).for_each(|g| *g += lift);
    let mut dual = y.to_vec();
    let solved = cholesky_in_place(&mut gram, n_rows)
        .and_then(|()| cholesky_solve_in_place(&gram, n_rows, &mut dual));
    if solved.is_ok() {
        for (i, a) in dual.iter().enumerate() {
            theta.iter_mut().zip(row(i)).for_each(|(t, x)| *t += a * x);
        }
    }
    if theta.iter().any(|t| !t.is_finite()) {
        theta.fill(0.0);
    }
    theta
}
