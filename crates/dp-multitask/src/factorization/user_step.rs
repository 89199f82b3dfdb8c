//! The user step: one user's offset and factor from own records and the item factors. Local.

use dp_core::UserRow;
use dp_linalg::{GramAccumulator, cholesky_in_place, cholesky_solve_in_place};

use super::model::{PersonalModel, UserPenalties};
use crate::LocalBias;

/// Item factors as the user step needs them: rows `[1, q_i]` and the item biases `h_i`.
pub(crate) struct Design {
    dim: usize,
    rows: Vec<f64>,
    item_bias: Vec<f64>,
}

impl Design {
    /// From rows `[h_i, q_i]` of length `dim`.
    pub(crate) fn new(item_factors: &[f64], dim: usize) -> Self {
        let mut rows = item_factors.to_vec();
        let mut item_bias = Vec::with_capacity(rows.len() / dim);
        for row in rows.chunks_exact_mut(dim) {
            item_bias.push(row[0]);
            row[0] = 1.0;
        }
        Self {
            dim,
            rows,
            item_bias,
        }
    }

    pub(crate) const fn dim(&self) -> usize {
        self.dim
    }
}

/// Ridge regression of one user's ratings on the factors of the user's items.
///
/// ```text
/// y_i = rating_i - c - bias,   bias the user's shrunken mean
/// (o, v) = argmin sum_i (y_i - h_i - o - <q_i, v>)^2 + lambda_o o^2 + (lambda + n lambda_n) ||v||^2
/// ```
///
/// All `n` items of the user count alike; nothing of other users enters. Cost O(n d^2 + d^3).
#[derive(Clone, Copy)]
pub(crate) struct UserStep<'a> {
    pub(crate) design: &'a Design,
    pub(crate) bias: LocalBias,
    pub(crate) penalties: UserPenalties,
}

/// Working memory of the user step, one per thread.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's labels; printing them is never wanted"
)]
pub struct UserScratch {
    gram: GramAccumulator<f64>,
    labels: Vec<f64>,
    matrix: Vec<f64>,
    solution: Vec<f64>,
}

/// One user's solution: the offset on top of the bias, and the factor.
pub(crate) struct UserSolution<'a> {
    /// Bias plus offset, relative to the public centre.
    pub(crate) offset: f64,
    /// The factor `v`, length `dim - 1`.
    pub(crate) factor: &'a [f64],
}

impl UserScratch {
    pub(crate) fn new(dim: usize) -> Result<Self, dp_linalg::Error> {
        Ok(Self {
            gram: GramAccumulator::new(dim)?,
            labels: Vec::new(),
            matrix: vec![0.0; dim * dim],
            solution: vec![0.0; dim],
        })
    }
}

impl UserStep<'_> {
    /// Solves for one user. A system that cannot be solved, because released factors overflowed,
    /// gives the zero factor.
    pub(crate) fn solve<'s>(
        &self,
        user: UserRow<'_>,
        scratch: &'s mut UserScratch,
    ) -> UserSolution<'s> {
        let bias = self.bias.of(user.values());
        let start = self.bias.center + bias;
        scratch.labels.clear();
        scratch.labels.extend(
            user.iter()
                .map(|(item, y)| f64::from(y) - start - self.design.item_bias[item as usize]),
        );
        if self.solve_normal_equations(user, scratch).is_err() {
            scratch.solution.fill(0.0);
        }
        UserSolution {
            offset: bias + scratch.solution[0],
            factor: &scratch.solution[1..],
        }
    }

    fn solve_normal_equations(
        &self,
        user: UserRow<'_>,
        scratch: &mut UserScratch,
    ) -> Result<(), dp_linalg::Error> {
        let dim = self.design.dim;
        let gram = &mut scratch.gram;
        gram.reset();
        gram.add_gathered_with_rhs(&self.design.rows, user.items(), None, &scratch.labels)?;
        gram.write_full(&mut scratch.matrix)?;
        scratch.solution.copy_from_slice(gram.rhs());
        let taste = self.penalties.factor + user.len() as f64 * self.penalties.factor_per_record;
        scratch.matrix[0] += self.penalties.offset;
        for k in 1..dim {
            scratch.matrix[k * dim + k] += taste;
        }
        cholesky_in_place(&mut scratch.matrix, dim)?;
        cholesky_solve_in_place(&scratch.matrix, dim, &mut scratch.solution)
    }

    /// The user's own model.
    pub(crate) fn personal_model(
        &self,
        user: UserRow<'_>,
        scratch: &mut UserScratch,
    ) -> PersonalModel {
        let solution = self.solve(user, scratch);
        PersonalModel {
            offset: self.bias.center + solution.offset,
            factor: solution.factor.to_vec(),
        }
    }
}
