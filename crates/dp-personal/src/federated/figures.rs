//! Errors of users' personal models. Everything here is computed from private data and stays with
//! the operator.

use dp_data::SampleUser;
use dp_fedsgd::PpSgdModel;
use dp_personalize::{ClassScores, zero_model};
use rayon::prelude::*;
use serde::Serialize;

use super::own_choice::{self, Offer};
use super::parts::{Group, PartedUser};
use crate::error::Result;
use crate::personal::{ClassFigures, Inputs, Personal, Task, scored};
use crate::quality::{Metric, Scored, UserValue};

/// One user's mean errors on their test rows, one for each model: private.
pub struct UserFigures {
    /// The user's id.
    pub id: String,
    /// Number of rows that the user trains on.
    pub n_history: usize,
    /// Number of test rows.
    pub n_test: usize,
    /// None if a model has no test row.
    pub errors: Vec<Option<f64>>,
    /// For classes, the scores behind the errors.
    pub scores: Vec<ClassScores>,
}

/// A model's errors over all users: private.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Name of the model.
    pub model: String,
    /// RMSE or accuracy over all test rows.
    pub over_rows: Option<f64>,
    /// Ends of its 95 % interval over users; none if fewer than two users have test rows.
    pub interval: Option<[f64; 2]>,
    /// The same for the median user.
    pub median_user: Option<f64>,
    /// For classes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassFigures>,
}

/// Coefficients of a training user, from the released and the personal part.
pub fn coefficients(model: &PpSgdModel, user: usize) -> Vec<f64> {
    sums(model.shared.last(), model.local.expose().last(user))
}

/// `w + theta`.
pub(super) fn sums(shared: &[f64], own: &[f64]) -> Vec<f64> {
    let both = shared.iter().zip(own);
    both.map(|(w, theta)| w + theta).collect()
}

/// Every user's mean loss of each run on the rows on which alphas are compared: squared error of
/// mapped targets, or the error rate, of the model that the user will have: by own choice around the
/// run's shared parameters if users choose. None for users without such rows; not finite where a
/// user's fit fails.
pub fn losses_of_users(
    inputs: &Inputs,
    group: &Group,
    runs: &[&PpSgdModel],
) -> Vec<Option<Vec<f64>>> {
    let loss = |score: f64, y: f32| match inputs.task {
        Task::Regression => (score - inputs.label(y)).powi(2),
        Task::Classification { .. } => inputs.error(score, y),
    };
    let of_user = |(at, user): (usize, &PartedUser)| {
        let losses = runs.iter().map(|model| {
            let rows = group.rows();
            let own = match own_choice::users_choose(inputs) {
                true => {
                    let offered = own_choice::offered_by(inputs.task, &model.shared);
                    let offer = Offer {
                        models: &offered,
                        prior: None,
                    };
                    own_choice::chosen(inputs, offer, rows, at).ok()
                }
                false => Some(rows.with_coefficients(at, coefficients(model, at))),
            };
            match own {
                Some(own) => mean_over(inputs, &own, &user.validation, &loss),
                None => Some(f64::NAN),
            }
        });
        losses.collect()
    };
    group.users().par_iter().enumerate().map(of_user).collect()
}

/// A user's mean error on their test rows, and for classes the scores behind it.
type OwnScore = (Option<f64>, ClassScores);

impl Figures {
    /// Errors of every user with `n_models` models; `coefficients(model, user)` returns the user's
    /// coefficients.
    ///
    /// # Errors
    /// When the data do not fit the inputs, or a fit fails.
    pub fn of_users(
        inputs: &Inputs,
        group: &Group,
        n_models: usize,
        coefficients: impl Fn(usize, usize) -> Result<Vec<f64>> + Sync,
    ) -> Result<Vec<UserFigures>> {
        let of_user = |(at, user): (usize, &PartedUser)| {
            let (mut errors, mut scores) = (Vec::new(), Vec::new());
            for model in 0..n_models {
                let own = group.rows().with_coefficients(at, coefficients(model, at)?);
                let (error, of_rows) = scored(inputs, &own, &user.test);
                errors.push(error);
                scores.push(of_rows);
            }
            Ok(UserFigures {
                id: user.test.id().to_owned(),
                n_history: user.history.rows(inputs.features.len()).len(),
                n_test: user.test.rows(inputs.features.len()).len(),
                errors,
                scores,
            })
        };
        group.users().par_iter().enumerate().map(of_user).collect()
    }

