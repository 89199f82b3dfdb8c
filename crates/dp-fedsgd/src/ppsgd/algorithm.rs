//! The method: what it computes, what it releases, the privacy cost, and the assumptions in its
//! certificate.

use dp_accounting::{CertificateBuilder, Plan, PlannedRelease, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError, Private, ReplaceFactor, params};
use dp_mechanism::{ClientSampling, Observer, Provenance, Round, Run, Trainer, try_grids};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::local::{LocalStates, LocalStep, RoundWork, StepScratch};
use super::shared::SharedState;
use super::{LocalModels, LocalTraining, Participation, PpSgdModel, PpSgdParams, RoundLayout};
use crate::objective::PersonalizedObjective;
use crate::{Result, UserBatches};

/// Personalised private SGD: shared parameters `w` move along a noisy sum of clipped user
/// gradients, each user's own `theta_i` along that user's gradient.
///
/// ```text
/// round t:  g_i = mean or sum over user i's minibatch of grad f(w_(t-1), theta_(i,t-1), .)
///           theta_(i,t) = theta_(i,t-1) - eta_local g_theta,i                               no clip, no noise
///           w_t = w_(t-1) - eta_global (sum_(i in A_t) clip(g_w,i, C_t) + z C_t N(0, I)) / (q N)
/// eta_global / eta_local = alpha
/// ```
///
/// Source: Bietti et al. 2022, Algorithms 1 ([`Participation::Full`](super::Participation::Full)),
/// 2 (sampled, [`BatchReduction::Sum`](super::BatchReduction::Sum)) and 3 (sampled, mean),
/// corrected (`docs/errata.md`). `alpha` is the paper's times the number of clients in a round.
///
/// # Privacy
/// Released to everybody: `w` after every round. Unit: the user with all rows. Local parameters go
/// only to their own users, so the whole is jointly private (billboard model): what user `i` learns
/// in addition to the releases is a function of `i`'s own data and coins. With samples of fixed
/// size those coins reveal something about the coins of others, see below.
///
/// **Sensitivity of a round.** Given the earlier releases, user `i` adds a vector of norm at most
/// `C_t sqrt(1 + a^2 k)` (`k` extra coordinates) or nothing: adding or removing a user moves the
/// sum by at most that norm, and replacing a user by at most twice that norm. The denominator is
/// public. Clients who drop out add 0, which is within the bound, and the noise does not change.
///
/// **Local parameters under sampling.** `theta_i` depends on whether `i` took part in earlier
/// rounds, which was not released, so the contribution to one round is not a function of data and
/// releases alone. For independent coins this does not matter. Fix the coins of all other users:
/// they carry no information about `i`, and then, given the releases so far, everything that others
/// may add is fixed, with or without `i` in the data. Given these, the next release without `i` is
/// `N(S, s^2)`; with `i` it is `(1 - q) N(S, s^2) + q E N(S + Z, s^2)`, where the mean is over
/// `i`'s earlier coins given the releases and `||Z|| <= D`: this round's coin is independent of
/// them. Differential privacy is defined through jointly convex divergences; by joint convexity
/// this mixture is no further from `N(S, s^2)` than for one worst-case `Z`, which is the pair
/// accounted for. For a replacement the same holds with the means over both users' coins.
/// Composition over rounds is conditional on the releases only, and not knowing the others' coins
/// makes nothing worse.
///
/// With samples of fixed size the others' coins do determine `i`'s: if the rest of a sample is one
/// short, `i` was in it. Then the local parameters of others, and with them what they add later,
/// would depend on `i` in a way that no bound on `i`'s own vector covers. For such samples every
/// client therefore trains in every round
/// ([`LocalTraining::EveryRound`](super::LocalTraining::EveryRound)), contributions are functions
/// of own data and releases, and the standard argument holds. It requires that clients who miss a
/// round do not miss it because they were, or were not, asked. Joint privacy is also weaker there:
/// a user knows whether they were asked, and a user who was not asked knows that the `m` who were
/// are among `n - 1`. Against one user the ratio is `m / (n - 1)` instead of `m / n`, against `k`
/// users who pool what they know `m / (n - k)`; the plan pays for `m / n`, against observers of the
/// releases alone. Independent coins carry no information about one another, so nothing changes for
/// them.
///
/// # Examples
/// ```
/// use dp_data::PersonalOffsets;
/// use dp_fedsgd::{
///     AdditiveLoss, AdditiveModel, Adjacency, ApproxDp, Budget, Ledger, NoiseSource, PpSgdParams, StreamedBatches, Trainer,
/// };
/// use rand::SeedableRng;
///
/// let set_up = PersonalOffsets { n_users: 400, dim: 10, ..PersonalOffsets::figure_1a() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let batches = StreamedBatches::new(&data.table, 10, |user, step, out| {
///     data.rows(user, step, 10, out.cells_mut());
/// });
/// let model = AdditiveModel::new(AdditiveLoss::Squared, 10)?;
///
/// let trainer = PpSgdParams::new(1.0, 0.8, 10.0, 40, 400.0).check()?.with(&model);
/// let (target, adjacency) = (ApproxDp::target(4.0, 1e-4)?, Adjacency::AddRemoveUser);
/// let plan = trainer.plan(10, target, adjacency)?;
/// let spends = Ledger::in_memory("made data", Budget::new(target, adjacency)?)?.reserve(&plan)?;
/// let fitted = trainer.fit(&batches, &plan, spends, &mut NoiseSource::operating_system())?;
///
/// let (shared, local) = (&fitted.model.shared, fitted.model.local.expose());
/// let risk = data.excess_risk(|user, theta| {
///     let both = shared.last().iter().zip(local.last(user));
///     theta.iter_mut().zip(both).for_each(|(t, (w, own))| *t = w + own);
/// });
/// assert!(risk < 30.0); // 293 on average for zeros
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PpSgd {
    params: PpSgdParams,
    /// Whether the labels of its releases contain alpha.
    names_alpha: bool,
}

