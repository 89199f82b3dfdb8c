//! Task-weighted noisy gradient descent.

use dp_accounting::{Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::NoiseSource;

use super::gradients::{GradientClip, WeightedGradients};
use super::gramian::{TaskScales, WeightTotals};
use super::loss::{Loss, RegressionLoss};
use super::model::FittedRegression;
use super::setup::TaskSetup;
use super::step_size::{Descent, StepSize};
use crate::factorization::in_public_range;
use crate::paid::Paid;
use crate::watch::Watch;
use crate::{Result, TaskWeights};

/// Which coefficients are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Iterate {
    /// Those after the last step.
    #[default]
    Last,
    /// The mean of those after each step.
    Average,
}

/// Settings of [`MultiTaskNoisyGd`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiTaskNoisyGdParams {
    /// Bounds, weights and domain.
    pub setup: TaskSetup,
    /// The loss; see [`MultiTaskNoisyGd::fit_with_loss`] for one's own.
    pub loss: RegressionLoss,
    /// Steps `T`, 1 to 1000.
    pub n_steps: usize,
    /// Bound `Gamma` on a user's share of the gradients, in units of label times feature.
    pub gradient_norm: f64,
    /// What is clipped to it.
    pub clip: GradientClip,
    /// The step size.
    pub step_size: StepSize,
    /// Which coefficients are returned.
    pub iterate: Iterate,
    /// Share of the budget (after the counts) spent on the tasks' total weights, strictly between
    /// 0 and 1.
    pub weight_share: f64,
}

impl MultiTaskNoisyGdParams {
    /// Defaults by rule, for the squared loss.
    ///
    /// A user's share of the gradient at 0 has norm at most `R = Gamma_x min(B, Gamma_y)`. The
    /// clip is a quarter of that, so that four full steps can cross the distance, and two more settle;
    /// a smaller clip means less noise in the last step and more steps to get there. The curvature is that of features
    /// spread evenly over directions, `Gamma_x^2 / d`.
    #[must_use]
    pub fn new(setup: TaskSetup) -> Self {
        let gradient_norm = 0.25 * setup.feature_norm * setup.label_reach();
        let curvature = setup.feature_norm.powi(2) / setup.dim as f64;
        Self {
            setup,
            loss: RegressionLoss::Squared,
            n_steps: 6,
            gradient_norm,
            clip: GradientClip::Joint,
            step_size: StepSize::Curvature {
                rate: 1.0,
                curvature,
                damping: 1.0,
            },
            iterate: Iterate::Last,
            weight_share: 0.02,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<MultiTaskNoisyGd> {
        self.setup.check()?;
        params::in_range(
            "n_steps",
            self.n_steps,
            1,
            1000,
            "a whole number from 1 to 1000",
        )?;
        in_public_range("gradient_norm", self.gradient_norm)?;
        params::open_unit("weight_share", self.weight_share)?;
        if let RegressionLoss::Huber { threshold } = self.loss {
            in_public_range("threshold", threshold)?;
        }
        self.step_size.check()?;
        Ok(MultiTaskNoisyGd {
            params: self,
            assumptions: Vec::new(),
        })
    }
}

/// Task-weighted noisy gradient descent over all tasks at once, projected on the ball.
///
/// ```text
/// theta_i <- P_C[theta_i - eta_i^(t) (sum_j g_ij + s xi)],   theta_i = 0 at the start
/// ```
///
/// Source: Krichene et al. 2023, Algorithm 2, corrected (`docs/errata.md`): every user is clipped
/// inside the sum. See [`WeightedGradients`] for the sensitivity.
///
/// # Privacy
/// Releases: the counts if the allocation asks for them, the tasks' total weights (sensitivity 1),
/// and one gradient sum per step (sensitivity `Gamma`).
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_multitask::{MultiTaskNoisyGdParams, TaskSetup};
/// let gd = MultiTaskNoisyGdParams::new(TaskSetup::unit_ball(5)).check()?;
/// let plan = gd.plan(100, ApproxDp::target(1.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 1 + 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MultiTaskNoisyGd {
    params: MultiTaskNoisyGdParams,
    assumptions: Vec<String>,
}

settings_and_assumptions!(MultiTaskNoisyGd, MultiTaskNoisyGdParams);

impl MultiTaskNoisyGd {
    /// What a fit over `n_tasks` will release, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_tasks` is 0 or too large, [`crate::Error::Accounting`] when
    /// the target cannot be met, [`crate::Error::Mechanism`] when a share is too small for any grid.
    pub fn plan(&self, n_tasks: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        check_coordinates(n_tasks, self.params.setup.dim)?;
        TaskSetup::plan(&self.requests(n_tasks), target, adjacency)
    }

