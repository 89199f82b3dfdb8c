//! The subspace that the first round starts from.

use dp_core::{UserSamples, params};
use dp_mechanism::WatchedNoise;

use super::{AltMin, Initialisation};
use crate::init::{ProjectorSum, SamplePairs};
use crate::paid::Paid;
use crate::{Result, Subspace};

impl AltMin {
    pub(super) fn start(
        &self,
        samples: &UserSamples,
        paid: &mut Paid<'_>,
        out: &mut WatchedNoise<'_>,
    ) -> Result<Subspace> {
        let (dim, rank) = (samples.n_features(), self.params().rank);
        match &self.params().init {
            &Initialisation::Pairs {
                label_bound,
                symmetric_noise,
            } => {
                let rows = self.params().rows.init();
                let max_rows = samples.max_rows();
                let pairs = SamplePairs {
                    n_features: dim,
                    max_rows,
                    label_bound,
                    symmetric_noise,
                    rows,
                };
                pairs.release(samples, rank, paid.next()?, out)
            }
            Initialisation::Projectors => {
                let spends = [paid.next()?, paid.next()?];
                ProjectorSum::new(dim).release(samples, rank, spends, out)
            }
            Initialisation::Given(start) => {
                params::same_size("features", dim, start.dim())?;
                Ok(start.clone())
            }
        }
    }
}
