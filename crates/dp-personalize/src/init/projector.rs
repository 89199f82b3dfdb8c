//! The sum over users of projectors on the user's own least-squares direction.

use dp_accounting::ReleaseRequest;
use dp_core::{ReplaceFactor, UserRow, UserSamples};
use dp_linalg::{PaddedMatrix, WideRows, unpack_symmetric};
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids, GramSums, Run};

use super::directions::{CachedDirections, Directions};
use crate::batched::{UserBlock, is_batched};
use crate::design::{min_norm_least_squares, solve_dual};
use crate::small::{norm, transposed};
use crate::user_rows::{UserCells, single};
use crate::{Result, Subspace};

/// Share of the release's budget that the right-hand sides of the Gram sum get. They hold nothing.
const RHS_SHARE: f64 = 1e-6;

/// One user's share of `P = sum_j u_j u_j^T`, `u_j` the unit vector along the least-squares solution of smallest norm of the
/// user's own rows.
///
/// ```text
/// u_j = theta_j / ||theta_j||,   theta_j = X_j^+ y_j
/// ```
///
/// With fewer rows than features `theta_j` is the projection of the true coefficients on the span of the user's
/// rows, and for isotropic features `E[u u^T] = a U U^T + b (I - U U^T)` with `a > b`: the top eigenvectors of `P`
/// span the shared subspace. Unlike Algorithm 3 it uses all rows at once, and a user's share has norm 1 whatever
/// the scale of features and labels, so that nothing needs a clip.
///
/// # Privacy
/// Adding or removing a user changes `P` by `u u^T`, of Frobenius norm exactly `||u||^2 = 1` (or 0). Both
/// shares of a replaced user are positive semidefinite, so `||u u^T - w w^T||_F^2 = 2 - 2 <u, w>^2 <= 2`: sensitivity 1 under
/// add/remove and sqrt 2 under replacement. The kernel checks `||u||^4` in exact integers. The Gram sum of the
/// kernel also releases a vector, here of zeros whatever the data; it has a millionth of the budget.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ProjectorSum {
    n_features: usize,
    /// Rows are multiplied by this before the fit; nothing stands for the identity.
    transform: Option<PaddedMatrix>,
    /// The transform `W`, lower triangular, in single precision; empty for the identity.
    lower: Vec<f32>,
}

impl ProjectorSum {
    /// The contribution for features of length `n_features`.
    #[must_use]
    pub const fn new(n_features: usize) -> Self {
        Self {
            n_features,
            transform: None,
            lower: Vec::new(),
        }
    }

    /// The same on rows `W x`, with a lower triangular `W` of shape `(n_features, n_features)` that is public or released.
    pub(crate) fn transformed(n_features: usize, transform: Option<&[f64]>) -> Result<Self> {
        let Some(transform) = transform else {
            return Ok(Self::new(n_features));
        };
        let columns = transposed(transform, n_features);
        Ok(Self {
            n_features,
            transform: Some(PaddedMatrix::new(&columns, n_features)?),
            lower: transform.iter().map(|&w| single(w)).collect(),
        })
    }

    pub(super) fn lower(&self) -> &[f32] {
        &self.lower
    }

    /// Whether users whose table has so many rows are batched: few, and fewer than features.
    pub(super) const fn is_batched(&self, user: UserCells<'_>) -> bool {
        is_batched(user) && user.n_rows() < self.n_features
    }

    /// Makes a factor with a direction a unit vector, of weight 1.
    pub(super) fn normalise(out: &mut FactorBuffer) {
        let length = norm(&out.factor);
        if length > 0.0 && length.is_finite() {
            out.factor.iter_mut().for_each(|u| *u /= length);
            out.weights.fill(1.0);
        } else {
            out.factor.fill(0.0);
        }
    }