impl PpSgd {
    pub(super) const fn new(params: PpSgdParams) -> Self {
        Self {
            params,
            names_alpha: false,
        }
    }

    /// The same with its alpha in the labels of its releases (`alpha 0.5: round 1`), for runs with
    /// several alphas.
    #[must_use]
    pub const fn naming_alpha(mut self) -> Self {
        self.names_alpha = true;
        self
    }

    fn label(&self, round: usize) -> String {
        match self.names_alpha {
            true => format!("alpha {}: round {round}", self.params.alpha),
            false => format!("round {round}"),
        }
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &PpSgdParams {
        &self.params
    }

    /// Local and global step size of round `t`, counted from 1.
    #[must_use]
    pub fn step_sizes(&self, round: usize) -> (f64, f64) {
        let (alpha, eta) = (self.params.alpha, self.params.learning_rate);
        let (local, global) = if alpha <= 1.0 {
            (eta, alpha * eta)
        } else {
            (eta / alpha, eta)
        };
        (
            local * self.params.local_schedule.factor(round),
            global * self.params.global_schedule.factor(round),
        )
    }

    /// Whether anything is released: false for `alpha = 0`.
    #[must_use]
    pub fn releases(&self) -> bool {
        self.params.alpha > 0.0
    }

    pub(crate) fn layout(&self, n_shared: usize) -> RoundLayout {
        RoundLayout {
            n_shared,
            within: self.params.clip.is_adaptive(),
            count: self.params.minimum_clients.is_some(),
            extra: self.params.extra_share,
        }
    }

    /// The releases of all rounds, for an objective with `n_shared` shared parameters, before the
    /// noise multiplier is determined.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for `alpha = 0`, which releases nothing: see [`train_alone`](Self::train_alone).
    pub fn requests(&self, n_shared: usize) -> Result<Requests> {
        self.check_releases()?;
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        let (fit, rounds) = (*self, 1..=self.params.n_rounds);
        let request =
            |round| ReleaseRequest::new(fit.label(round), 1.0, ReplaceFactor::Two, n_draws);
        Ok(match self.params.participation {
            Participation::Full => Requests::Shares(rounds.map(request).collect()),
            Participation::Sampled(_) => Requests::schedule(move |z| fit.planned(n_shared, z)),
        })
    }

    /// The plan of all rounds with the least noise that meets `target`, for an objective with
    /// `n_shared` shared parameters.
    ///
    /// Full participation is reserved on a [`Budget::new`](dp_accounting::Budget::new), sampled
    /// participation on a [`Budget::schedule`](dp_accounting::Budget::schedule).
    ///
    /// # Errors
    /// [`crate::Error::Param`] for `alpha = 0`; [`crate::Error::Accounting`] when the target cannot
    /// be met, and for a neighbouring relation that the scheme does not support (samples of fixed
    /// size: replacement only); [`crate::Error::Mechanism`] when the noise does not fit the
    /// kernel's grid.
    pub fn plan(&self, n_shared: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        let plan = self.requests(n_shared)?.calibrate(target, adjacency)?;
        self.fits_grids(n_shared, plan)
    }

    /// The plan of all rounds with a given noise multiplier (noise standard deviation on the sum,
    /// divided by the bound on a user's whole contribution), and the resulting guarantee at
    /// `delta`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn plan_with_noise(
        &self,
        n_shared: usize,
        noise_multiplier: f64,
        delta: f64,
        adjacency: Adjacency,
    ) -> Result<Plan> {
        self.check_releases()?;
        let rounds = self.planned(n_shared, noise_multiplier);
        let plan = Plan::with_noise_multipliers(delta, adjacency, rounds)?;
        self.fits_grids(n_shared, plan)
    }

