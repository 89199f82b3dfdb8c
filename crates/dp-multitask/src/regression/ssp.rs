//! Task-weighted sufficient statistics perturbation.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, Interactions, Private, ReplaceFactor, UserRow, params};
use dp_linalg::{
    PsdScratch, packed_len, project_psd_in_place, psd_part_plus_ridge_solve, unpack_symmetric,
};
use dp_mechanism::{
    FactorBuffer, FactorContribution, GramGrids, GramSums, ReleasedGrams, ReleasedVector, Run,
    SparseBuffer, Trainer, VectorContribution,
};

use super::TaskSetup;
use super::model::TaskModels;
use crate::factorization::in_public_range;
use crate::solve::solve_systems;
use crate::{Error, Result, TaskWeights};

/// Settings of [`MultiTaskSsp`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiTaskSspParams {
    /// Bounds, weights and domain.
    pub setup: TaskSetup,
    /// Share of the budget (after the counts) spent on the matrices, strictly between 0 and 1;
    /// the rest goes to the right-hand sides.
    pub matrix_share: f64,
    /// How coefficients are computed from the noisy statistics.
    pub solve: SspSolve,
}

/// How coefficients are computed from noisy statistics.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum SspSolve {
    /// `theta_i = P_C[(PSD(A_i) + r_i I)^-1 b_i]`, where `P_C` is the projection onto the ball of
    /// radius `R`, and
    ///
    /// ```text
    /// r_i = d (s_b^2 + s_A^2 R^2) / (R^2 a_i),   a_i = max(tr(A_i) / d, s_A)
    /// ```
    ///
    /// with `s_A`, `s_b` the standard deviations of the noise: the ridge of the best linear
    /// estimate of a `theta_i` of norm `R` and any direction, if all eigenvalues are `a_i`. It
    /// hardly affects large tasks and shrinks those in which noise dominates to 0.
    Shrinkage,
    /// The same with `r = noise_factor * s_A * sqrt(d) + l2_penalty` for all tasks.
    Ridge {
        /// Ridge in units of the matrices' noise, 0 to 1e6; above 0 unless `l2_penalty` is.
        noise_factor: f64,
        /// Constant ridge, 0 to 1e6, in units of summed squared features.
        l2_penalty: f64,
    },
    /// `theta_i = pinv(PSD(A_i)) b_i`, exactly Algorithm 1, with neither ridge nor projection onto
    /// the ball. A baseline only: an eigenvalue that is small by chance makes it very large.
    PseudoInverse,
}