    pub(crate) fn requests(n_features: usize, share: f64) -> [ReleaseRequest; 2] {
        let matrix = GramSums::matrix_draws(1, n_features);
        let rhs = GramSums::rhs_draws(1, n_features);
        let (psd, any) = (ReplaceFactor::SqrtTwo, ReplaceFactor::Two);
        [
            ReleaseRequest::new("projectors", share * (1.0 - RHS_SHARE), psd, matrix),
            ReleaseRequest::new("projectors, empty part", share * RHS_SHARE, any, rhs),
        ]
    }

    /// The top `rank` eigenvectors of the released sum.
    pub(crate) fn release(
        &self,
        samples: &UserSamples,
        rank: usize,
        run: &mut Run<'_>,
    ) -> Result<Subspace> {
        let directions = CachedDirections::of(self, samples, !run.is_replaying()?);
        let grids = |matrix, rhs| GramGrids::new(matrix, 1.0, rhs, 1.0);
        let released = run.grams(samples.table(), grids, &directions)?;
        let dim = self.n_features;
        let (mut sum, mut empty) = (vec![0.0; dim * dim], vec![0.0; dim]);
        released.write_item(0, &mut sum, &mut empty);
        Subspace::top_eigenvectors(dim, rank, &sum, run.provenance())
    }
}

/// Working memory for one user.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct ProjectorScratch {
    batched: Directions,
    direction: Vec<f32>,
    /// Rows as they are and multiplied by the transform.
    rows: [WideRows; 2],
    labels: Vec<f64>,
    pairs: Vec<f64>,
    kernel: Vec<f64>,
}

impl FactorContribution for ProjectorSum {
    type Scratch = Option<ProjectorScratch>;

    fn scratch(&self) -> Self::Scratch {
        let rows = WideRows::new(self.n_features).ok()?;
        Some(ProjectorScratch {
            batched: Directions::new(self.n_features).ok()?,
            direction: vec![0.0; self.n_features],
            rows: [rows.clone(), rows],
            labels: Vec::new(),
            pairs: Vec::new(),
            kernel: Vec::new(),
        })
    }

    fn dim(&self) -> usize {
        self.n_features
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut FactorBuffer) {
        let user = UserCells::of(user, self.n_features);
        let Some(scratch) = scratch else {
            return; // not for any user: the length of the features is public
        };
        if self.is_batched(user) {
            let direction = &mut scratch.direction;
            let alone = UserBlock::alone(&user);
            scratch.batched.write(alone, &self.lower, direction);
            let cells = out.factor.iter_mut().zip(direction);
            cells.for_each(|(u, x)| *u = (*x).into());
        } else if self
            .solve(user.without_padding(), scratch, &mut out.factor)
            .is_err()
        {
            out.factor.fill(0.0);
        }
        Self::normalise(out);
    }
}

impl ProjectorSum {
    /// Least squares of smallest norm on the rows of one user, who may have many.
    fn solve(
        &self,
        user: UserCells<'_>,
        own: &mut ProjectorScratch,
        theta: &mut [f64],
    ) -> dp_linalg::Result<()> {
        let [given, moved] = &mut own.rows;
        given.load(user.rows())?;
        let rows = match &self.transform {
            Some(transform) => {
                moved.load_product(given, transform)?;
                &*moved
            }
            None => &*given,
        };
        // rows of zeros are none, whatever their labels
        let label = |row| f64::from(user.label(row)) * f64::from(u8::from(user.is_used(row)));
        let labels = &mut own.labels;
        labels.clear();
        labels.extend((0..user.n_rows()).map(label));
        if labels.len() >= self.n_features {
            let x: Vec<f64> = rows.iter().flatten().copied().collect();
            theta.copy_from_slice(&min_norm_least_squares(&x, labels, self.n_features));
            return Ok(());
        }
        rows.inner_products(&mut own.pairs);
        own.kernel.resize(labels.len().pow(2), 0.0);
        unpack_symmetric(&own.pairs, labels.len(), &mut own.kernel)?;
        if solve_dual(&mut own.kernel, labels) {
            rows.weighted_sum(labels, theta)?;
        }
        Ok(())
    }
}
