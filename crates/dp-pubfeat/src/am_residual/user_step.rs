//! A user's level and tastes, from the user's own ratings and released item vectors.

use dp_core::{UserRow, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::Result;
use crate::features::in_public_range;

/// The exact local user step for items with a bias. All settings are public.
///
/// ```text
/// (l, u) = argmin sum_j (y_j - label_center - h_j - l - <q_j, u>)^2 + level_penalty l^2 + l2_penalty ||u||^2
/// ```
///
/// over the user's own records, unweighted; `[h_j, q_j]` is the item's vector, a bias and `d - 1` tastes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelStep {
    /// Public centre of the ratings, data units.
    pub label_center: f64,
    /// Ridge on the user's level, in ratings, from 1e-6 to 1e6.
    pub level_penalty: f64,
    /// Ridge on the user's tastes, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

/// Working memory of user steps.
#[derive(Default)]
pub(super) struct LevelStepScratch {
    matrix: Vec<f64>,
    /// `[l, u]`.
    solution: Vec<f64>,
}

impl LevelStep {
    pub(super) fn check(&self) -> Result<()> {
        params::finite("label_center", self.label_center)?;
        in_public_range("label_center", self.label_center.abs().max(1e-6))?;
        in_public_range("level_penalty", self.level_penalty)?;
        in_public_range("l2_penalty", self.l2_penalty)?;
        Ok(())
    }

    /// `[l, u]` of one user, 0 where the sums are not finite; `item_vectors` of shape `(m, dim)`.
    pub(super) fn solve<'s>(
        &self,
        item_vectors: &[f64],
        dim: usize,
        user: UserRow<'_>,
        scratch: &'s mut LevelStepScratch,
    ) -> &'s [f64] {
        let LevelStepScratch { matrix, solution } = scratch;
        matrix.clear();
        matrix.resize(dim * dim, 0.0);
        matrix
            .iter_mut()
            .step_by(dim + 1)
            .for_each(|a| *a = self.l2_penalty);
        matrix[0] = self.level_penalty;
        solution.clear();
        solution.resize(dim, 0.0);
        for (item, y) in user.iter() {
            let row = &item_vectors[item as usize * dim..][..dim];
            let left = f64::from(y) - self.label_center - row[0];
            let x = |k: usize| if k == 0 { 1.0 } else { row[k] };
            for (a, b) in solution.iter_mut().enumerate() {
                *b += left * x(a);
                for (c, cell) in matrix[a * dim..][..dim].iter_mut().enumerate() {
                    *cell += x(a) * x(c);
                }
            }
        }
        let solved = cholesky_in_place(matrix, dim)
            .and_then(|()| cholesky_solve_in_place(matrix, dim, solution));
        if solved.is_err() || !solution.iter().all(|u| u.is_finite()) {
            solution.fill(0.0);
        }
        solution
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn level_and_tastes_are_the_joint_ridge_solution_of_numpy() {
        let mut builder = InteractionsBuilder::new(3);
        for (item, y) in [(0, 5.0), (1, 2.0), (2, 4.0)] {
            builder.push(0, item, y).unwrap();
        }
        builder.ensure_users(2);
        let data = builder.build().0;
        let step = LevelStep {
            label_center: 3.0,
            level_penalty: 2.0,
            l2_penalty: 0.5,
        };
        let v = [0.5, 1.0, -1.0, -0.25, 0.5, 0.2, 0.1, -1.0, 2.0];
        let scratch = &mut LevelStepScratch::default();
        // numpy.linalg.solve(X^T X + diag(2, .5, .5), X^T (y - 3 - h)), X = [1, q_j]
        let expected = [
            0.36136363636363633,
            -0.0845454545454544,
            -0.09545454545454535,
        ];
        for (x, e) in step
            .solve(&v, 3, data.user(0), scratch)
            .iter()
            .zip(expected)
        {
            assert!((x - e).abs() < 1e-12, "{x} {e}");
        }
        let nobody = step.solve(&v, 3, data.user(1), scratch);
        assert!(nobody.iter().all(|x| *x == 0.0));
    }
}
