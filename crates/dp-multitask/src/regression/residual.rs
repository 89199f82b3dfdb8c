//! Sufficient statistics refined by releases of clipped residuals.

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, Interactions, ParamError, Private, params};
use dp_mechanism::{ReleasedGrams, Run, Trainer};

use super::model::TaskModels;
use super::noisy_gd::{GradientClip, WeightedGradients, check_coordinates, step_requests};
use super::ssp::{
    PooledGramian, SspStatistics, TaskScales, WeightTotals, gram_requests, noise_ridge,
};
use super::{RegressionLoss, TaskSetup};
use crate::factorization::in_public_range;
use crate::solve::solve_systems;
use crate::{Error, Result, TaskWeights};

/// Bounds `c_t` on a user's contribution to the residuals, step by step.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum ResidualBounds {
    /// `c_t = Gamma_x min(B, Gamma_y) ratio^(t-1)`.
    Geometric {
        /// From 0.01 to 1.
        ratio: f64,
    },
    /// One bound per step, in units of label times feature.
    Listed {
        /// The bounds.
        values: Vec<f64>,
    },
}

impl ResidualBounds {
    pub(crate) fn check(&self, n_steps: usize) -> Result<()> {
        match self {
            Self::Geometric { ratio } if (0.01..=1.0).contains(ratio) => Ok(()),
            Self::Geometric { ratio } => {
                Err(ParamError::new("ratio", *ratio, "a number from 0.01 to 1").into())
            }
            Self::Listed { values } => {
                params::same_size("residual bounds", values.len(), n_steps)?;
                for &value in values {
                    in_public_range("residual bound", value)?;
                }
                Ok(())
            }
        }
    }

    /// The bound of step `step` if that of step 0 is `first`; geometric ones are never below 1e-9
    /// of it.
    pub(crate) fn at(&self, first: f64, step: usize) -> f64 {
        match self {
            Self::Geometric { ratio } => first * ratio.powf(step as f64).max(1e-9),
            Self::Listed { values } => values[step],
        }
    }
}

/// Source of the matrices `A_i` of the solves.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum Gramian {
    /// `A_i = f_i W_i G`: one released average `G` of `x_j x_j^T` for all tasks, and each task's
    /// released total weight `W_i`. Requires noise on d(d+1)/2 numbers instead of that many per
    /// task. Exact when users' features do not depend on their tasks; otherwise the steps still
    /// converge as long as `A_i` is more than half of the true one. `f_i = 1 + d/n_i` ensures that
    /// in tasks with few users, with known `n_i` if available and otherwise `W_i`.
    Pooled {
        /// Share of the budget for `G`, and the same share again for the `W_i`; above 0 and below
        /// 1/2.
        share: f64,
    },
    /// A separate released matrix for each task. The right-hand sides of the same release are the
    /// first step.
    PerTask {
        /// Share of the budget spent on the matrices, strictly between 0 and 1.
        share: f64,
    },
}

/// Settings of [`ResidualSsp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualSspParams {
    /// Bounds, weights and domain.
    pub setup: TaskSetup,
    /// Source of the matrices.
    pub gramian: Gramian,
    /// Number of steps, 1 to 1000; with [`Gramian::PerTask`] the first one is plain SSP.
    pub n_steps: usize,
    /// The decreasing bounds.
    pub bounds: ResidualBounds,
    /// Ridge of every solve in units of `d (s_t^2 + s_A^2 R^2) / (R^2 a_i)`, as in
    /// [`SspSolve::Shrinkage`](super::SspSolve::Shrinkage): `s_t` is the noise of the step, `s_A`
    /// that of the matrices if there is one per task; from 1e-6 to 1e6.
    pub ridge_factor: f64,
}

impl ResidualSspParams {
    /// Defaults by rule: pooled Gramian with 2 % of the budget twice, five steps, bounds halved
    /// from step to step.
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

