//! A user's rows as model inputs, and the user's personal model.

use dp_core::{SampleRows, UserSamples, UserSamplesBuilder};
use dp_data::SampleUser;
use dp_personalize::{
    ConvexLoss, LocalFit, OwnLevel, PersonalModel, SharedParts, Subspace, WeighedFit,
};

use super::inputs::{Inputs, Intercept, Task};
use crate::error::Result;

/// Users with their training rows as model inputs: every user has an index, including users without
/// usable rows.
pub struct Users {
    samples: UserSamples,
    centers: Vec<Center>,
}

/// Differences between a user's rows in a feature that count for little, where features are between -1 and 1: a fortieth of the range.
const RESOLUTION: f64 = 0.05;

impl Inputs {
    /// Whether users' own fits can have a prior that is learned from all users.
    pub fn has_prior(&self) -> bool {
        self.task == Task::Regression && self.users_weigh()
    }

    /// Whether it includes where users' levels lie: these are their own, and between -1 and 1.
    pub fn has_level_prior(&self) -> bool {
        self.has_own_levels() && self.target.range.is_some()
    }

    /// Whether it would include them if the target has a range.
    pub(crate) fn has_own_levels(&self) -> bool {
        self.has_prior() && self.intercept == Intercept::Own
    }
}

/// The user's own means, or zeros if levels are not the user's own.
#[derive(Clone)]
struct Center {
    x: Vec<f64>,
    y: f64,
    /// Standard deviation of the labels.
    deviation: f64,
    n_rows: usize,
}

