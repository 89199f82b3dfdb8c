//! What a user makes of released shared parameters alone: runs where the user's rows are, and costs nothing.

use dp_fedsgd::{LocalChoice, Minibatch};

use super::figures::sums;
use super::training::{RunSettings, objective};
use crate::error::Result;
use crate::personal::{Inputs, Intercept, Users};

/// Ridges of an own part that users choose from, in units of a row.
const L2_PENALTIES: [f64; 5] = [1e-2, 0.1, 1.0, 10.0, f64::INFINITY];
/// Weights on the shared model that users choose from; 0 is learning alone.
const WEIGHTS: [f64; 3] = [0.0, 0.5, 1.0];
/// Rows that an own choice is made from where features are more: it costs the smaller of the two numbers cubed.
const CHOICE_ROWS: usize = 64;

/// The choice of a round, a weight on it and a ridge of an own part.
///
/// # Errors
/// When settings are out of range or do not go together.
pub fn with_shared(inputs: &Inputs) -> Result<LocalChoice> {
    choice(inputs, &WEIGHTS)
}

/// That, and the choice of a ridge alone.
pub(super) fn with_and_without_shared(inputs: &Inputs) -> Result<[LocalChoice; 2]> {
    Ok([with_shared(inputs)?, choice(inputs, &[0.0])?])
}

/// Rows come less the user's means where the level is the user's own: a row that is left out must not count in them.
fn choice(inputs: &Inputs, weights: &[f64]) -> Result<LocalChoice> {
    let choice = LocalChoice::new(weights.to_vec(), L2_PENALTIES.to_vec())?;
    Ok(match inputs.intercept {
        Intercept::Own => choice.with_own_level(),
        Intercept::Shared | Intercept::None => choice,
    })
}

/// The rows that a user chooses by.
pub fn rows(inputs: &Inputs, users: &Users, user: usize) -> Minibatch {
    let most = if inputs.dim() <= CHOICE_ROWS {
        usize::MAX
    } else {
        CHOICE_ROWS
    };
    all_rows(inputs, users, user, most)
}

fn all_rows(inputs: &Inputs, users: &Users, user: usize, most: usize) -> Minibatch {
    let mut rows = Minibatch::new(inputs.dim());
    for (x, y) in users.rows(user).iter().take(most) {
        rows.push(x, y);
    }
    rows
}

/// Coefficients of a user whom nothing was trained on: the local steps of the run at its released last round.
///
/// # Errors
/// When the data do not fit the inputs, or a fit fails.
pub fn folded_in(
    inputs: &Inputs,
    settings: &RunSettings,
    alpha: f64,
    shared: &[f64],
    users: &Users,
    user: usize,
) -> Result<Vec<f64>> {
    let rows = all_rows(inputs, users, user, usize::MAX);
    let objective = objective(inputs.task, inputs.dim())?;
    // the number of users is for the noisy sum alone
    let own = settings
        .fit(alpha, 1.0)?
        .fold_in(&objective, shared, &rows)?;
    Ok(sums(shared, &own))
}
