//! The runs of all alphas and the choice among them, as one trainer on data that are read once.

use std::cell::{OnceCell, RefCell};
use std::ops::ControlFlow;

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{
    Adjacency, Interactions, InteractionsBuilder, Private, UserRow, UserSamples, UserSamplesBuilder,
};
use dp_fedsgd::{AlphaSelection, N_USERS_IS_PUBLIC, Observer, PpSgdModel, Progress, Round};
use dp_mechanism::{Run, Trainer};
use dp_personalize::{ModelPrior, ModelVotes};
use serde::{Deserialize, Serialize};

use super::source::{Source, UserRows};
use crate::devices::Devices;
use crate::error::{Error, Result};
use crate::federated::{
    Convergence, DescribedItems, Figures, HoldOut, Offer, Parts, RunSettings, Spending,
    Trainer as AlphaTrainer, Turning, UserFigures, coefficients, folded_in, losses_of_users,
    offered_by, pooled,
};
use crate::metric_release::{LearntUnit, OwnMetrics};
use crate::personal::Inputs;
use crate::watch::Watched;
use crate::workflows::personalize::INTERNAL_REPORT;
use crate::workflows::private_run::HasTable;

/// Public settings of all runs and of the choice among them.
pub(crate) struct AllRuns {
    pub(crate) spending: Spending,
    pub(crate) inputs: Inputs,
    pub(crate) shape: Shape,
    /// The operator's assumptions.
    pub(crate) assumptions: Vec<String>,
}

/// Inputs that determine the runs in addition to their settings.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// As numbers, which JSON supports except for infinity.
    #[serde(with = "alphas_as_json")]
    pub(crate) alphas: Vec<f64>,
    pub(crate) delta: f64,
    /// The declared number, including held-out users; if there is none, users are counted.
    #[serde(rename = "declared_users")]
    pub(crate) n_users: Option<f64>,
    /// The range of a user's losses; larger differences are clipped.
    pub(crate) loss_range: f64,
    pub(crate) shares: HoldOut,
    pub(crate) max_rows: usize,
    pub(crate) split_seed: u64,
}

mod alphas_as_json {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use crate::federated::{alpha_of, alpha_value};

    pub(super) fn serialize<S: Serializer>(alphas: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let values: Vec<Value> = alphas.iter().copied().map(alpha_value).collect();
        values.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Value>::deserialize(from)?;
        let alphas = values.iter().map(alpha_of);
        let alphas: Option<Vec<f64>> = alphas.collect();
        alphas.ok_or_else(|| D::Error::custom("an alpha that is not a number"))
    }
}

/// The data as read, and from the first rounds on the training rows.
pub(crate) struct Rows {
    /// None if the model follows from a release list.
    source: RefCell<Option<Source>>,
    /// Where the users are, if they are not here.
    devices: RefCell<Option<Box<dyn Devices>>>,
    made: OnceCell<TrainingData>,
    /// The users without their rows.
    users: Option<UserSamples>,
}

/// The training data of a run.
pub(super) struct TrainingData {
    /// For ratings.
    pub(super) items: Option<DescribedItems>,
    pub(super) parts: Parts,
    pub(super) n_left_out: usize,
}

impl Rows {
    pub(super) fn of(source: Source, devices: Option<Box<dyn Devices>>) -> Result<Self> {
        let mut users = UserSamplesBuilder::new(1, 1)?;
        for (number, id) in (0..).zip(source.row_ids().expose()) {
            users.set_id(number, dp_data::user_key(id));
        }
        Ok(Self {
            source: RefCell::new(Some(source)),
            devices: RefCell::new(devices),
            made: OnceCell::new(),
            users: Some(users.build().0),
        })
    }

    pub(crate) const fn of_nobody() -> Self {
        Self {
            source: RefCell::new(None),
            devices: RefCell::new(None),
            made: OnceCell::new(),
            users: None,
        }
    }
}

/// The rows are created from the source when the run begins; the users are known before.
impl HasTable for Rows {
    fn table(&self) -> Option<&Private<Interactions>> {
        self.users.as_ref().map(UserSamples::table)
    }
}

/// The trained models: released parameters of every run, users' personal parameters, the index of
/// the chosen run, and the prior of users' own fits around it.
pub(crate) struct AllModels {
    pub(crate) private: Vec<PpSgdModel>,
    pub(crate) chosen: usize,
    pub(crate) prior: Option<ModelPrior>,
    n_users: f64,
}