    fn check_releases(&self) -> Result<()> {
        if self.releases() {
            return Ok(());
        }
        Err(ParamError {
            name: "alpha",
            value: self.params.alpha,
            expected: "above 0: at 0 users learn alone and nothing is released",
        }
        .into())
    }

    /// The event of a round, derived from the scheme that is run.
    fn event(&self, noise_multiplier: f64) -> DpEvent {
        let gaussian = DpEvent::gaussian(noise_multiplier);
        #[cfg(privacy_mutants)]
        if let Participation::Sampled(ClientSampling::Poisson(poisson)) = self.params.participation
            && dp_core::mutants::active("sgd-accounted-probability-halved")
        {
            let half = 0.5 * poisson.sampling_probability();
            return DpEvent::sampled_gaussian(noise_multiplier, half);
        }
        match self.params.participation {
            Participation::Full => gaussian,
            Participation::Sampled(sampling) => sampling.event(gaussian),
        }
    }

    fn planned(&self, n_shared: usize, noise_multiplier: f64) -> Vec<PlannedRelease> {
        let event = self.event(noise_multiplier);
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        let round = |round| PlannedRelease::new(self.label(round), event.clone(), n_draws);
        (1..=self.params.n_rounds).map(round).collect()
    }

    /// Checks that everything paid for can also be released, with the smallest and the largest
    /// clipping norm that a round may have.
    fn fits_grids(&self, n_shared: usize, plan: Plan) -> Result<Plan> {
        let layout = self.layout(n_shared);
        let norms = self.params.clip.extremes(self.params.n_rounds);
        let norms: Vec<f64> = norms.into_iter().map(|c| layout.whole_norm(c)).collect();
        try_grids(&plan, &norms)?;
        Ok(plan)
    }

    /// Completes a certificate: what is released to whom, and the trust assumptions.
    pub(crate) fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = certificate
            .released_output("shared parameters after every round, settings", "anyone")
            .not_covered("local parameters, which stay with their users")
            .tuning_included(false);
        self.assumptions().fold(certificate, |certificate, said| {
            certificate.assumption(said)
        })
    }

    /// The assumptions of a run's guarantee as listed in its certificate, for use in the
    /// certificate of several runs.
    pub fn assumptions(&self) -> impl Iterator<Item = &'static str> {
        let of_sampling: &[&str] = match self.params.participation {
            Participation::Full => &[N_USERS_IS_PUBLIC],
            Participation::Sampled(ClientSampling::Poisson(_)) => {
                &[N_USERS_IS_PUBLIC, SAMPLES_ARE_SECRET]
            }
            Participation::Sampled(ClientSampling::FixedSize(_)) => &[
                SAMPLES_ARE_SECRET,
                EVERYBODY_TRAINS,
                OWN_PARTICIPATION_IS_KNOWN,
            ],
        };
        let of_all = [
            "one person has one user id",
            "settings were not chosen by looking at this data set",
        ];
        of_all.into_iter().chain(of_sampling.iter().copied())
    }
}

