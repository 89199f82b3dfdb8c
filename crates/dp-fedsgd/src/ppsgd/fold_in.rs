//! Users who come when the shared parameters are already released.

use dp_core::ShapeError;
use dp_mechanism::ClientSampling;

use super::{LocalTraining, Participation, PpSgd};
use crate::objective::{Gradients, PersonalizedObjective, Point};
use crate::{BatchReduction, Minibatch, Result};

impl PpSgd {
    /// The own part of a user whom nothing was trained on, at released shared parameters.
    ///
    /// ```text
    /// theta_0 = 0,   theta_s = theta_(s-1) - eta_local(t_s) g_theta(w, theta_(s-1)),   s = 1, ..., n_local_steps,   t_s = ceil(s n_rounds / n_local_steps)
    /// ```
    ///
    /// with [`n_local_steps`](Self::n_local_steps) the steps of somebody who was there all along, spread evenly over the rounds,
    /// `g_theta` over all of `rows` (their mean, or for Algorithm 2 their sum), `w` the same in all steps: what the local steps of Bietti et al. 2022
    /// come to when `w` stands still. For `alpha` infinity it is 0. As in a round, a gradient that is not finite makes no step.
    ///
    /// # Privacy
    /// Not a release, and nothing is spent: it runs where the rows are, on them and on what was released before, and the result stays there.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) unless `shared` and the rows have the objective's lengths.
    ///
    /// # Numerics
    /// `n_local_steps` gradients of all rows.
    ///
    /// # Examples
    /// ```
    /// use dp_fedsgd::{AdditiveLoss, AdditiveModel, Minibatch, PpSgdParams};
    /// let model = AdditiveModel::new(AdditiveLoss::Squared, 1)?;
    /// let fit = PpSgdParams::new(1.0, 0.5, 1.0, 30, 100.0).check()?;
    /// let mut rows = Minibatch::new(1);
    /// rows.push(&[1.0], 3.0);
    /// let own = fit.fold_in(&model, &[2.0], &rows)?; // of the 3, 2 are everybody's
    /// assert!((own[0] - 1.0).abs() < 1e-6);
    /// # Ok::<(), dp_fedsgd::Error>(())
    /// ```
    pub fn fold_in<O: PersonalizedObjective>(
        &self,
        objective: &O,
        shared: &[f64],
        rows: &Minibatch,
    ) -> Result<Vec<f64>> {
        check_length("shared", shared.len(), objective.n_shared())?;
        check_length("features", rows.n_features(), objective.n_features())?;
        let mut local = vec![0.0; objective.n_local()];
        let scale = match self.params().reduction {
            BatchReduction::Mean => 1.0 / (rows.len().max(1) as f64),
            BatchReduction::Sum { .. } => 1.0,
        };
        let mut gradients = Gradients::default();
        let (n_rounds, n_steps) = (self.params().n_rounds, self.n_local_steps());
        for step in 1..=n_steps {
            let round = (step * n_rounds).div_ceil(n_steps);
            let rate = scale * self.step_sizes(round).0;
            if rate <= 0.0 {
                continue;
            }
            gradients.reset(objective);
            let at = Point {
                shared,
                local: &local,
            };
            objective.gradients(at, rows, &mut gradients);
            if gradients.local.iter().all(|g| (g * rate).is_finite()) {
                let steps = local.iter_mut().zip(&gradients.local);
                steps.for_each(|(theta, g)| *theta -= rate * g);
            }
        }
        Ok(local)
    }

    /// Local steps that a user of the run makes: in every round, or where users train only when asked, `ceil(q n_rounds)`, what `n_rounds` coins of probability `q` come to. Public.
    #[must_use]
    pub fn n_local_steps(&self) -> usize {
        let params = self.params();
        match params.participation {
            Participation::Sampled(ClientSampling::Poisson(poisson))
                if params.local_training == LocalTraining::WhenAsked && self.releases() =>
            {
                let expected = poisson.sampling_probability() * params.n_rounds as f64;
                // a product such as 0.07 * 100 is a rounding above the whole number
                whole_steps((expected - 1e-9).ceil()).clamp(1, params.n_rounds)
            }
            _ => params.n_rounds,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the number of rounds, and clamped"
)]
const fn whole_steps(steps: f64) -> usize {
    steps as usize
}

fn check_length(name: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError {
        name,
        found,
        expected,
    }
    .into())
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::PoissonSampling;
    use rand::SeedableRng;

