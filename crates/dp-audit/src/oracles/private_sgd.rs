use dp_accounting::Plan;
use dp_core::{Interactions, UserSamples, UserSamplesBuilder, params};
use dp_fedsgd::{
    BatchReduction, Client, ClientPolicy, ClientRecord, ClipSchedule, HeldBatches, LocalTraining,
    Participation, PersonalizedObjective, PpSgd, PpSgdModel, PpSgdTrainer, RoundMessage,
    UserBatches,
};
use dp_mechanism::{ClientSampling, Grid, Observed};

use crate::kernel::add;
use crate::trainer::{AuditedUsers, differs, failed, samples_of};
use crate::view::{Entries, View};
use crate::{AuditedTrainer, Oracle, Result, Watch};

/// Oracle for personalised private SGD (`dp-fedsgd`).
///
/// Only the releases are taken from the trainer. The oracle recomputes what the server would have
/// broadcast before each round from the releases and public settings: shared parameters, clip norm,
/// step sizes, public denominator. The expected contribution of each user is then the answer of a
/// [`Client`] to these messages, one user at a time and from that user's own rows. If a trainer's
/// denominator is not the public one, its last model does not follow from its releases and is
/// rejected. If a trainer uses anything private between rounds, or another user's local parameters,
/// its sums differ from the answers of the clients.
///
/// Trainer and clients share the code of a local step, so equality does not test that step:
/// gradients that are not clipped are the same on both sides. Such bugs are found by tests of how
/// much a round changes on neighbouring data, exactly and with rows that overflow.
///
/// Exact sums are filled in if all users take part in every round. Samples have no Gaussian
/// parameter, and their sums are secret even to an audit: see
/// [`contributions`](Self::contributions) and [`audit_epsilon`](crate::audit_epsilon).
#[derive(Debug, Clone, Copy)]
pub struct PpSgdOracle<'a, O> {
    fit: PpSgd,
    objective: &'a O,
    max_rows: usize,
    batch_size: usize,
}

/// Everything that one run released.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "views may hold private sums next to their releases"
)]
pub struct SgdRun {
    /// The rounds in order.
    pub rounds: Vec<SgdRound>,
    /// The shared parameters after the last round.
    pub shared: Vec<f64>,
}

/// One round of a run.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "views may hold private sums next to their releases"
)]
pub struct SgdRound {
    /// The message to clients before the round, which follows from the previous rounds.
    pub message: RoundMessage,
    /// The release.
    pub view: View,
}

impl<'a, O: PersonalizedObjective> AuditedTrainer<PpSgdTrainer<'a, O>, PpSgdOracle<'a, O>> {
    /// Personalised private SGD with the given `plan`, on at most `max_rows` rows per user,
    /// `batch_size` of them per step, checked by its oracle.
    #[must_use]
    pub fn on_batches(
        fit: PpSgd,
        objective: &'a O,
        plan: Plan,
        (max_rows, batch_size): (usize, usize),
    ) -> Self {
        let n_features = objective.n_features();
        let oracle = PpSgdOracle {
            fit,
            objective,
            max_rows,
            batch_size,
        };
        let trainer = AuditedTrainer::on(fit.with(objective), plan, move |table| {
            let shape = UserSamplesBuilder::new(n_features, max_rows)?.build().0;
            let samples = samples_of(table, &shape)?;
            let batches = HeldBatches::owning(samples, batch_size).map_err(failed)?;
            Ok(Box::new(batches) as Box<dyn UserBatches + 'a>)
        });
        trainer.checked_by(oracle)
    }
}

impl<'a, O: PersonalizedObjective> PpSgdOracle<'a, O> {
    /// The messages and the model that follow from the releases of a run.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] if a noise multiplier does not fit a grid.
    pub fn read(&self, views: &[View]) -> Result<SgdRun> {
        let mut shared = vec![0.0; self.objective.n_shared()];
        let mut clip_norm = first_norm(self.fit.params().clip);
        let mut rounds = Vec::new();
        for (round, view) in (1..).zip(views) {
            let message = self.message(round, &shared, clip_norm, view.noise_multiplier);
            let grid = message.grid().map_err(failed)?;
            clip_norm = self.step(&message, view, &grid, &mut shared);
            let view = view.clone();
            rounds.push(SgdRound { message, view });
        }
        Ok(SgdRun { rounds, shared })
    }

    fn message(&self, round: u32, shared: &[f64], clip_norm: f64, z: f64) -> RoundMessage {
        let params = self.fit.params();
        RoundMessage {
            run: "audit".to_owned(),
            round,
            shared: shared.to_vec(),
            clip_norm,
            noise_multiplier: z,
            local_rate: self.fit.step_sizes(round as usize).0,
            sum_rows: matches!(params.reduction, BatchReduction::Sum { .. }),
            everybody_trains: params.local_training == LocalTraining::EveryRound,
            share_within: matches!(params.clip, ClipSchedule::Quantile { .. }),
            count_clients: params.minimum_clients.is_some(),
            extra_share: params.extra_share,
        }
    }

