//! The pair of grids of a Gram release.
#![allow(
    clippy::float_arithmetic,
    clippy::arithmetic_side_effects,
    reason = "public scales, made before any data is seen"
)]

use dp_core::params;

use crate::{Grid, Result};

/// Which matrices a Gram sum consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GramLayout {
    /// One per item, the sum of `w_ij v_j v_j^T` over its users.
    PerItem,
    /// A single one for all items, the sum of `v_j v_j^T` over all users who have a record, each
    /// once.
    Pooled,
}

/// The pair of grids of one Gram release: matrices `A` and right-hand sides `b`.
///
/// The two share the integer factors `x`, so the label grid follows from both:
/// `sqrt(g_A)` data units per integer of a factor, `g_b / sqrt(g_A)` per integer of a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GramGrids {
    matrix: Grid,
    rhs: Grid,
    layout: GramLayout,
}

impl GramGrids {
    /// Largest factor length; keeps squared norms of clamped factors inside 63 bits.
    pub const MAX_DIM: usize = 256;

    /// Grids for noise multipliers `matrix_noise` and `rhs_noise`, where one user's weights,
    /// factor `v` and labels `y` satisfy
    ///
    /// ```text
    /// sum_i w_i^2 ||v||^4     <= matrix_clip^2
    /// sum_i w_i^2 y_i^2 ||v||^2 <= rhs_clip^2
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Param`] as in [`Grid::new`].
    pub fn new(matrix_noise: f64, matrix_clip: f64, rhs_noise: f64, rhs_clip: f64) -> Result<Self> {
        let matrix = Grid::new(matrix_noise, matrix_clip)?;
        let mut rhs = Grid::new(rhs_noise, rhs_clip)?;
        // labels reach D_b / sqrt(D_A): use a coarser grid if that exceeds the clamp
        while rhs.l2_bound() as f64 > LABEL_LIMIT * 0.5 * (matrix.l2_bound() as f64).sqrt() {
            rhs = Grid::with_log2_sigma(rhs_noise, rhs_clip, rhs.log2_sigma() - 1)?;
        }
        Ok(Self {
            matrix,
            rhs,
            layout: GramLayout::PerItem,
        })
    }

    /// Grids for a single matrix over all users ([`GramLayout::Pooled`]), where one user's weights,
    /// factor and labels satisfy
    ///
    /// ```text
    /// ||v||^2                   <= matrix_clip
    /// sum_i w_i^2 y_i^2 ||v||^2 <= rhs_clip^2
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn pooled(
        matrix_noise: f64,
        matrix_clip: f64,
        rhs_noise: f64,
        rhs_clip: f64,
    ) -> Result<Self> {
        let grids = Self::new(matrix_noise, matrix_clip, rhs_noise, rhs_clip)?;
        Ok(Self {
            layout: GramLayout::Pooled,
            ..grids
        })
    }

    /// Which matrices the sum consists of.
    #[must_use]
    pub const fn layout(&self) -> GramLayout {
        self.layout
    }

    /// The grid of the matrices.
    #[must_use]
    pub const fn matrix(&self) -> &Grid {
        &self.matrix
    }

    /// The grid of the right-hand sides.
    #[must_use]
    pub const fn rhs(&self) -> &Grid {
        &self.rhs
    }

    /// Integers per data unit of a factor, before the record's weight.
    pub(super) fn factor_scale(&self) -> f64 {
        1.0 / self.matrix.step().sqrt()
    }

    /// Integers per data unit of a label, before the record's weight.
    pub(super) fn label_scale(&self) -> f64 {
        self.matrix.step().sqrt() / self.rhs.step()
    }
}

/// Labels are clamped to this: exact in an f32.
pub(super) const LABEL_LIMIT: f64 = (1 << 24) as f64;

pub(crate) fn check_dim(dim: usize) -> Result<usize> {
    Ok(params::in_range(
        "dim",
        dim,
        1,
        GramGrids::MAX_DIM,
        "a whole number from 1 to 256",
    )?)
}
