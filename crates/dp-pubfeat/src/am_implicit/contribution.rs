//! What a user adds to a round.

use dp_core::UserRow;
use dp_mechanism::{SparseBuffer, VectorContribution};

use super::AmImplicitSspParams;
use super::user_step::{LikesDesign, LikesScratch};
use crate::Result;
use crate::am_residual::{MOMENT_RATIO, push_moments, to_norm};

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
