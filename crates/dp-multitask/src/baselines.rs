//! What a private model is measured against. None of these is private.

use dp_core::{Interactions, Private, UserRow, params};
use dp_linalg::{AlignedVec, GramAccumulator, cholesky_in_place, cholesky_solve_in_place};
use rayon::prelude::*;

use crate::factorization::{
    Design, FactorModel, Provenance, ScoreModel, Scoring, UserPenalties, UserScratch, UserStep,
    initial_factors,
};
use crate::{LocalBias, Result};

/// Alternating least squares without privacy: the same model and user step, exact item steps.
///
/// ```text
/// (h_i, q_i) = argmin sum_j (y_ij - o_j - h_i - <q_i, v_j>)^2 + lambda (h_i^2 + ||q_i||^2)
/// ```
///
/// Not private: its output may only be seen by who may see the data.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonPrivateAls {
    /// Length of the factors, item bias included.
    pub dim: usize,
    /// Rounds of alternating minimisation.
    pub n_rounds: usize,
    /// Ridge of users and items.
    pub l2_penalty: f64,
    /// Centre of the ratings.
    pub label_center: f64,
    /// Seed of the initial factors.
    pub init_seed: u64,
}

impl Default for NonPrivateAls {
    /// 17 coordinates, 15 rounds, ridge 10: settings known to do well on MovieLens-1M.
    fn default() -> Self {
        Self {
            dim: 17,
            n_rounds: 15,
            l2_penalty: 10.0,
            label_center: 3.5,
            init_seed: 0,
        }
    }
}

impl NonPrivateAls {
    /// Trains on all records.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a setting is out of range, [`crate::Error::Linalg`] when a
    /// system cannot be solved.
    pub fn fit(&self, data: &Private<Interactions>) -> Result<FactorModel> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        params::at_least_one("n_rounds", self.n_rounds)?;
        params::finite_positive("l2_penalty", self.l2_penalty)?;
        let scoring = self.scoring();
        let table = data.expose();
        let by_item = table.item_major();
        let mut factors = initial_factors(table.n_items(), self.dim, 0.1, self.init_seed)?;
        for _ in 0..self.n_rounds {
            let users = UserSide::solve(table, &factors, &scoring)?;
            users.item_step(by_item, self.l2_penalty, &mut factors)?;
        }
        FactorModel::new(scoring, factors, Provenance::NonPrivate)
    }

    const fn scoring(&self) -> Scoring {
        Scoring {
            dim: self.dim,
            bias: LocalBias {
                center: self.label_center,
                shrinkage: self.l2_penalty,
            },
            score_model: ScoreModel::Biased,
            penalties: UserPenalties {
                offset: self.l2_penalty,
                factor: self.l2_penalty,
                factor_per_record: 0.0,
            },
            unobserved_weight: None,
        }
    }
}

/// All users' factors `[1, v_j]` and residual labels, for one exact item step.
struct UserSide {
    dim: usize,
    factors: AlignedVec<f64>,
    labels: Vec<f64>,
}

impl UserSide {
    fn solve(table: &Interactions, item_factors: &[f64], scoring: &Scoring) -> Result<Self> {
        let dim = scoring.dim;
        let design = Design::new(item_factors, dim, scoring.score_model);
        let step = UserStep {
            design: &design,
            bias: scoring.bias,
            penalties: scoring.penalties,
        };
        let mut factors = AlignedVec::zeros(table.n_users() * dim);
        factors.fill(1.0);
        let mut offsets = vec![0.0; table.n_users()];
        factors
            .par_chunks_mut(dim)
            .zip(&mut offsets)
            .enumerate()
            .try_for_each_init(
                || UserScratch::new(dim),
                |scratch, (user, (factor, offset))| {
                    let scratch = scratch.as_mut().map_err(|e| *e)?;
                    let solution = step.solve(table.user(user), scratch);
                    factor[1..].copy_from_slice(solution.factor);
                    *offset = scoring.bias.center + solution.offset;
                    Ok::<_, dp_linalg::Error>(())
                },
            )?;
        let labels = table
            .users()
            .zip(offsets)
            .flat_map(|(row, offset)| row.values().iter().map(move |&y| f64::from(y) - offset))
            .collect();
        Ok(Self {
            dim,
            factors,
            labels,
        })
    }

    fn item_step(
        &self,
        by_item: &dp_core::ItemMajor,
        l2_penalty: f64,
        item_factors: &mut [f64],
    ) -> Result<()> {
        item_factors
            .par_chunks_mut(self.dim)
            .enumerate()
            .try_for_each_init(
                || ItemScratch::new(self.dim),
                |scratch, (item, factor)| {
                    let scratch = scratch.as_mut().map_err(|e| *e)?;
                    scratch.solve(self, by_item.item(item), l2_penalty, factor)
                },
            )?;
        Ok(())
    }
}

struct ItemScratch {
    gram: GramAccumulator<f64>,
    users: Vec<u32>,
    labels: Vec<f64>,
    matrix: Vec<f64>,
}

impl ItemScratch {
    fn new(dim: usize) -> Result<Self, dp_linalg::Error> {
        Ok(Self {
            gram: GramAccumulator::new(dim)?,
            users: Vec::new(),
            labels: Vec::new(),
            matrix: vec![0.0; dim * dim],
        })
    }

    fn solve(
        &mut self,
        users: &UserSide,
        entries: &[dp_core::ItemEntry],
        l2_penalty: f64,
        factor: &mut [f64],
    ) -> Result<(), dp_linalg::Error> {
        let dim = users.dim;
        self.users.clear();
        self.labels.clear();
        for entry in entries {
            self.users.push(entry.user);
            self.labels.push(users.labels[entry.position as usize]);
        }
        self.gram.reset();
        self.gram
            .add_gathered_with_rhs(&users.factors, &self.users, None, &self.labels)?;
        self.gram.write_full(&mut self.matrix)?;
        factor.copy_from_slice(self.gram.rhs());
        for diagonal in self.matrix.iter_mut().step_by(dim + 1) {
            *diagonal += l2_penalty;
        }
        cholesky_in_place(&mut self.matrix, dim)?;
        cholesky_solve_in_place(&self.matrix, dim, factor)
    }
}

/// Predicts `center` for every record: pairs of prediction and truth. As internal as its centre: the
/// mean of the training data is the strongest one.
pub fn constant_predictions(
    held_out: &Interactions,
    center: f64,
) -> impl Iterator<Item = (f64, f64)> {
    held_out
        .users()
        .flat_map(UserRow::iter)
        .map(move |(_, y)| (center, f64::from(y)))
}

/// Predicts each user's own shrunken mean over `train` for the user's held-out records: free and
/// local, and the first thing a private model has to beat.
pub fn user_mean_predictions<'a>(
    train: &'a Interactions,
    held_out: &'a Interactions,
    bias: LocalBias,
) -> impl Iterator<Item = (f64, f64)> + 'a {
    train
        .users()
        .zip(held_out.users())
        .flat_map(move |(own, rows)| {
            let mean = bias.center + bias.of(own.values());
            rows.iter().map(move |(_, y)| (mean, f64::from(y)))
        })
}
