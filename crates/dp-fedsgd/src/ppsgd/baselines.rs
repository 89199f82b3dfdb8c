//! Runs that release nothing: users alone, and rounds without privacy.

use dp_core::{ParamError, params};
use dp_mechanism::{Observer, Provenance};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::local::{RoundWork, StepScratch};
use super::trainer::Rounds;
use super::{PpSgd, PpSgdModel};
use crate::objective::PersonalizedObjective;
use crate::{Result, UserBatches};

impl PpSgd {
    /// Trains every user alone, which is what `alpha = 0` means: local steps in all rounds, shared parameters that stay 0. An `observer`
    /// sees the rounds.
    ///
    /// # Privacy
    /// Nothing is released and nothing is spent: every user's model follows from that user's own rows and stays there.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for another `alpha`; [`crate::Error::Shape`] when objective and data do not belong together.
    ///
    /// # Examples
    /// ```
    /// use dp_fedsgd::{AdditiveLoss, AdditiveModel, HeldBatches, PpSgdParams, UserSamplesBuilder};
    /// let mut users = UserSamplesBuilder::new(1, 4)?;
    /// for user in 0..10_u8 {
    ///     users.push(user.into(), &[1.0], f32::from(user))?;
    /// }
    /// let samples = users.build().0;
    /// let (model, rows) = (AdditiveModel::new(AdditiveLoss::Squared, 1)?, HeldBatches::new(&samples, 4)?);
    /// let alone = PpSgdParams::new(0.0, 0.5, 1.0, 20, 10.0).check()?.train_alone(&model, &rows, &mut ())?;
    /// assert!((alone.local.expose().last(7)[0] - 7.0).abs() < 1e-3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn train_alone<O: PersonalizedObjective>(
        &self,
        objective: &O,
        data: &dyn UserBatches,
        observer: &mut dyn Observer,
    ) -> Result<PpSgdModel> {
        if self.releases() {
            return Err(ParamError {
                name: "alpha",
                value: self.params().alpha,
                expected: "0 to train every user alone",
            }
            .into());
        }
        let mut rounds = Rounds::new(self, objective, data)?;
        for round in 1..=self.params().n_rounds {
            rounds.make(round, |_| Ok(None))?;
            rounds.show(|end| observer.round(end));
        }
        Ok(rounds.into_model(Provenance::NotTrained))
    }

    /// The same rounds with float sums and float noise of this multiplier, 0 for none: a baseline without privacy, and a measurement
    /// of what noise does at levels that no ledger would pay for. Samples and noise come from `rng`. With `alpha = 0` it is
    /// [`train_alone`](Self::train_alone).
    ///
    /// # Privacy
    /// None. The model says so.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when objective and data do not belong together; [`crate::Error::Param`] for a multiplier that is negative or not
    /// finite.
    pub fn simulate<O: PersonalizedObjective, R: Rng>(
        &self,
        objective: &O,
        data: &dyn UserBatches,
        noise_multiplier: f64,
        rng: &mut R,
    ) -> Result<PpSgdModel> {
        params::finite_non_negative("noise_multiplier", noise_multiplier)?;
        if !self.releases() {
            return self.train_alone(objective, data, &mut ());
        }
        let mut rounds = Rounds::new(self, objective, data)?;
        for round in 1..=self.params().n_rounds {
            let sum = |work: &RoundWork<'_, O>| {
                Ok(Some(self.float_sum(work, noise_multiplier, &mut *rng)))
            };
            rounds.make(round, sum)?;
        }
        Ok(rounds.into_model(Provenance::NonPrivate))
    }

    fn float_sum<O: PersonalizedObjective>(
        &self,
        work: &RoundWork<'_, O>,
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
