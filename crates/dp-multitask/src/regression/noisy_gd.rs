//! Task-weighted noisy gradient descent.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, Interactions, Private, ReplaceFactor, UserRow, params};
use dp_mechanism::{ReleasedVector, Run, SparseBuffer, Trainer, VectorContribution};

use super::model::TaskModels;
use super::ssp::{TaskScales, WeightTotals, noise_ridge};
use super::{Loss, RegressionLoss, TaskSetup, shorten};
use crate::factorization::in_public_range;
use crate::{Error, Result, TaskWeights};

/// Which coefficients are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Iterate {
    /// The coefficients after the last step.
    #[default]
    Last,
    /// The mean of the coefficients after each step.
    Average,
}

/// Settings of [`MultiTaskNoisyGd`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiTaskNoisyGdParams {
    /// Bounds, weights and domain.
    pub setup: TaskSetup,
    /// The loss; see [`MultiTaskNoisyGd::with_loss`] for a custom one.
    pub loss: RegressionLoss,
    /// Steps `T`, 1 to 1000.
    pub n_steps: usize,
    /// Bound `Gamma` on a user's share of the gradients, in units of label times feature.
    pub gradient_norm: f64,
    /// How gradients are clipped to it.
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
    /// A user's contribution to the gradient at 0 has norm at most `R = Gamma_x min(B, Gamma_y)`. The
    /// clipping norm is a quarter of that, so that four full steps can cover the distance, and two
    /// more let the iterates settle; a smaller clipping norm means less noise in the last step and
    /// more steps to reach the optimum. The curvature is that of features
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
/// use dp_multitask::{Adjacency, ApproxDp, MultiTaskNoisyGdParams, TaskSetup, Trainer};
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

impl Trainer for MultiTaskNoisyGd {
    type Data = Private<Interactions>;
    type Model = TaskModels;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_tasks: usize, _: Adjacency) -> Result<Requests> {
        let (params, dim) = (&self.params, self.params.setup.dim);
        check_coordinates(n_tasks, dim)?;
        let share = params.weight_share;
        let mut rest = vec![WeightTotals::request("task weights", n_tasks, share)];
        let steps = step_requests("gradients", params.n_steps, 1.0 - share, n_tasks * dim);
        rest.extend(steps);
        let allocation = &params.setup.allocation;
        Ok(Requests::Shares(
            allocation.with_count_request(n_tasks, rest),
        ))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.params.setup.describe(certificate, &self.assumptions)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<TaskModels> {
        self.with_loss(&self.params.loss).train(data, run)
    }
}

/// [`MultiTaskNoisyGd`] with a custom loss; that of the settings is not used.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "a loss need not be printed")]
pub struct WithLoss<'a> {
    descent: &'a MultiTaskNoisyGd,
    loss: &'a dyn Loss,
}

