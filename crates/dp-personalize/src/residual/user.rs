//! What a user computes for a step: the own model, its residual, the gradient of the subspace.

use dp_core::UserRow;
use dp_linalg::{StridedRows, weighted_row_sum};

use super::beside::GradientsBeside;
use crate::Subspace;
use crate::beside::{UserBlock, go_beside};
use crate::design::{SINGLE_RIDGE, UserDesign};
use crate::embedding::RowUse;
use crate::kept::KeptNumbers;
use crate::small::{norm, norm_of_row, transposed};
use crate::user_rows::{Sweep, UserCells, single};

/// Public values of a step that users compute with.
#[derive(Clone, Copy)]
pub(crate) struct Public<'a> {
    /// Length of the features as they are.
    pub(crate) n_features: usize,
    /// The subspace for whitened features.
    pub(crate) subspace: &'a Subspace,
    /// The whitening transform `W`, lower triangular, if any.
    pub(crate) transform: Option<&'a [f64]>,
    /// `W^T U`: the basis for features as they are.
    pub(crate) basis: &'a [f64],
    /// Gradients that were computed before, for a step that reads them twice.
    pub(crate) kept: Option<&'a KeptNumbers<'a>>,
}

/// Working memory.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct ResidualScratch {
    beside: Option<GradientsBeside>,
    /// What [`GradientsBeside::write`] found of one user.
    found: Vec<f32>,
    sweep: Sweep,
    design: UserDesign,
    /// The columns of the transform in single precision, as the rows are.
    transform: Vec<f32>,
    whitened: Vec<f32>,
    /// Unit vector along the own model.
    direction: Vec<f64>,
    scales: Vec<f64>,
}

/// `R_j = scale p w_j^T` of one user.
pub(super) struct Gradient<'a> {
    pub(super) scale: f64,
    pub(super) pulled: &'a [f32],
    pub(super) direction: &'a [f64],
    /// Working memory.
    pub(super) scales: &'a mut Vec<f64>,
    /// `||R_j||_F`.
    pub(super) size: f64,
}

impl<'a> Public<'a> {
    /// A subspace for features as they are.
    pub(super) fn unwhitened(subspace: &'a Subspace) -> Self {
        Self {
            n_features: subspace.dim(),
            subspace,
            transform: None,
            basis: subspace.basis(),
            kept: None,
        }
    }
}

impl Public<'_> {
    pub(super) fn scratch(&self) -> ResidualScratch {
        let (dim, rank) = (self.n_features, self.subspace.rank());
        let transform = self.transform.map(|w| transposed(w, dim));
        let transform = transform.unwrap_or_default();
        ResidualScratch {
            beside: GradientsBeside::new(self).ok(),
            found: vec![0.0; GradientsBeside::width(dim, rank)],
            sweep: Sweep::new(self.basis, rank),
            design: UserDesign::new(rank),
            transform: transform.iter().map(|&t| single(t)).collect(),
            whitened: vec![0.0; dim],
            direction: vec![0.0; rank],
            scales: Vec::new(),
        }
    }

    /// One user's gradient, or `None` for a user who has nothing to say: no more rows than `rank`, or a model
    /// that is zero.
    ///
    /// ```text
    /// R_j = m_j/(m_j - k) W X_j^T r_j w_j^T / (||v_j|| e_j),  w_j = v_j/||v_j||,  r_j = y_j - X_j W U v_j,  e_j = ||X_j||_F^2 / d
    /// ```
    pub(super) fn gradient<'s>(
        &'s self,
        user: UserRow<'_>,
        own: &'s mut ResidualScratch,
    ) -> Option<Gradient<'s>> {
        if let Some(numbers) = self.kept.and_then(|kept| kept.find(user)) {
            return self.read(numbers, &mut own.direction, &mut own.scales);
        }
        let cells = UserCells::of(user, self.n_features);
        if !go_beside(cells) {
            return self.compute(cells, own);
        }
        let beside = own.beside.as_mut()?;
        beside.write(UserBlock::alone(&cells), &mut own.found);
        self.read(&own.found, &mut own.direction, &mut own.scales)
    }

    /// What [`GradientsBeside::write`] has written of one user.
    pub(super) fn read<'s>(
        &self,
        numbers: &'s [f32],
        direction: &'s mut [f64],
        scales: &'s mut Vec<f64>,
    ) -> Option<Gradient<'s>> {
        let ([scale, size], rest) = numbers.split_first_chunk()?;
        let (w, pulled) = rest.split_at_checked(direction.len())?;
        let cells = direction.iter_mut().zip(w);
        cells.for_each(|(direction, &w)| *direction = w.into());
        (!size.is_nan()).then_some(Gradient {
            scale: (*scale).into(),
            pulled,
            direction,
            scales,
            size: (*size).into(),
        })
    }

    /// The same for one user, who may have many rows.
    fn compute<'s>(
        &self,
        user: UserCells<'_>,
        own: &'s mut ResidualScratch,
    ) -> Option<Gradient<'s>> {
        const ALL: (RowUse, usize) = (RowUse::All, usize::MAX);
        let (dim, rank) = (self.n_features, self.subspace.rank());
        let ResidualScratch { sweep, design, .. } = own;
        sweep.read(user);
        sweep.fill(design, user, ALL);
        let n_rows = design.n_rows();
        if n_rows <= rank || !design.solve(SINGLE_RIDGE) {
            return None;
        }
        let energy: f64 = sweep.used(ALL).map(|row| sweep.square(user, row)).sum();
        let size = design.residuals().map(|r| r * r).sum::<f64>().sqrt();
        let residuals = design.residuals().map(|r| r / size.max(f64::MIN_POSITIVE));
        let pulled = sweep.weighted_sum(user, ALL, residuals);
        let length = norm(&design.own);
        let boost = n_rows as f64 / (n_rows - rank) as f64;
        let scale = size * boost * dim as f64 / (length * energy);
        let pulled = if self.transform.is_some() {
            let transform = StridedRows {
                data: &own.transform,
                stride: dim,
                n_rows: dim,
                dim,
            };
            weighted_row_sum(transform, pulled, &mut own.whitened).ok()?;
            &own.whitened
        } else {
            pulled
        };
        let models = own.direction.iter_mut().zip(&design.own);
        models.for_each(|(w, v)| *w = v / length);
        let size = scale * norm_of_row(pulled);
        size.is_finite().then_some(Gradient {
            scale,
            pulled,
            direction: &own.direction,
            scales: &mut own.scales,
            size,
        })
    }
}
