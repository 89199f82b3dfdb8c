//! What a user adds to a round, fitted on the user's own likes.

use dp_core::{UserRow, params};
use dp_linalg::{GramAccumulator, cholesky_in_place, cholesky_solve_in_place};
use dp_mechanism::{SparseBuffer, VectorContribution};

use super::AmImplicitSspParams;
use crate::Result;
use crate::am_residual::{MOMENT_RATIO, push_moments, to_norm};
use crate::features::in_public_range;

/// One user's share of a round, with tastes fitted in here.
///
/// ```text
/// (l, u)  user step at the released item vectors (LikesStep);  u then scaled to norm taste_norm
/// x     = [a, u],   a = sqrt(1 - taste_norm^2);   x = [1] where d = 1
/// b_j  += w_j x            d coordinates per item that the user likes
/// M    += .1 x x^T         d^2 coordinates, row-major, behind those of the items
/// ```
///
/// Values of records are not looked at. A user without items adds nothing.
///
/// # Privacy
/// `||x|| <= 1`: its square is `a^2 + ||u||^2`, and `u` has norm `taste_norm` or is 0. A table has each pair of user and item once, so that the blocks `w_j x` lie in coordinates of their own and their
/// squared norms sum to `||x||^2 sum_j w_j^2 <= 1`; that of `.1 x x^T` is `.1^2 ||x||^4 <= .1^2`. Together
///
/// ```text
/// sensitivity  sqrt(1 + .1^2)   for adding or removing a user,  twice that for replacing one
/// ```
///
/// whatever the records, and whatever the item vectors, which are released values or public. Every item that a user has no record of pulls the user's tastes too, through a matrix of the item vectors
/// alone (`LikesStep`): it is the same for all users and tells nothing of any. The share is a function of this user's records, of these vectors and of public settings; the kernel checks the norm
/// in exact integers once more. Level and tastes never leave.
#[derive(Debug)]
pub struct LikesContribution<'a> {
    params: &'a AmImplicitSspParams,
    design: LikesDesign,
    n_items: usize,
}

/// Working memory of [`LikesContribution`].
#[allow(
    missing_debug_implementations,
    reason = "holds one user's values; printing them is never wanted"
)]
pub struct LikesShare {
    step: LikesScratch,
    /// `x`.
    vector: Vec<f64>,
    weights: Vec<f64>,
}

impl<'a> LikesContribution<'a> {
    /// At released item vectors `[h_j, q_j]`, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] for vectors of another shape.
    pub fn new(params: &'a AmImplicitSspParams, item_vectors: &[f64]) -> Result<Self> {
        Ok(Self {
            params,
            design: LikesDesign::new(&params.user_step, item_vectors, params.dim)?,
            n_items: item_vectors.len() / params.dim,
        })
    }

    /// The sensitivity `sqrt(1 + .1^2)` to adding or removing a user.
    #[must_use]
    pub fn norm() -> f64 {
        let norm = (1.0 + MOMENT_RATIO * MOMENT_RATIO).sqrt();
        #[cfg(privacy_mutants)]
        let norm = crate::mutants::round_norm(norm);
        norm
    }

    /// Length of the sum: `m d + d^2`.
    #[must_use]
    pub const fn n_coordinates(&self) -> usize {
        (self.n_items + self.params.dim) * self.params.dim
    }
}

impl VectorContribution for LikesContribution<'_> {
    type Scratch = LikesShare;

    fn scratch(&self) -> LikesShare {
        LikesShare {
            step: self.design.scratch(),
            vector: Vec::new(),
            weights: Vec::new(),
        }
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut LikesShare, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        own.vector.clear();
        own.vector
            .extend_from_slice(self.design.solve(user, &mut own.step));
        own.vector[0] = self.params.constant();
        to_norm(&mut own.vector[1..], self.params.taste_norm);
        own.weights.clear();
        own.weights.resize(user.len(), 0.0);
        self.params.weights.weigh(user, &mut own.weights);
        let dim = self.params.dim;
        let coordinate = |at: usize| u32::try_from(at).unwrap_or(u32::MAX); // checked by the plan
        for (&item, w) in user.items().iter().zip(&own.weights) {
            let first = item as usize * dim;
            let block = own.vector.iter().enumerate();
            out.extend(block.map(|(k, x)| (coordinate(first + k), w * x)));
        }
        push_moments(&own.vector, MOMENT_RATIO, self.n_items * dim, out);
    }
}

/// The exact local user step of implicit feedback for items with a bias. All settings are public.
///
/// ```text
/// (l, u) = argmin sum_{j liked} (1 - s_j)^2 + a0 sum_{all j} s_j^2 + level_penalty l^2 + l2_penalty ||u||^2,    s_j = h_j + l + <q_j, u>
/// ```
///
/// `[h_j, q_j]` is the item's vector, a bias and `d - 1` tastes. The second sum goes over the whole catalogue and is the same for all users: with `D` the rows `[1, q_j]` its matrix is `a0 D^T D`, made
/// of item vectors that anyone may see. A user who likes nothing has `l = 0`, `u = 0`.
///
/// Source: implicit alternating least squares (Hu, Koren and Volinsky 2008), as in Krichene et al. 2023.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikesStep {
    /// Weight `a0` of every item as a weak no, 0 or from 1e-6 to 1e6.
    pub unobserved_weight: f64,
    /// Ridge on the user's level, from 1e-6 to 1e6.
    pub level_penalty: f64,
    /// Ridge on the user's tastes, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