impl Users {
    /// Uses the first `max_rows` rows of each history.
    ///
    /// # Errors
    /// When a user has more rows than `max_rows`, or rows of another width.
    pub fn new<'a>(
        inputs: &Inputs,
        histories: impl Iterator<Item = &'a SampleUser>,
        max_rows: usize,
    ) -> Result<Self> {
        Self::with_keys(inputs, histories, max_rows, |_| None, false)
    }

    /// The same, with a key for each user in training that follows from the id, so that the user's
    /// shard and coins are the same in any number of processes. Ids must differ.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn keyed<'a>(
        inputs: &Inputs,
        histories: impl Iterator<Item = &'a SampleUser>,
        max_rows: usize,
    ) -> Result<Self> {
        Self::with_keys(inputs, histories, max_rows, own_key, false)
    }

    /// The same with users' levels, if they are part of the prior of users' own fits.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn with_levels<'a>(
        inputs: &Inputs,
        histories: impl Iterator<Item = &'a SampleUser>,
        max_rows: usize,
    ) -> Result<Self> {
        Self::with_keys(
            inputs,
            histories,
            max_rows,
            own_key,
            inputs.has_level_prior(),
        )
    }

    /// The rows of one user, who may have none.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn of_one(
        inputs: &Inputs,
        history: Option<&SampleUser>,
        max_rows: usize,
    ) -> Result<Self> {
        let nobody = SampleUser::default();
        Self::new(inputs, [history.unwrap_or(&nobody)].into_iter(), max_rows)
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "tables of samples are in single precision"
    )]
    fn with_keys<'a>(
        inputs: &Inputs,
        histories: impl Iterator<Item = &'a SampleUser>,
        max_rows: usize,
        key: impl Fn(&SampleUser) -> Option<u128>,
        has_levels: bool,
    ) -> Result<Self> {
        let dim = inputs.dim();
        let (mut builder, mut centers) = (UserSamplesBuilder::new(dim, max_rows)?, Vec::new());
        if has_levels {
            builder = builder.with_levels();
        }
        for (number, history) in (0..).zip(histories) {
            let (rows, center) = framed(inputs, history, max_rows);
            if center.n_rows > 0 {
                builder.set_level(number, center.y as f32, center.deviation as f32);
            }
            centers.push(center);
            if let Some(key) = key(history) {
                builder.set_id(number, key);
            }
            // a row that is left out still makes its user known
            push(&mut builder, number, &vec![f32::NAN; dim], 0.0)?;
            for row in rows.chunks_exact(dim + 1) {
                push(&mut builder, number, &row[..dim], row[dim])?;
            }
        }
        Ok(Self {
            samples: builder.build().0,
            centers,
        })
    }

    /// The samples for training.
    pub const fn samples(&self) -> &UserSamples {
        &self.samples
    }

    /// The rows of one user, centred.
    pub fn rows(&self, user: usize) -> SampleRows<'_> {
        self.samples.rows(user)
    }

    /// Converts a model of centred rows to one of the user's rows.
    pub fn personal(&self, user: usize, model: &PersonalModel) -> Personal {
        self.with_coefficients(user, model.coefficients().to_vec())
    }

    /// The same from coefficients of centred rows.
    pub fn with_coefficients(&self, user: usize, coefficients: Vec<f64>) -> Personal {
        let Center { x, y, .. } = self.centers[user].clone();
        Personal { coefficients, x, y }
    }

    /// The mean of the user's labels, independent of the features; `zero` is the model with slopes
    /// 0.
    pub fn own_mean(&self, user: usize, zero: &PersonalModel) -> Personal {
        let mut personal = self.personal(user, zero);
        let (mut total, mut n) = (0.0, 0_usize);
        for (_, y) in self.rows(user).iter() {
            total += f64::from(y);
            n += 1;
        }
        // centred labels have mean 0
        personal.y += total / n.max(1) as f64;
        personal
    }

    /// Whether the user has rows.
    pub(crate) fn has_rows(&self, user: usize) -> bool {
        self.centers[user].n_rows > 0
    }

    /// The user's personal fit with a subspace.
    pub fn fit(&self, user: usize, own: &OwnFit, subspace: &Subspace) -> Personal {
        match own {
            OwnFit::Penalised(local) => self.personal(user, &local.fit(subspace, self.rows(user))),
            OwnFit::Weighed(weighed) => {
                let shared = SharedParts {
                    subspace: Some(subspace),
                    prior: subspace.user_prior(),
                    ..SharedParts::default()
                };
                self.weighed(user, weighed, &shared)
            }
        }
    }

    /// The user's weighted mean of fits with and without the shared part.
    pub fn weighed(&self, user: usize, fit: &WeighedFit, shared: &SharedParts<'_>) -> Personal {
        let Center { y, n_rows, .. } = self.centers[user];
        let prior = shared.prior.map(|prior| prior.relative_to(y));
        let shared = SharedParts {
            prior: prior.as_ref(),
            ..*shared
        };
        let rows = self.rows(user);
        let model = fit.fit(&shared, rows);
        let mut personal = self.personal(user, &model);
        // centred features of 0, as those of an only row, are no rows of a table
        personal.y += match &prior {
            Some(prior) if rows.iter().next().is_none() => prior.shrunk(0.0, n_rows),
            _ => model.level(),
        };
        personal
    }
}

/// How users fit their personal models.
#[derive(Debug)]
pub enum OwnFit {
    /// In the subspace, with given penalties.
    Penalised(LocalFit),
    /// With and without the subspace, weighted by the likelihood of the user's rows.
    Weighed(WeighedFit),
}

/// A key that follows from the user's id.
fn own_key(user: &SampleUser) -> Option<u128> {
    Some(dp_data::user_key(user.id()))
}

fn push(builder: &mut UserSamplesBuilder, user: u32, x: &[f32], y: f32) -> Result<()> {
    Ok(builder.push(user, x, y).map_err(dp_data::Error::from)?)
}

