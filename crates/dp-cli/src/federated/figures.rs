//! Errors of users' own models. Everything here is computed from private data and stays with the operator.

use dp_data::SampleUser;
use dp_fedsgd::{FittedPpSgd, LocalChoice, Minibatch};
use rayon::prelude::*;
use serde::Serialize;

use super::parts::{PartedUser, Parts};
use crate::error::Result;
use crate::personal::{Inputs, Task};

/// Ridges of an own part that users choose from, in units of a row.
const L2_PENALTIES: [f64; 5] = [1e-2, 0.1, 1.0, 10.0, f64::INFINITY];
/// Weights on the shared model that users choose from; 0 is learning alone.
const WEIGHTS: [f64; 3] = [0.0, 0.5, 1.0];
/// Rows that an own choice is made from: it costs their number cubed.
const CHOICE_ROWS: usize = 64;

/// One user's mean errors on the own test rows, one for each model: private.
pub(crate) struct UserFigures {
    pub(crate) id: String,
    pub(crate) n_history: usize,
    pub(crate) n_test: usize,
    pub(crate) errors: Vec<Option<f64>>,
}

/// A model over all users: private.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) model: String,
    /// RMSE or accuracy over all test rows.
    pub(crate) over_rows: Option<f64>,
    /// The same for the median user.
    pub(crate) median_user: Option<f64>,
}

/// Coefficients of one user, from the released and the own part.
fn coefficients(fitted: &FittedPpSgd, user: usize) -> Vec<f64> {
    let own = fitted.personal.expose().last(user);
    let both = fitted.model.last().iter().zip(own);
    both.map(|(w, theta)| w + theta).collect()
}

/// Every user's mean loss of each run on the rows that alphas are compared on: squared error of mapped targets, or the share of
/// errors. Of users without such rows none.
pub(crate) fn losses_of_users(
    inputs: &Inputs,
    parts: &Parts,
    runs: &[&FittedPpSgd],
) -> Vec<Option<Vec<f64>>> {
    let loss = |score: f64, y: f32| match inputs.task {
        Task::Regression => (score - inputs.label(y)).powi(2),
        Task::Classification { .. } => inputs.error(score, y),
    };
    let of_user = |(at, user): (usize, &PartedUser)| {
        let losses = runs.iter().map(|fitted| {
            let own = coefficients(fitted, at);
            mean_over(inputs, parts, at, &own, &user.validation, &loss)
        });
        losses.collect()
    };
    parts.users().par_iter().enumerate().map(of_user).collect()
}

impl Figures {
    /// Errors of every user with each run's model.
    pub(crate) fn of_users(
        inputs: &Inputs,
        parts: &Parts,
        runs: &[&FittedPpSgd],
    ) -> Vec<UserFigures> {
        let error = |score: f64, y: f32| inputs.error(score, y);
        let of_user = |(at, user): (usize, &PartedUser)| {
            let errors = runs.iter().map(|fitted| {
                let own = coefficients(fitted, at);
                mean_over(inputs, parts, at, &own, &user.test, &error)
            });
            UserFigures {
                id: user.test.id().to_owned(),
                n_history: user.history.rows(inputs.features.len()).len(),
                n_test: user.test.rows(inputs.features.len()).len(),
                errors: errors.collect(),
            }
        };
        parts.users().par_iter().enumerate().map(of_user).collect()
    }

    /// Errors of every user's own choice of round, weight and ridge on the released trajectory, and of the own ridge alone. Of
    /// regression; nothing is spent on either.
    pub(crate) fn own_choices(
        inputs: &Inputs,
        parts: &Parts,
        fitted: &FittedPpSgd,
    ) -> Result<Vec<[Option<f64>; 2]>> {
        let choices = [
            LocalChoice::new(WEIGHTS.to_vec(), L2_PENALTIES.to_vec())?,
            LocalChoice::new(vec![0.0], L2_PENALTIES.to_vec())?,
        ];
        let error = |score: f64, y: f32| inputs.error(score, y);
        let of_user = |(at, user): (usize, &PartedUser)| {
            let mut rows = Minibatch::new(inputs.dim());
            for (x, y) in parts.train().rows(at).iter().take(CHOICE_ROWS) {
                rows.push(x, y);
            }
            [0, 1].map(|which| {
                let own = choices[which]
                    .choose_from(&fitted.model, &rows)
                    .coefficients;
                mean_over(inputs, parts, at, &own, &user.test, &error)
            })
        };
        Ok(parts.users().par_iter().enumerate().map(of_user).collect())
    }

    /// Model number `at` over all users with test rows.
    pub(crate) fn over(inputs: &Inputs, users: &[UserFigures], at: usize, model: String) -> Self {
        let measured: Vec<(f64, usize)> = users
            .iter()
            .filter_map(|user| Some((user.errors.get(at).copied()??, user.n_test)))
            .collect();
        let n: usize = measured.iter().map(|(_, n)| n).sum();
        let total: f64 = measured.iter().map(|&(error, n)| error * n as f64).sum();
        let mut each: Vec<f64> = measured.iter().map(|&(error, _)| error).collect();
        each.sort_by(f64::total_cmp);
        Self {
            model,
            over_rows: (n > 0).then(|| inputs.figure(total / n as f64)),
            median_user: each.get(each.len() / 2).map(|&e| inputs.figure(e)),
        }
    }
}

/// Mean of a function of score and label over a user's rows, the scores by the user's coefficients.
fn mean_over(
    inputs: &Inputs,
    parts: &Parts,
    user: usize,
    coefficients: &[f64],
    rows: &SampleUser,
    of: &impl Fn(f64, f32) -> f64,
) -> Option<f64> {
    let personal = parts.train().with_coefficients(user, coefficients.to_vec());
    let (mut total, mut n, mut encoded) = (0.0, 0_usize, Vec::new());
    for (x, y) in rows.rows(inputs.features.len()) {
        inputs.encode(x, &mut encoded);
        total += of(personal.score(&encoded), y);
        n += 1;
    }
    (n > 0).then(|| total / n as f64)
}
