//! Training: rounds over the users of a table, whatever their sums are made by.

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Private, params};
use dp_mechanism::{Provenance, Round, Run, Trainer};

use super::local::{LocalStates, LocalStep, RoundWork};
use super::shared::SharedState;
use super::{LocalModels, LocalTraining, Participation, PpSgd, PpSgdModel};
use crate::objective::PersonalizedObjective;
use crate::{Result, UserBatches};

/// [`PpSgd`] with the loss that it minimises: made by [`PpSgd::with`].
///
/// Data are any [`UserBatches`]. A coordinator and a replay, which hold no users, pass the batches of an empty table
/// ([`UserSamples::without_users`](dp_core::UserSamples::without_users)); a worker passes those of its shard.
///
/// # Local parameters
/// A user's own `theta_i` follow from the user's own rows and the releases, so the run makes them again wherever it replays a list: in
/// a process that was started again, and in a worker. They are in [`PpSgdModel::local`] of the process that holds the user, and in no
/// other.
///
/// Where users train only in rounds in which they are asked
/// ([`LocalTraining::WhenAsked`](crate::LocalTraining::WhenAsked) under Poisson sampling), `theta_i` depend on the users' coins as well,
/// which no list holds. Such a run is not resumed: with releases to go on from, [`Trainer::run`] returns
/// [`NotResumable`](dp_mechanism::Error::NotResumable) before anything is paid. It can be replayed, since shared
/// parameters follow from releases alone; the model then has local parameters of nobody.
///
/// # Privacy
/// As for [`PpSgd`].
#[allow(missing_debug_implementations, reason = "may hold a function")]
pub struct PpSgdTrainer<'a, O> {
    fit: PpSgd,
    objective: &'a O,
    stopping: Option<PublicEarlyStopping<'a>>,
}

impl PpSgd {
    /// The trainer of these settings for a loss.
    #[must_use]
    pub const fn with<O: PersonalizedObjective>(self, objective: &O) -> PpSgdTrainer<'_, O> {
        PpSgdTrainer {
            fit: self,
            objective,
            stopping: None,
        }
    }

    /// Whether all users make a local step in every round.
    pub(super) fn everybody_trains(&self) -> bool {
        let params = self.params();
        params.local_training == LocalTraining::EveryRound
            || params.participation == Participation::Full
            || !self.releases()
    }
}

impl<'a, O: PersonalizedObjective> PpSgdTrainer<'a, O> {
    /// The same, which ends early by a loss on public data.
    #[must_use]
    pub fn stopping_early(mut self, stopping: PublicEarlyStopping<'a>) -> Self {
        self.stopping = Some(stopping);
        self
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &PpSgd {
        &self.fit
    }

    /// The sum over the users of a round: the one release of it.
    fn release(&self, work: &RoundWork<'_, O>, run: &mut Run<'_>) -> Result<Vec<f64>> {
        let (table, layout) = (work.batches.table(), work.step.layout);
        let norm = layout.whole_norm(work.step.clip_norm);
        #[cfg(privacy_mutants)]
        let norm = dp_core::mutants::pick("sgd-grid-without-clip", norm, 1.0);
        let shape = (layout.n_coordinates(), norm);
        let released = match self.fit.params().participation {
            Participation::Full => run.vector(table, shape, work)?,
            Participation::Sampled(sampling) => run.sampled_vector(sampling, table, shape, work)?,
        };
        Ok(released.values())
    }
}

impl<'a, O: PersonalizedObjective> Trainer for PpSgdTrainer<'a, O> {
    type Data = dyn UserBatches + 'a;
    type Model = PpSgdModel;
    type Error = crate::Error;

    /// The number of shared parameters.
    fn width(&self, _: &Self::Data) -> usize {
        self.objective.n_shared()
    }

    fn requests(&self, width: usize, _: Adjacency) -> Result<Requests> {
        self.fit.requests(width)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.fit.describe(certificate)
    }

