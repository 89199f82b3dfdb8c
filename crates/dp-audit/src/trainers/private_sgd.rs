use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{ApproxDp, Gdp, Interactions, Private, ShapeError, UserSamples};
use dp_fedsgd::{
    AdditiveModel, BatchReduction, Client, ClipSchedule, HeldBatches, LocalTraining, Observed,
    ObservedSums, Observer, Participation, PersonalizedObjective, PpSgd, RoundMessage, Run,
    Trainer as _,
};
use dp_mechanism::{ClientSampling, Grid, NoiseSource};

use super::any::samples_of;
use super::failed;
use crate::view::{Entries, Layout, View};
use crate::{Result, Trainer};

/// Personalised private SGD (`dp-fedsgd`) under audit.
///
/// Nothing is taken from the trainer but what it released. What the server would have broadcast before each round is computed here once more from the releases
/// and public settings: shared parameters, clip norm, step sizes, public denominator. What each user adds is then what a [`Client`] answers
/// to these messages, one user at a time and from that user's own rows. A trainer whose denominator is not the public one has a last model that does not follow from
/// its releases, which is refused; one that looks at anything private between rounds, or at another user's local parameters, gives sums that differ from
/// what clients answer.
///
/// Trainer and clients share the code of a local step, so that equality says nothing of that step: gradients that are not clipped are the same on both
/// sides. They are found by what a round moves on neighbouring data, exact and with rows that overflow.
///
/// As a [`Trainer`] it wants everybody in every round. Samples have no Gaussian parameter and their sums are secret even to an audit: see
/// [`contributions`](Self::contributions) and [`audit_epsilon`](crate::audit_epsilon).
#[derive(Debug, Clone)]
pub struct AuditedPpSgd {
    fit: PpSgd,
    model: AdditiveModel,
    plan: Plan,
    max_rows: usize,
    batch_size: usize,
}

/// All that one run released.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "views may hold private sums next to their releases"
)]
pub struct SgdRun {
    /// The rounds in order.
    pub rounds: Vec<SgdRound>,
    /// The shared parameters after the last.
    pub shared: Vec<f64>,
}

/// One round of a run.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "views may hold private sums next to their releases"
)]
pub struct SgdRound {
    /// What clients are told before it: follows from the rounds before.
    pub message: RoundMessage,
    /// The release, its exact sum and canaries still empty.
    pub view: View,
}

impl AuditedPpSgd {
    /// A fit on at most `max_rows` rows a user, `batch_size` in a step, that is paid for by `plan`.
    #[must_use]
    pub const fn new(
        fit: PpSgd,
        model: AdditiveModel,
        plan: Plan,
        (max_rows, batch_size): (usize, usize),
    ) -> Self {
        Self {
            fit,
            model,
            plan,
            max_rows,
            batch_size,
        }
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One run on a ledger of its own.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit fails; [`crate::Error::Shape`] when it does not release what its plan lists, or when its
    /// model is not what follows from its releases.
    pub fn run(&self, data: &UserSamples, noise: &mut NoiseSource) -> Result<SgdRun> {
        let batches = HeldBatches::new(data, self.batch_size).map_err(failed)?;
        let budget = Budget::schedule(self.plan.target(), self.plan.adjacency())?;
        let spends: Vec<Spend> = Ledger::in_memory("audit", budget)?.reserve(&self.plan)?;
        let mut views = Views(Vec::new());
        let run = Run::new(&self.plan, spends, noise).map_err(failed)?;
        let fitted = self.fit.with(&self.model);
        let fitted = fitted
            .run(&batches, run.observed_by(&mut views))
            .map_err(failed)?;
        let (Views(views), planned) = (views, self.plan.releases().len());
        dp_core::params::same_size("releases seen", views.len(), planned)?;
        let run = self.read(views)?;
        let last = fitted.model.shared.last();
        dp_core::params::same_size("shared parameters", last.len(), run.shared.len())?;
        if !run.shared.iter().zip(last).all(|(a, b)| near(*a, *b)) {
            return Err(ShapeError {
                name: "shared parameters that follow from the releases",
                found: 0,
                expected: last.len(),
            }
            .into());
        }
        Ok(run)
    }

    /// The messages and the model that follow from the releases.
    fn read(&self, views: Vec<View>) -> Result<SgdRun> {
        let mut shared = vec![0.0; self.model.n_shared()];
        let mut clip_norm = first_norm(self.fit.params().clip);
        let mut rounds = Vec::new();
        for (round, view) in (1..).zip(views) {
            let message = self.message(round, &shared, clip_norm, view.noise_multiplier);
            let grid = message.grid().map_err(failed)?;
            clip_norm = self.step(&message, &view, &grid, &mut shared);
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

    /// The step that a release says, and the clip norm of the round after it.
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

    /// `q N`, `m` or `N`: public.
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

    /// What one user adds in each round of a run: coordinate and integer, nothing where `asked` says that the user was not drawn in that round, from 0.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] for a user that is not there, or a run of other settings.
    pub fn contributions(
        &self,
        run: &SgdRun,
        data: &UserSamples,
        user: usize,
        asked: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Entries>> {
        let batches = HeldBatches::new(data, self.batch_size).map_err(failed)?;
        let mut client = Client::new(&self.model, &batches, user, user).map_err(failed)?;
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

    /// The table as rows of users.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Data`] for settings that no table has.
    pub fn samples(&self, data: &Interactions) -> Result<UserSamples> {
        samples_of(data, self.model.n_features(), self.max_rows)
    }
}

impl Trainer for AuditedPpSgd {
    fn claim(&self) -> (ApproxDp, Gdp) {
        super::claim(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        let (data, canaries) = (self.samples(data.expose())?, self.samples(canaries)?);
        let run = self.run(&data, noise)?;
        let mut views: Vec<View> = run.rounds.iter().map(|round| round.view.clone()).collect();
        let always = &|_: usize| true;
        for user in 0..data.users().len() {
            let each = self.contributions(&run, &data, user, always)?;
            for (view, entries) in views.iter_mut().zip(each) {
                for (at, z) in entries {
                    view.exact[at] = view.exact[at].wrapping_add(z);
                }
            }
        }
        for canary in 0..canaries.users().len() {
            let each = self.contributions(&run, &canaries, canary, always)?;
            for (view, entries) in views.iter_mut().zip(each) {
                view.canaries.push(entries);
            }
        }
        Ok(views)
    }
}

/// The releases of a run.
struct Views(Vec<View>);

impl Observer for Views {
    fn release(&mut self, seen: &Observed<'_>) {
        let ObservedSums::Vector { grid, released, .. } = seen.sums else {
            return; // there is no other here, and one too few is refused
        };
        self.0.push(View {
            label: seen.labels[0].to_owned(),
            layout: Layout::Vector {
                sigma: grid.sigma(),
            },
            noise_multiplier: seen.noise_multipliers[0],
            integers: released.integers().to_vec(),
            exact: vec![0; released.len()],
            canaries: Vec::new(),
        });
    }
}

/// Equal but for the order of a few roundings.
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

/// `C_(t+1)` from `C_t` and the released share of users within it.
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
