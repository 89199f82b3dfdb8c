//! The steps.

use dp_accounting::{Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{NoiseSource, PoissonSampling, WatchedNoise};

use super::EncoderGradients;
use crate::encoder::{Optimiser, OptimiserState, PublicEncoder};
use crate::features::in_public_range;
use crate::paid::Paid;
use crate::problem::Vectors;
use crate::run::{Fit, certify};
use crate::ssp::FittedItems;
use crate::watch::{Watch, sampled_vector};
use crate::{Error, ProblemSetup, Result, UserStep, events};

/// Settings of [`DpSgd`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpSgdParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Steps `T`, 1 to 100,000.
    pub n_steps: usize,
    /// Probability that a unit is in a step's batch, in (0, 1].
    pub sampling_probability: f64,
    /// Bound `Gamma_g` on a unit's gradient, from 1e-6 to 1e6.
    pub gradient_norm: f64,
    /// How the noisy gradient moves the parameters: all of them, since noise is on all of them.
    pub optimiser: Optimiser,
}

impl DpSgdParams {
    /// Gradients up to what one example's gradient in its item's vector can be where that vector is 0, `Gamma_u min(B, Gamma_y)`:
    /// a start, from which smaller bounds are worth a try.
    #[must_use]
    pub const fn new(
        setup: ProblemSetup,
        n_steps: usize,
        sampling_probability: f64,
        optimiser: Optimiser,
    ) -> Self {
        Self {
            n_steps,
            sampling_probability,
            gradient_norm: setup.user_norm * setup.label_reach(),
            optimiser,
            setup,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<DpSgd> {
        self.setup.check()?;
        let range = "a whole number from 1 to 100000";
        params::in_range("n_steps", self.n_steps, 1, 100_000, range)?;
        in_public_range("gradient_norm", self.gradient_norm)?;
        self.optimiser.check()?;
        let sampling = PoissonSampling::new(self.sampling_probability)?;
        Ok(DpSgd {
            params: self,
            sampling,
        })
    }
}

/// DP-SGD for multi-encoder models, with one forward and backward pass per item and step, whoever is in the batch.
///
/// ```text
/// G = (1/q) [sum_{k in batch} clip(g_k, Gamma_g) + Gamma_g z N(0, I)],   theta <- theta - optimiser's step of G
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 6 (its noise is `sigma Gamma_g`, printed without the index). What the statistics of items are compared with:
/// noise on all `n_rows d` parameters in every step.
///
/// # Privacy
/// Released, and seen by anyone: every step's noisy gradient, sensitivity `Gamma_g` ([`EncoderGradients`]) on a Poisson sample of the units, which stays secret. Accounted as that, whole, on a
/// [`Budget::schedule`](dp_accounting::Budget::schedule). Unit: as in [`ProblemSetup::unit`].
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::{DpSgdParams, Optimiser, ProblemSetup};
/// let sgd = DpSgdParams {
///     gradient_norm: 0.5,
///     ..DpSgdParams::new(ProblemSetup::new(8, 1.0), 100, 0.05, Optimiser::Adam { rate: 0.01 })
/// };
/// let plan = sgd.check()?.plan(2000, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DpSgd {
    params: DpSgdParams,
    sampling: PoissonSampling,
}

const OUTPUT: &str = "the encoder after every step, item vectors, settings";
const SECRET: &str = "who was in the batch of which step stays secret";

impl DpSgd {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &DpSgdParams {
        &self.params
    }

    /// What a fit of an encoder with `n_rows` rows of parameters will release, with the least noise for `target`.
    ///
    /// # Errors
    /// As [`Ssp::plan`](crate::Ssp::plan).
    pub fn plan(&self, n_rows: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        self.params.setup.unit.check(adjacency)?;
        let n = n_rows.saturating_mul(self.params.setup.dim);
        events::check_coordinates(n)?;
        let steps = |z| self.planned(n, z);
        let plan = Plan::calibrate_noise(target, adjacency, steps)?.0;
        events::try_grids(&plan)?;
        Ok(plan)
    }

    fn planned(&self, n_coordinates: usize, z: f64) -> Vec<PlannedRelease> {
        let n_steps = self.params.n_steps;
        events::sampled_steps("gradient", n_steps, self.sampling, z, n_coordinates)
    }

