//! Sufficient statistics refined by releases of clipped residuals.

use dp_accounting::{Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{NoiseSource, ReleasedGrams};

use super::gradients::{GradientClip, WeightedGradients};
use super::gramian::{PooledGramian, TaskScales, WeightTotals, noise_ridge};
use super::loss::RegressionLoss;
use super::model::FittedRegression;
use super::noisy_gd::{check_coordinates, step_requests};
use super::residual_bounds::ResidualBounds;
use super::setup::TaskSetup;
use super::statistics::{gram_requests, release_statistics};
use crate::batch_solve::solve_systems;
use crate::factorization::in_public_range;
use crate::paid::Paid;
use crate::watch::Watch;
use crate::{Result, TaskWeights};

/// Where the matrices `A_i` of the solves come from.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum Gramian {
    /// `A_i = f_i W_i G`: one released average `G` of `x_j x_j^T` for all tasks, and each task's
    /// released total weight `W_i`. Noise on d(d+1)/2 numbers instead of that many per task. Right
    /// when users' features do not depend on their tasks; else the steps still converge as long as
    /// `A_i` is more than half of the true one. `f_i = 1 + d/n_i` sees to that in tasks with
    /// few users, for the `n_i` that are known, else `W_i`.
    Pooled {
        /// Share of the budget spent on `G`, and again on the `W_i`; above 0 and below 1/2.
        share: f64,
    },
    /// Each task's own released matrix. The right-hand sides of the same release are the first
    /// step.
    PerTask {
        /// Share of the budget spent on the matrices, strictly between 0 and 1.
        share: f64,
    },
}

/// Settings of [`ResidualSsp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualSspParams {
    /// Bounds, weights and domain.
    pub setup: TaskSetup,
    /// Where the matrices come from.
    pub gramian: Gramian,
    /// Steps, 1 to 1000; with [`Gramian::PerTask`] the first one is plain SSP.
    pub n_steps: usize,
    /// The shrinking bounds.
    pub bounds: ResidualBounds,
    /// Ridge of every solve in units of `d (s_t^2 + s_A^2 R^2) / (R^2 a_i)`, as in
    /// [`SspSolve::Shrinkage`](super::SspSolve::Shrinkage): `s_t` the noise of the step, `s_A` that
    /// of the matrices where there is one per task; from 1e-6 to 1e6.
    pub ridge_factor: f64,
}

impl ResidualSspParams {
    /// Defaults by rule: pooled Gramian at 2 % of the budget twice, five steps, bounds halved from
    /// step to step.
    #[must_use]
    pub const fn new(setup: TaskSetup) -> Self {
        Self {
            setup,
            gramian: Gramian::Pooled { share: 0.02 },
            n_steps: 5,
            bounds: ResidualBounds::Geometric { ratio: 0.5 },
            ridge_factor: 1.0,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<ResidualSsp> {
        self.setup.check()?;
        params::in_range(
            "n_steps",
            self.n_steps,
            1,
            1000,
            "a whole number from 1 to 1000",
        )?;
        in_public_range("ridge_factor", self.ridge_factor)?;
        match self.gramian {
            Gramian::Pooled { share } => params::open_unit("twice the Gramian share", 2.0 * share)?,
            Gramian::PerTask { share } => params::open_unit("Gramian share", share)?,
        };
        self.bounds.check(self.n_steps)?;
        Ok(ResidualSsp {
            params: self,
            assumptions: Vec::new(),
        })
    }

    /// `c_t`, `t` from 0; never below 1e-9 of the first.
    fn bound(&self, step: usize) -> f64 {
        let first = self.setup.feature_norm * self.setup.label_reach();
        self.bounds.at(first, step)
    }
}

/// Repeated small releases around what is known already.
///
/// ```text
/// r_i = sum_j w_ij (y_ij - <theta_i, x_j>) x_j + c_t z xi,   a user's share clipped to norm c_t
/// theta_i <- P_C[theta_i + (PSD(A_i) + ridge)^-1 r_i]
/// ```
///
/// The noise of a step is in proportion to `c_t`. As the residuals shrink so can the bound, and
/// with it the noise, which plain SSP has to scale to the labels themselves. The residual share is
/// that of [`WeightedGradients`] for the squared loss, clipped jointly: sensitivity `c_t`.
///
/// # Privacy
/// Releases: the counts if the allocation asks for them; then for [`Gramian::Pooled`] the pooled
/// Gramian (sensitivity `sqrt(2) Gamma_x^2`), the total weights (1) and the steps (`c_t` each); for
/// [`Gramian::PerTask`] the two sums of SSP and the steps after the first.
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_multitask::{ResidualSspParams, TaskSetup};
/// let residual = ResidualSspParams::new(TaskSetup::unit_ball(5)).check()?;
/// let plan = residual.plan(100, ApproxDp::target(1.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 2 + 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualSsp {
    params: ResidualSspParams,
    assumptions: Vec<String>,
}

/// Released matrices.
enum Matrices {
    Pooled {
        average: Vec<f64>,
        scales: TaskScales,
    },
    PerTask(Box<ReleasedGrams>),
}

impl Matrices {
    /// Writes `A_i` of one task; returns the standard deviation of its noise, 0 for the pooled one.
    fn write(&self, task: usize, matrix: &mut [f64]) -> f64 {
        match self {
            Self::Pooled { average, scales } => {
                for (a, g) in matrix.iter_mut().zip(average) {
                    *a = scales.curvature[task] * g;
                }
                0.0
            }
            Self::PerTask(released) => {
                released.write_item(task, matrix, &mut vec![0.0; released.dim()]);
                released.matrix_noise_stddev()
            }
        }
    }
}

settings_and_assumptions!(ResidualSsp, ResidualSspParams);

impl ResidualSsp {
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
        let (params, dim) = (&self.params, self.params.setup.dim);
        let n_steps = params.n_steps;
        let steps = |n, share| step_requests("residuals", n, share, n_tasks * dim);
        let mut rest;
        match params.gramian {
            Gramian::Pooled { share } => {
                rest = vec![
                    PooledGramian::request(dim, share),
                    WeightTotals::request("task weights", n_tasks, share),
                ];
                rest.extend(steps(n_steps, 1.0 - 2.0 * share));
            }
            Gramian::PerTask { share } => {
                let of_a_step = (1.0 - share) / n_steps as f64;
                let both = share + of_a_step;
                rest = gram_requests("task", dim, n_tasks, share / both, both);
                rest.extend(steps(n_steps - 1, 1.0 - both));
            }
        }
        params.setup.allocation.with_count_request(n_tasks, rest)
    }

