//! AM-SSP and AM-DPSGD. Settings by epsilon were chosen on the validation part with one seed, which
//! is not charged.

use std::time::Instant;

use dp_core::Adjacency;
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::{
    AmSspParams, CollectiveFactorization, CollectiveParams, Descent, DpSgdParams, EncoderDescent,
    IdEncoder, ItemFeatures, LinearEncoder, Optimiser, ProblemSetup, PublicEncoder,
    StatisticsLearner, UserStep,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::super::super::calibration::{pay, pay_schedule};
use super::problem::{Feedback, ItemVectors, Problem, with_zeros};
use dp_personal::error::Result;

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const RATINGS: &str = "ratings";

/// Settings of AM-SSP.
pub(super) struct Rounds {
    pub(super) dim: usize,
    pub(super) n_rounds: usize,
    pub(super) user_penalty: f64,
    pub(super) matrix_share: f64,
    pub(super) label_bound: f64,
    /// Steps of Adam on the statistics of a round.
    pub(super) descent_steps: usize,
    /// Step size of Adam.
    pub(super) descent_rate: f64,
    /// Ridge on item vectors, in units of the statistics: about the size of their noise.
    pub(super) l2_penalty: f64,
}

impl Rounds {
    pub(super) fn of(problem: &Problem<'_>) -> Self {
        let (dim, n_rounds, l2_penalty) = match problem.target.epsilon {
            e if e < 2.5 => (1, 3, 40.0),
            e if e < 10.0 => (2, 5, 20.0),
            _ => (4, 6, 10.0),
        };
        Self {
            dim,
            n_rounds,
            user_penalty: 1.0,
            matrix_share: 0.15,
            label_bound: 1.0,
            descent_steps: 100,
            descent_rate: 0.03,
            l2_penalty,
        }
    }

    /// Settings of DP-CMF, and the weight of a cell of the feature matrix.
    fn collective(problem: &Problem<'_>) -> (Self, f64) {
        let (dim, n_rounds, l2_penalty, feature_weight) = match problem.target.epsilon {
            e if e < 2.5 => (2, 3, 60.0, 20.0),
            e if e < 10.0 => (6, 3, 10.0, 10.0),
            _ => (6, 4, 5.0, 10.0),
        };
        let settings = Self {
            dim,
            n_rounds,
            l2_penalty,
            ..Self::of(problem)
        };
        (settings, feature_weight)
    }
}

/// Settings of AM-DPSGD.
pub(super) struct Steps {
    pub(super) dim: usize,
    pub(super) n_steps: usize,
    pub(super) steps_per_round: usize,
    pub(super) sampling_probability: f64,
    pub(super) gradient_norm: f64,
    pub(super) rate: f64,
    pub(super) user_penalty: f64,
}

impl Steps {
    pub(super) const fn of(problem: &Problem<'_>) -> Self {
        let n_steps = match problem.target.epsilon {
            e if e < 2.5 => 20,
            e if e < 10.0 => 40,
            _ => 80,
        };
        Self {
            dim: 2,
            n_steps,
            steps_per_round: 10,
            sampling_probability: 0.2,
            gradient_norm: 0.3,
            rate: 0.1,
            user_penalty: 1.0,
        }
    }

    /// At epsilon 5, chosen for this number of steps: the longer the run, the lower the clipping
    /// norm.
    pub(super) const fn of_length(problem: &Problem<'_>, n_steps: usize) -> Self {
        let settings = Self {
            n_steps,
            ..Self::of(problem)
        };
        match n_steps {
            0..=100 => settings,
            101..=200 => Self {
                gradient_norm: 0.1,
                ..settings
            },
            _ => Self {
                gradient_norm: 0.1,
                rate: 0.05,
                ..settings
            },
        }
    }
}

/// The local user step.
const fn user_step(feedback: Feedback, l2_penalty: f64) -> UserStep {
    match feedback {
        Feedback::Ratings => UserStep {
            label_center: 3.5,
            offset_shrinkage: Some(5.0),
            l2_penalty,
        },
        Feedback::Likes => UserStep {
            label_center: 0.0,
            offset_shrinkage: None,
            l2_penalty,
        },
    }
}

/// An encoder of either kind, not initialised at 0.
enum Encoder {
    Linear(LinearEncoder),
    Ids(IdEncoder),
}

/// Factor on the initial parameters, which gives them a standard deviation of 1.
const SPREAD: f64 = 10.0;

impl Encoder {
    fn new(problem: &Problem<'_>, with_features: bool, dim: usize) -> Result<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(problem.seed);
        let features: &std::sync::Arc<ItemFeatures> = problem.features;
        let mut encoder = if with_features {
            Self::Linear(LinearEncoder::random(features.clone(), dim, &mut rng)?)
        } else {
            Self::Ids(IdEncoder::random(features.n_items(), dim, &mut rng)?)
        };
        let parameters = match &mut encoder {
            Self::Linear(e) => e.parameters_mut(),
            Self::Ids(e) => e.parameters_mut(),
        };
        parameters.iter_mut().for_each(|t| *t *= SPREAD);
        Ok(encoder)
    }
}

pub(super) fn am_ssp(problem: &Problem<'_>, with_features: bool) -> Result<ItemVectors> {
    am_ssp_with(problem, with_features, &Rounds::of(problem))
}

pub(super) fn am_ssp_with(
    problem: &Problem<'_>,
    with_features: bool,
    settings: &Rounds,
) -> Result<ItemVectors> {
    match Encoder::new(problem, with_features, settings.dim)? {
        Encoder::Linear(encoder) => descent(problem, encoder, settings),
        Encoder::Ids(encoder) => descent(problem, encoder, settings),
    }
}

/// Trains an encoder by gradient steps on the statistics.
fn descent<E: PublicEncoder + Clone>(
    problem: &Problem<'_>,
    encoder: E,
    settings: &Rounds,
) -> Result<ItemVectors> {
    let rate = settings.descent_rate;
    let descent = Descent {
        l2_penalty: settings.l2_penalty,
        ..Descent::new(settings.descent_steps, Optimiser::Adam { rate })
    };
    let learner = EncoderDescent::new(encoder, descent, ChaCha20Rng::seed_from_u64(problem.seed))?;
    rounds(problem, learner, settings)
}

/// One vector per item explains both ratings and features.
pub(super) fn dp_cmf(problem: &Problem<'_>) -> Result<ItemVectors> {
    let (settings, feature_weight) = Rounds::collective(problem);
    let mut rng = ChaCha20Rng::seed_from_u64(problem.seed);
    let mut first = IdEncoder::random(problem.features.n_items(), settings.dim, &mut rng)?;
    first.parameters_mut().iter_mut().for_each(|v| *v *= SPREAD);
    let collective = CollectiveParams {
        feature_weight,
        l2_penalty: settings.l2_penalty,
        n_sweeps: 10,
    };
    let (features, first) = (problem.features.clone(), first.parameters().to_vec());
    let learner = CollectiveFactorization::new(features, settings.dim, first, collective)?;
    rounds(problem, learner, &settings)
}

fn rounds<L: StatisticsLearner + Clone>(
    problem: &Problem<'_>,
    learner: L,
    settings: &Rounds,
) -> Result<ItemVectors> {
    let step = user_step(problem.feedback, settings.user_penalty);
    let params = AmSspParams {
        setup: ProblemSetup::new(settings.dim, settings.label_bound),
        user_step: step,
        n_rounds: settings.n_rounds,
        matrix_share: settings.matrix_share,
    };
    let fit = params.check()?;
    let plan = fit.plan(learner.n_items(), problem.target, ADJACENCY)?;
    let spends = pay(&plan, RATINGS)?;
    let noise = &mut NoiseSource::insecure_seeded(problem.seed);
    let (trainer, start) = (fit.with(learner), Instant::now());
    let fitted = match problem.feedback {
        Feedback::Ratings => trainer.fit(problem.train, &plan, spends, noise)?,
        Feedback::Likes => trainer.fit(&with_zeros(problem.train)?, &plan, spends, noise)?,
    };
    Ok(ItemVectors {
        seconds: start.elapsed().as_secs_f64(),
        step,
        dim: settings.dim,
        vectors: fitted.model.item_vectors()?,
        feedback: problem.feedback,
    })
}

pub(super) fn am_dp_sgd(
    problem: &Problem<'_>,
    with_features: bool,
    settings: &Steps,
) -> Result<ItemVectors> {
    match Encoder::new(problem, with_features, settings.dim)? {
        Encoder::Linear(encoder) => steps(problem, encoder, settings),
        Encoder::Ids(encoder) => steps(problem, encoder, settings),
    }
}

fn steps<E: PublicEncoder + Clone>(
    problem: &Problem<'_>,
    encoder: E,
    settings: &Steps,
) -> Result<ItemVectors> {
    let step = user_step(problem.feedback, settings.user_penalty);
    let dim = settings.dim;
    let params = DpSgdParams {
        setup: ProblemSetup::new(dim, 1.5),
        n_steps: settings.n_steps,
        sampling_probability: settings.sampling_probability,
        gradient_norm: settings.gradient_norm,
        optimiser: Optimiser::Adam {
            rate: settings.rate,
        },
    };
    let fit = params.check()?;
    let plan = fit.plan(encoder.parameters().len() / dim, problem.target, ADJACENCY)?;
    let spends = pay_schedule(&plan, RATINGS)?;
    let trainer = fit.alternating(encoder, step, settings.steps_per_round)?;
    let noise = &mut NoiseSource::insecure_seeded(problem.seed);
    let start = Instant::now();
    let fitted = match problem.feedback {
        Feedback::Ratings => trainer.fit(problem.train, &plan, spends, noise)?,
        Feedback::Likes => trainer.fit(&with_zeros(problem.train)?, &plan, spends, noise)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let items: Vec<u32> = (0..).take(fitted.model.n_items()).collect();
    let mut vectors = vec![0.0; items.len() * dim];
    fitted.model.forward(&items, &mut vectors)?;
    Ok(ItemVectors {
        step,
        dim,
        vectors,
        feedback: problem.feedback,
        seconds,
    })
}