/// The assumption that rounds make about the number of users they are given. It is too strong for
/// the certificate of a run that released a count of users itself, and too weak for one that was
/// given a public number.
pub const N_USERS_IS_PUBLIC: &str =
    "the declared number of users is public or was paid for elsewhere";
const SAMPLES_ARE_SECRET: &str = "who took part in which round stays secret";
const EVERYBODY_TRAINS: &str = "every client trains in every round, whether asked or not, and missing a round does not depend on being asked";
const OWN_PARTICIPATION_IS_KNOWN: &str = "the stated guarantee is against those who do not know who took part: \
    against a user who knows its own participation the sampling ratio is m/(n - 1), against k users who pool theirs m/(n - k), \
    for samples of m of n";

/// [`PpSgd`] with the loss that it minimises, created by [`PpSgd::with`].
///
/// The data can be any [`UserBatches`]. A coordinator and a replay, which hold no users, pass the
/// batches of an empty table ([`UserSamples::without_users`](dp_core::UserSamples::without_users));
/// a worker passes those of its shard.
///
/// # Local parameters
/// A user's own `theta_i` follow from the user's own rows and the releases, so the run recomputes
/// them whenever it replays a list: in a process that was restarted, and in a worker. They are in
/// [`PpSgdModel::local`] of the process that holds the user, and nowhere else.
///
/// Where users train only in rounds in which they are asked
/// ([`LocalTraining::WhenAsked`](crate::LocalTraining::WhenAsked) under Poisson sampling),
/// `theta_i` also depends on the users' coins, which no list contains. Such a run cannot be
/// resumed: if there are releases to resume from, [`Trainer::run`] returns
/// [`NotResumable`](dp_mechanism::Error::NotResumable) before anything is paid. It can be replayed,
/// because shared parameters follow from releases alone; the model then has no user's local
/// parameters.
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
    /// The same trainer with early stopping by a loss on public data.
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

    /// The sum over the users of a round, which is the round's only release.
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
                break; // a model after fewer rounds is still valid
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

/// Rounds in progress: the shared parameters and every user's local parameters.
pub(super) struct Rounds<'r, O> {
    fit: &'r PpSgd,
    objective: &'r O,
    batches: &'r dyn UserBatches,
    states: LocalStates,
    shared: SharedState,
}

impl<'r, O: PersonalizedObjective> Rounds<'r, O> {
    /// # Errors
    /// [`crate::Error::Shape`] when the objective and the data have different numbers of features.
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

    /// Runs a round: local steps, the sum over the users from `sum`, if there is one, and the step
    /// of the shared parameters.
    ///
    /// Where every client trains, every client has made the round's local step afterwards, whether
    /// or not `sum` requested the contributions: when a release is replayed from a list, it
    /// requests none.
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
        // each step is made once: on one thread by the sum, when it reaches the user; otherwise
        // before the sum, in smaller tasks
        let by_sum = dp_core::parallel::n_threads() == 1;
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

    /// Shows the finished round to an observer.
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

/// Ends a run when a loss on **public** data has not fallen for a number of rounds.
///
/// It is part of the trainer: a replay of the releases stops after the same round.
///
/// # Privacy
/// The number of rounds is a released value. It follows from released models and `public_loss`, so
/// it costs nothing more as long as the data in `public_loss` are public: they must not contain
/// rows of the users who are being protected. Where all rounds are paid for before the first,
/// rounds that are not run stay paid for.
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

/// A loss on public data, as a function of the shared parameters.
type PublicLoss<'a> = dyn Fn(&[f64]) -> f64 + Send + Sync + 'a;

impl<'a> PublicEarlyStopping<'a> {
    /// Stops after `patience` rounds in a row (at least one) without a new minimum of
    /// `public_loss`, a function of the shared parameters and of public data.
    pub fn new(patience: usize, public_loss: impl Fn(&[f64]) -> f64 + Send + Sync + 'a) -> Self {
        Self {
            patience,
            public_loss: Box::new(public_loss),
        }
    }
}

/// State of early stopping during a run.
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