    /// Trains the encoder, consuming exactly the spends of `plan`.
    ///
    /// # Errors
    /// As [`Ssp::fit`](crate::Ssp::fit); [`crate::Error::Diverged`] when the parameters leave the finite numbers.
    pub fn fit<E: PublicEncoder>(
        &self,
        encoder: E,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedItems<E>> {
        self.run(encoder, data, plan, spends, noise, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` with what users add to it if they are drawn, not with who was: for audits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`crate::Error::Unsupported`] where records are units, of which a watch would see users.
    pub fn fit_watched<E: PublicEncoder>(
        &self,
        encoder: E,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedItems<E>> {
        self.params.setup.unit.check_watch()?;
        self.run(encoder, data, plan, spends, noise, watch)
    }

    fn run<E: PublicEncoder>(
        &self,
        mut encoder: E,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedItems<E>> {
        let setup = &self.params.setup;
        let model = (encoder.n_items(), encoder.dim());
        let wanted = self.planned(encoder.parameters().len(), 1.0);
        let mut paid = Fit { setup, data, model }.pay(plan, &wanted, spends)?;
        setup.unit.with_rows(data, |rows| {
            let mut state = OptimiserState::new(self.params.optimiser, setup.dim)?;
            let mut out = WatchedNoise { noise, watch };
            for _ in 0..self.params.n_steps {
                let spend = paid.next()?;
                let gradient = self.gradient(&encoder, None, rows, spend, &mut out)?;
                advance(&mut encoder, &mut state, &gradient)?;
            }
            Ok(())
        })?;
        let words = (OUTPUT, &[SECRET][..]);
        Ok(FittedItems {
            certificate: certify(paid, (setup, Vectors::Given), words, noise.is_insecure())?,
            model: encoder,
        })
    }

    /// AM-DPSGD for ratings (Algorithm 1 with DP-SGD as item update): every `steps_per_round` steps users fit vectors and levels anew, exactly and locally, at the item vectors of that
    /// moment. Users' features in the table are not looked at. The plan is that of [`plan`](Self::plan).
    ///
    /// # Privacy
    /// As for [`fit`](Self::fit): a user's gradient is a function of the user's own ratings and of released parameters, whoever was in which batch, and is bounded by `Gamma_g`. Users'
    /// vectors never leave. Unit: the user.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`crate::Error::Unsupported`] for examples as units; [`crate::Error::Param`] for a user step out of range or 0 steps to a round.
    pub fn fit_ratings<E: PublicEncoder>(
        &self,
        mut encoder: E,
        (user_step, steps_per_round): (&UserStep, usize),
        ratings: &Private<Interactions>,
        (plan, spends): (&Plan, Vec<Spend>),
        noise: &mut NoiseSource,
    ) -> Result<FittedItems<E>> {
        let setup = &self.params.setup;
        setup.check_ratings(ratings, encoder.n_items())?;
        params::same_size("model's dim", encoder.dim(), setup.dim)?;
        setup.unit.check(plan.adjacency())?;
        user_step.check()?;
        params::at_least_one("steps_per_round", steps_per_round)?;
        let wanted = self.planned(encoder.parameters().len(), 1.0);
        let mut paid = Paid::new(plan, &wanted, spends)?;
        let mut state = OptimiserState::new(self.params.optimiser, setup.dim)?;
        let items: Vec<u32> = (0_u32..).take(encoder.n_items()).collect();
        let mut at = vec![0.0; items.len() * setup.dim];
        for step in 0..self.params.n_steps {
            if step.is_multiple_of(steps_per_round) {
                encoder.forward(&items, &mut at)?;
            }
            let users = Some((user_step, &*at));
            let mut out = WatchedNoise {
                noise,
                watch: &mut |_| {},
            };
            let gradient = self.gradient(&encoder, users, ratings, paid.next()?, &mut out)?;
            advance(&mut encoder, &mut state, &gradient)?;
        }
        let words = (OUTPUT, &[SECRET][..]);
        Ok(FittedItems {
            certificate: certify(paid, (setup, Vectors::Fitted), words, noise.is_insecure())?,
            model: encoder,
        })
    }

    fn gradient<E: PublicEncoder>(
        &self,
        encoder: &E,
        users: Option<(&UserStep, &[f64])>,
        rows: &Private<Interactions>,
        spend: Spend,
        out: &mut WatchedNoise<'_>,
    ) -> Result<Vec<f64>> {
        let params = &self.params;
        let n = encoder.parameters().len();
        let mut gradients = EncoderGradients::new(&params.setup, encoder, params.gradient_norm)?;
        if let Some((step, item_vectors)) = users {
            gradients = gradients.with_user_step(step, item_vectors)?;
        }
        let (from, shape) = ((self.sampling, rows), (n, params.gradient_norm));
        let released = sampled_vector(out, from, shape, &gradients, spend)?;
        let q = self.sampling.sampling_probability();
        #[cfg(privacy_mutants)]
        let q = crate::mutants::denominator(q, rows);
        let mut values = released.values();
        values.iter_mut().for_each(|g| *g /= q);
        Ok(values)
    }
}

/// Moves all parameters.
fn advance<E: PublicEncoder>(
    encoder: &mut E,
    state: &mut OptimiserState,
    gradient: &[f64],
) -> Result<()> {
    state.step_all(gradient, encoder.parameters_mut());
    if encoder.parameters().iter().all(|t| t.is_finite()) {
        return Ok(());
    }
    Err(Error::Diverged)
}
