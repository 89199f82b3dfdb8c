use dp_linalg::StridedRows;

/// Rows `(x, y)` of one user for one local step.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing them is never wanted"
)]
pub struct Minibatch {
    n_features: usize,
    /// Every row: `x`, then `y`.
    cells: Vec<f32>,
}

impl Minibatch {
    /// No rows, of `n_features` numbers each.
    #[must_use]
    pub const fn new(n_features: usize) -> Self {
        Self {
            n_features,
            cells: Vec::new(),
        }
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.cells.clear();
    }

    /// Adds a row; one of another length is passed over.
    pub fn push(&mut self, x: &[f32], y: f32) {
        if x.len() == self.n_features {
            self.cells.extend_from_slice(x);
            self.cells.push(y);
        }
    }

    /// The cells themselves, each row `x` then `y`, for whoever writes them in one go. Cells behind the last whole row are
    /// not read.
    pub const fn cells_mut(&mut self) -> &mut Vec<f32> {
        &mut self.cells
    }

    /// Numbers in `x`.
    #[must_use]
    pub const fn n_features(&self) -> usize {
        self.n_features
    }

    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.cells.len() / (self.n_features + 1)
    }

    /// Whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The features of all rows, where they lie.
    pub(super) fn features(&self) -> StridedRows<'_> {
        StridedRows {
            data: &self.cells,
            stride: self.n_features + 1,
            n_rows: self.len(),
            dim: self.n_features,
        }
    }

    /// The labels of all rows.
    pub(super) fn labels(&self) -> impl ExactSizeIterator<Item = f32> {
        self.rows().map(|(_, y)| y)
    }

    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (&[f32], f32)> {
        self.cells.chunks_exact(self.n_features + 1).map(|row| {
            let (x, y) = row.split_at(self.n_features);
            (x, y[0])
        })
    }
}
