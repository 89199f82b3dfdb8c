//! The steps.

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{PoissonSampling, Run, Trainer, plan_for};

use super::EncoderGradients;
use crate::encoder::{Optimiser, OptimiserState, PublicEncoder};
use crate::features::in_public_range;
use crate::problem::Vectors;
use crate::{Error, ProblemSetup, Result, UserStep, With, events, trainer};

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
        Ok(plan_for(
            &self.requests(n_rows, adjacency)?,
            target,
            adjacency,
        )?)
    }

    fn requests(&self, n_rows: usize, adjacency: Adjacency) -> Result<Requests> {
        self.params.setup.unit.check(adjacency)?;
        let n = n_rows.saturating_mul(self.params.setup.dim);
        events::check_coordinates(n)?;
        let n_steps = self.params.n_steps;
        Ok(events::sampled_steps("gradient", n_steps, self.sampling, n))
    }

    /// The trainer of `encoder` on users' given vectors. A run ends with [`Error::Diverged`] when the parameters leave the finite numbers.
    pub fn with<E>(&self, encoder: E) -> With<Self, E> {
        let (settings, start) = (self.clone(), encoder);
        With { settings, start }
    }

    /// AM-DPSGD for ratings (Algorithm 1 with DP-SGD as item update): every `steps_per_round` steps users fit vectors and levels anew, exactly and locally, at the item vectors of that
    /// moment. Users' features in the table are not looked at. The plan is that of [`plan`](Self::plan).
    ///
    /// # Privacy
    /// As for [`with`](Self::with): a user's gradient is a function of the user's own ratings and of released parameters, whoever was in which batch, and is bounded by `Gamma_g`. Users'
    /// vectors never leave. Unit: the user; single examples as units are refused when it is run.
    ///
    /// # Errors
    /// [`Error::Param`] for a user step out of range or 0 steps to a round.
    pub fn alternating<E>(
        &self,
        encoder: E,
        user_step: UserStep,
        steps_per_round: usize,
    ) -> Result<With<Self, Alternating<E>>> {
        user_step.check()?;
        params::at_least_one("steps_per_round", steps_per_round)?;
        let start = Alternating {
            encoder,
            user_step,
            steps_per_round,
        };
        let settings = self.clone();
        Ok(With { settings, start })
    }

    /// All steps, at users' given vectors or at those that `users` fit.
    fn steps<E: PublicEncoder>(
        &self,
        mut encoder: E,
        users: Option<(&UserStep, usize)>,
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<E> {
        let dim = self.params.setup.dim;
        let mut state = OptimiserState::new(self.params.optimiser, dim)?;
        let items: Vec<u32> = (0_u32..).take(encoder.n_items()).collect();
        let mut at = vec![0.0; items.len() * dim];
        for step in 0..self.params.n_steps {
            if users.is_some_and(|(_, each)| step.is_multiple_of(each)) {
                encoder.forward(&items, &mut at)?;
            }
            let users = users.map(|(user_step, _)| (user_step, &*at));
            let gradient = self.gradient(&encoder, users, rows, run)?;
            advance(&mut encoder, &mut state, &gradient)?;
        }
        Ok(encoder)
    }

    fn gradient<E: PublicEncoder>(
        &self,
        encoder: &E,
        users: Option<(&UserStep, &[f64])>,
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<Vec<f64>> {
        let params = &self.params;
        let n = encoder.parameters().len();
        let mut gradients = EncoderGradients::new(&params.setup, encoder, params.gradient_norm)?;
        if let Some((step, item_vectors)) = users {
            gradients = gradients.with_user_step(step, item_vectors)?;
        }
        let shape = (n, params.gradient_norm);
        let released = run.sampled_vector(self.sampling, rows, shape, &gradients)?;
        let q = self.sampling.sampling_probability();
        #[cfg(privacy_mutants)]
        let q = crate::mutants::denominator(q, rows);
        let mut values = released.values();
        values.iter_mut().for_each(|g| *g /= q);
        Ok(values)
    }
}

/// What AM-DPSGD starts from: [`DpSgd::alternating`].
#[derive(Debug, Clone, PartialEq)]
pub struct Alternating<E> {
    encoder: E,
    user_step: UserStep,
    steps_per_round: usize,
}

impl<E: PublicEncoder + Clone> Trainer for With<DpSgd, E> {
    type Data = Private<Interactions>;
    type Model = E;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        n_rows(&self.start)
    }

    fn requests(&self, n_rows: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_rows, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[SECRET]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<E> {
        let (settings, encoder) = (&self.settings, &self.start);
        let setup = &settings.params.setup;
        trainer::check(setup, (encoder.n_items(), encoder.dim()), data, run)?;
        setup.unit.with_rows(data, |rows| {
            settings.steps(encoder.clone(), None, rows, run)
        })
    }
}

impl<E: PublicEncoder + Clone> Trainer for With<DpSgd, Alternating<E>> {
    type Data = Private<Interactions>;
    type Model = E;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        n_rows(&self.start.encoder)
    }

    fn requests(&self, n_rows: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_rows, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Fitted);
        trainer::describe(certificate, said, (OUTPUT, &[SECRET]))
    }

    fn train(&self, ratings: &Self::Data, run: &mut Run<'_>) -> Result<E> {
        let Alternating {
            encoder,
            user_step,
            steps_per_round,
        } = &self.start;
        let setup = &self.settings.params.setup;
        setup.check_ratings(ratings, (encoder.n_items(), encoder.dim()))?;
        let users = Some((user_step, *steps_per_round));
        self.settings.steps(encoder.clone(), users, ratings, run)
    }
}

/// Rows of an encoder's parameters.
fn n_rows(encoder: &impl PublicEncoder) -> usize {
    encoder.parameters().len() / encoder.dim().max(1)
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
