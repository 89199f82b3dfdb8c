//! Gradients that name only the rows they touch.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Places of rows by their numbers, which are public: nothing to keep from whoever chooses them, so one multiplication is hash enough.
#[derive(Debug, Clone, Copy, Default)]
struct RowHasher(u64);

impl Hasher for RowHasher {
    fn finish(&self) -> u64 {
        // the low bits of a product know the low bits of the row alone, and tables go by low bits
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, row: u32) {
        // 2^64 over the golden ratio
        self.0 = (self.0 ^ u64::from(row)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Some rows of a matrix, each with its values; all other rows are exactly 0 and take no memory.
///
/// # Examples
/// ```
/// use dp_pubfeat::SparseRows;
/// let mut rows = SparseRows::new(2);
/// rows.add(7_000_000, 2.0, &[1.0, 0.5]);
/// rows.add(7_000_000, 1.0, &[0.0, 1.0]);
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [(7_000_000, &[2.0, 2.0][..])]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows {
    width: usize,
    slots: HashMap<u32, usize, BuildHasherDefault<RowHasher>>,
    rows: Vec<u32>,
    values: Vec<f64>,
}

impl SparseRows {
    /// No rows, of the given width.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            width,
            slots: HashMap::default(),
            rows: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.rows.clear();
        self.values.clear();
    }

    /// Number of rows that were touched.
    #[must_use]
    pub const fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// Adds `scale * values` to a row.
    pub fn add(&mut self, row: u32, scale: f64, values: &[f64]) {
        let own = self.row_mut(row);
        own.iter_mut()
            .zip(values)
            .for_each(|(o, v)| *o += scale * v);
    }

    /// Adds `value` at one place of a row; nothing beyond the width.
    pub fn add_one(&mut self, row: u32, place: usize, value: f64) {
        if let Some(own) = self.row_mut(row).get_mut(place) {
            *own += value;
        }
    }

    fn row_mut(&mut self, row: u32) -> &mut [f64] {
        let slot = *self.slots.entry(row).or_insert(self.rows.len());
        if slot == self.rows.len() {
            self.rows.push(row);
            self.values.resize(self.values.len() + self.width, 0.0);
        }
        &mut self.values[slot * self.width..][..self.width]
    }

    /// The rows touched, in the order of their first touch.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &[f64])> + '_ {
        let values = self.values.chunks_exact(self.width.max(1));
        self.rows.iter().copied().zip(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rows_at_powers_of_two_go_to_places_of_their_own() {
        for step in [1, 1 << 6, 1 << 12, 1 << 16] {
            let place = |row: u32| {
                let mut hasher = RowHasher::default();
                hasher.write_u32(row * step);
                hasher.finish() % (1 << 15)
            };
            let places: HashSet<u64> = (0..1 << 14).map(place).collect();
            // 16,384 rows in 32,768 places: chance alone gives 12,900 different ones
            assert!(places.len() > 11_000, "step {step}: {}", places.len());
        }
    }
}