    /// Estimates all coefficients, consuming exactly the spends of `plan`.
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
        self.fit_watched(data, plan, spends, noise, &mut |_| {})
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
        let setup = &self.params.setup;
        setup.check_table(data)?;
        let mut paid = Paid::new(plan, &self.requests(data.expose().n_items()), spends, watch)?;
        let (weights, counts) = setup.weights(data, &mut paid, noise)?;
        let known = setup.task_counts(counts.as_ref());
        let matrices = self.matrices(data, known, &weights, &mut paid, noise)?;
        let coefficients = self.refine(data, &weights, &matrices, &mut paid, noise)?;
        let insecure = noise.is_insecure();
        setup.fitted(coefficients, counts, paid, &self.assumptions, insecure)
    }

    fn matrices(
        &self,
        data: &Private<Interactions>,
        counts: Option<&[f64]>,
        weights: &TaskWeights,
        paid: &mut Paid<'_>,
        noise: &mut NoiseSource,
    ) -> Result<Matrices> {
        let setup = &self.params.setup;
        match self.params.gramian {
            Gramian::Pooled { .. } => {
                let average = PooledGramian { setup }.release(data, paid, noise)?;
                let dim = setup.dim;
                let totals = WeightTotals { dim, weights };
                let shape = (weights.omega().len(), 1.0);
                let released = paid.vector(data, shape, &totals, noise)?;
                let scales = totals.scales(&released, counts);
                Ok(Matrices::Pooled { average, scales })
            }
            Gramian::PerTask { .. } => {
                let released = release_statistics(setup, data, weights, paid, noise)?;
                Ok(Matrices::PerTask(Box::new(released)))
            }
        }
    }

    fn refine(
        &self,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        matrices: &Matrices,
        paid: &mut Paid<'_>,
        noise: &mut NoiseSource,
    ) -> Result<Vec<f64>> {
        let (params, setup) = (&self.params, &self.params.setup);
        let mut coefficients = vec![0.0; data.expose().n_items() * setup.dim];
        for step in 0..params.n_steps {
            if let (0, Matrices::PerTask(released)) = (step, matrices) {
                let first = right_hand_sides(released);
                let noise = released.rhs_noise_stddev();
                self.advance(&mut coefficients, matrices, first, noise)?;
                continue;
            }
            let released = WeightedGradients {
                setup,
                weights,
                loss: &RegressionLoss::Squared,
                coefficients: &coefficients,
                gradient_norm: params.bound(step),
                clip: GradientClip::Joint,
            }
            .release(data, paid, noise)?;
            let residuals = released.values().into_iter().map(|r| -r).collect();
            self.advance(
                &mut coefficients,
                matrices,
                residuals,
                released.noise_stddev(),
            )?;
        }
        Ok(coefficients)
    }

    /// `theta_i <- P_C[theta_i + (PSD(A_i) + ridge)^-1 r_i]` for all tasks.
    fn advance(
        &self,
        coefficients: &mut [f64],
        matrices: &Matrices,
        mut residuals: Vec<f64>,
        noise_stddev: f64,
    ) -> Result<()> {
        let (params, setup, dim) = (&self.params, &self.params.setup, self.params.setup.dim);
        solve_systems(dim, &mut residuals, |task, matrix, _| {
            let of_matrix = matrices.write(task, matrix);
            let trace: f64 = matrix.iter().step_by(dim + 1).sum();
            let noise = noise_stddev.hypot(of_matrix * setup.radius);
            let least = of_matrix.max(1e-9 * setup.feature_norm.powi(2));
            let eigenvalue = (trace / dim as f64).max(least);
            params.ridge_factor * noise_ridge(dim, setup.radius, noise, eigenvalue)
        })?;
        let tasks = coefficients
            .chunks_exact_mut(dim)
            .zip(residuals.chunks_exact(dim));
        for (theta, change) in tasks {
            theta.iter_mut().zip(change).for_each(|(t, c)| *t += c);
            setup.project(theta);
        }
        Ok(())
    }
}

/// All right-hand sides of a release, one after the other.
fn right_hand_sides(released: &ReleasedGrams) -> Vec<f64> {
    let dim = released.dim();
    let mut all = vec![0.0; released.n_items() * dim];
    let mut matrix = vec![0.0; dim * dim];
    for (task, rhs) in all.chunks_exact_mut(dim).enumerate() {
        released.write_item(task, &mut matrix, rhs);
    }
    all
}