    /// Whether to stop after the round that produced these parameters.
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

impl PpSgd {
    /// Trains every user alone, which is what `alpha = 0` means: local steps in all rounds, with
    /// shared parameters fixed at 0. An `observer` sees the rounds.
    ///
    /// # Privacy
    /// Nothing is released and nothing is spent: every user's model follows from that user's own
    /// rows and stays with the user.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for another `alpha`; [`crate::Error::Shape`] when objective and data do not belong together.
    ///
    /// # Examples
    /// ```
    /// use dp_fedsgd::{AdditiveLoss, AdditiveModel, HeldBatches, PpSgdParams, UserSamplesBuilder};
    /// let mut users = UserSamplesBuilder::new(1, 4)?;
    /// for user in 0..10_u8 {
    ///     users.push(user.into(), &[1.0], f32::from(user))?;
    /// }
    /// let samples = users.build().0;
    /// let (model, rows) = (AdditiveModel::new(AdditiveLoss::Squared, 1)?, HeldBatches::new(&samples, 4)?);
    /// let alone = PpSgdParams::new(0.0, 0.5, 1.0, 20, 10.0).check()?.train_alone(&model, &rows, &mut ())?;
    /// assert!((alone.local.expose().last(7)[0] - 7.0).abs() < 1e-3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn train_alone<O: PersonalizedObjective>(
        &self,
        objective: &O,
        data: &dyn UserBatches,
        observer: &mut dyn Observer,
    ) -> Result<PpSgdModel> {
        if self.releases() {
            return Err(ParamError {
                name: "alpha",
                value: self.params().alpha,
                expected: "0 to train every user alone",
            }
            .into());
        }
        let mut rounds = Rounds::new(self, objective, data)?;
        for round in 1..=self.params().n_rounds {
            rounds.make(round, |_| Ok(None))?;
            rounds.show(|end| observer.round(end));
        }
        Ok(rounds.into_model(Provenance::NotTrained))
    }

    /// Runs the same rounds with floating-point sums and floating-point noise of this multiplier (0
    /// for none): a baseline without privacy, and a way to measure the effect of noise at levels
    /// that no ledger would pay for. Samples and noise come from `rng`. With `alpha = 0` it is
    /// [`train_alone`](Self::train_alone).
    ///
    /// # Privacy
    /// None. The model is marked as not private.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when objective and data do not belong together; [`crate::Error::Param`] for a multiplier that is negative or not
    /// finite.
    pub fn simulate<O: PersonalizedObjective, R: Rng>(
        &self,
        objective: &O,
        data: &dyn UserBatches,
        noise_multiplier: f64,
        rng: &mut R,
    ) -> Result<PpSgdModel> {
        params::finite_non_negative("noise_multiplier", noise_multiplier)?;
        if !self.releases() {
            return self.train_alone(objective, data, &mut ());
        }
        let mut rounds = Rounds::new(self, objective, data)?;
        for round in 1..=self.params().n_rounds {
            let sum = |work: &RoundWork<'_, O>| {
                Ok(Some(self.float_sum(work, noise_multiplier, &mut *rng)))
            };
            rounds.make(round, sum)?;
        }
        Ok(rounds.into_model(Provenance::NonPrivate))
    }

    fn float_sum<O: PersonalizedObjective>(
        &self,
        work: &RoundWork<'_, O>,
        noise_multiplier: f64,
        rng: &mut dyn Rng,
    ) -> Vec<f64> {
        let table = work.batches.table().expose();
        let users = self.params().participation.draw(table.n_users(), rng);
        let mut sums = vec![0.0; work.step.layout.n_coordinates()];
        let mut scratch = StepScratch::new(work.batches.n_features());
        for user in users {
            if cfg!(debug_assertions) {
                scratch = StepScratch::new(work.batches.n_features());
            }
            work.add_to(table.user(user), &mut scratch, &mut sums);
        }
        let stddev = noise_multiplier * work.step.layout.whole_norm(work.step.clip_norm);
        if stddev > 0.0 {
            for sum in &mut sums {
                let normal: f64 = StandardNormal.sample(rng);
                *sum += stddev * normal;
            }
        }
        sums
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