    fn plan(&self, width: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        self.fit.plan(width, target, adjacency)
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<PpSgdModel> {
        let trains_here = self.fit.everybody_trains() || run.keeps_secret_state()?;
        let mut rounds = Rounds::new(&self.fit, self.objective, data)?;
        let mut patience = self.stopping.as_ref().map(Patience::of);
        for round in 1..=self.fit.params().n_rounds {
            if round > 1 && run.is_at_end()? {
                break; // a model of fewer rounds is a model
            }
            rounds.make(round, |work| self.release(work, run).map(Some))?;
            rounds.show(|end| run.round(end));
            let parameters = rounds.shared.parameters();
            if patience.as_mut().is_some_and(|p| p.is_over(parameters)) {
                break;
            }
        }
        if !trains_here {
            rounds.states = LocalStates::of_nobody();
        }
        Ok(rounds.into_model(run.provenance()))
    }
}

/// Rounds in progress: everybody's local parameters, and the shared ones.
pub(super) struct Rounds<'r, O> {
    fit: &'r PpSgd,
    objective: &'r O,
    batches: &'r dyn UserBatches,
    states: LocalStates,
    shared: SharedState,
}

impl<'r, O: PersonalizedObjective> Rounds<'r, O> {
    /// # Errors
    /// [`crate::Error::Shape`] when objective and data have other numbers of features.
    pub(super) fn new(
        fit: &'r PpSgd,
        objective: &'r O,
        batches: &'r dyn UserBatches,
    ) -> Result<Self> {
        params::same_size("features", batches.n_features(), objective.n_features())?;
        let (table, average) = (batches.table().expose(), fit.params().average);
        Ok(Self {
            states: LocalStates::new(table, objective.n_local(), average),
            shared: SharedState::new(fit, objective.n_shared()),
            fit,
            objective,
            batches,
        })
    }

