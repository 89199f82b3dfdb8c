//! Personal models computed from released shared parameters alone: they run where the user's rows
//! are, and cost nothing.

use dp_core::UserSamplesBuilder;
use dp_fedsgd::{LocalChoice, Minibatch, SharedModel};
use dp_personalize::{ModelPrior, OwnLevel, SharedParts, WeighedFit};

use super::figures::sums;
use super::training::{RunSettings, objective};
use crate::error::Result;
use crate::personal::{Inputs, Intercept, Personal, Task, Users};

/// Candidate ridge penalties of a personal part, in units of a row.
const L2_PENALTIES: [f64; 5] = [1e-2, 0.1, 1.0, 10.0, f64::INFINITY];
/// Candidate weights on the shared model; 0 is learning alone.
const WEIGHTS: [f64; 3] = [0.0, 0.5, 1.0];
/// Maximum number of rows of one user.
const MOST_ROWS: usize = 1 << 16;
/// Number of rows that an own choice uses if there are more features than this: the cost is the
/// smaller of the two numbers cubed.
const CHOICE_ROWS: usize = 64;

/// Personal model without any shared part.
pub const OWN_ROWS: &str = "own rows alone (free, local)";

/// Released values from which users choose; own rows alone if there are none.
#[derive(Clone, Copy, Default)]
pub struct Offer<'a> {
    /// Shared parameters.
    pub models: &'a [&'a [f64]],
    /// Weights of the fits around them, learned from all users.
    pub prior: Option<&'a ModelPrior>,
}

/// Released shared parameters that users choose from: for classes, whose fits have no closed form,
/// only those of the last round.
pub fn offered<'a>(
    task: Task,
    kept: impl Iterator<Item = &'a [f64]>,
    last: &'a [f64],
) -> Vec<&'a [f64]> {
    let kept = kept.filter(|&shared| task == Task::Regression && shared != last);
    kept.chain([last]).collect()
}

/// The same for a model in memory.
pub fn offered_by(task: Task, model: &SharedModel) -> Vec<&[f64]> {
    let kept = model.kept().iter().map(|kept| kept.shared.as_slice());
    offered(task, kept, model.last())
}

/// Number of rows, over all users, that a model without privacy is fitted to.
const POOLED_ROWS: usize = 1 << 14;

/// One model for all users without privacy, trained to convergence, for comparison. None if there
/// are no rows.
///
/// # Errors
/// When the data do not fit the inputs.
pub fn pooled(inputs: &Inputs, users: &Users) -> Result<Option<Vec<f64>>> {
    let n_users = users.samples().users().len();
    let each = POOLED_ROWS.div_ceil(n_users.max(1));
    let most = each.min(users.samples().max_rows()) * n_users;
    if most == 0 || most > MOST_ROWS {
        return Ok(None);
    }
    let mut all = UserSamplesBuilder::new(inputs.dim(), most).map_err(dp_fedsgd::Error::from)?;
    for rows in users.samples().users() {
        for (x, y) in rows.iter().take(each) {
            all.push(0, x, y).map_err(dp_data::Error::from)?;
        }
    }
    let all = all.build().0;
    let fit = WeighedFit::new(inputs.loss(), OwnLevel::None)?;
    let nothing = SharedParts::default();
    let rows = all.users().next();
    Ok(rows.map(|rows| fit.fit(&nothing, rows).coefficients().to_vec()))
}

/// Whether users have a model by their own choice in addition to the one from the run.
pub fn users_choose(inputs: &Inputs) -> bool {
    inputs.users_weigh() || inputs.task == Task::Regression
}

/// A user's personal model around what is offered: a weighted mean of fits; or, for regression with penalties in the
/// inputs, the choice of a round, a weight on it and a ridge penalty.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn chosen(inputs: &Inputs, offer: Offer<'_>, users: &Users, user: usize) -> Result<Personal> {
    if inputs.users_weigh() {
        let shared = SharedParts {
            models: offer.models,
            model_prior: offer.prior,
            ..SharedParts::default()
        };
        return Ok(users.weighed(user, &inputs.weighed_fit()?, &shared));
    }
    let nothing = vec![0.0; inputs.dim()];
    let (offered, weights) = match offer.models {
        [] => (&[nothing.as_slice()][..], &[0.0][..]),
        some => (some, &WEIGHTS[..]),
    };
    let model = choice(inputs, weights)?.choose(offered, &rows(inputs, users, user));
    Ok(users.with_coefficients(user, model.coefficients))
}

/// If the level is the user's own, rows are centred at the user's means, and a row that is left out
/// must not affect these.
fn choice(inputs: &Inputs, weights: &[f64]) -> Result<LocalChoice> {
    let choice = LocalChoice::new(weights.to_vec(), L2_PENALTIES.to_vec())?;
    Ok(match inputs.intercept {
        Intercept::Own => choice.with_own_level(),
        Intercept::Shared | Intercept::None => choice,
    })
}

/// The rows on which a user's choice is based.
fn rows(inputs: &Inputs, users: &Users, user: usize) -> Minibatch {
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

/// Coefficients of a user who was not in training: the local steps of the run at its released last
/// round.
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
    // the number of users matters only for the noisy sum
    let own = settings
        .fit(alpha, 1.0)?
        .fold_in(&objective, shared, &rows)?;
    Ok(sums(shared, &own))
}
