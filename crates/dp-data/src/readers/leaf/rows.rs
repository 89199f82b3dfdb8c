//! One user's rows, of which those that cannot be used are marked and not held.

use super::LeafRows;

/// One user's rows and labels as they stand in the file.
#[derive(Default)]
pub(super) struct Rows {
    /// Numbers of the rows of the declared length, one after the other.
    x: Vec<f32>,
    /// Of every row whether it has that length.
    has_length: Vec<bool>,
    /// `NaN` where there is no label at the declared place.
    y: Vec<f32>,
}

impl Rows {
    pub(super) fn push_x(&mut self, row: &[f32], declared: LeafRows) {
        let has_length = row.len() == declared.n_features;
        self.has_length.push(has_length);
        if has_length {
            self.x.extend_from_slice(row);
        }
    }

    pub(super) fn push_y(&mut self, labels: &[f32], declared: LeafRows) {
        let label = match (declared.label, labels) {
            (None, &[label]) => Some(label),
            (None, _) => None,
            (Some(at), all) => all.get(at).copied(),
        };
        self.y.push(label.unwrap_or(f32::NAN));
    }

    /// Rows of any length.
    pub(super) const fn n_x(&self) -> usize {
        self.has_length.len()
    }

    /// `x` and `y` of every row of the declared length with finite numbers; none where rows and labels do not pair up.
    pub(super) fn usable(&self, width: usize) -> Vec<f32> {
        if self.has_length.len() != self.y.len() {
            return Vec::new();
        }
        let mut cells = Vec::with_capacity(self.x.len() + self.y.len());
        let labels = self.has_length.iter().zip(&self.y);
        let labels = labels.filter_map(|(&has_length, &y)| has_length.then_some(y));
        for (x, y) in self.x.chunks_exact(width).zip(labels) {
            if y.is_finite() && x.iter().all(|x| x.is_finite()) {
                cells.extend_from_slice(x);
                cells.push(y);
            }
        }
        cells
    }
}