impl LearntUnit for AllModels {}

impl Trainer for AllRuns {
    type Data = Rows;
    type Model = AllModels;
    type Error = Error;

    /// The number of shared parameters.
    fn width(&self, _: &Rows) -> usize {
        self.inputs.dim()
    }

    fn requests(&self, width: usize, _: Adjacency) -> Result<Requests> {
        self.spending.requests(width, self.shape.delta)
    }

    /// One certificate of everything that was released.
    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let has_choice = self.spending.choice.is_some();
        let mut builder = certificate
            .released_output(
                "shared parameters of all runs after every round, settings",
                "anyone",
            )
            .not_covered("local parameters, which stay with their users")
            .not_covered(INTERNAL_REPORT)
            .tuning_included(has_choice);
        if has_choice {
            builder = builder.released_output("which alpha was chosen", "anyone");
        }
        if self.spending.has_votes {
            builder = builder.released_output(
                "prior of personal fits: noisy sums of users' votes on it",
                "anyone",
            );
        }
        if self.spending.counts_users {
            builder = builder.released_output("noisy number of users", "anyone");
        }
        if self.spending.n_items.is_some() {
            builder = builder.released_output("noisy counts of the ratings of items", "anyone");
        }
        // the assumptions of a run are the same for every alpha above 0
        if let Ok(fit) = self.spending.settings.fit(1.0, 1.0) {
            let said = fit.assumptions().filter_map(|said| match said {
                // the count is among the releases
                N_USERS_IS_PUBLIC if self.spending.counts_users => None,
                N_USERS_IS_PUBLIC => Some("the declared number of users is public"),
                other => Some(other),
            });
            builder = said.fold(builder, CertificateBuilder::assumption);
        }
        let said = self.assumptions.iter().cloned();
        said.fold(builder, CertificateBuilder::assumption)
    }

    fn train(&self, data: &Rows, run: &mut Run<'_>) -> Result<AllModels> {
        let Shape { shares, .. } = self.shape;
        let UserRows {
            users,
            items,
            n_left_out,
        } = match data.source.take() {
            Some(source) => source.into_rows(run)?,
            None => UserRows::of_nobody(self.spending.n_items, run)?,
        };
        let (max_rows, seed) = (self.shape.max_rows, self.shape.split_seed);
        let parts = Parts::new(&self.inputs, users, shares, max_rows, seed)?;
        let made = data.made.get_or_init(|| TrainingData {
            items,
            parts,
            n_left_out,
        });
        let samples = made.parts.trained.rows().samples();
        // the public share of the declared users that is trained on, or a noisy count of the
        // training users
        let n_users = match self.shape.n_users {
            None => run.count(samples.table())?.value().max(1.0),
            Some(declared) => declared * (1.0 - shares.held_out_users),
        };
        let trainer =
            AlphaTrainer::new(self.spending.settings, &self.inputs, &made.parts, n_users)?;
        let alphas = self.shape.alphas.iter();
        let private = alphas
            .map(|&alpha| match &mut *data.devices.borrow_mut() {
                Some(devices) => trainer.along_devices(alpha, (&mut **devices, max_rows), run),
                None => trainer.along(alpha, self.spending.has_several_runs(), run),
            })
            .collect::<Result<Vec<_>>>()?;
        let chosen = match &self.spending.choice {
            Some(selection) => {
                let all: Vec<&PpSgdModel> = private.iter().collect();
                let losses = losses_of_users(&self.inputs, &made.parts.trained, &all);
                let of = Choice {
                    n_runs: all.len(),
                    range: self.shape.loss_range,
                };
                of.choose(selection, &losses, run)?
            }
            None => 0,
        };
        let votes = private.get(chosen).filter(|_| self.spending.has_votes);
        let votes = votes.map(|model| {
            let models = offered_by(self.inputs.task, &model.shared);
            let fit = self.inputs.weighed_fit()?;
            let models = &models;
            Ok::<_, Error>(ModelVotes { fit, models }.release(samples, run)?)
        });
        let prior = votes.transpose()?;
        Ok(AllModels {
            private,
            chosen,
            prior,
            n_users,
        })
    }
}