impl Trainer for WithLoss<'_> {
    type Data = Private<Interactions>;
    type Model = TaskModels;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_tasks: usize, adjacency: Adjacency) -> Result<Requests> {
        self.descent.requests(n_tasks, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.descent.describe(certificate)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<TaskModels> {
        let setup = &self.descent.params.setup;
        setup.check_table(data)?;
        let (weights, counts) = setup.weights(data, run)?;
        let totals = WeightTotals {
            dim: setup.dim,
            weights: &weights,
        };
        let known = setup.task_counts(counts.as_ref());
        let shape = (data.expose().n_items(), 1.0);
        let scales = totals.scales(&run.vector(data, shape, &totals)?, known);
        let coefficients = self
            .descent
            .descend(self.loss, data, &weights, &scales, run)?;
        let model = TaskModels::new(setup.dim, coefficients, run.provenance())?;
        Ok(model.with_counts(counts))
    }
}

impl MultiTaskNoisyGd {
    /// The same descent with a custom loss: a separate [`Trainer`].
    #[must_use]
    pub const fn with_loss<'a>(&'a self, loss: &'a dyn Loss) -> WithLoss<'a> {
        let descent = self;
        WithLoss { descent, loss }
    }

    fn descend(
        &self,
        loss: &dyn Loss,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        scales: &TaskScales,
        run: &mut Run<'_>,
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
            .release(data, run)?;
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

/// Step size of task `i` at step `t = 1, 2, ...`, for released total weights `W_i = sum_j w_ij`
/// (the paper's `omega_i n_i`) and gradient noise of standard deviation `s` per coordinate.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum StepSize {
    /// `2 radius / sqrt(Gamma^2 W_i^2 + d s^2) / sqrt(t)`: Theorem 3.12(a), convex losses.
    Lipschitz,
    /// `1 / (W_i lambda t)`: Theorem 3.12(b), strongly convex losses. The paper prints
    /// `omega_i^2` where its proof has `omega_i` (`docs/errata.md`).
    StronglyConvex {
        /// Strong convexity `lambda` of one record's loss.
        convexity: f64,
    },
    /// `rate / (f_i W_i h + damping r_i)`: a constant step in units of the curvature `h` of one
    /// record. `f_i = 1 + d/n_i` prevents small tasks from overshooting, with known `n_i` if
    /// available and otherwise `W_i`; `r_i = d s^2 / (radius^2 f_i W_i h)` shortens steps if noise
    /// exceeds the data.
    Curvature {
        /// The step in units of a Newton step, above 0.
        rate: f64,
        /// Average second derivative of one record's loss along a direction.
        curvature: f64,
        /// Damping, 0 or above.
        damping: f64,
    },
}

/// State of a descent.
pub(crate) struct Descent {
    /// The step, from 1.
    pub(crate) step: usize,
    pub(crate) dim: usize,
    /// Radius of the ball to which coefficients are restricted.
    pub(crate) radius: f64,
    /// Bound `Gamma` on a user's contribution to the gradients.
    pub(crate) gradient_norm: f64,
    /// Noise `s` of the step.
    pub(crate) noise_stddev: f64,
}

impl StepSize {
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Lipschitz => Ok(()),
            Self::StronglyConvex { convexity } => in_public_range("convexity", convexity),
            Self::Curvature {
                rate,
                curvature,
                damping,
            } => {
                in_public_range("rate", rate)?;
                in_public_range("curvature", curvature)?;
                params::finite_non_negative("damping", damping)?;
                in_public_range("damping", damping.max(1e-6))
            }
        }
    }

    /// `eta_i^(t)`.
    pub(crate) fn at(self, now: &Descent, scales: &TaskScales, task: usize) -> f64 {
        let (total, t) = (scales.totals[task], now.step as f64);
        match self {
            Self::Lipschitz => {
                let signal = now.gradient_norm * total;
                let squared = signal * signal + now.dim as f64 * now.noise_stddev.powi(2);
                2.0 * now.radius / (squared * t).sqrt()
            }
            Self::StronglyConvex { convexity } => 1.0 / (total * convexity * t),
            Self::Curvature {
                rate,
                curvature,
                damping,
            } => {
                let eigenvalue = curvature * scales.curvature[task];
                let ridge = noise_ridge(now.dim, now.radius, now.noise_stddev, eigenvalue);
                rate / (eigenvalue + damping * ridge)
            }
        }
    }
}

/// Equal requests for the steps of a descent, which together have `share` of the budget.
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

/// Checks the number of coordinates, which have 32-bit indices.
pub(super) fn check_coordinates(n_tasks: usize, dim: usize) -> Result<()> {
    let most = u32::MAX as usize / dim.max(1);
    let expected = "a whole number, 1 or above, at most 2^32 / dim";
    params::in_range("n_tasks", n_tasks, 1, most, expected)?;
    Ok(())
}

/// How a user's gradients are bounded. Both variants keep the norm of the user's whole contribution
/// at `Gamma` or below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GradientClip {
    /// The stacked weighted gradients of all of a user's tasks, jointly.
    #[default]
    Joint,
    /// Each task's gradient separately, before weighting.
    PerTask,
}

