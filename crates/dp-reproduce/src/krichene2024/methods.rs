//! The methods on generated data at a budget. Settings were chosen on the true risk at the full
//! sizes: they show what the methods can reach.

use dp_core::{Adjacency, ApproxDp};
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::{
    ConvexSspParams, DpSgdParams, KernelRidge, LinearEncoder, Logistic, Optimiser, ProblemSetup,
    PublicEncoder, ResidualSspParams, RidgeNoise, SspParams, StatisticsLearner, ValueDescent,
    ValueDescentParams,
};

use super::super::calibration::{DELTA, pay, pay_schedule};
use super::set_up::SyntheticData;
use dp_personal::error::Result;

const DIM: usize = 8;
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const MADE: &str = "made data";
/// Weighted norm of a user's labels.
const LABEL_NORM: f64 = 0.4;
/// Bound on the weighted norm of the residuals: that of the label noise alone, with a margin.
const RESIDUAL_NORM: f64 = 0.11;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Method {
    /// All vectors 0.
    Zero,
    /// Statistics released once, closed form.
    SspC,
    /// The same with gradient steps.
    SspCSteps,
    /// `n_resamples` releases, and `n_steps` gradient steps in total.
    Resampled { n_resamples: usize, n_steps: usize },
    /// One release per gradient step, with as many steps as the noise permits.
    SspI,
    /// DP-SGD on the encoder's parameters.
    DpSgd,
    /// Noisy gradients of clipped residuals.
    NoisyGd,
    /// Residual steps, closed form.
    Best,
    /// Statistics of the logistic loss, released `n_steps` times, for logits of this scale.
    Convex { n_steps: usize, scale: f64 },
}

impl Method {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::SspC => "ssp-c",
            Self::SspCSteps => "ssp-c-steps",
            Self::Resampled { n_resamples: 1, .. } => "ssp-c-steps",
            Self::Resampled { .. } | Self::SspI => "ssp-i",
            Self::DpSgd => "dp-sgd",
            Self::NoisyGd => "noisy-gd",
            Self::Best => "best",
            Self::Convex { .. } => "ssp-convex",
        }
    }

    /// Excess risk per example.
    pub(super) fn risk(self, made: &SyntheticData, epsilon: f64, seed: u64) -> Result<f64> {
        let mut run = Run {
            made,
            target: ApproxDp::target(epsilon, DELTA)?,
            noise: NoiseSource::insecure_seeded(seed),
        };
        let vectors = run.vectors(self)?;
        Ok(made.data.excess_risk(&vectors))
    }
}

/// Numbers of steps that suit the noise at an epsilon.
struct Steps {
    /// For statistics that are resampled.
    resampled: usize,
    /// For statistics that are released once.
    once: usize,
    /// For residual steps.
    residual: usize,
}

impl Steps {
    const fn at(epsilon: f64) -> Self {
        let (resampled, once, residual) = match epsilon {
            e if e < 3.0 => (5, 6, 20),
            e if e < 10.0 => (12, 15, 20),
            _ => (40, 35, 80),
        };
        Self {
            resampled,
            once,
            residual,
        }
    }
}

fn setup() -> ProblemSetup {
    ProblemSetup {
        label_norm: LABEL_NORM,
        ..ProblemSetup::new(DIM, 2.0)
    }
}

struct Run<'a> {
    made: &'a SyntheticData,
    target: ApproxDp,
    noise: NoiseSource,
}

