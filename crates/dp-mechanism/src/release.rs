//! Values released by the kernel: public, and free to be post-processed.

use dp_linalg::packed_len;

use crate::{GramGrids, GramLayout, GramSums, Grid};

/// The noise that was added to the exact integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoiseLaw {
    /// `floor(2^k N(0, 1))`: the midpoint of a cell is half an integer above it.
    Floored,
    /// Discrete Gaussians of scale `2^k`, one from each party: symmetric around 0.
    Discrete { n_parties: u8 },
}

/// A released noisy vector.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedVector {
    grid: Grid,
    integers: Vec<i64>,
    law: NoiseLaw,
    insecure: bool,
}

impl ReleasedVector {
    pub(crate) const fn new(grid: Grid, integers: Vec<i64>, law: NoiseLaw, insecure: bool) -> Self {
        Self {
            grid,
            integers,
            law,
            insecure,
        }
    }

    /// Number of coordinates.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.integers.len()
    }

    /// Whether there are no coordinates.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.integers.is_empty()
    }

    /// The released integers: the sum with its noise, modulo 2^64.
    #[must_use]
    pub fn integers(&self) -> &[i64] {
        &self.integers
    }

    /// The released values in data units.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        let value = |&y| match self.law {
            NoiseLaw::Floored => self.grid.dequantise(y),
            NoiseLaw::Discrete { .. } => self.grid.whole_steps(y),
        };
        self.integers.iter().map(value).collect()
    }

    /// Standard deviation of the noise in data units.
    #[must_use]
    #[allow(clippy::float_arithmetic, reason = "public, after the release")]
    pub fn noise_stddev(&self) -> f64 {
        match self.law {
            NoiseLaw::Floored => self.grid.noise_stddev(),
            NoiseLaw::Discrete { n_parties } => {
                self.grid.noise_stddev() * f64::from(n_parties).sqrt()
            }
        }
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }

    pub(crate) fn into_integers(self) -> Vec<i64> {
        self.integers
    }
}

/// Released noisy matrices `A_i` and vectors `b_i`, one pair per item, or one matrix for all of
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedGrams {
    pub(crate) dim: usize,
    pub(crate) matrix_grid: Grid,
    pub(crate) rhs_grid: Grid,
    pub(crate) layout: GramLayout,
    pub(crate) matrices: Vec<i64>,
    pub(crate) rhs: Vec<i64>,
    pub(crate) insecure: bool,
}

impl ReleasedGrams {
    /// The content of one integer vector: matrices, then right-hand sides.
    pub(crate) fn of_integers(
        grids: &GramGrids,
        dim: usize,
        integers: Vec<i64>,
        insecure: bool,
    ) -> Self {
        let (matrices, rhs) = GramSums::split(grids, dim, integers);
        Self {
            dim,
            matrix_grid: *grids.matrix(),
            rhs_grid: *grids.rhs(),
            layout: grids.layout(),
            matrices,
            rhs,
            insecure,
        }
    }

    /// Length of the factors; matrices are `dim x dim`.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of items.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        match self.rhs.len().checked_div(self.dim) {
            Some(n_items) => n_items,
            None => 0,
        }
    }

    /// Which matrices were released.
    #[must_use]
    pub const fn layout(&self) -> GramLayout {
        self.layout
    }

    /// Released integers of the matrices: per item (or once) the packed upper triangle, row by row.
    #[must_use]
    pub fn matrix_integers(&self) -> &[i64] {
        &self.matrices
    }

    /// Released integers of the right-hand sides: per item `dim` entries.
    #[must_use]
    pub fn rhs_integers(&self) -> &[i64] {
        &self.rhs
    }

    /// Standard deviation of the noise on a diagonal entry, in data units; outside the diagonal it
    /// is smaller by a factor sqrt 2.
    #[must_use]
    pub fn matrix_noise_stddev(&self) -> f64 {
        self.matrix_grid.noise_stddev()
    }

    /// Standard deviation of the noise on an entry of a right-hand side, in data units.
    #[must_use]
    pub fn rhs_noise_stddev(&self) -> f64 {
        self.rhs_grid.noise_stddev()
    }

    /// Writes the full noisy matrix of `item` (row-major), or the common one of all items, and the
    /// right-hand side of `item`.
    ///
    /// # Panics
    /// If `item` is not below [`n_items`](Self::n_items) or a slice has the wrong length.
    pub fn write_item(&self, item: usize, matrix: &mut [f64], rhs: &mut [f64]) {
        let dim = self.dim;
        let square = dim.saturating_mul(dim);
        assert!(matrix.len() == square && rhs.len() == dim);
        assert!(item < self.n_items());
        self.write_matrix(item, matrix);
        let released = self.rhs.chunks_exact(dim).nth(item).unwrap_or_default();
        for (out, &y) in rhs.iter_mut().zip(released) {
            *out = self.rhs_grid.dequantise(y);
        }
    }

    /// Writes both triangles of the square matrix from the packed upper one.
    fn write_matrix(&self, item: usize, matrix: &mut [f64]) {
        let dim = self.dim;
        let mut triangles = self.matrices.chunks_exact(packed_len(dim));
        let place = match self.layout {
            GramLayout::PerItem => item,
            GramLayout::Pooled => 0,
        };
        let mut packed = triangles.nth(place).unwrap_or_default().iter();
        for (a, b) in (0..dim).flat_map(|a| (a..dim).map(move |b| (a, b))) {
            let Some(&y) = packed.next() else { return };
            let value = self.matrix_grid.dequantise(y);
            for (row, column) in [(a, b), (b, a)] {
                let place = row.saturating_mul(dim).saturating_add(column);
                if let Some(entry) = matrix.get_mut(place) {
                    *entry = value;
                }
            }
        }
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }

    pub(crate) fn into_integers(self) -> Vec<i64> {
        let mut integers = self.matrices;
        integers.extend(self.rhs);
        integers
    }
}
