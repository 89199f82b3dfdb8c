//! A user's tastes from what the user likes, and from all other items as weak noes.

use dp_core::{UserRow, params};
use dp_linalg::{GramAccumulator, cholesky_in_place, cholesky_solve_in_place};

use crate::Result;
use crate::features::in_public_range;

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
