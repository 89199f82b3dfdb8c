//! The sum over the users of a round: released, in floating point, or none.

use dp_accounting::Spend;
use dp_mechanism::{Grid, NoiseSource, VectorSum, vector_contribution};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::local_state::StepScratch;
use super::plan::noise_multiplier;
use super::round::{Look, RoundWork};
use super::{LocalTraining, Participation, PpSgd};
use crate::objective::PersonalizedObjective;
use crate::paid::Paid;
use crate::watch::{Observed, Watch};
use crate::{Result, UserBatches};

/// How a run gets the sum over the users of a round.
pub(super) enum SumSource<'s, 'p> {
    /// By the kernel, paid.
    Released(Paid<'p>, &'s mut NoiseSource, &'s mut Watch<'s>),
    /// In floating point, with noise of this multiplier: a baseline without privacy.
    Float(f64, &'s mut dyn Rng),
    /// Not at all: `alpha = 0`.
    None,
}

impl PpSgd {
    /// The sum over the users of a round, noisy or exact; none where nothing is released.
    pub(super) fn sum<O: PersonalizedObjective, B: UserBatches>(
        &self,
        work: &RoundWork<'_, O, B>,
        source: &mut SumSource<'_, '_>,
    ) -> Result<Option<Vec<f64>>> {
        if self.trains_all_first(source) {
            work.train_all(work.batches.table().expose());
        }
        match source {
            SumSource::None => Ok(None),
            SumSource::Float(multiplier, rng) => {
                Ok(Some(self.float_sum(work, *multiplier, &mut **rng)))
            }
            SumSource::Released(paid, noise, watch) => {
                self.release(work, paid.next()?, noise, *watch).map(Some)
            }
        }
    }

    /// Whether everybody makes the step before the sum is taken. The sum asks everybody who contributes for the step in any
    /// case: on one thread the rest need not be asked twice.
    fn trains_all_first(&self, source: &SumSource<'_, '_>) -> bool {
        let params = self.params();
        let all_contribute = params.participation == Participation::Full;
        let sum_will_do = all_contribute
            && !matches!(source, SumSource::None)
            && rayon::current_num_threads() == 1;
        let all = params.local_training == LocalTraining::EveryRound
            || all_contribute
            || !self.releases();
        all && !sum_will_do
    }

    fn release<O: PersonalizedObjective, B: UserBatches>(
        &self,
        work: &RoundWork<'_, O, B>,
        spend: Spend,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>> {
        let table = work.batches.table();
        let (n, label) = (work.step.layout.n_coordinates(), spend.label().to_owned());
        let noise_multiplier = noise_multiplier(spend.event())?;
        let grid = Grid::new(
            noise_multiplier,
            work.step.layout.whole_norm(work.step.clip_norm),
        )?;
        #[cfg(privacy_mutants)]
        let grid = match dp_core::mutants::active("sgd-grid-without-clip") {
            true => Grid::new(noise_multiplier, 1.0)?,
            false => grid,
        };
        let sum = match self.params().participation {
            Participation::Full => VectorSum::accumulate(table, n, grid, work)?,
            Participation::Sampled(sampling) => {
                VectorSum::accumulate_sampled(sampling, table, n, grid, work, noise)?
            }
        };
        let released = sum.release(spend, noise)?;
        watch(Observed {
            label: &label,
            noise_multiplier,
            grid: &grid,
            released: &released,
            one_user: &|row| vector_contribution(&grid, n, &Look(work), row),
        });
        Ok(released.values())
    }

    fn float_sum<O: PersonalizedObjective, B: UserBatches>(
        &self,
        work: &RoundWork<'_, O, B>,
        noise_multiplier: f64,
        rng: &mut dyn Rng,
    ) -> Vec<f64> {
        let table = work.batches.table().expose();
        let users = self.params().participation.draw(table.n_users(), rng);
        let mut sums = vec![0.0; work.step.layout.n_coordinates()];
        let mut scratch = StepScratch::new(work.batches.n_features());
        for user in users {
            if cfg!(debug_assertions) {
                scratch = StepScratch::new(work.batches.n_features());
            }
            work.add_to(table.user(user), &mut scratch, &mut sums);
        }
        let stddev = noise_multiplier * work.step.layout.whole_norm(work.step.clip_norm);
        if stddev > 0.0 {
            for sum in &mut sums {
                let normal: f64 = StandardNormal.sample(rng);
                *sum += stddev * normal;
            }
        }
        sums
    }
}
