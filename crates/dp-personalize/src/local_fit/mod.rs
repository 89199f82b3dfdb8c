//! A user's own model, fitted by the user.

mod soft_prior;
mod sparse;
#[cfg(test)]
mod tests;

use dp_core::{SampleRows, params};

use crate::design::{TINY_RIDGE, UserDesign};
use crate::embedding::ConvexLoss;
use crate::small::inner;
use crate::{Result, Subspace};

use sparse::{OwnRows, Sparse};

/// How a user fits the own model `theta = U v` on the own rows, once the subspace is public.
///
/// ```text
/// v = argmin sum_i (y_i - <U^T x_i, v>)^2 + lambda t ||v||^2,   t = tr(Z^T Z) / k,  Z = X U
/// ```
///
/// Source: Jain et al. 2021, Theorem 4.2, the last step of Algorithm 1, on all rows of the user instead of the second
/// half. The ridge is relative, so that it does not depend on units.
///
/// Users who differ from each other by more than the subspace can go beyond it:
///
/// ```text
/// sparse residual   theta = U v + s,  ||s||_0 <= q      [`with_sparse_residual`](Self::with_sparse_residual)
/// soft prior        theta near the span of U            [`with_soft_prior`](Self::with_soft_prior)
/// ```
///
/// # Privacy
/// Local: a function of the user's own rows and the released subspace, seen by nobody else. The whole is then
/// jointly private (billboard model), and choosing the ridge by leaving rows out costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalFit {
    penalties: Vec<f64>,
    loss: ConvexLoss,
    beyond: Beyond,
}

/// What a model has beside the subspace.
#[derive(Debug, Clone, PartialEq)]
enum Beyond {
    Nothing,
    /// Up to so many coordinates of the user's own.
    Sparse(usize),
    /// Anything, at one of these penalties.
    Near(Vec<f64>),
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
            beyond: Beyond::Nothing,
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
            beyond: Beyond::Nothing,
        })
    }

    /// Low rank plus sparse: up to `most` coordinates of the user's own beside the subspace, for the squared loss.
    ///
    /// ```text
    /// min over v, s  sum_i (y_i - <U^T x_i, v> - <x_i, s>)^2 + lambda t ||(v, s)||^2,   ||s||_0 <= q
    /// ```
    ///
    /// by orthogonal matching pursuit: coordinates join one by one, each time the one most correlated with the residual, and `v` and `s` are
    /// solved for together. The user takes the `q` of 0 to `most` with the least error on own rows left out one at a time,
    /// coordinates chosen anew each time. The model class is that of alternating minimisation with hard thresholding
    /// (AMHT-LRS); here the shared part is learned without knowing of `s`, which is noise to it, and the sparse part is local and costs no privacy.
    /// A `most` above the number of features means all of them.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for 0 and for another loss than the squared one.
    pub fn with_sparse_residual(mut self, most: usize) -> Result<Self> {
        params::at_least_one("coordinates of the sparse residual", most)?;
        self.needs_squared_loss()?;
        self.beyond = Beyond::Sparse(most);
        Ok(self)
    }

    /// A soft prior towards the subspace instead of a model in it, for the squared loss.
    ///
    /// ```text
    /// min over theta  sum_i (y_i - <x_i, theta>)^2 + lambda t ||U^T theta||^2 + kappa e ||(I - U U^T) theta||^2,   e = ||X||_F^2 / d
    /// ```
    ///
    /// `kappa` is the one of `penalties` with the least error on own rows left out one at a time, and no deviation at all where that
    /// is no worse. Many own rows so lead from the subspace to the user's own least squares.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for no penalty, one that is not finite and positive, and another loss than the squared one.
    pub fn with_soft_prior(mut self, penalties: Vec<f64>) -> Result<Self> {
        params::at_least_one("penalties", penalties.len())?;
        for &penalty in &penalties {
            params::finite_positive("penalty outside the subspace", penalty)?;
        }
        self.needs_squared_loss()?;
        self.beyond = Beyond::Near(penalties);
        Ok(self)
    }

    fn needs_squared_loss(&self) -> Result<()> {
        if self.loss == ConvexLoss::Squared {
            return Ok(());
        }
        let (name, expected) = ("loss", "the squared loss, for models beyond the subspace");
        params::in_range(name, 1, 0, 0, expected)?;
        Ok(())
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
        let within = PersonalModel::new(subspace, design.own.clone());
        let own = || OwnRows {
            dim: subspace.dim(),
            rank: subspace.rank(),
            x: rows
                .iter()
                .flat_map(|(x, _)| x.iter().map(|&x| f64::from(x)))
                .collect(),
            z: design.projected.clone(),
            y: design.labels.clone(),
        };
        match &self.beyond {
            Beyond::Nothing => within,
            Beyond::Sparse(most) => within.plus_sparse(subspace, &own().sparse(*most, best.1)),
            Beyond::Near(penalties) => within.near(subspace, &own(), best.1, penalties),
        }
    }
}

impl PersonalModel {
    /// `U v + s`, unless that is not finite.
    fn plus_sparse(self, subspace: &Subspace, found: &Sparse) -> Self {
        let (own, values) = found.solution.split_at(subspace.rank());
        let mut model = Self::new(subspace, own.to_vec());
        for (&at, value) in found.support.iter().zip(values) {
            model.coefficients[at] += value;
        }
        if model.coefficients.iter().all(|t| t.is_finite()) {
            model
        } else {
            self
        }
    }

    /// The model near the subspace that does best on rows left out, this one where none does better.
    fn near(self, subspace: &Subspace, own: &OwnRows, ridge: f64, penalties: &[f64]) -> Self {
        // a deviation this dear is none
        let least = own.near(ridge, 1e12).map_or(f64::INFINITY, |found| found.1);
        let mut best = (least, None);
        for &penalty in penalties {
            match own.near(ridge, penalty) {
                Some((pulled, error)) if error < best.0 => best = (error, Some(pulled)),
                _ => (),
            }
        }
        let Some(pulled) = best.1 else {
            return self;
        };
        let (outside, inside) = pulled.split_at(subspace.dim());
        let mut model = Self::new(subspace, inside.to_vec());
        let both = model.coefficients.iter_mut().zip(outside);
        both.for_each(|(t, o)| *t += o);
        // <u, theta>, as the basis is orthonormal
        let rank = subspace.rank();
        for (k, v) in model.own.iter_mut().enumerate() {
            let column = subspace.basis().iter().skip(k).step_by(rank);
            *v = column.zip(&model.coefficients).map(|(u, t)| u * t).sum();
        }
        model
    }

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

    /// The user's `theta`, length `dim`: `U v`, and what lies beyond the subspace where the fit allows for that.
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