impl LikesStep {
    pub(super) fn check(&self) -> Result<()> {
        params::finite_non_negative("unobserved_weight", self.unobserved_weight)?;
        in_public_range("unobserved_weight", self.unobserved_weight.max(1e-6))?;
        in_public_range("level_penalty", self.level_penalty)?;
        in_public_range("l2_penalty", self.l2_penalty)?;
        Ok(())
    }
}

/// Item vectors as the user step needs them. Public.
#[derive(Debug, Clone)]
pub(super) struct LikesDesign {
    dim: usize,
    /// Rows `[1, q_j]`.
    rows: Vec<f64>,
    biases: Vec<f64>,
    /// What every user's equations start from: `a0 D^T D` and the penalties.
    matrix: Vec<f64>,
    /// `-a0 D^T h`.
    rhs: Vec<f64>,
}

/// Working memory of user steps.
pub(super) struct LikesScratch {
    /// None for a length that no checked settings have.
    sums: Option<GramAccumulator<f64>>,
    labels: Vec<f64>,
    matrix: Vec<f64>,
    /// `[l, u]`.
    solution: Vec<f64>,
}

impl LikesDesign {
    /// From vectors `[h_j, q_j]`, shape `(m, dim)`.
    pub(super) fn new(step: &LikesStep, item_vectors: &[f64], dim: usize) -> Result<Self> {
        let mut rows = item_vectors.to_vec();
        let biases: Vec<f64> = rows.iter().step_by(dim).copied().collect();
        rows.iter_mut().step_by(dim).for_each(|x| *x = 1.0);
        let mut sums = GramAccumulator::new(dim)?;
        sums.add_rows_with_rhs(&rows, &biases)?;
        let mut matrix = vec![0.0; dim * dim];
        sums.write_full(&mut matrix)?;
        let a0 = step.unobserved_weight;
        matrix.iter_mut().for_each(|g| *g *= a0);
        matrix[0] += step.level_penalty;
        let tastes = matrix.iter_mut().step_by(dim + 1).skip(1);
        tastes.for_each(|g| *g += step.l2_penalty);
        Ok(Self {
            dim,
            biases,
            matrix,
            rhs: sums.rhs().iter().map(|b| -a0 * b).collect(),
            rows,
        })
    }

    pub(super) fn scratch(&self) -> LikesScratch {
        LikesScratch {
            sums: GramAccumulator::new(self.dim).ok(),
            labels: Vec::new(),
            matrix: vec![0.0; self.dim * self.dim],
            solution: vec![0.0; self.dim],
        }
    }

    /// `[l, u]` of one user; 0 for nothing liked, and where the sums are not finite.
    pub(super) fn solve<'s>(&self, user: UserRow<'_>, own: &'s mut LikesScratch) -> &'s [f64] {
        let solved = !user.is_empty() && self.equations(user, own).is_some();
        if !solved || !own.solution.iter().all(|x| x.is_finite()) {
            own.solution.fill(0.0);
        }
        &own.solution
    }

    fn equations(&self, user: UserRow<'_>, own: &mut LikesScratch) -> Option<()> {
        let (sums, items) = (own.sums.as_mut()?, user.items());
        own.labels.clear();
        let labels = items.iter().map(|&j| 1.0 - self.biases[j as usize]);
        own.labels.extend(labels);
        sums.reset();
        sums.add_gathered_with_rhs(&self.rows, items, None, &own.labels)
            .ok()?;
        sums.write_full(&mut own.matrix).ok()?;
        for (to, all) in own.matrix.iter_mut().zip(&self.matrix) {
            *to += all;
        }
        let rhs = sums.rhs().iter().zip(&self.rhs);
        for (to, (of_likes, of_all)) in own.solution.iter_mut().zip(rhs) {
            *to = of_likes + of_all;
        }
        cholesky_in_place(&mut own.matrix, self.dim).ok()?;
        cholesky_solve_in_place(&own.matrix, self.dim, &mut own.solution).ok()
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn level_and_tastes_are_the_joint_ridge_solution_of_numpy() {
        let mut builder = InteractionsBuilder::new(4);
        for item in [0, 2] {
            builder.push(0, item, 5.0).unwrap();
        }
        builder.ensure_users(2);
        let data = builder.build().0;
        let step = LikesStep {
            unobserved_weight: 0.3,
            level_penalty: 2.0,
            l2_penalty: 0.5,
        };
        let v = [
            0.5, 1.0, -1.0, -0.25, 0.5, 0.2, 0.1, -1.0, 2.0, 0.05, 0.3, 0.7,
        ];
        let design = LikesDesign::new(&step, &v, 3).unwrap();
        let own = &mut design.scratch();
        // numpy.linalg.solve(D[likes].T @ D[likes] + .3 D.T @ D + diag(2, .5, .5), D[likes].T @ (1 - h[likes]) - .3 D.T @ h), D = [1, q]
        let expected = [0.1914583502455011, 0.041415563647351196, 0.1748260149350509];
        for (x, e) in design.solve(data.user(0), own).iter().zip(expected) {
            assert!((x - e).abs() < 1e-12, "{x} {e}");
        }
        assert!(design.solve(data.user(1), own).iter().all(|x| *x == 0.0));
    }
}
