//! One user's rows projected onto a basis, and least squares on them. Nothing here leaves the user.

use dp_core::SampleRows;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::small::inner;

/// Default ridge relative to the mean eigenvalue of the user's own Gramian: large enough to solve
/// with a rank-deficient matrix, too small to matter otherwise.
pub(crate) const TINY_RIDGE: f64 = 1e-9;

/// The same for designs in single precision, in which rounding could introduce directions that the
/// rows do not have.
pub(crate) const SINGLE_RIDGE: f64 = 1e-5;

/// Scratch memory for one user: projected rows `(n_rows, rank)`, labels, solution.
#[derive(Default)]
pub(crate) struct UserDesign {
    pub(crate) rank: usize,
    pub(crate) projected: Vec<f64>,
    pub(crate) labels: Vec<f64>,
    pub(crate) own: Vec<f64>,
    gram: Vec<f64>,
    /// The basis by columns.
    columns: Vec<f64>,
    /// The intercept's contribution to every row's leverage: 0 unless rows are centred.
    leverage_of_level: f64,
}

/// Inner product of features and a column, with eight partial sums.
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
        self.leverage_of_level = 0.0;
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

    /// Centres the rows: from here on there is an unpenalised intercept.
    pub(crate) fn center(&mut self) {
        take_off_means(&mut self.projected, self.rank);
        take_off_means(&mut self.labels, 1);
        self.leverage_of_level = 1.0 / self.n_rows().max(1) as f64;
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.labels.len()
    }

    /// The upper triangle of `Z^T Z`, and its trace.
    pub(crate) fn gram(&mut self) -> (Vec<f64>, f64) {
        let rank = self.rank;
        let mut gram = std::mem::take(&mut self.gram);
        gram.clear();
        gram.resize(rank * rank, 0.0);
        for z in self.projected.chunks_exact(rank) {
            for a in 0..rank {
                let row = &mut gram[a * rank..][..rank];
                for b in a..rank {
                    row[b] += z[a] * z[b];
                }
            }
        }
        let trace = gram.iter().step_by(rank + 1).sum();
        (gram, trace)
    }

    /// Writes `v = (Z^T Z + ridge tr(Z^T Z)/k I)^-1 Z^T y` to `own`. If there is no finite
    /// solution, writes zeros and returns false.
    pub(crate) fn solve(&mut self, ridge: f64) -> bool {
        let solved = match self.rank {
            1 => self.solve_few::<1>(ridge),
            2 => self.solve_few::<2>(ridge),
            3 => self.solve_few::<3>(ridge),
            4 => self.solve_few::<4>(ridge),
            _ => self.solve_any(ridge),
        };
        if !solved || self.own.iter().any(|v| !v.is_finite()) {
            self.own.fill(0.0);
            return false;
        }
        true
    }

    fn solve_any(&mut self, ridge: f64) -> bool {
        let rank = self.rank;
        let trace;
        (self.gram, trace) = self.gram();
        self.own.fill(0.0);
        for (z, y) in self.projected.chunks_exact(rank).zip(&self.labels) {
            self.own.iter_mut().zip(z).for_each(|(o, z)| *o += z * y);
        }
        let lift = ridge * trace / rank as f64;
        let diagonal = self.gram.iter_mut().step_by(rank + 1);
        diagonal.for_each(|g| *g += lift);
        cholesky_in_place(&mut self.gram, rank)
            .and_then(|()| cholesky_solve_in_place(&self.gram, rank, &mut self.own))
            .is_ok()
    }

    /// The same for a rank known at compile time, in registers.
    fn solve_few<const K: usize>(&mut self, ridge: f64) -> bool {
        let (mut a, mut x) = ([[0.0; K]; K], [0.0; K]);
        let (rows, _) = self.projected.as_chunks::<K>();
        for (z, y) in rows.iter().zip(&self.labels) {
            for r in 0..K {
                x[r] += z[r] * y;
                for c in r..K {
                    a[r][c] += z[r] * z[c];
                }
            }
        }
        let trace: f64 = (0..K).map(|k| a[k][k]).sum();
        let lift = ridge * trace / K as f64;
        (0..K).for_each(|k| a[k][k] += lift);
        let solved = solve_in_registers(&mut a, &mut x);
        self.gram.clear();
        self.gram.extend(a.iter().flatten());
        self.own.copy_from_slice(&x);
        solved
    }

    /// `y_i - z_i^T v` of each row.
    pub(crate) fn residuals(&self) -> impl Iterator<Item = f64> + '_ {
        let rows = self.projected.chunks_exact(self.rank);
        rows.zip(&self.labels).map(|(z, y)| {
            let products = z.iter().zip(&self.own).map(|(z, v)| z * v);
            y - products.sum::<f64>()
        })
    }

    /// Mean squared leave-one-out error with this ridge, by the diagonal of the hat matrix; for
    /// centred rows, that of the fit with an intercept. Infinite if a row cannot be left out.
    pub(crate) fn leave_one_out(&mut self, ridge: f64) -> f64 {
        if !self.solve(ridge) {
            return f64::INFINITY;
        } // the factorisation is left in `gram`
        let rank = self.rank;
        let mut total = 0.0;
        for (z, y) in self.projected.chunks_exact(rank).zip(&self.labels) {
            let mut across = z.to_vec();
            if cholesky_solve_in_place(&self.gram, rank, &mut across).is_err() {
                return f64::INFINITY;
            }
            let kept = 1.0 - self.leverage_of_level - inner(z, &across);
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

/// [`cholesky_in_place`] and [`cholesky_solve_in_place`] for a system that is too small for vector
/// instructions. Returns false if the matrix is not positive definite.
fn solve_in_registers<const K: usize>(a: &mut [[f64; K]; K], x: &mut [f64; K]) -> bool {
    for k in 0..K {
        let pivot = a[k][k];
        if !(pivot > 0.0 && pivot.is_normal()) {
            return false;
        }
        let inverse = pivot.sqrt().recip();
        a[k].iter_mut().for_each(|u| *u *= inverse); // the remaining part of the diagonal is never read
        x[k] *= inverse;
        for r in k + 1..K {
            for c in r..K {
                a[r][c] -= a[k][r] * a[k][c];
            }
            x[r] -= a[k][r] * x[k];
        }
    }
    for k in (0..K).rev() {
        for c in k + 1..K {
            x[k] -= a[k][c] * x[c];
        }
        x[k] /= a[k][k];
    }
    true
}

/// Subtracts the mean row from rows of length `dim`, and returns it.
pub(crate) fn take_off_means(rows: &mut [f64], dim: usize) -> Vec<f64> {
    let mut means = vec![0.0; dim];
    let share = 1.0 / (rows.len() / dim).max(1) as f64;
    for row in rows.chunks_exact(dim) {
        let sums = means.iter_mut().zip(row);
        sums.for_each(|(mean, x)| *mean += share * x);
    }
    for row in rows.chunks_exact_mut(dim) {
        let cells = row.iter_mut().zip(&means);
        cells.for_each(|(x, mean)| *x -= mean);
    }
    means
}

/// All rows of a user in double precision: `(n_rows, n_features)`.
pub(crate) fn read_rows(rows: SampleRows<'_>, x: &mut Vec<f64>, y: &mut Vec<f64>) {
    x.clear();
    y.clear();
    for (features, label) in rows.iter() {
        x.extend(features.iter().map(|&x| f64::from(x)));
        y.push(label.into());
    }
}

/// Least squares of smallest norm, `X^+ y`, of rows `(n_rows, dim)`, up to a ridge of
/// [`TINY_RIDGE`]; zeros if there is no finite solution.
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
    let mut dual = y.to_vec();
    if solve_dual(&mut gram, &mut dual) {
        for (i, a) in dual.iter().enumerate() {
            theta.iter_mut().zip(row(i)).for_each(|(t, x)| *t += a * x);
        }
    }
    if theta.iter().any(|t| !t.is_finite()) {
        theta.fill(0.0);
    }
    theta
}

/// Overwrites `y` with `a = (K + ridge tr(K)/m I)^-1 y`, with the ridge [`TINY_RIDGE`]: for
/// `K = X X^T` the solution of smallest norm is `X^T a`. Returns false if there is no solution.
pub(crate) fn solve_dual(kernel: &mut [f64], y: &mut [f64]) -> bool {
    let n = y.len();
    let trace: f64 = kernel.iter().step_by(n + 1).sum();
    let lift = TINY_RIDGE * trace / n.max(1) as f64;
    kernel.iter_mut().step_by(n + 1).for_each(|k| *k += lift);
    cholesky_in_place(kernel, n)
        .and_then(|()| cholesky_solve_in_place(kernel, n, y))
        .is_ok()
}