    /// `c_t`, with `t` from 0; never below 1e-9 of the first.
    fn bound(&self, step: usize) -> f64 {
        let first = self.setup.feature_norm * self.setup.label_reach();
        self.bounds.at(first, step)
    }
}

/// Repeated small releases of the residuals of the current coefficients.
///
/// ```text
/// r_i = sum_j w_ij (y_ij - <theta_i, x_j>) x_j + c_t z xi,   a user's share clipped to norm c_t
/// theta_i <- P_C[theta_i + (PSD(A_i) + ridge)^-1 r_i]
/// ```
///
/// The noise of a step is proportional to `c_t`. As the residuals shrink, so can the bound, and
/// with it the noise, whereas the noise of plain SSP scales with the labels themselves. The
/// residual contribution is that of [`WeightedGradients`] for the squared loss, clipped jointly:
/// sensitivity `c_t`.
///
/// # Privacy
/// Releases: the counts if the allocation requires them; then for [`Gramian::Pooled`] the pooled
/// Gramian (sensitivity `sqrt(2) Gamma_x^2`), the total weights (1) and the steps (`c_t` each); for
/// [`Gramian::PerTask`] the two sums of SSP and the steps after the first.
///
/// # Examples
/// ```
/// use dp_multitask::{Adjacency, ApproxDp, ResidualSspParams, TaskSetup, Trainer};
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

impl Trainer for ResidualSsp {
    type Data = Private<Interactions>;
    type Model = TaskModels;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_tasks: usize, _: Adjacency) -> Result<Requests> {
        let (params, dim) = (&self.params, self.params.setup.dim);
        check_coordinates(n_tasks, dim)?;
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
        let allocation = &params.setup.allocation;
        Ok(Requests::Shares(
            allocation.with_count_request(n_tasks, rest),
        ))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.params.setup.describe(certificate, &self.assumptions)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<TaskModels> {
        let setup = &self.params.setup;
        setup.check_table(data)?;
        let (weights, counts) = setup.weights(data, run)?;
        let known = setup.task_counts(counts.as_ref());
        let matrices = self.matrices(data, known, &weights, run)?;
        let coefficients = self.refine(data, &weights, &matrices, run)?;
        let model = TaskModels::new(setup.dim, coefficients, run.provenance())?;
        Ok(model.with_counts(counts))
    }
}

impl ResidualSsp {
    fn matrices(
        &self,
        data: &Private<Interactions>,
        counts: Option<&[f64]>,
        weights: &TaskWeights,
        run: &mut Run<'_>,
    ) -> Result<Matrices> {
        let setup = &self.params.setup;
        match self.params.gramian {
            Gramian::Pooled { .. } => {
                let average = PooledGramian { setup }.release(data, run)?;
                let dim = setup.dim;
                let totals = WeightTotals { dim, weights };
                let shape = (weights.omega().len(), 1.0);
                let released = run.vector(data, shape, &totals)?;
                let scales = totals.scales(&released, counts);
                Ok(Matrices::Pooled { average, scales })
            }
            Gramian::PerTask { .. } => {
                let statistics = SspStatistics::new(setup, weights);
                let grids = |of_matrix, of_rhs| statistics.grids(of_matrix, of_rhs);
                let released = run.grams::<_, Error>(data, grids, &statistics)?;
                Ok(Matrices::PerTask(Box::new(released)))
            }
        }
    }

    fn refine(
        &self,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        matrices: &Matrices,
        run: &mut Run<'_>,
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
            .release(data, run)?;
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

/// All right-hand sides of a release, concatenated.
fn right_hand_sides(released: &ReleasedGrams) -> Vec<f64> {
    let dim = released.dim();
    let mut all = vec![0.0; released.n_items() * dim];
    let mut matrix = vec![0.0; dim * dim];
    for (task, rhs) in all.chunks_exact_mut(dim).enumerate() {
        released.write_item(task, &mut matrix, rhs);
    }
    all
}