impl AllRuns {
    /// Users' scores by their own choice given the chosen run's released parameters, and by their
    /// own rows alone: from released values and each user's own rows.
    pub(super) fn scored(
        &self,
        rows: &Rows,
        models: &AllModels,
    ) -> Result<Vec<Option<OwnMetrics>>> {
        let mut all = Vec::new();
        let (Some(made), Some(model)) = (rows.made.get(), models.private.get(models.chosen)) else {
            return Ok(all);
        };
        let offered = offered_by(self.inputs.task, &model.shared);
        let released = Offer {
            models: &offered,
            prior: models.prior.as_ref(),
        };
        for group in [&made.parts.trained, &made.parts.held_out] {
            let errors = Figures::own_choices(&self.inputs, group, &[released, Offer::default()])?;
            let users = group.users().iter().zip(errors);
            all.extend(users.map(|(user, errors)| {
                let is_tested = user.test.rows(self.inputs.features.len()).len() > 0;
                let error = |at: usize| errors.get(at).and_then(|of| of.0);
                is_tested.then(|| OwnMetrics {
                    model: vec![error(0)],
                    baseline: error(1),
                })
            }));
        }
        Ok(all)
    }
}

/// Measures rounds as they end, and shows the run to the caller of the workflow.
pub(super) struct Measured<'a> {
    pub(super) watched: Option<Watched<'a>>,
    /// If errors after rounds are wanted, for internal files.
    pub(super) convergence: Option<&'a mut Convergence>,
    pub(super) turning: &'a mut Turning,
    /// Settings of every run.
    pub(super) settings: &'a RunSettings,
    pub(super) alphas: &'a [f64],
    pub(super) inputs: &'a Inputs,
    pub(super) rows: &'a Rows,
}

impl Observer for Measured<'_> {
    fn reads_users(&self) -> bool {
        false
    }

    fn round(&mut self, round: &Round<'_>) {
        if round.round == 1 {
            let alpha = self.alphas.get(self.turning.n_runs()).copied();
            let longest = self.settings.longest_step(alpha.unwrap_or(0.0));
            self.turning.begin_run(longest.unwrap_or(0.0));
        }
        self.turning
            .note(round.round, self.settings.n_rounds, round.parameters);
        if let (Some(convergence), Some(made)) = (&mut self.convergence, self.rows.made.get()) {
            if round.round == 1 {
                convergence.begin_run();
            }
            convergence.measure(self.inputs, &made.parts.trained, round);
        }
    }

    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        match &mut self.watched {
            Some(watched) => watched.progress(at),
            None => ControlFlow::Continue(()),
        }
    }
}

/// All runs, private and without noise, with their training data.
pub(super) struct Runs {
    pub(super) of: AllRuns,
    pub(super) made: TrainingData,
    pub(super) models: AllModels,
    without_noise: Vec<PpSgdModel>,
    /// One model for all users, without noise, trained to convergence.
    pooled: Option<Vec<f64>>,
}

impl Runs {
    /// None if nothing was trained.
    pub(super) fn new(of: AllRuns, rows: Rows, models: AllModels) -> Option<Self> {
        Some(Self {
            of,
            made: rows.made.into_inner()?,
            models,
            without_noise: Vec::new(),
            pooled: None,
        })
    }

    /// Trains the same runs without noise.
    pub(super) fn compare(&mut self) -> Result<()> {
        let (settings, n_users) = (self.of.spending.settings, self.models.n_users);
        let trainer = AlphaTrainer::new(settings, &self.of.inputs, &self.made.parts, n_users)?;
        let runs = self.of.shape.alphas.iter();
        self.without_noise = runs
            .map(|&alpha| trainer.without_noise(alpha))
            .collect::<Result<_>>()?;
        self.pooled = pooled(&self.of.inputs, self.made.parts.trained.rows())?;
        Ok(())
    }

    /// Errors of all training users: for the private runs, and then for those without noise.
    pub(super) fn measure(&self) -> Result<Vec<UserFigures>> {
        let all = self.all();
        let own = |run: usize, user: usize| Ok(coefficients(all[run], user));
        Figures::of_users(&self.of.inputs, &self.made.parts.trained, all.len(), own)
    }