    use super::*;
    use crate::{AdditiveLoss, AdditiveModel, Error, HeldBatches, PpSgdParams};

    fn rows() -> Minibatch {
        let mut rows = Minibatch::new(2);
        for (x, y) in [([1.0, 0.5], 2.0), ([0.3, -1.0], 1.0), ([-0.7, 0.2], 0.0)] {
            rows.push(&x, y);
        }
        rows
    }

    /// By hand: two steps of the squared loss at `w = (1, 0.5)`, alpha 2, so that the local step is 0.4 / 2.
    #[test]
    fn local_steps_are_made_at_shared_parameters_that_stand_still() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 2).unwrap();
        let fit = PpSgdParams::new(2.0, 0.4, 1.0, 2, 9.0).check().unwrap();
        let found = fit.fold_in(&model, &[1.0, 0.5], &rows()).unwrap();
        for (found, expected) in found.iter().zip(EXPECTED) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let one = PpSgdParams::new(f64::INFINITY, 0.4, 1.0, 2, 9.0);
        let one = one.check().unwrap().fold_in(&model, &[1.0, 0.5], &rows());
        assert_eq!(one.unwrap(), [0.0, 0.0]);
    }

    const EXPECTED: [f64; 2] = [0.087_342_67, -0.090_142];

    /// 20 rounds at a rate with which steps are still large, and `w` that hardly moves.
    fn standing_still(n_rounds: usize) -> PpSgdParams {
        PpSgdParams::new(1e-12, 0.05, 1.0, n_rounds, 2001.0)
    }

    #[test]
    fn who_joins_a_sampled_run_makes_the_steps_of_those_who_were_sampled() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 2).unwrap();
        let sampling = PoissonSampling::new(0.3).unwrap();
        let fit = standing_still(20).sampled(sampling.into()).check().unwrap();
        assert_eq!(fit.n_local_steps(), 6);
        let mut users = UserSamplesBuilder::new(2, 3).unwrap();
        for user in 0..2001 {
            for (x, y) in rows().rows() {
                users.push(user, x, y).unwrap();
            }
        }
        let users = users.build().0;
        let rng = &mut rand_chacha::ChaCha20Rng::seed_from_u64(1);
        let batches = HeldBatches::new(&users, 3).unwrap();
        let run = fit.simulate(&model, &batches, 0.0, rng).unwrap();
        let mut first: Vec<f64> = (0..2001).map(|u| run.local.expose().last(u)[0]).collect();
        first.sort_by(f64::total_cmp);
        // of 2001 Binomial(20, 0.3) numbers of steps the median is 6 but for a chance below 1e-13; more steps, larger parts
        let found = fit.fold_in(&model, &[0.0, 0.0], &rows()).unwrap();
        assert!((first[1000] - found[0]).abs() < 1e-9);
        assert!(first[0] < first[1000] && first[1000] < first[2000]);
        let whole = standing_still(6).check().unwrap();
        assert_eq!(whole.fold_in(&model, &[0.0, 0.0], &rows()).unwrap(), found);
        let mut everybody = standing_still(20).sampled(sampling.into());
        everybody.local_training = LocalTraining::EveryRound;
        assert_eq!(everybody.check().unwrap().n_local_steps(), 20);
        // alone nobody is asked, and all train
        let mut alone = standing_still(20).sampled(sampling.into());
        alone.alpha = 0.0;
        assert_eq!(alone.check().unwrap().n_local_steps(), 20);
    }

    #[test]
    fn absurd_rows_move_nothing_and_other_lengths_are_refused() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 2).unwrap();
        let fit = PpSgdParams::new(1.0, 0.4, 1.0, 3, 9.0).check().unwrap();
        let mut absurd = rows();
        absurd.push(&[f32::INFINITY, 1.0], 1.0);
        let found = fit.fold_in(&model, &[1.0, 0.5], &absurd).unwrap();
        assert_eq!(found, [0.0, 0.0]);
        let nobody = fit.fold_in(&model, &[1.0, 0.5], &Minibatch::new(2));
        assert_eq!(nobody.unwrap(), [0.0, 0.0]);
        for (shared, rows) in [(&[1.0][..], rows()), (&[1.0, 0.5], Minibatch::new(3))] {
            let found = fit.fold_in(&model, shared, &rows);
            assert!(matches!(found, Err(Error::Shape(_))));
        }
    }
}