    fn requests(&self, n_tasks: usize) -> Vec<ReleaseRequest> {
        let params = &self.params;
        let mut rest = vec![WeightTotals::request(
            "task weights",
            n_tasks,
            params.weight_share,
        )];
        rest.extend(step_requests(
            "gradients",
            params.n_steps,
            1.0 - params.weight_share,
            n_tasks * params.setup.dim,
        ));
        params.setup.allocation.with_count_request(n_tasks, rest)
    }

    /// Descends on the loss of the settings, consuming exactly the spends of `plan`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] or [`crate::Error::Spends`] when table, plan and spends do not
    /// belong together, before any data is touched; [`crate::Error::Mechanism`] when a release is
    /// refused or entropy fails. Spends are consumed either way.
    pub fn fit(
        &self,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedRegression> {
        self.fit_with_loss(&self.params.loss, data, plan, spends, noise)
    }

    /// [`fit`](Self::fit), showing each release to `watch` with what users added to it: for audits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched(
        &self,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedRegression> {
        self.run(&self.params.loss, data, plan, spends, noise, watch)
    }

    /// [`fit`](Self::fit) on a loss of the caller's; that of the settings is not used.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_with_loss(
        &self,
        loss: &dyn Loss,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedRegression> {
        self.run(loss, data, plan, spends, noise, &mut |_| {})
    }

    fn run(
        &self,
        loss: &dyn Loss,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedRegression> {
        let setup = &self.params.setup;
        setup.check_table(data)?;
        let n_tasks = data.expose().n_items();
        let mut paid = Paid::new(plan, &self.requests(n_tasks), spends, watch)?;
        let (weights, counts) = setup.weights(data, &mut paid, noise)?;
        let totals = WeightTotals {
            dim: setup.dim,
            weights: &weights,
        };
        let known = setup.task_counts(counts.as_ref());
        let scales = totals.scales(&paid.vector(data, (n_tasks, 1.0), &totals, noise)?, known);
        let coefficients = self.descend(loss, data, &weights, &scales, &mut paid, noise)?;
        let insecure = noise.is_insecure();
        setup.fitted(coefficients, counts, paid, &self.assumptions, insecure)
    }

    fn descend(
        &self,
        loss: &dyn Loss,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        scales: &TaskScales,
        paid: &mut Paid<'_>,
        noise: &mut NoiseSource,
    ) -> Result<Vec<f64>> {
        let params = &self.params;
        let (setup, dim) = (&params.setup, params.setup.dim);
        let mut coefficients = vec![0.0; scales.totals.len() * dim];
        let mut average = coefficients.clone();
        for step in 1..=params.n_steps {
            let released = WeightedGradients {
                setup,
                weights,
                loss,
                coefficients: &coefficients,
                gradient_norm: params.gradient_norm,
                clip: params.clip,
            }
            .release(data, paid, noise)?;
            let descent = Descent {
                step,
                dim,
                radius: setup.radius,
                gradient_norm: params.gradient_norm,
                noise_stddev: released.noise_stddev(),
            };
            let gradients = released.values();
            let tasks = coefficients
                .chunks_exact_mut(dim)
                .zip(gradients.chunks_exact(dim));
            for (task, (theta, gradient)) in tasks.enumerate() {
                let size = params.step_size.at(&descent, scales, task);
                for (t, g) in theta.iter_mut().zip(gradient) {
                    *t -= size * g;
                }
                setup.project(theta);
            }
            for (mean, t) in average.iter_mut().zip(&coefficients) {
                *mean += (t - *mean) / step as f64;
            }
        }
        Ok(match params.iterate {
            Iterate::Last => coefficients,
            Iterate::Average => average,
        })
    }
}

/// Equal requests for the steps of a descent, `share` of the budget among them.
pub(super) fn step_requests(
    name: &str,
    n_steps: usize,
    share: f64,
    n_coordinates: usize,
) -> impl Iterator<Item = ReleaseRequest> {
    (1..=n_steps).map(move |step| {
        ReleaseRequest::new(
            format!("step {step}: {name}"),
            share / n_steps as f64,
            ReplaceFactor::Two,
            n_coordinates as u64,
        )
    })
}

/// Coordinates are numbered in 32 bits.
pub(super) fn check_coordinates(n_tasks: usize, dim: usize) -> Result<()> {
    let most = u32::MAX as usize / dim.max(1);
    let expected = "a whole number, 1 or above, at most 2^32 / dim";
    params::in_range("n_tasks", n_tasks, 1, most, expected)?;
    Ok(())
}