    /// The same for users who join after all releases.
    pub(super) fn measure_held_out(&self) -> Result<Vec<UserFigures>> {
        let (all, held_out) = (self.all(), &self.made.parts.held_out);
        let (inputs, alphas) = (&self.of.inputs, &self.of.shape.alphas);
        let own = |run: usize, user: usize| {
            let alpha = alphas[run % alphas.len()];
            let shared = all[run].shared.last();
            let settings = &self.of.spending.settings;
            folded_in(inputs, settings, alpha, shared, held_out.rows(), user)
        };
        Figures::of_users(inputs, held_out, all.len(), own)
    }

    /// The candidates without noise: the run of this alpha, and one model for all.
    pub(super) fn without_noise(&self, alpha: usize) -> Option<Vec<&[f64]>> {
        let run = self.without_noise.get(alpha)?;
        let mut offered = offered_by(self.of.inputs.task, &run.shared);
        offered.extend(self.pooled.as_deref());
        Some(offered)
    }

    /// The prior that users would learn around these models without noise.
    pub(super) fn prior_without_noise(&self, models: &[&[f64]]) -> Result<Option<ModelPrior>> {
        if !self.of.spending.has_votes {
            return Ok(None);
        }
        let fit = self.of.inputs.weighed_fit()?;
        let samples = self.made.parts.trained.rows().samples();
        Ok(Some(ModelVotes { fit, models }.non_private(samples)))
    }

    fn all(&self) -> Vec<&PpSgdModel> {
        let private = self.models.private.iter();
        private.chain(&self.without_noise).collect()
    }
}

/// Public settings of a choice.
pub(super) struct Choice {
    pub(super) n_runs: usize,
    /// The range of a user's losses; larger differences are clipped.
    pub(super) range: f64,
}

impl Choice {
    /// Selects a run by the users' losses on their own validation rows.
    ///
    /// A user's losses are centred at their mean and shifted to the middle of the range: a loss
    /// that is common to all alphas does not indicate which is best.
    ///
    /// # Privacy
    /// The losses are computed from the user's own rows and from released models, and the selection clamps them to the range.
    pub(super) fn choose(
        &self,
        selection: &AlphaSelection,
        losses: &[Option<Vec<f64>>],
        run: &mut Run<'_>,
    ) -> Result<usize> {
        let table = table_of(losses, self.n_runs, self.range)?;
        let loss = |user: UserRow<'_>, run: usize| f64::from(user.features()[run]);
        let among = selection.among(self.n_runs, loss);
        Ok(among.train(&table, run)?)
    }
}

/// A row for every user, including users without a loss.
fn table_of(
    losses: &[Option<Vec<f64>>],
    n_runs: usize,
    range: f64,
) -> Result<Private<Interactions>> {
    let mut builder = InteractionsBuilder::new(1).with_feature_dim(n_runs);
    for (user, losses) in (0..).zip(losses) {
        let cells = match losses {
            Some(losses) => centred(losses, range),
            None => vec![to_f32(0.5 * range); n_runs],
        };
        builder.push(user, 0, 1.0).map_err(dp_data::Error::from)?;
        builder
            .set_features(user, &cells)
            .map_err(dp_data::Error::from)?;
    }
    Ok(Private::new(builder.build().0))
}

/// Losses minus their mean, shifted to the middle of the range; a loss that is not finite is the
/// worst.
fn centred(losses: &[f64], range: f64) -> Vec<f32> {
    let finite: Vec<f64> = losses.iter().copied().filter(|l| l.is_finite()).collect();
    let mean = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
    let place = |&loss: &f64| {
        let moved = loss - mean + 0.5 * range;
        to_f32(if moved.is_finite() {
            moved.clamp(0.0, range)
        } else {
            range
        })
    };
    losses.iter().map(place).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "tables are in single precision"
)]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_alphas_lose_alike_does_not_count() {
        let close = |found: Vec<f32>, expected: [f32; 3]| {
            let gap = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            assert!(gap.fold(0.0, f32::max) < 1e-6, "{found:?}");
        };
        close(centred(&[7.0, 7.02, 6.98], 0.1), [0.05, 0.07, 0.03]);
        close(centred(&[0.0, 9.0, 0.0], 0.1), [0.0, 0.1, 0.0]);
        close(centred(&[1.0, f64::NAN, 1.0], 0.2), [0.1, 0.2, 0.1]);
        close(centred(&[f64::INFINITY; 3], 0.2), [0.2, 0.2, 0.2]);
    }
}
