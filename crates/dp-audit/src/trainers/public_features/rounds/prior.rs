//! The kernel of items, from the formulas of [`FeaturePrior`](dp_pubfeat::FeaturePrior).

use dp_pubfeat::{ItemFeatures, PriorVariances, SparseKernel};

use crate::Result;
use crate::trainers::failed;

/// Levels of popularity.
const LEVELS: usize = 10;

/// Items' rows without what depends on a run.
#[derive(Debug, Clone)]
pub(super) struct Features {
    rows: Vec<Vec<(u32, f64)>>,
    n_features: usize,
    variances: PriorVariances,
}

impl Features {
    /// Per category a row of norm 1 times the root of its variance, and a constant.
    pub(super) fn new(features: &ItemFeatures, variances: &PriorVariances) -> Self {
        let row = |item: usize| {
            let mut row = Vec::new();
            for (category, variance) in variances.categories.iter().enumerate() {
                let own: Vec<(u32, f64)> = features.item_category(item, category).collect();
                let norm = own.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
                let scale = variance.sqrt() / norm;
                row.extend(own.iter().map(|(feature, w)| (*feature, scale * w)));
            }
            let constant = u32::try_from(features.n_features()).unwrap_or(u32::MAX);
            row.push((constant, variances.shared.sqrt()));
            row
        };
        Self {
            rows: (0..features.n_items()).map(row).collect(),
            n_features: features.n_features(),
            variances: variances.clone(),
        }
    }

    pub(super) const fn n_items(&self) -> usize {
        self.rows.len()
    }

    /// With levels by how many units of noise a total weight is, on a scale of doublings.
    pub(super) fn kernel(&self, totals: &[f64], noise: f64) -> Result<SparseKernel> {
        let mut rows = self.rows.clone();
        let root = self.variances.popularity.sqrt();
        for (row, total) in rows.iter_mut().zip(totals) {
            let height = (total / noise.max(1.0)).log2();
            let height = height.clamp(0.0, LEVELS as f64 - 1.001);
            for level in 0..LEVELS {
                let share = 1.0 - (height - level as f64).abs();
                let column = u32::try_from(self.n_features + 1 + level).unwrap_or(u32::MAX);
                if share > 0.0 {
                    row.push((column, root * share));
                }
            }
        }
        let n_columns = self.n_features + 1 + LEVELS;
        SparseKernel::new(rows, n_columns, self.variances.own).map_err(failed)
    }
}
