//! Do private factors find the same items alike as those without privacy?

use dp_data::PopularityBuckets;
use dp_multitask::FactorModel;

use super::task::{Figures, Metric, N_BUCKETS};
use dp_personal::error::Result;

const OVERLAP: Metric = (
    "top-20 neighbour overlap",
    "top-20 neighbour overlap by popularity",
);
/// Neighbours of an item that are compared.
const K: usize = 20;

/// The nearest items of every item in a model to compare with.
pub(super) struct Neighbours(Vec<Vec<u32>>);

impl Neighbours {
    pub(super) fn of(model: &FactorModel) -> Result<Self> {
        Ok(Self(model.nearest_items(K)?))
    }

    /// The mean over items of the share of an item's nearest ones that both models agree on; nothing for a model without
    /// tastes. Items without tastes agree on nothing.
    pub(super) fn overlap(
        &self,
        model: &FactorModel,
        buckets: &PopularityBuckets,
    ) -> Result<Option<Figures>> {
        if model.dim() == 1 {
            return Ok(None);
        }
        let mut sums = [(0.0, 0.0); N_BUCKETS];
        for (item, (found, known)) in model.nearest_items(K)?.iter().zip(&self.0).enumerate() {
            let common = found.iter().filter(|other| known.contains(other)).count();
            if let Some(bucket) = buckets.of(item) {
                sums[bucket].0 += common as f64 / K as f64;
                sums[bucket].1 += 1.0;
            }
        }
        let (total, n) = sums.iter().fold((0.0, 0.0), |(t, n), s| (t + s.0, n + s.1));
        Ok((n > 0.0).then(|| Figures {
            metric: OVERLAP,
            all: total / n,
            by_bucket: sums.map(|(sum, n)| (n > 0.0).then(|| sum / n)),
        }))
    }
}
