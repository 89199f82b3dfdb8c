//! Three ways to learn from the same writers.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, UserSamples, UserSamplesBuilder};
use dp_fedsgd::{
    HeldBatches, LocalTraining, PersonalizedObjective, Point, PpSgdParams, Trainer,
};
use dp_mechanism::{NoiseSource, PoissonSampling};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::glyphs::{SIDE, Writer};
use crate::network::SharedCnn;

/// Settings of the generated data and of training.
#[derive(Debug, Clone, Copy)]
pub struct Study {
    /// Number of writers.
    pub n_writers: usize,
    /// Number of images per writer to learn from, and the same number for testing.
    pub n_pictures: usize,
    /// Number of rounds.
    pub n_rounds: usize,
    /// Probability that a writer takes part in a round.
    pub q: f64,
    /// Noise multiplier.
    pub noise_multiplier: f64,
    /// Seed of the writers. Noise comes from the operating system.
    pub seed: u64,
}

/// The result for one ratio of step sizes.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Ratio of the global to the local step size.
    pub alpha: f64,
    /// For adding or removing a writer, at delta 1e-5; 0 where nothing was released.
    pub epsilon: f64,
    /// Share of test images that are classified correctly, each by its writer's own model.
    pub accuracy: f64,
}

type Pictures = Vec<(Vec<f32>, f32)>;

impl Study {
    /// Every writer's images, for training and for testing.
    fn pictures(&self) -> Result<(UserSamples, Vec<Pictures>)> {
        let rng = &mut ChaCha20Rng::seed_from_u64(self.seed);
        let mut learn = UserSamplesBuilder::new(SIDE * SIDE, self.n_pictures)?;
        let mut test = Vec::new();
        for number in 0..u32::try_from(self.n_writers)? {
            let writer = Writer::new(rng);
            for _ in 0..self.n_pictures {
                let (x, y) = writer.write(rng);
                learn.push(number, &x, y)?;
            }
            test.push((0..self.n_pictures).map(|_| writer.write(rng)).collect());
        }
        Ok((learn.build().0, test))
    }

    /// Trains and tests with each ratio of step sizes.
    ///
    /// # Errors
    /// Settings out of range, and errors of candle.
    pub fn run(&self, alphas: &[f64]) -> Result<Vec<Outcome>> {
        let (samples, test) = self.pictures()?;
        let model = SharedCnn::new(self.seed);
        let rows = HeldBatches::new(&samples, self.n_pictures)?;
        let one = |&alpha| self.outcome(alpha, &model, &rows, &test);
        alphas.iter().map(one).collect()
    }

    fn outcome(
        &self,
        alpha: f64,
        model: &SharedCnn,
        rows: &HeldBatches<'_>,
        test: &[Pictures],
    ) -> Result<Outcome> {
        let sampling = PoissonSampling::new(self.q)?.into();
        let mut params = PpSgdParams::new(alpha, 1.0, 1.0, self.n_rounds, self.n_writers as f64);
        params = params.sampled(sampling);
        params.local_training = LocalTraining::EveryRound;
        let (fit, adjacency) = (params.check()?, Adjacency::AddRemoveUser);
        let (made, epsilon) = if fit.releases() {
            let z = self.noise_multiplier;
            let plan = fit.plan_with_noise(model.n_shared(), z, 1e-5, adjacency)?;
            let budget = Budget::schedule(plan.target(), adjacency)?;
            let spends = Ledger::in_memory("made pictures", budget)?.reserve(&plan)?;
            let noise = &mut NoiseSource::operating_system();
            let fitted = fit.with(model).fit(rows, &plan, spends, noise)?;
            (fitted.model, plan.guarantee().epsilon)
        } else {
            (fit.train_alone(model, rows, &mut ())?, 0.0)
        };
        let own = made.local.expose();
        let (mut right, mut all) = (0, 0);
        for (writer, pictures) in test.iter().enumerate() {
            let at = Point {
                shared: made.shared.last(),
                local: own.last(writer),
            };
            right += model.n_right(at, pictures)?;
            all += pictures.len();
        }
        Ok(Outcome {
            alpha,
            epsilon,
            accuracy: right as f64 / all as f64,
        })
    }
}
