//! A user's own model, fitted by the user.

use dp_core::{SampleRows, params};

use crate::design::{TINY_RIDGE, UserDesign};
use crate::embedding::ConvexLoss;
use crate::small::inner;
use crate::{Result, Subspace};

/// How a user fits the own model `theta = U v` on the own rows, once the subspace is public.
///
/// ```text
/// v = argmin sum_i (y_i - <U^T x_i, v>)^2 + lambda t ||v||^2,   t = tr(Z^T Z) / k,  Z = X U
/// ```
///
/// Source: Jain et al. 2021, Theorem 4.2, the last step of Algorithm 1, on all rows of the user instead of the second
/// half. The ridge is relative, so that it does not depend on units.
///
/// # Privacy
/// Local: a function of the user's own rows and the released subspace, seen by nobody else. The whole is then
/// jointly private (billboard model), and choosing the ridge by leaving rows out costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalFit {
    penalties: Vec<f64>,
    loss: ConvexLoss,
}

/// One user's model: never released, it stays with the user.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "made from one user's private rows; printing it is never wanted"
)]
pub struct PersonalModel {
    own: Vec<f64>,
    coefficients: Vec<f64>,
}

impl Default for LocalFit {
    /// A ridge of 1e-9: plain least squares wherever that has a solution.
    fn default() -> Self {
        Self {
            penalties: vec![TINY_RIDGE],
            loss: ConvexLoss::Squared,
        }
    }
}

impl LocalFit {
    /// Ridge with `l2_penalty` (`lambda`, relative).
    ///
    /// # Errors
    /// [`crate::Error::Param`] when it is not finite and positive.
    pub fn ridge(l2_penalty: f64) -> Result<Self> {
        Self::leave_one_out(vec![l2_penalty])
    }

    /// The minimiser of `sum_i l(<x_i, U v>; y_i) + (lambda/2) t ||v||^2` for another convex loss.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the penalty or the loss's threshold is not finite and positive.
    pub fn convex(loss: ConvexLoss, l2_penalty: f64) -> Result<Self> {
        loss.check()?;
        Ok(Self {
            loss,
            ..Self::ridge(l2_penalty)?
        })
    }

    /// Every user takes the one of `penalties` with the least error on own rows left out one at a time; the first of
    /// equals.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for no penalty at all, and one that is not finite and positive.
    pub fn leave_one_out(penalties: Vec<f64>) -> Result<Self> {
        params::at_least_one("penalties", penalties.len())?;
        for &penalty in &penalties {
            params::finite_positive("l2_penalty", penalty)?;
        }
        Ok(Self {
            penalties,
            loss: ConvexLoss::Squared,
        })
    }

    /// The user's model. A user without usable rows gets zeros.
    ///
    /// # Panics
    /// When the rows do not have the subspace's dimension.
    ///
    /// # Examples
    /// ```
    /// use dp_core::UserSamplesBuilder;
    /// use dp_personalize::{LocalFit, Provenance, Subspace};
    /// let axis = Subspace::spanned_by(2, 1, &[1.0, 1.0], Provenance::NonPrivate)?;
    /// let mut user = UserSamplesBuilder::new(2, 2)?;
    /// user.push(0, &[1.0, 1.0], 6.0)?;
    /// let samples = user.build().0;
    /// let model = LocalFit::default().fit(&axis, samples.rows(0));
    /// assert!((model.predict(&[2.0, 0.0]) - 6.0).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fit(&self, subspace: &Subspace, rows: SampleRows<'_>) -> PersonalModel {
        let mut design = UserDesign::new(subspace.rank());
        self.fit_with(subspace, rows, &mut design)
    }

    pub(crate) fn fit_with(
        &self,
        subspace: &Subspace,
        rows: SampleRows<'_>,
        design: &mut UserDesign,
    ) -> PersonalModel {
        let mut dims = rows.iter().map(|(x, _)| x.len());
        assert!(
            dims.all(|n| n == subspace.dim()),
            "rows of another dimension"
        );
        design.read(rows.iter(), subspace.basis());
        let mut best = (f64::INFINITY, self.penalties[0]);
        if self.penalties.len() > 1 {
            for &penalty in &self.penalties {
                let error = design.leave_one_out(penalty);
                if error < best.0 {
                    best = (error, penalty);
                }
            }
        }
        design.solve_convex(self.loss, best.1);
        PersonalModel::new(subspace, design.own.clone())
    }
}