/// One user's contribution to the gradients of all tasks.
///
/// ```text
/// h_ij = gradient of the loss at theta_i, features shortened to Gamma_x, label clipped to Gamma_y
/// Joint:    g_ij = w_ij h_ij min(1, Gamma / sqrt(sum_i w_ij^2 ||h_ij||^2))
/// PerTask:  g_ij = w_ij h_ij min(1, Gamma / ||h_ij||)
/// ```
///
/// # Privacy
/// User `j` adds the blocks `g_ij`, one per task of the user. Joint: `sum_i ||g_ij||^2 <= Gamma^2`
/// by construction. Per task: `sum_i w_ij^2 Gamma^2 <= Gamma^2`, because `sum_i w_ij^2 <= 1`. In
/// both cases the L2 sensitivity under add/remove is `Gamma`, without any assumption on the loss.
/// Clipping the sum over users instead, as Algorithm 2 is printed, would allow a user with `k`
/// tasks to move it by `2 Gamma sqrt(k)`.
#[allow(
    missing_debug_implementations,
    reason = "settings, weights and coefficients; print those instead"
)]
pub struct WeightedGradients<'a> {
    /// Bounds and dimension, checked.
    pub setup: &'a TaskSetup,
    /// Weights, public or released.
    pub weights: &'a TaskWeights,
    /// The loss.
    pub loss: &'a dyn Loss,
    /// Coefficients `theta_i`, public or released, shape `(n_tasks, dim)`.
    pub coefficients: &'a [f64],
    /// The bound `Gamma`, above 0.
    pub gradient_norm: f64,
    /// What is clipped.
    pub clip: GradientClip,
}

/// Scratch memory of one thread.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's gradients; printing them is never wanted"
)]
pub struct GradientScratch {
    features: Vec<f64>,
    weights: Vec<f64>,
    gradients: Vec<f64>,
}

impl WeightedGradients<'_> {
    /// The weighted, clipped gradients of one user, one row per record.
    fn write_gradients(&self, user: UserRow<'_>, scratch: &mut GradientScratch) {
        let dim = self.setup.dim;
        scratch.features.resize(dim, 0.0);
        scratch.weights.resize(user.len(), 0.0);
        scratch.gradients.clear();
        scratch.gradients.resize(user.len() * dim, 0.0);
        self.setup.write_features(user, &mut scratch.features);
        self.weights.weigh(user, &mut scratch.weights);
        let rows = scratch.gradients.chunks_exact_mut(dim);
        for (((task, y), &w), row) in user.iter().zip(&scratch.weights).zip(rows) {
            let theta = &self.coefficients[task as usize * dim..][..dim];
            let label = self.setup.label(y);
            self.loss.gradient(theta, &scratch.features, label, row);
            if self.clip == GradientClip::PerTask {
                shorten(row, self.gradient_norm);
            }
            row.iter_mut().for_each(|g| *g *= w);
        }
        if self.clip == GradientClip::Joint {
            shorten(&mut scratch.gradients, self.gradient_norm);
        }
    }

    /// Releases the sum over all users; returns `(n_tasks, dim)` noisy gradients.
    pub(super) fn release(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<ReleasedVector> {
        let shape = (self.coefficients.len(), self.gradient_norm);
        Ok(run.vector(data, shape, self)?)
    }
}

impl VectorContribution for WeightedGradients<'_> {
    type Scratch = GradientScratch;

    fn scratch(&self) -> GradientScratch {
        GradientScratch::default()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut GradientScratch, out: &mut SparseBuffer) {
        self.write_gradients(user, scratch);
        let dim = self.setup.dim;
        let rows = scratch.gradients.chunks_exact(dim);
        for ((&task, row), &w) in user.items().iter().zip(rows).zip(&scratch.weights) {
            if w > 0.0 {
                for (k, &g) in row.iter().enumerate() {
                    out.push(coordinate(task, dim, k), g);
                }
            }
        }
    }
}

/// Index of coordinate `k` of a task. Settings are checked so that all indices fit.
#[allow(
    clippy::cast_possible_truncation,
    reason = "dim is at most 256 and n_tasks * dim below 2^32, both checked when planning"
)]
const fn coordinate(task: u32, dim: usize, k: usize) -> u32 {
    task * dim as u32 + k as u32
}