impl MultiTaskSspParams {
    /// Half the budget for each sum, shrinkage by the noise, and the joint label norm raised to
    /// `sqrt(1/3 + sqrt(4/45)) label_bound` (0.795 of it) if it is below.
    ///
    /// Plain SSP cannot recover what the joint clipping removed. The root is that of the mean plus
    /// one standard deviation of the square of one label that is uniform on its range: most users
    /// are then not clipped even if their weight is on a single task, as is the case for large
    /// exponents.
    #[must_use]
    pub fn new(mut setup: TaskSetup) -> Self {
        let one_label = (1.0 / 3.0 + (4.0_f64 / 45.0).sqrt()).sqrt();
        setup.label_norm = setup.label_norm.max(one_label * setup.label_bound);
        Self {
            setup,
            matrix_share: 0.5,
            solve: SspSolve::Shrinkage,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<MultiTaskSsp> {
        self.setup.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        if let SspSolve::Ridge {
            noise_factor,
            l2_penalty,
        } = self.solve
        {
            for (name, value) in [("noise_factor", noise_factor), ("l2_penalty", l2_penalty)] {
                params::finite_non_negative(name, value)?;
                in_public_range(name, value.max(1e-6))?;
            }
            in_public_range("ridge", noise_factor + l2_penalty)?;
        }
        Ok(MultiTaskSsp {
            params: self,
            assumptions: Vec::new(),
        })
    }
}

/// Task-weighted SSP: one release of all `A_i = sum_j w_ij x_j x_j^T` and one of all
/// `b_i = sum_j w_ij y_ij x_j`, then one small solve per task.
///
/// Source: Krichene et al. 2023, Algorithm 1, corrected (`docs/errata.md`): the regulariser is
/// added after the release, never inside the private sum; noise in the isometric coordinates of
/// symmetric matrices; projection onto the ball.
///
/// # Privacy
/// See [`SspStatistics`] for the sensitivities. The coefficients are post-processing of the
/// releases.
///
/// # Examples
/// ```
/// use dp_data::SkewedTasks;
/// use dp_multitask::{
///     Adjacency, ApproxDp, Budget, Ledger, MultiTaskSspParams, NoiseSource, TaskSetup, Trainer,
/// };
/// use rand::SeedableRng;
///
/// let set_up = SkewedTasks { n_users: 300, n_tasks: 8, tasks_per_user: 4.0, ..SkewedTasks::appendix_c(1.0) };
/// let data = set_up.generate(&mut chacha20::ChaCha20Rng::seed_from_u64(1))?;
/// let (target, adjacency) = (ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser);
/// let ssp = MultiTaskSspParams::new(TaskSetup::unit_ball(5)).check()?;
/// let plan = ssp.plan(8, target, adjacency)?;
/// let mut ledger = Ledger::in_memory("generated", Budget::new(target, adjacency)?)?;
/// let spends = ledger.reserve(&plan)?;
/// let fitted = ssp.fit(&data.train, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert!(fitted.certificate.verify()?.is_private());
/// assert_eq!(fitted.model.n_tasks(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MultiTaskSsp {
    params: MultiTaskSspParams,
    assumptions: Vec<String>,
}

settings_and_assumptions!(MultiTaskSsp, MultiTaskSspParams);

/// Releases the counts if the allocation requires them, the matrices and the right-hand sides.
impl Trainer for MultiTaskSsp {
    type Data = Private<Interactions>;
    type Model = TaskModels;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_tasks: usize, _: Adjacency) -> Result<Requests> {
        params::at_least_one("n_tasks", n_tasks)?;
        let (setup, share) = (&self.params.setup, self.params.matrix_share);
        let rest = gram_requests("task", setup.dim, n_tasks, share, 1.0);
        let all = setup.allocation.with_count_request(n_tasks, rest);
        Ok(Requests::Shares(all))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.params.setup.describe(certificate, &self.assumptions)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<TaskModels> {
        let setup = &self.params.setup;
        setup.check_table(data)?;
        let (weights, counts) = setup.weights(data, run)?;
        let statistics = SspStatistics::new(setup, &weights);
        let grids = |of_matrix, of_rhs| statistics.grids(of_matrix, of_rhs);
        let released = run.grams::<_, Error>(data, grids, &statistics)?;
        let coefficients = self.solve(&released)?;
        let model = TaskModels::new(setup.dim, coefficients, run.provenance())?;
        Ok(model.with_counts(counts))
    }
}

impl MultiTaskSsp {
    /// Coefficients from released statistics: post-processing.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when the released values are not finite.
    pub fn solve(&self, released: &ReleasedGrams) -> Result<Vec<f64>> {
        let dim = released.dim();
        let mut coefficients = vec![0.0; released.n_items() * dim];
        if self.params.solve == SspSolve::PseudoInverse {
            return pseudo_inverses(released, coefficients);
        }
        solve_systems(dim, &mut coefficients, |task, matrix, rhs| {
            released.write_item(task, matrix, rhs);
            self.ridge(matrix, released)
        })?;
        for theta in coefficients.chunks_exact_mut(dim) {
            self.params.setup.project(theta);
        }
        Ok(coefficients)
    }

    /// The ridge of one task; the pseudo-inverse has none.
    fn ridge(&self, matrix: &[f64], released: &ReleasedGrams) -> f64 {
        match self.params.solve {
            SspSolve::Shrinkage => self.shrinkage(matrix, released),
            SspSolve::Ridge {
                noise_factor,
                l2_penalty,
            } => {
                let noise = released.matrix_noise_stddev() * (released.dim() as f64).sqrt();
                noise_factor * noise + l2_penalty
            }
            SspSolve::PseudoInverse => 0.0,
        }
    }