impl PersonalModel {
    pub(crate) fn new(subspace: &Subspace, own: Vec<f64>) -> Self {
        let rows = subspace.basis().chunks_exact(subspace.rank());
        Self {
            coefficients: rows.map(|u| inner(u, &own)).collect(),
            own,
        }
    }

    pub(crate) const fn of_coefficients(coefficients: Vec<f64>) -> Self {
        Self {
            own: Vec::new(),
            coefficients,
        }
    }

    /// The user's `v`, length `rank`; empty for a model that was fitted without a subspace.
    #[must_use]
    pub fn own(&self) -> &[f64] {
        &self.own
    }

    /// The user's `theta = U v`, length `dim`.
    #[must_use]
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// `<x, theta>`; features beyond `dim` are ignored.
    #[must_use]
    pub fn predict(&self, x: &[f32]) -> f64 {
        self.coefficients
            .iter()
            .zip(x)
            .map(|(t, &x)| t * f64::from(x))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;

    use super::*;
    use crate::Provenance;

    #[test]
    fn leaving_rows_out_by_the_hat_matrix_is_leaving_them_out() {
        let rows = [
            ([1.0_f32, 0.5], 2.0_f32),
            ([0.3, -1.0], 1.0),
            ([-0.7, 0.2], 0.0),
            ([0.1, 0.9], 3.0),
        ];
        let identity = [1.0, 0.0, 0.0, 1.0];
        // the relative ridge of all rows, as an absolute one
        let trace: f64 = rows
            .iter()
            .flat_map(|(x, _)| x)
            .map(|&x| f64::from(x).powi(2))
            .sum();
        let mut expected = 0.0;
        for out in 0..rows.len() {
            let kept = || {
                rows.iter()
                    .enumerate()
                    .filter(|(at, _)| *at != out)
                    .map(|(_, (x, y))| (&x[..], *y))
            };
            let less: f64 = kept()
                .flat_map(|(x, _)| x)
                .map(|&x| f64::from(x).powi(2))
                .sum();
            let mut design = UserDesign::new(2);
            design.read(kept(), &identity);
            design.solve(0.1 * trace / less);
            let (x, y) = rows[out];
            let found = design.own[0] * f64::from(x[0]) + design.own[1] * f64::from(x[1]);
            expected += (f64::from(y) - found).powi(2) / 4.0;
        }
        let mut design = UserDesign::new(2);
        design.read(rows.iter().map(|(x, y)| (&x[..], *y)), &identity);
        assert!((design.leave_one_out(0.1) / expected - 1.0).abs() < 1e-10);
    }

    #[test]
    fn users_without_rows_or_with_absurd_ones_get_finite_models() {
        let plane =
            Subspace::spanned_by(2, 2, &[1.0, 0.0, 0.0, 1.0], Provenance::NonPrivate).unwrap();
        let mut builder = UserSamplesBuilder::new(2, 3).unwrap();
        builder.push(0, &[0.0, 0.0], 1.0).unwrap();
        builder.push(1, &[f32::MAX, f32::MAX], f32::MAX).unwrap();
        builder
            .push(1, &[f32::MIN_POSITIVE, 1e-30], f32::MAX)
            .unwrap();
        builder.push(2, &[f32::NAN, 0.0], 1.0).unwrap();
        let samples = builder.build().0;
        let fit = LocalFit::leave_one_out(vec![1e-9, 1e-3, 1.0]).unwrap();
        for rows in samples.users() {
            let model = fit.fit(&plane, rows);
            assert!(model.coefficients().iter().all(|t| t.is_finite()));
        }
        assert!(LocalFit::leave_one_out(vec![]).is_err());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LocalFit::ridge(bad).is_err());
        }
    }
}
