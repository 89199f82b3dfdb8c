//! One user's own model.

use super::better;
use super::own_rows::{Means, OwnRows};
use super::sparse::Sparse;
use crate::Subspace;
use crate::small::inner;

/// One user's model: never released, it stays with the user.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "made from one user's private rows; printing it is never wanted"
)]
pub struct PersonalModel {
    own: Vec<f64>,
    coefficients: Vec<f64>,
    level: f64,
}

impl PersonalModel {
    /// `U v + s`, unless that is not finite.
    pub(super) fn plus_sparse(self, subspace: &Subspace, found: &Sparse) -> Self {
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
    pub(super) fn near(
        self,
        subspace: &Subspace,
        own: &OwnRows,
        ridge: f64,
        penalties: &[f64],
    ) -> Self {
        // a deviation this dear is none
        let least = own.near(ridge, 1e12).map_or(f64::INFINITY, |found| found.1);
        let mut best = (least, None);
        for &penalty in penalties {
            match own.near(ridge, penalty) {
                Some((pulled, error)) if better(error, best.0) => best = (error, Some(pulled)),
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
            level: 0.0,
        }
    }

    /// The same model with the level that its rows leave, `mean(y) - <mean(x), theta>`; 0 where that is not finite.
    pub(super) fn with_level(mut self, means: &Means) -> Self {
        let level = means.y - inner(&means.x, &self.coefficients);
        self.level = if level.is_finite() { level } else { 0.0 };
        self
    }

    pub(crate) const fn of_coefficients(coefficients: Vec<f64>) -> Self {
        Self {
            own: Vec::new(),
            coefficients,
            level: 0.0,
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

    /// The user's `b`; 0 unless the fit [has a level](crate::LocalFit::with_own_level).
    #[must_use]
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// `b + <x, theta>`; features beyond `dim` are ignored.
    #[must_use]
    pub fn predict(&self, x: &[f32]) -> f64 {
        let terms = self.coefficients.iter().zip(x);
        self.level + terms.map(|(t, &x)| t * f64::from(x)).sum::<f64>()
    }
}