    /// The ridge of [`SspSolve::Shrinkage`] for one task.
    fn shrinkage(&self, matrix: &[f64], released: &ReleasedGrams) -> f64 {
        let (of_matrix, of_rhs) = (released.matrix_noise_stddev(), released.rhs_noise_stddev());
        let setup = &self.params.setup;
        let trace: f64 = matrix.iter().step_by(setup.dim + 1).sum();
        let eigenvalue = (trace / setup.dim as f64).max(of_matrix);
        let noise = of_rhs.hypot(of_matrix * setup.radius);
        noise_ridge(setup.dim, setup.radius, noise, eigenvalue)
    }
}

/// All tasks of [`SspSolve::PseudoInverse`].
fn pseudo_inverses(released: &ReleasedGrams, mut coefficients: Vec<f64>) -> Result<Vec<f64>> {
    let dim = released.dim();
    let mut matrix = vec![0.0; dim * dim];
    let mut scratch = PsdScratch::new(dim)?;
    for (task, theta) in coefficients.chunks_exact_mut(dim).enumerate() {
        released.write_item(task, &mut matrix, theta);
        pseudo_inverse_solve(&mut matrix, theta, &mut scratch)?;
    }
    Ok(coefficients)
}

/// `pinv(PSD(A)) b` as `(P^2 + t I)^-1 P b`, where `P = PSD(A)` and `t` is far below the largest
/// squared eigenvalue.
fn pseudo_inverse_solve(
    matrix: &mut [f64],
    theta: &mut [f64],
    scratch: &mut PsdScratch,
) -> Result<()> {
    let dim = theta.len();
    project_psd_in_place(matrix, dim)?;
    let row = |a: usize| &matrix[a * dim..(a + 1) * dim];
    let inner = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let rhs: Vec<f64> = (0..dim).map(|a| inner(row(a), theta)).collect();
    let square: Vec<f64> = (0..dim * dim)
        .map(|at| inner(row(at / dim), row(at % dim)))
        .collect();
    let trace: f64 = square.iter().step_by(dim + 1).sum();
    theta.copy_from_slice(&rhs);
    let ridge = (1e-13 * trace).max(f64::MIN_POSITIVE);
    psd_part_plus_ridge_solve(&square, ridge, theta, scratch)?;
    Ok(())
}

/// One user's contribution to the statistics of all tasks.
///
/// ```text
/// x_j  = features, shortened to norm Gamma_x
/// y_ij = clip(label, Gamma_y), then all of a user's labels scaled so that sum_i w_ij^2 y_ij^2 <= B^2
/// A_i += w_ij x_j x_j^T,   b_i += w_ij y_ij x_j,   sum_i w_ij^2 <= 1
/// ```
///
/// # Privacy
/// Adding or removing user `j` changes the stacked matrices by the blocks `w_ij x_j x_j^T`, each of
/// Frobenius norm `w_ij ||x_j||^2`, and every task has its own block. So
///
/// ```text
/// matrices:          sqrt(sum_i w_ij^2 ||x_j||^4)        <= Gamma_x^2
/// right-hand sides:  sqrt(sum_i w_ij^2 y_ij^2 ||x_j||^2) <= Gamma_x min(B, Gamma_y)
/// ```
///
/// The sums contain no regulariser: `lambda I` in each user's contribution would add the terms
/// `lambda (2 ||x||^2 + d lambda)` to the first bound and reveal the weighted count of each task on
/// its diagonal.
#[allow(
    missing_debug_implementations,
    reason = "settings and weights; print those instead"
)]
pub struct SspStatistics<'a> {
    setup: &'a TaskSetup,
    weights: &'a TaskWeights,
}

