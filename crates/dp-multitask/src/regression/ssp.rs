//! Task-weighted sufficient statistics perturbation.

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, Interactions, Private, params};
use dp_linalg::{PsdScratch, project_psd_in_place, psd_part_plus_ridge_solve};
use dp_mechanism::{ReleasedGrams, Run, Trainer};

use super::model::TaskModels;
use super::setup::TaskSetup;
use super::statistics::{SspStatistics, gram_requests, noise_ridge};
use crate::factorization::in_public_range;
use crate::solve::solve_systems;
use crate::{Error, Result};

/// Settings of [`MultiTaskSsp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiTaskSspParams {
    /// Bounds, weights and domain.
    pub setup: TaskSetup,
    /// Share of the budget (after the counts) spent on the matrices, strictly between 0 and 1;
    /// the rest goes to the right-hand sides.
    pub matrix_share: f64,
    /// What is done with the noisy statistics.
    pub solve: SspSolve,
}

/// From noisy statistics to coefficients.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum SspSolve {
    /// `theta_i = P_C[(PSD(A_i) + r_i I)^-1 b_i]`, `P_C` the projection on the ball of radius `R`,
    /// and
    ///
    /// ```text
    /// r_i = d (s_b^2 + s_A^2 R^2) / (R^2 a_i),   a_i = max(tr(A_i) / d, s_A)
    /// ```
    ///
    /// with `s_A`, `s_b` the standard deviations of the noise: the ridge of the best linear
    /// estimate of a `theta_i` of norm `R` and any direction, where all eigenvalues are `a_i`. It
    /// costs large tasks next to nothing and pulls to 0 those that the noise outweighs.
    Shrinkage,
    /// The same with `r = noise_factor * s_A * sqrt(d) + l2_penalty` for all tasks.
    Ridge {
        /// Ridge in units of the matrices' noise, 0 to 1e6; above 0 unless `l2_penalty` is.
        noise_factor: f64,
        /// Constant ridge, 0 to 1e6, in units of summed squared features.
        l2_penalty: f64,
    },
    /// `theta_i = pinv(PSD(A_i)) b_i`, Algorithm 1 to the letter, neither ridge nor projection on
    /// the ball. A baseline only: an eigenvalue that is small by chance blows it up.
    PseudoInverse,
}

impl MultiTaskSspParams {
    /// Half the budget on each sum, shrinkage by the noise, and the joint label norm raised to `sqrt(1/3 + sqrt(4/45)) label_bound` (0.795 of it) where it
    /// is below.
    ///
    /// Plain SSP never gets back what the joint clip took away. The root is that of the mean plus one
    /// standard deviation of the square of one label that is uniform on its range: it leaves most
    /// users whole even when their weight sits on a single task, as it does for large exponents.
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
/// Source: Krichene et al. 2023, Algorithm 1, corrected (`docs/errata.md`): the regulariser is added
/// after the release, never inside the private sum; noise in the isometric coordinates of symmetric
/// matrices; projection on the ball.
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
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
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

/// Releases the counts if the allocation asks for them, the matrices and the right-hand sides.
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

/// `pinv(PSD(A)) b` as `(P^2 + t I)^-1 P b`, `P = PSD(A)` and `t` far below the largest squared
/// eigenvalue.
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