impl Run<'_> {
    fn vectors(&mut self, method: Method) -> Result<Vec<f64>> {
        let Steps {
            resampled,
            once,
            residual,
        } = Steps::at(self.target.epsilon);
        match method {
            Method::Zero => Ok(vec![0.0; self.made.n_items() * DIM]),
            Method::SspC => self.ssp(self.ridge(1.0, 0.0)?, 1, 0.6),
            Method::SspCSteps => self.ssp(self.descent(once)?, 1, 0.5),
            Method::Resampled {
                n_resamples,
                n_steps,
            } => self.ssp(
                self.descent((n_steps / n_resamples).max(1))?,
                n_resamples,
                0.5,
            ),
            Method::SspI => self.ssp(self.descent(1)?, resampled, 0.5),
            Method::DpSgd => self.dp_sgd(),
            Method::NoisyGd => self.residual(self.descent(1)?, residual, true),
            Method::Best => self.residual(self.ridge(1.0, 0.0127)?, 6, false),
            Method::Convex { n_steps, scale } => self.convex(n_steps, scale),
        }
    }

    fn ridge(&self, item_norm: f64, l2_penalty: f64) -> Result<KernelRidge> {
        let noise = RidgeNoise::FromRelease { item_norm };
        let kernel = self.made.kernel.clone();
        Ok(KernelRidge::new(kernel, DIM, noise, l2_penalty)?)
    }

    fn descent(&self, n_steps: usize) -> Result<ValueDescent> {
        let params = ValueDescentParams {
            rate: 1.9,
            ..ValueDescentParams::new(n_steps)
        };
        Ok(ValueDescent::new(self.made.kernel.clone(), DIM, params)?)
    }

    fn ssp(
        &mut self,
        learner: impl StatisticsLearner + Clone,
        n_resamples: usize,
        matrix_share: f64,
    ) -> Result<Vec<f64>> {
        let params = SspParams {
            n_resamples,
            matrix_share,
            ..SspParams::new(setup())
        };
        let fit = params.check()?;
        let plan = fit.plan(self.made.n_items(), self.target, ADJACENCY)?;
        let (data, spends) = (&self.made.data.examples, pay(&plan, MADE)?);
        let fitted = fit
            .with(learner)
            .fit(data, &plan, spends, &mut self.noise)?;
        Ok(fitted.model.item_vectors()?)
    }

    fn residual(
        &mut self,
        learner: impl StatisticsLearner + Clone,
        n_steps: usize,
        forget: bool,
    ) -> Result<Vec<f64>> {
        let params = ResidualSspParams {
            forget,
            ..ResidualSspParams::new(setup(), n_steps, LABEL_NORM, RESIDUAL_NORM)
        };
        let fit = params.check()?;
        let plan = fit.plan(self.made.n_items(), self.target, ADJACENCY)?;
        let (data, spends) = (&self.made.data.examples, pay(&plan, MADE)?);
        let fitted = fit
            .with(learner)
            .fit(data, &plan, spends, &mut self.noise)?;
        Ok(fitted.model.item_vectors()?)
    }

    fn dp_sgd(&mut self) -> Result<Vec<f64>> {
        let features = &self.made.features;
        let encoder = LinearEncoder::zeros(features.clone().into(), DIM)?;
        let params = DpSgdParams {
            setup: setup(),
            n_steps: 40,
            sampling_probability: 0.3,
            gradient_norm: 0.3,
            optimiser: Optimiser::Momentum {
                rate: 1e-3,
                decay: 0.9,
            },
        };
        let fit = params.check()?;
        let plan = fit.plan(features.n_features(), self.target, ADJACENCY)?;
        let (data, spends) = (&self.made.data.examples, pay_schedule(&plan, MADE)?);
        let fitted = fit
            .with(encoder)
            .fit(data, &plan, spends, &mut self.noise)?;
        let items: Vec<u32> = (0..).take(self.made.n_items()).collect();
        let mut vectors = vec![0.0; items.len() * DIM];
        fitted.model.forward(&items, &mut vectors)?;
        Ok(vectors)
    }

    fn convex(&mut self, n_steps: usize, item_norm: f64) -> Result<Vec<f64>> {
        let params = ConvexSspParams {
            slope_norm: 0.5,
            matrix_share: 0.5,
            ..ConvexSspParams::new(ProblemSetup::new(DIM, 1.0), n_steps)
        };
        let fit = params.check()?;
        let plan = fit.plan(self.made.n_items(), self.target, ADJACENCY)?;
        let learner = self.ridge(item_norm, 0.0)?;
        let (data, spends) = (&self.made.data.examples, pay(&plan, MADE)?);
        let trainer = fit.with(Logistic, learner);
        let fitted = trainer.fit(data, &plan, spends, &mut self.noise)?;
        Ok(fitted.model.item_vectors()?)
    }
}