impl<'a> SspStatistics<'a> {
    /// The contribution for validated settings, and weights that are public or released.
    #[must_use]
    pub const fn new(setup: &'a TaskSetup, weights: &'a TaskWeights) -> Self {
        Self { setup, weights }
    }

    /// Grids with the sensitivities above.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when a noise multiplier does not fit a grid.
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        let norm = self.setup.feature_norm;
        let rhs_clip = norm * self.setup.label_reach();
        Ok(GramGrids::new(
            matrix_noise,
            norm * norm,
            rhs_noise,
            rhs_clip,
        )?)
    }
}

impl FactorContribution for SspStatistics<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        self.setup.dim
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        self.setup.write_features(user, &mut out.factor);
        self.weights.weigh(user, &mut out.weights);
        let mut total = 0.0;
        for ((label, &y), w) in out.labels.iter_mut().zip(user.values()).zip(&out.weights) {
            *label = self.setup.label(y);
            total += (w * *label) * (w * *label);
        }
        let norm = total.sqrt();
        if norm > self.setup.label_norm {
            let scale = self.setup.label_norm / norm;
            out.labels.iter_mut().for_each(|label| *label *= scale);
        }
    }
}

/// The two requests of a Gram release, which split its budget by `share`.
pub(super) fn gram_requests(
    name: &str,
    dim: usize,
    n_tasks: usize,
    matrix_share: f64,
    share: f64,
) -> Vec<ReleaseRequest> {
    vec![
        ReleaseRequest::new(
            format!("{name} matrices"),
            share * matrix_share,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(n_tasks, dim),
        ),
        ReleaseRequest::new(
            format!("{name} right-hand sides"),
            share * (1.0 - matrix_share),
            ReplaceFactor::Two,
            GramSums::rhs_draws(n_tasks, dim),
        ),
    ]
}

/// One user's contribution to the total weight of every task, `W_i = sum_j w_ij`.
///
/// # Privacy
/// User `j` adds the vector `(w_ij)_i`, whose norm is at most 1 by the allocation.
#[allow(missing_debug_implementations, reason = "weights; print those instead")]
pub struct WeightTotals<'a> {
    /// Length of the features.
    pub dim: usize,
    /// Weights, public or released.
    pub weights: &'a TaskWeights,
}

impl VectorContribution for WeightTotals<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        Vec::new()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut Vec<f64>, out: &mut SparseBuffer) {
        own.resize(user.len(), 0.0);
        self.weights.weigh(user, own);
        for (&task, &w) in user.items().iter().zip(&*own) {
            out.push(task, w);
        }
    }
}

impl WeightTotals<'_> {
    pub(crate) fn request(label: &str, n_tasks: usize, share: f64) -> ReleaseRequest {
        ReleaseRequest::new(label, share, ReplaceFactor::Two, n_tasks as u64)
    }

    /// The scales derived from the noisy totals; `counts` are the known task sizes.
    /// Post-processing.
    pub(crate) fn scales(&self, released: &ReleasedVector, counts: Option<&[f64]>) -> TaskScales {
        let sd = released.noise_stddev();
        let totals: Vec<f64> = released.values().iter().map(|w| w.max(sd)).collect();
        let users = |task: usize| counts.map_or(0.0, |counts| counts[task]);
        let curvature = (0..totals.len())
            .map(|task| (totals[task] + sd) * spread(self.dim, users(task).max(totals[task])))
            .collect();
        TaskScales {
            totals,
            noise_stddev: sd,
            curvature,
        }
    }
}

/// The curvature of each task, estimated from the released totals.
pub(crate) struct TaskScales {
    /// `W_i`, at least the standard deviation of its noise.
    pub(super) totals: Vec<f64>,
    /// Of the released totals.
    noise_stddev: f64,
    /// On the scale of `W_i`, the curvature used for steps, so that they do not overshoot.
    pub(super) curvature: Vec<f64>,
}

impl TaskScales {
    pub(crate) fn totals(&self) -> &[f64] {
        &self.totals
    }

    /// Standard deviation of the noise in the totals.
    pub(crate) const fn noise_stddev(&self) -> f64 {
        self.noise_stddev
    }
}

