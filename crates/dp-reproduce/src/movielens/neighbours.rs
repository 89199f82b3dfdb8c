//! Whether private factors have the same nearest items as factors without privacy.

use dp_data::PopularityBuckets;
use dp_multitask::FactorModel;

use super::task::{Figures, Metric, N_BUCKETS};
use dp_personal::error::Result;

const OVERLAP: Metric = (
    "top-20 neighbour overlap",
    "top-20 neighbour overlap by popularity",
);
/// Number of nearest items that are compared.
const K: usize = 20;

/// The nearest items of every item in a reference model.
pub(super) struct Neighbours(Vec<Vec<u32>>);

impl Neighbours {
    pub(super) fn of(model: &FactorModel) -> Result<Self> {
        Ok(Self(nearest_items(model)?))
    }

    /// The mean over items of the share of an item's nearest items on which both models agree; none
    /// for a model without taste factors. Items without taste factors count as 0.
    pub(super) fn overlap(
        &self,
        model: &FactorModel,
        buckets: &PopularityBuckets,
    ) -> Result<Option<Figures>> {
        if model.n_tastes() == 0 {
            return Ok(None);
        }
        let mut sums = [(0.0, 0.0); N_BUCKETS];
        for (item, (found, known)) in nearest_items(model)?.iter().zip(&self.0).enumerate() {
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

/// Of all items, also of those within the noise: how far the noise changes them is measured.
fn nearest_items(model: &FactorModel) -> Result<Vec<Vec<u32>>> {
    let factors = model.item_factors().to_vec();
    let bare = FactorModel::new(*model.scoring(), factors, model.provenance())?;
    Ok(bare.nearest_items(K)?)
}