    /// Applies the step of a release, and returns the clip norm of the next round.
    fn step(&self, message: &RoundMessage, view: &View, grid: &Grid, shared: &mut [f64]) -> f64 {
        let params = self.fit.params();
        let values: Vec<f64> = view.integers.iter().map(|&y| grid.dequantise(y)).collect();
        let (gradient, extras) = values.split_at(shared.len().min(values.len()));
        let extra = |at: usize| {
            extras
                .get(at)
                .map(|v| v / (params.extra_share * message.clip_norm))
        };
        let count = extra(usize::from(message.share_within));
        let enough = params
            .minimum_clients
            .is_none_or(|least| count.is_some_and(|c| c >= least));
        if !enough {
            return message.clip_norm;
        }
        let rows = match params.reduction {
            BatchReduction::Mean => 1.0,
            BatchReduction::Sum { rows_per_user } => rows_per_user,
        };
        let rate = self.fit.step_sizes(message.round as usize).1 / (self.expected_clients() * rows);
        for (w, value) in shared.iter_mut().zip(gradient) {
            *w -= rate * value;
        }
        let share = 0.5 + 0.5 * extra(0).unwrap_or(0.0) / self.expected_clients();
        next_norm(params.clip, message.clip_norm, share)
    }

    /// `q N`, `m` or `N`. Public.
    fn expected_clients(&self) -> f64 {
        let params = self.fit.params();
        match params.participation {
            Participation::Full => params.n_users,
            Participation::Sampled(ClientSampling::Poisson(poisson)) => {
                poisson.sampling_probability() * params.n_users
            }
            Participation::Sampled(ClientSampling::FixedSize(fixed)) => fixed.sample_size() as f64,
        }
    }

    /// What one user contributes in each round of a run: coordinate and integer; empty if `asked`
    /// is false for the round, counted from 0, because the user was not drawn.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] for a user that does not exist, or a run with other settings.
    pub fn contributions(
        &self,
        run: &SgdRun,
        data: &UserSamples,
        user: usize,
        asked: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Entries>> {
        let batches = HeldBatches::new(data, self.batch_size).map_err(failed)?;
        self.answers(run, &batches, user, asked)
    }

    fn answers(
        &self,
        run: &SgdRun,
        batches: &HeldBatches<'_>,
        user: usize,
        asked: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Entries>> {
        let record = ClientRecord::in_memory(ClientPolicy::trusting()).map_err(failed)?;
        let mut client =
            Client::new(self.objective, batches, user, user, record).map_err(failed)?;
        let rounds = run.rounds.iter().enumerate();
        let answers = rounds.map(|(at, round)| {
            let answer = client.receive(&round.message, asked(at)).map_err(failed)?;
            let integers = answer
                .update()
                .map_or_else(Vec::new, |answer| answer.integers);
            let entries = integers.into_iter().enumerate();
            Ok(entries.filter(|&(_, z)| z != 0).collect())
        });
        answers.collect()
    }

    /// What each user of a table contributes in each round in which all users take part.
    fn answers_of_all(&self, run: &SgdRun, table: &Interactions) -> Result<Vec<Vec<Entries>>> {
        let n_features = self.objective.n_features();
        let shape = UserSamplesBuilder::new(n_features, self.max_rows)?
            .build()
            .0;
        let samples = samples_of(table, &shape)?;
        let batches = HeldBatches::new(&samples, self.batch_size).map_err(failed)?;
        let users = 0..table.n_users();
        users
            .map(|user| self.answers(run, &batches, user, &|_| true))
            .collect()
    }
}

impl<O: PersonalizedObjective> Oracle<PpSgdModel> for PpSgdOracle<'_, O> {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<PpSgdModel> + 'a> {
        Box::new(Answers {
            oracle: self,
            users,
        })
    }

    /// Clients compute their own answers.
    fn trusts_contributions(&self) -> bool {
        false
    }
}

struct Answers<'a, 'o, O> {
    oracle: &'a PpSgdOracle<'o, O>,
    users: AuditedUsers<'a>,
}

impl<O: PersonalizedObjective> Watch<PpSgdModel> for Answers<'_, '_, O> {
    fn release(&mut self, _: &Observed<'_>) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, model: &PpSgdModel, views: &mut [View]) -> Result<()> {
        let run = self.oracle.read(views)?;
        let last = model.shared.last();
        params::same_size("shared parameters", last.len(), run.shared.len())?;
        if !run.shared.iter().zip(last).all(|(a, b)| near(*a, *b)) {
            return Err(differs("shared parameters that follow from the releases"));
        }
        if self.oracle.fit.params().participation != Participation::Full {
            return Ok(());
        }
        for each in self.oracle.answers_of_all(&run, self.users.data)? {
            for (view, entries) in views.iter_mut().zip(each) {
                add(&mut view.exact, &entries);
            }
        }
        for each in self.oracle.answers_of_all(&run, self.users.canaries)? {
            for (view, entries) in views.iter_mut().zip(each) {
                view.canaries.push(entries);
            }
        }
        Ok(())
    }
}

/// Equal up to the order of a few roundings.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// `C_1`.
const fn first_norm(clip: ClipSchedule) -> f64 {
    match clip {
        ClipSchedule::Constant { norm } => norm,
        ClipSchedule::Geometric { start, .. } | ClipSchedule::Quantile { start, .. } => start,
    }
}

/// `C_(t+1)` from `C_t` and the released fraction of users within it.
fn next_norm(clip: ClipSchedule, norm: f64, share_within: f64) -> f64 {
    match clip {
        ClipSchedule::Constant { norm } => norm,
        ClipSchedule::Geometric { ratio, floor, .. } => floor.max(ratio * norm),
        ClipSchedule::Quantile {
            quantile,
            rate,
            low,
            high,
            ..
        } => {
            let excess = share_within.clamp(0.0, 1.0) - quantile;
            (norm * (-rate * excess).exp()).clamp(low, high)
        }
    }
}
