//! A user's model near the shared subspace instead of in it.

use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::own_rows::OwnRows;
use crate::small::inner;

impl OwnRows {
    /// `theta = argmin sum_i (y_i - <x_i, theta>)^2 + lambda t ||U^T theta||^2 + kappa e ||(I - U U^T) theta||^2`, `t = tr(Z^T Z)/k`, `e = ||X||_F^2 / d`, by its dual,
    ///
    /// ```text
    /// theta = P X^T a,   a = (X P X^T + I)^-1 y,   P = U U^T / (lambda t) + (I - U U^T) / (kappa e)
    /// ```
    ///
    /// with the squared error on rows left out, `sum_i (a_i / (((X P X^T + I)^-1)_ii - b))^2`, `b = 1/n` for an own level fitted anew each time and otherwise 0. `None` where
    /// that is not finite.
    pub(super) fn near(&self, inside: f64, outside: f64) -> Option<(Vec<f64>, f64)> {
        let n = self.y.len();
        let t = inner(&self.z, &self.z) / self.rank as f64;
        let e = inner(&self.x, &self.x) / self.dim as f64;
        let (inside, outside) = (1.0 / (inside * t), 1.0 / (outside * e));
        let mut kernel: Vec<f64> = (0..n * n)
            .map(|at| {
                let ((x, z, _), (other, seen, _)) = (self.row(at / n), self.row(at % n));
                let within = inner(z, seen);
                within * inside + (inner(x, other) - within) * outside
            })
            .collect();
        let lift = self.lift_level(&mut kernel);
        kernel.iter_mut().step_by(n + 1).for_each(|k| *k += 1.0);
        cholesky_in_place(&mut kernel, n).ok()?;
        let mut dual = self.y.clone();
        cholesky_solve_in_place(&kernel, n, &mut dual).ok()?;
        let mut left_out = 0.0;
        for (i, a) in dual.iter().enumerate() {
            let mut unit = vec![0.0; n];
            unit[i] = 1.0;
            cholesky_solve_in_place(&kernel, n, &mut unit).ok()?;
            left_out += (a / (unit[i] - lift)).powi(2);
        }
        // X^T a and Z^T a: what lies inside comes back through the basis
        let mut pulled = vec![0.0; self.dim + self.rank];
        for (i, a) in dual.iter().enumerate() {
            let (x, z, _) = self.row(i);
            let both = x.iter().map(|x| x * outside);
            let both = both.chain(z.iter().map(|z| z * (inside - outside)));
            pulled.iter_mut().zip(both).for_each(|(p, b)| *p += a * b);
        }
        let fine = left_out.is_finite() && pulled.iter().all(|p| p.is_finite());
        fine.then_some((pulled, left_out))
    }

    /// With an own level, adds `c = tr K / n` to every entry of `K = X P X^T` and gives what `b` then is, `1 / (n (1 + c n))`.
    ///
    /// Rows are less their means, so that `K 1 = 0` and `1^T y = 0`: the dual stays, and along `1` the inverse falls from `1/n` to that. Without it the difference of the inverse and
    /// `1/n` would be lost to rounding for few rows and small penalties.
    fn lift_level(&self, kernel: &mut [f64]) -> f64 {
        if !self.own_level {
            return 0.0;
        }
        let n = self.y.len();
        let trace: f64 = kernel.iter().step_by(n + 1).sum();
        let c = trace / n as f64;
        kernel.iter_mut().for_each(|k| *k += c);
        1.0 / (n as f64 * (1.0 + c * n as f64))
    }
}