/// The rows `(x, y)` one after the other, minus the user's own means if the intercept is the user's
/// own.
#[allow(
    clippy::cast_possible_truncation,
    reason = "tables of samples are in single precision"
)]
fn framed(inputs: &Inputs, history: &SampleUser, max_rows: usize) -> (Vec<f32>, Center) {
    let dim = inputs.dim();
    let (mut cells, mut x) = (Vec::new(), Vec::new());
    for (features, y) in history.rows(inputs.features.len()).take(max_rows) {
        inputs.encode(features, &mut x);
        cells.extend_from_slice(&x);
        cells.push(inputs.label(y) as f32);
    }
    let mut mean = vec![0.0; dim + 1];
    if inputs.intercept == Intercept::Own {
        let n_rows = (cells.len() / (dim + 1)).max(1) as f64;
        for row in cells.chunks_exact(dim + 1) {
            mean.iter_mut()
                .zip(row)
                .for_each(|(m, &c)| *m += f64::from(c) / n_rows);
        }
        for row in cells.chunks_exact_mut(dim + 1) {
            row.iter_mut().zip(&mean).for_each(|(c, m)| *c -= *m as f32);
        }
    }
    let y = mean.pop().unwrap_or(0.0);
    let rows = cells.chunks_exact(dim + 1);
    let n_rows = rows.len();
    let squares: f64 = rows.map(|row| f64::from(row[dim]).powi(2)).sum();
    let center = Center {
        x: mean,
        y,
        deviation: (squares / n_rows.saturating_sub(1).max(1) as f64).sqrt(),
        n_rows,
    };
    (cells, center)
}

/// One user's model: visible to that user alone.
#[derive(Clone)]
pub struct Personal {
    coefficients: Vec<f64>,
    x: Vec<f64>,
    y: f64,
}

impl Personal {
    /// The score at encoded features of 0.
    pub fn level(&self) -> f64 {
        let terms = self.coefficients.iter().zip(&self.x);
        self.y - terms.map(|(t, x0)| t * x0).sum::<f64>()
    }

    /// The coefficients of encoded features.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The same model with scores increased by `shift`.
    pub fn shifted(mut self, shift: f64) -> Self {
        self.y += shift;
        self
    }

    /// The score of encoded features: `y + <x - x0, theta>`.
    pub fn score(&self, encoded: &[f32]) -> f64 {
        let terms = self.coefficients.iter().zip(encoded).zip(&self.x);
        self.y
            + terms
                .map(|((t, &x), x0)| t * (f64::from(x) - x0))
                .sum::<f64>()
    }
}

impl Inputs {
    /// Whether users average over fits of all strengths, with and without the shared part: they do
    /// if no penalties are given.
    pub const fn users_weigh(&self) -> bool {
        self.l2_penalties.is_empty()
    }

    /// The loss of the task.
    pub(crate) const fn loss(&self) -> ConvexLoss {
        match self.task {
            Task::Regression => ConvexLoss::Squared,
            Task::Classification { .. } => ConvexLoss::Logistic,
        }
    }

    /// The weighted mean of fits.
    ///
    /// # Errors
    /// Never for the losses of tasks.
    pub fn weighed_fit(&self) -> Result<WeighedFit> {
        let level = match self.intercept {
            Intercept::Own => OwnLevel::Free,
            Intercept::Shared => OwnLevel::Near,
            Intercept::None => OwnLevel::None,
        };
        let fit = WeighedFit::new(self.loss(), level)?;
        Ok(match self.has_ranges() {
            true => fit.with_resolution(RESOLUTION)?,
            false => fit,
        })
    }

    /// How users fit their personal models.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub fn local_fit(&self) -> Result<OwnFit> {
        if self.users_weigh() {
            return Ok(OwnFit::Weighed(self.weighed_fit()?));
        }
        Ok(OwnFit::Penalised(match self.task {
            Task::Regression => {
                let mut fit = LocalFit::leave_one_out(self.l2_penalties.clone())?;
                if self.intercept == Intercept::Own {
                    // rows are centred already, but a row that is left out must also be left out of
                    // the means
                    fit = fit.with_own_level()?;
                }
                match self.sparse {
                    0 => fit,
                    most => fit.with_sparse_residual(most)?,
                }
            }
            Task::Classification { .. } => {
                let penalty = self.l2_penalties.first().copied().unwrap_or(0.0);
                LocalFit::convex(ConvexLoss::Logistic, penalty)?
            }
        }))
    }
}