    /// Adds, for every user, the errors of the user's own choice from what was released, of a
    /// model from the user's own rows alone, if users average over fits, of their own choice from
    /// the same without noise, and of the mean of the user's labels. Nothing is spent on any of
    /// them.
    ///
    /// # Errors
    /// When the data do not fit the inputs, or a fit fails.
    pub fn add_own_choices(
        inputs: &Inputs,
        group: &Group,
        released: Offer<'_>,
        without_noise: Option<Offer<'_>>,
        users: &mut [UserFigures],
    ) -> Result<()> {
        let without_noise = without_noise.filter(|_| inputs.users_weigh());
        let all = [released, Offer::default()]
            .into_iter()
            .chain(without_noise);
        let all: Vec<Offer<'_>> = all.collect();
        let found = Self::own_choices(inputs, group, &all)?;
        let rows = group.all_rows(inputs)?;
        let zero = zero_model(inputs.dim());
        let parted = group.users().iter().enumerate();
        for ((figures, of_user), (at, user)) in users.iter_mut().zip(found).zip(parted) {
            let own_mean = scored(inputs, &rows.own_mean(at, &zero), &user.test);
            let (errors, scores): (Vec<_>, Vec<_>) = of_user.into_iter().chain([own_mean]).unzip();
            figures.errors.extend(errors);
            figures.scores.extend(scores);
        }
        Ok(())
    }

    /// Every user's mean error on their test rows, and for classes the scores, with the user's own
    /// choice from each of these offers of shared parameters; with an empty offer, from the user's
    /// own rows alone. The values of one user depend on that user's rows and the offers.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub(crate) fn own_choices(
        inputs: &Inputs,
        group: &Group,
        offers: &[Offer<'_>],
    ) -> Result<Vec<Vec<OwnScore>>> {
        let all_rows = inputs.users_weigh().then(|| group.all_rows(inputs));
        let all_rows = all_rows.transpose()?;
        let rows = all_rows.as_ref().unwrap_or_else(|| group.rows());
        let of_user = |(at, user): (usize, &PartedUser)| {
            let choose = |offer: &Offer<'_>| {
                let own = own_choice::chosen(inputs, *offer, rows, at)?;
                Ok(scored(inputs, &own, &user.test))
            };
            offers.iter().map(choose).collect()
        };
        group.users().par_iter().enumerate().map(of_user).collect()
    }

    /// Model number `at` over all users with test rows.
    pub fn over(inputs: &Inputs, users: &[UserFigures], at: usize, model: String) -> Self {
        let measured: Vec<(f64, usize)> = users
            .iter()
            .filter_map(|user| Some((user.errors.get(at).copied()??, user.n_test)))
            .collect();
        let n: usize = measured.iter().map(|(_, n)| n).sum();
        let total: f64 = measured.iter().map(|&(error, n)| error * n as f64).sum();
        let mut each: Vec<f64> = measured.iter().map(|&(error, _)| error).collect();
        each.sort_by(f64::total_cmp);
        Self {
            interval: Self::interval(inputs, users, at),
            model,
            over_rows: (n > 0).then(|| inputs.figure(total / n as f64)),
            median_user: each.get(each.len() / 2).map(|&e| inputs.figure(e)),
            classes: ClassFigures::of(users.iter().filter_map(|user| user.scores.get(at))),
        }
    }

    /// The first metric of the task for model number `at`, with its interval over users.
    pub(crate) fn scored(
        inputs: &Inputs,
        users: &[UserFigures],
        at: usize,
        model: String,
    ) -> Scored {
        let value = |user: &UserFigures| match user.errors.get(at).copied().flatten() {
            Some(error) => UserValue {
                total: error * user.n_test as f64,
                weight: user.n_test as f64,
            },
            None => UserValue::default(),
        };
        Scored {
            metric: Metric::of_task(inputs.task)[0],
            methods: vec![(model, users.iter().map(value).collect())],
        }
    }

    fn interval(inputs: &Inputs, users: &[UserFigures], at: usize) -> Option<[f64; 2]> {
        let of = Self::scored(inputs, users, at, String::new()).estimate(0)?;
        let (lower, upper) = (of.lower?, of.upper?);
        Some(match inputs.task {
            Task::Regression => [lower, upper],
            // accuracy, if the metric is the error rate
            Task::Classification { .. } => [1.0 - upper, 1.0 - lower],
        })
    }
}

/// Mean of a function of score and label over a user's rows, with scores by the user's
/// coefficients.
fn mean_over(
    inputs: &Inputs,
    personal: &Personal,
    rows: &SampleUser,
    of: &impl Fn(f64, f32) -> f64,
) -> Option<f64> {
    let (mut total, mut n, mut encoded) = (0.0, 0_usize, Vec::new());
    for (x, y) in rows.rows(inputs.features.len()) {
        inputs.encode(x, &mut encoded);
        total += of(personal.score(&encoded), y);
        n += 1;
    }
    (n > 0).then(|| total / n as f64)
}
