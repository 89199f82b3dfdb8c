//! A user's own vector, from the user's own ratings and released item vectors.

use dp_core::{UserRow, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::Result;
use crate::features::in_public_range;

/// The exact local user step. All settings are public.
///
/// ```text
/// o = sum_j (y_j - center) / (n + offset_shrinkage)                    the user's own level, n the user's ratings; or 0
/// u = (sum_j v_j v_j^T + l2_penalty I)^-1 sum_j (y_j - center - o) v_j    over all of the user's items, unweighted
/// ```
///
/// Source: Krichene et al. 2024, appendix E.1.2; the level `o` is ours.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserStep {
    /// Public centre of the ratings.
    pub label_center: f64,
    /// Ratings of the centre that the user's level is mixed with, 0 or above; none for no level.
    pub offset_shrinkage: Option<f64>,
    /// Ridge, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

/// What a user keeps: level and vector. Private to that user.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "a private model; printing it is never wanted"
)]
pub struct PersonalVector {
    /// `center + o`.
    pub level: f64,
    /// `u`.
    pub vector: Vec<f64>,
}

impl PersonalVector {
    /// `center + o + <u, v>`; an item that nobody has rated has a vector too, from its features.
    #[must_use]
    pub fn predict(&self, item_vector: &[f64]) -> f64 {
        let score: f64 = self
            .vector
            .iter()
            .zip(item_vector)
            .map(|(u, v)| u * v)
            .sum();
        self.level + score
    }
}

/// Working memory of user steps.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's values; printing them is never wanted"
)]
pub struct UserStepScratch {
    matrix: Vec<f64>,
}

impl UserStep {
    pub(crate) fn check(&self) -> Result<()> {
        params::finite("label_center", self.label_center)?;
        params::finite_non_negative("offset_shrinkage", self.offset_shrinkage.unwrap_or(0.0))?;
        in_public_range("l2_penalty", self.l2_penalty)?;
        Ok(())
    }

    /// A user's level and vector given all item vectors, shape `(m, dim)`: the fold-in of any user, seen in training or not.
    ///
    /// # Privacy
    /// Local: a function of the user's own ratings and released item vectors.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when an item has no vector.
    pub fn fold_in(
        &self,
        item_vectors: &[f64],
        dim: usize,
        user: UserRow<'_>,
    ) -> Result<PersonalVector> {
        params::at_least_one("dim", dim)?;
        crate::features::check_items(user.items(), item_vectors.len() / dim)?;
        let mut vector = vec![0.0; dim];
        let scratch = &mut UserStepScratch::default();
        let level = self.solve(item_vectors, user, scratch, &mut vector);
        Ok(PersonalVector { level, vector })
    }

    /// Writes `u`; returns `center + o`. A user whose sums are not finite gets the zero vector.
    pub(crate) fn solve(
        &self,
        item_vectors: &[f64],
        user: UserRow<'_>,
        scratch: &mut UserStepScratch,
        out: &mut [f64],
    ) -> f64 {
        let dim = out.len();
        let level = self.label_center + self.offset(user);
        let matrix = &mut scratch.matrix;
        matrix.clear();
        matrix.resize(dim * dim, 0.0);
        matrix
            .iter_mut()
            .step_by(dim + 1)
            .for_each(|a| *a = self.l2_penalty);
        out.fill(0.0);
        for (item, y) in user.iter() {
            let v = &item_vectors[item as usize * dim..][..dim];
            let residual = f64::from(y) - level;
            for ((row, b), v_a) in matrix.chunks_exact_mut(dim).zip(&mut *out).zip(v) {
                *b += residual * v_a;
                row.iter_mut()
                    .zip(v)
                    .for_each(|(cell, v_b)| *cell += v_a * v_b);
            }
        }
        let solved =
            cholesky_in_place(matrix, dim).and_then(|()| cholesky_solve_in_place(matrix, dim, out));
        if solved.is_err() || !out.iter().all(|u| u.is_finite()) {
            out.fill(0.0);
        }
        level
    }

    fn offset(&self, user: UserRow<'_>) -> f64 {
        let Some(shrinkage) = self.offset_shrinkage else {
            return 0.0;
        };
        let centred = user
            .values()
            .iter()
            .map(|&y| f64::from(y) - self.label_center);
        let n = user.len() as f64 + shrinkage;
        let mean = if n > 0.0 {
            centred.sum::<f64>() / n
        } else {
            0.0
        };
        if mean.is_finite() { mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn a_user_s_vector_is_the_ridge_solution_of_numpy() {
        let mut builder = InteractionsBuilder::new(3);
        for (item, y) in [(0, 5.0), (1, 2.0), (2, 4.0)] {
            builder.push(0, item, y).unwrap();
        }
        builder.ensure_users(2);
        let data = builder.build().0;
        let step = UserStep {
            label_center: 3.0,
            offset_shrinkage: Some(1.0),
            l2_penalty: 0.5,
        };
        let v = [1.0, 0.5, -1.0, 1.0, 0.2, 2.0];
        let found = step.fold_in(&v, 2, data.user(0)).unwrap();
        // numpy: o = .5; solve(V^T V + .5 I, V^T (y - 3.5))
        assert!((found.level - 3.5).abs() < 1e-15);
        for (u, e) in found
            .vector
            .iter()
            .zip([1.223_021_582_733_813, 0.064_748_201_438_848_92])
        {
            assert!((u - e).abs() < 1e-12, "{u}");
        }
        let nobody = step.fold_in(&v, 2, data.user(1)).unwrap();
        assert!((nobody.level - 3.0).abs() < 1e-15);
        assert!(nobody.vector.iter().all(|u| *u == 0.0));
        assert!(step.fold_in(&v[..4], 2, data.user(0)).is_err());
    }
}