/// `1 + d/n`: the mean of the largest and the smallest eigenvalue of an average of `n` independent
/// `x x^T`, divided by the average one, from the edges `(1 +- sqrt(d/n))^2` of Marchenko and Pastur
/// (1967). A step in units of it contracts fastest over all directions and overshoots in none by
/// more than a factor of two, which a full step with the pooled Gramian would do in a task with few
/// users.
fn spread(dim: usize, n_users: f64) -> f64 {
    1.0 + dim as f64 / n_users.max(1.0)
}

/// `d s^2 / (R^2 a)`: the ridge of the best linear estimate of coefficients of norm `R` and any
/// direction, from sums with noise of standard deviation `s` and matrices with eigenvalues `a > 0`.
/// It hardly affects large tasks; steps shrink if noise exceeds the data. At least `1e-9 a`, so
/// that a rank-deficient matrix can be solved however small the noise.
pub(super) fn noise_ridge(dim: usize, radius: f64, noise_stddev: f64, eigenvalue: f64) -> f64 {
    let ridge = dim as f64 * (noise_stddev / radius).powi(2) / eigenvalue;
    ridge.max(1e-9 * eigenvalue)
}

/// One user's contribution to the pooled Gramian: `x_j x_j^T` once, whatever the number of tasks,
/// and a count of users to divide by.
///
/// The packed upper triangle with off-diagonal entries times `sqrt 2`, then `Gamma_x^2`.
///
/// # Privacy
/// In these coordinates the norm of the triangle is `||x_j||^2 <= Gamma_x^2`, so that of the whole
/// is at most `sqrt(2) Gamma_x^2`. A user without records adds nothing.
#[allow(
    missing_debug_implementations,
    reason = "settings; print those instead"
)]
pub struct PooledGramian<'a> {
    /// Bounds and dimension, checked.
    pub setup: &'a TaskSetup,
}

impl VectorContribution for PooledGramian<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        vec![0.0; self.setup.dim]
    }

    fn contribute(&self, user: UserRow<'_>, x: &mut Vec<f64>, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        self.setup.write_features(user, x);
        let mut at = 0;
        for a in 0..x.len() {
            for b in a..x.len() {
                let scale = if a == b {
                    1.0
                } else {
                    std::f64::consts::SQRT_2
                };
                out.push(at, scale * x[a] * x[b]);
                at += 1;
            }
        }
        out.push(at, self.setup.feature_norm.powi(2));
    }
}

impl PooledGramian<'_> {
    fn n_coordinates(dim: usize) -> usize {
        packed_len(dim) + 1
    }

    pub(super) fn request(dim: usize, share: f64) -> ReleaseRequest {
        let n_draws = Self::n_coordinates(dim) as u64;
        ReleaseRequest::new("pooled Gramian", share, ReplaceFactor::Two, n_draws)
    }

    /// The sensitivity, `sqrt(2) Gamma_x^2`.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        std::f64::consts::SQRT_2 * self.setup.feature_norm.powi(2)
    }

    /// The average of `x_j x_j^T` over users, `dim x dim` row-major, positive semidefinite.
    pub(super) fn release(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<Vec<f64>> {
        let dim = self.setup.dim;
        let shape = (Self::n_coordinates(dim), self.clip_norm());
        let mut packed = run.vector(data, shape, self)?.values();
        let n_users = packed.pop().unwrap_or(1.0) / self.setup.feature_norm.powi(2);
        let mut at = 0;
        for a in 0..dim {
            for b in a..dim {
                let scale = if a == b {
                    1.0
                } else {
                    std::f64::consts::FRAC_1_SQRT_2
                };
                packed[at] *= scale / n_users.max(1.0);
                at += 1;
            }
        }
        let mut gramian = vec![0.0; dim * dim];
        unpack_symmetric(&packed, dim, &mut gramian)?;
        project_psd_in_place(&mut gramian, dim)?;
        Ok(gramian)
    }
}