    /// A round: local steps, the sum over the users from `sum`, or none, and the step of the shared parameters.
    ///
    /// Where everybody trains, everybody has made the local step of the round when it is over, whether or not `sum` asked for what the
    /// users add: of a release that is replayed from a list it asks nobody.
    pub(super) fn make(
        &mut self,
        round: usize,
        sum: impl FnOnce(&RoundWork<'_, O>) -> Result<Option<Vec<f64>>>,
    ) -> Result<()> {
        self.shared.begin_round(round);
        let work = RoundWork {
            objective: self.objective,
            batches: self.batches,
            states: &self.states,
            step: LocalStep {
                round,
                shared: self.shared.parameters(),
                clip_norm: self.shared.clip_norm(),
                rate: self.fit.step_sizes(round).0,
                reduction: self.fit.params().reduction,
                layout: self.fit.layout(self.objective.n_shared()),
            },
        };
        let everybody = self.fit.everybody_trains();
        // a step is made once: on one thread by the sum, as it comes to a user, otherwise before it, in smaller tasks
        let by_sum = rayon::current_num_threads() == 1;
        if everybody && !by_sum {
            work.train_all();
        }
        let values = sum(&work)?;
        if everybody && by_sum {
            work.train_all();
        }
        #[cfg(privacy_mutants)]
        let values = values.map(|values| {
            let n_users = self.batches.table().expose().n_users();
            let ratio = self.fit.params().n_users / n_users as f64;
            let ratio = dp_core::mutants::pick("sgd-denominator-true-n", 1.0, ratio);
            values.into_iter().map(|v| ratio * v).collect()
        });
        self.shared.end_round(self.fit, values);
        Ok(())
    }

    /// The round that is over, for an observer.
    pub(super) fn show(&self, to: impl FnOnce(&Round<'_>)) {
        let parameters = self.shared.parameters();
        to(&Round {
            round: self.shared.n_rounds(),
            parameters,
            shape: (1, parameters.len()),
            local: Some(&|user| self.states.theta(user)),
        });
    }

    pub(super) fn into_model(mut self, provenance: Provenance) -> PpSgdModel {
        let average = self.fit.params().average;
        let (last, averages) = self.states.collect(self.shared.n_rounds(), average);
        let local = LocalModels {
            n_users: self.states.n_users(),
            n_local: self.objective.n_local(),
            last,
            average: averages,
        };
        PpSgdModel {
            shared: self.shared.into_model(average, provenance),
            local: Private::new(local),
        }
    }
}

/// Ends a run when a loss on **public** data has not fallen for some rounds.
///
/// It is part of the trainer: whoever replays the releases stops after the same round.
///
/// # Privacy
/// The number of rounds is a released value. It follows from released models and `public_loss`, so it costs nothing more as long as
/// the data in `public_loss` are public: rows of the users that are being protected must not be in it. Where all rounds are paid for
/// before the first, rounds not made stay paid for.
///
/// # Examples
/// ```
/// use dp_fedsgd::{
///     AdditiveLoss, AdditiveModel, Adjacency, Budget, HeldBatches, Ledger, NoiseSource, PpSgdParams, PublicEarlyStopping,
///     Trainer, UserSamplesBuilder,
/// };
/// let mut users = UserSamplesBuilder::new(1, 1)?;
/// for user in 0..500 {
///     users.push(user, &[1.0], 3.0)?;
/// }
/// let samples = users.build().0;
/// let (model, rows) = (AdditiveModel::new(AdditiveLoss::Squared, 1)?, HeldBatches::new(&samples, 1)?);
/// let fit = PpSgdParams::new(1.0, 0.5, 1.0, 100, 500.0).check()?;
/// let stopping = PublicEarlyStopping::new(3, |w: &[f64]| (w[0] - 1.0).powi(2)); // far from 3, as public data may be
/// let trainer = fit.with(&model).stopping_early(stopping);
/// let plan = fit.plan_with_noise(1, 5.0, 1e-6, Adjacency::AddRemoveUser)?;
/// let spends = Ledger::in_memory("made data", Budget::new(plan.target(), plan.adjacency())?)?.reserve(&plan)?;
/// let fitted = trainer.fit(&rows, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert!(fitted.model.shared.n_rounds() < 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(missing_debug_implementations, reason = "holds a function")]
pub struct PublicEarlyStopping<'a> {
    patience: usize,
    public_loss: Box<PublicLoss<'a>>,
}

/// A loss on public data, of shared parameters.
type PublicLoss<'a> = dyn Fn(&[f64]) -> f64 + Send + Sync + 'a;

impl<'a> PublicEarlyStopping<'a> {
    /// Stops after `patience` rounds in a row (at least one) without a new least value of `public_loss`, a function of the shared
    /// parameters and of public data.
    pub fn new(patience: usize, public_loss: impl Fn(&[f64]) -> f64 + Send + Sync + 'a) -> Self {
        Self {
            patience,
            public_loss: Box::new(public_loss),
        }
    }
}

/// Where early stopping stands in a run.
struct Patience<'s> {
    stopping: &'s PublicEarlyStopping<'s>,
    best: f64,
    since: usize,
}

impl<'s> Patience<'s> {
    fn of(stopping: &'s PublicEarlyStopping<'_>) -> Self {
        Self {
            stopping,
            best: f64::INFINITY,
            since: 0,
        }
    }

    /// Whether to stop after the round that left these parameters.
    fn is_over(&mut self, shared: &[f64]) -> bool {
        let loss = (self.stopping.public_loss)(shared);
        if loss < self.best {
            (self.best, self.since) = (loss, 0);
        } else {
            self.since += 1;
        }
        self.since >= self.stopping.patience.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_after_rounds_without_a_new_best() {
        let stopping = PublicEarlyStopping::new(2, |w: &[f64]| (w[0] - 1.0).powi(2));
        let mut patience = Patience::of(&stopping);
        let path = [0.0, 0.7, 0.9, 0.8, 0.85, 0.95];
        let stopped = path.iter().position(|&w| patience.is_over(&[w]));
        assert_eq!(stopped, Some(4));
    }
}
