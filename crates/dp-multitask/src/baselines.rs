//! Baselines for private models. None of these is private.

use dp_core::{Interactions, Private, UserRow, parallel, params};
use dp_linalg::{AlignedVec, GramAccumulator, cholesky_in_place, cholesky_solve_in_place};

use crate::factorization::{
    FactorModel, ScoreModel, Scoring, UserPenalties, UserScratch, UserStep, initial_factors,
};
use crate::{LocalBias, Provenance, Result};

/// Alternating least squares without privacy: the same model and user step, exact item steps.
///
/// ```text
/// (h_i, q_i) = argmin sum_j (y_ij - o_j - h_i - <q_i, v_j>)^2 + lambda (h_i^2 + ||q_i||^2)
/// ```
///
/// With `unobserved_weight` a0 a record is a positive, as in
/// [`Feedback::Implicit`](crate::Feedback::Implicit): j is over the records of item i with
/// `y_ij = 1`, and all users' scores add `a0 (o_j + h_i + <q_i, v_j>)^2` (Hu, Koren and Volinsky
/// 2008).
///
/// Not private: its output may be seen only by those who may see the data.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonPrivateAls {
    /// Dimension of the factors, including the item bias.
    pub dim: usize,
    /// Number of rounds of alternating minimisation.
    pub n_rounds: usize,
    /// Ridge penalty of users and items.
    pub l2_penalty: f64,
    /// Centre of the ratings.
    pub label_center: f64,
    /// Unit of the ratings: about their standard deviation within users, 1 for stars from 1 to 5.
    /// With labels in this unit, the penalties mean the same on every scale.
    pub label_unit: f64,
    /// Seed of the initial factors.
    pub init_seed: u64,
    /// a0 of implicit feedback, 0 or from 1e-6 to 1e6; `None` for ratings.
    pub unobserved_weight: Option<f64>,
}

impl Default for NonPrivateAls {
    /// 17 coordinates, 15 rounds, ridge 10: settings known to do well on MovieLens-1M.
    fn default() -> Self {
        Self {
            dim: 17,
            n_rounds: 15,
            l2_penalty: 10.0,
            label_center: 3.5,
            label_unit: 1.0,
            init_seed: 0,
            unobserved_weight: None,
        }
    }
}

impl NonPrivateAls {
    /// For implicit feedback: 65 coordinates, 8 rounds, ridge 10, a0 .3; the best of 20 settings on
    /// the validation users of MovieLens-1M, except for one with twice the dimension.
    #[must_use]
    pub fn implicit() -> Self {
        Self {
            dim: 65,
            n_rounds: 8,
            unobserved_weight: Some(0.3),
            ..Self::default()
        }
    }

    /// Trains on all records.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a setting is out of range, [`crate::Error::Linalg`] when a
    /// system cannot be solved.
    pub fn fit(&self, data: &Private<Interactions>) -> Result<FactorModel> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        params::at_least_one("n_rounds", self.n_rounds)?;
        params::finite_positive("l2_penalty", self.l2_penalty)?;
        params::finite_positive("label_unit", self.label_unit)?;
        let scoring = self.scoring();
        let table = data.expose();
        let by_item = table.item_major();
        let mut factors = initial_factors(table.n_items(), self.dim, 0.1, self.init_seed)?;
        for _ in 0..self.n_rounds {
            let users = UserSide::solve(table, &factors, &scoring, self.penalties())?;
            users.item_step(by_item, self.ridge(), &mut factors)?;
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
            penalties: Some(self.penalties()),
            unobserved_weight: self.unobserved_weight,
            n_effects: 0,
        }
    }

    const fn penalties(&self) -> UserPenalties {
        UserPenalties {
            offset: self.l2_penalty,
            factor: self.l2_penalty,
            factor_per_record: 0.0,
        }
    }

    /// Ridges of an item's bias, in the unit of the labels, and of its taste factors, which have none:
    /// those of users have it.
    const fn ridge(&self) -> [f64; 2] {
        let unit = self.label_unit;
        [self.l2_penalty, self.l2_penalty * unit * unit]
    }

    /// The same settings on the scale of a table of ratings: their mean, and the standard deviation
    /// around users' own means, if there is one.
    #[must_use]
    pub fn on_scale_of(self, data: &Private<Interactions>) -> Self {
        let (mut n, mut sum, mut square, mut free) = (0.0, 0.0, 0.0, 0.0);
        for row in data.expose().users().filter(|row| !row.is_empty()) {
            let values = || row.values().iter().copied().map(f64::from);
            let (own, len) = (values().sum::<f64>(), row.len() as f64);
            square += values().map(|y| (y - own / len).powi(2)).sum::<f64>();
            (n, sum, free) = (n + len, sum + own, free + len - 1.0);
        }
        let unit = (square / free).sqrt();
        Self {
            label_center: if n > 0.0 { sum / n } else { self.label_center },
            label_unit: if unit.is_finite() && unit > 0.0 {
                unit
            } else {
                self.label_unit
            },
            ..self
        }
    }

    /// The settings, among these lengths and ridges, whose model has the smallest `loss`. The first
    /// one where no loss is a number.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit) and of `loss`.
    pub fn best_among<E: From<crate::Error>>(
        self,
        lengths: &[usize],
        ridges: &[f64],
        train: &Private<Interactions>,
        loss: impl Fn(&FactorModel) -> std::result::Result<f64, E>,
    ) -> std::result::Result<Self, E> {
        let pairs = lengths
            .iter()
            .flat_map(|dim| ridges.iter().map(move |ridge| (*dim, *ridge)));
        let (mut best, mut least) = (None, f64::INFINITY);
        for (dim, l2_penalty) in pairs {
            let als = Self {
                dim,
                l2_penalty,
                ..self
            };
            let found = loss(&als.fit(train)?)?;
            if best.is_none() || found < least {
                (best, least) = (Some(als), found.min(least));
            }
        }
        Ok(best.unwrap_or(self))
    }
}

