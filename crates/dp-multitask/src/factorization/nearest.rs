//! Which items are alike.

use dp_linalg::top_k;
use rayon::prelude::*;

use super::model::FactorModel;
use crate::Result;

impl FactorModel {
    /// The `k` items nearest to each item, nearest first: by the cosine of their taste coordinates, the item itself
    /// left out. Nothing for an item without tastes, and none for all items where `dim` is 1.
    ///
    /// Post-processing of the factors, and as public as they are.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when factors are not finite.
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_multitask::{FactorModel, FactorizationParams, Provenance};
    /// let scoring = FactorizationParams::for_target(ApproxDp::target(1.0, 1e-5)?).scoring(3);
    /// let rows = vec![0.5, 1.0, 0.0, -0.5, 0.2, 2.0, 0.0, 3.0, 0.1];
    /// let model = FactorModel::new(scoring, rows, Provenance::NonPrivate)?;
    /// assert_eq!(model.nearest_items(1)?, [[2], [2], [0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nearest_items(&self, k: usize) -> Result<Vec<Vec<u32>>> {
        let n_tastes = self.dim() - 1;
        if n_tastes == 0 {
            return Ok(vec![Vec::new(); self.n_items()]);
        }
        let mut directions = Vec::with_capacity(self.n_items() * n_tastes);
        for row in self.item_factors().chunks_exact(self.dim()) {
            let norm = row[1..].iter().map(|q| q * q).sum::<f64>().sqrt();
            let scale = if norm > 0.0 { norm.recip() } else { 0.0 };
            directions.extend(row[1..].iter().map(|q| q * scale));
        }
        let nearest = |(item, direction): (usize, &[f64])| {
            if direction.iter().all(|q| *q == 0.0) {
                return Ok(Vec::new());
            }
            let itself = u32::try_from(item).unwrap_or(u32::MAX); // items are numbered in 32 bits
            let best = top_k(&directions, direction, k, &[itself])?;
            Ok(best.into_iter().map(|scored| scored.item).collect())
        };
        let rows = directions.par_chunks_exact(n_tastes).enumerate();
        rows.map(nearest).collect()
    }
}