/// All users' factors `[1, v_j]` and residual labels, for one exact item step.
struct UserSide {
    dim: usize,
    factors: AlignedVec<f64>,
    labels: Vec<f64>,
    /// The contribution of all users to each item's system, with implicit feedback.
    unobserved: Option<Normal>,
}

/// A matrix and a right-hand side.
struct Normal {
    matrix: Vec<f64>,
    rhs: Vec<f64>,
}

impl Normal {
    /// `a0 sum_j x_j x_j^T` and `-a0 sum_j o_j x_j`.
    fn of_all_users(
        weight: f64,
        factors: &[f64],
        offsets: &[f64],
        dim: usize,
    ) -> Result<Self, dp_linalg::Error> {
        let rows: Vec<u32> = (0..).take(offsets.len()).collect();
        let mut gram = GramAccumulator::<f64>::new(dim)?;
        gram.add_gathered_with_rhs(factors, &rows, None, offsets)?;
        let mut matrix = vec![0.0; dim * dim];
        gram.write_full(&mut matrix)?;
        matrix.iter_mut().for_each(|entry| *entry *= weight);
        let rhs = gram.rhs().iter().map(|b| -weight * b).collect();
        Ok(Self { matrix, rhs })
    }

    fn add_to(&self, matrix: &mut [f64], rhs: &mut [f64]) {
        for (sum, terms) in [(matrix, &self.matrix), (rhs, &self.rhs)] {
            sum.iter_mut().zip(terms).for_each(|(x, term)| *x += term);
        }
    }
}

impl UserSide {
    fn solve(
        table: &Interactions,
        item_factors: &[f64],
        scoring: &Scoring,
        penalties: UserPenalties,
    ) -> Result<Self> {
        let dim = scoring.dim;
        let design = scoring.design(item_factors);
        let step = UserStep {
            design: &design,
            bias: scoring.bias,
            penalties,
        };
        let mut factors = AlignedVec::zeros(table.n_users() * dim);
        factors.fill(1.0);
        let mut offsets = vec![0.0; table.n_users()];
        parallel::try_for_each(
            factors.chunks_mut(dim).zip(&mut offsets).enumerate(),
            || UserScratch::new(dim),
            |scratch, (user, (factor, offset))| {
                let solution = step.solve(table.user(user), scratch);
                factor[1..].copy_from_slice(solution.factor);
                *offset = step.center() + solution.offset;
                Ok(())
            },
        )?;
        let yes = scoring.unobserved_weight.map(|_| 1.0);
        let labels = table
            .users()
            .zip(&offsets)
            .flat_map(|(row, offset)| {
                let values = row.values().iter();
                values.map(move |&y| yes.unwrap_or(f64::from(y)) - offset)
            })
            .collect();
        let unobserved = scoring
            .unobserved_weight
            .map(|weight| Normal::of_all_users(weight, &factors, &offsets, dim))
            .transpose()?;
        Ok(Self {
            dim,
            factors,
            labels,
            unobserved,
        })
    }

    fn item_step(
        &self,
        by_item: &dp_core::ItemMajor,
        ridge: [f64; 2],
        item_factors: &mut [f64],
    ) -> Result<()> {
        parallel::try_for_each(
            item_factors.chunks_mut(self.dim).enumerate(),
            || ItemScratch::new(self.dim),
            |scratch, (item, factor)| scratch.solve(self, by_item.item(item), ridge, factor),
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
        [of_bias, of_tastes]: [f64; 2],
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
        for (at, diagonal) in self.matrix.iter_mut().step_by(dim + 1).enumerate() {
            *diagonal += if at == 0 { of_bias } else { of_tastes };
        }
        if let Some(unobserved) = &users.unobserved {
            unobserved.add_to(&mut self.matrix, factor);
        }
        cholesky_in_place(&mut self.matrix, dim)?;
        cholesky_solve_in_place(&self.matrix, dim, factor)
    }
}

/// Predicts `center` for every record and returns pairs of prediction and truth. As internal as its
/// centre: the mean of the training data is the strongest choice.
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
/// local, and the first baseline that a private model must beat.
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
