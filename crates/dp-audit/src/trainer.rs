//! Audits the trainers of this workspace: planning, charging, running and observing the releases
//! are the same for all of them.

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{
    Adjacency, ApproxDp, Gdp, Interactions, Private, SampleRows, ShapeError, UserRow, UserSamples,
    UserSamplesBuilder, params,
};
use dp_mechanism::{
    Fitted, NoiseSource, Observed, ObservedSums, Observer, OffDiagonalNoise, Round, Run, Trainer,
};

use crate::kernel::{add, fill_grams, gram_views, vector_view};
use crate::view::{Entries, Layout, View};
use crate::{AuditedRun, Error, Result, claim_of};

/// A trainer under audit: its runs are observed together with the exact sums of each release.
///
/// The exact sums are computed from what each user contributes according to the trainer's own code.
/// A trainer whose contributions use private data between releases can agree with itself. Therefore
/// an [`Oracle`] can observe the same run and recompute the contributions with independent code
/// ([`checked_by`](Self::checked_by)).
///
/// # Examples
/// ```
/// use dp_audit::{AuditedTrainer, Canaries, RunSettings, audit_run};
/// use dp_core::{Adjacency, ApproxDp, InteractionsBuilder, Private};
/// # use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
/// # use dp_core::{Interactions, ReplaceFactor, UserRow};
/// # use dp_mechanism::{Error, NoiseSource, Run, SparseBuffer, Trainer, VectorContribution};
/// # struct Votes;
/// # impl VectorContribution for Votes {
/// #     type Scratch = ();
/// #     fn scratch(&self) {}
/// #     fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
/// #         out.extend(user.items().iter().take(1).map(|&item| (item, 1.0)));
/// #     }
/// # }
/// # struct FirstItems;
/// # impl Trainer for FirstItems {
/// #     type Data = Private<Interactions>;
/// #     type Model = Vec<f64>;
/// #     type Error = Error;
/// #     fn width(&self, users: &Private<Interactions>) -> usize { users.expose().n_items() }
/// #     fn requests(&self, n: usize, _: Adjacency) -> Result<Requests, Error> {
/// #         Ok(Requests::Shares(vec![ReleaseRequest::new("votes", 1.0, ReplaceFactor::Two, n as u64)]))
/// #     }
/// #     fn describe(&self, c: CertificateBuilder) -> CertificateBuilder { c.released_output("votes", "anyone") }
/// #     fn train(&self, users: &Private<Interactions>, run: &mut Run<'_>) -> Result<Vec<f64>, Error> {
/// #         Ok(run.vector(users, (self.width(users), 1.0), &Votes)?.values())
/// #     }
/// # }
/// // `FirstItems` counts the first item of every user: one vector, one vote to a user
/// let mut users = InteractionsBuilder::new(300);
/// for user in 0..500 {
///     users.push(user, user % 300, 1.0)?;
/// }
/// // canaries have items of their own beside the 300
/// let canaries = Canaries::new(Private::new(users.build().0), 20, 1, 1.0)?;
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let audited = AuditedTrainer::new(FirstItems, canaries.n_items(), target, Adjacency::AddRemoveUser)?;
/// let settings = RunSettings { n_runs: 20, ..RunSettings::default() };
/// let audit = audit_run(&audited, &canaries, &settings, NoiseSource::operating_system)?;
/// assert!(audit.verdict.holds());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(missing_debug_implementations, reason = "holds a function")]
pub struct AuditedTrainer<T: Trainer, O = ()> {
    trainer: T,
    plan: Plan,
    data: Box<MakeData<T::Data>>,
    oracle: O,
    shared: Vec<String>,
}

/// Converts the table used by an audit to a trainer's data.
type MakeData<D> = dyn Fn(&Interactions) -> Result<Box<D>> + Sync;

/// Computes what the releases of a run must contain and which model must follow from them, given
/// the settings.
///
/// The computations of an oracle depend on public settings and releases, and use separate code as
/// far as possible; the documentation of each oracle states which code it shares with the trainer.
pub trait Oracle<M> {
    /// Starts observing one run.
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<M> + 'a>;

    /// Whether the views should be filled with what each user contributes according to the trainer.
    /// An oracle that returns false fills them in [`Watch::finish`], or leaves the exact sums at 0
    /// if they are secret even to an audit, like sums over samples.
    fn trusts_contributions(&self) -> bool {
        true
    }
}

/// An oracle's observation of one run.
pub trait Watch<M> {
    /// A round has ended, or is about to begin for the first time: see [`Observer::round`].
    fn round(&mut self, round: &Round<'_>) {
        let _ = round;
    }

    /// A release. After the first error this is no longer called.
    ///
    /// # Errors
    /// [`Error::Shape`] if a user's contribution does not follow from settings and earlier
    /// releases.
    fn release(&mut self, seen: &Observed<'_>) -> Result<()>;

    /// The run has ended.
    ///
    /// # Errors
    /// [`Error::Shape`] if the model does not follow from the releases.
    fn finish(self: Box<Self>, model: &M, views: &mut [View]) -> Result<()>;
}

/// The tables of an audited run.
#[derive(Clone, Copy)]
#[allow(
    missing_debug_implementations,
    reason = "refers to private records; printing them is never wanted"
)]
pub struct AuditedUsers<'a> {
    /// All participants.
    pub data: &'a Interactions,
    /// All canaries, including those who do not take part.
    pub canaries: &'a Interactions,
}

impl<'a> AuditedUsers<'a> {
    /// First the users, then the canaries.
    pub fn rows(self) -> impl Iterator<Item = UserRow<'a>> {
        self.data.users().chain(self.canaries.users())
    }
}

/// Accepts everything.
impl<M> Oracle<M> for () {
    fn watch<'a>(&'a self, _: AuditedUsers<'a>) -> Box<dyn Watch<M> + 'a> {
        Box::new(())
    }
}

impl<M> Watch<M> for () {
    fn release(&mut self, _: &Observed<'_>) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, _: &M, _: &mut [View]) -> Result<()> {
        Ok(())
    }
}

impl<T> AuditedTrainer<T>
where
    T: Trainer<Data = Private<Interactions>>,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    /// A trainer on tables of items, calibrated to `target` at this width.
    ///
    /// # Errors
    /// [`Error::Trainer`] if there is no such plan.
    pub fn new(trainer: T, width: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let plan = trainer.plan(width, target, adjacency).map_err(failed)?;
        let copy = |table: &Interactions| Ok(Box::new(Private::new(table.clone())));
        Ok(Self::on(trainer, plan, copy))
    }
}

impl<T> AuditedTrainer<T>
where
    T: Trainer<Data = UserSamples>,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    /// A trainer on users' rows in tables of the public shape of `samples`, calibrated to `target`.
    ///
    /// # Errors
    /// [`Error::Trainer`] if there is no such plan.
    pub fn on_samples(
        trainer: T,
        samples: &UserSamples,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let plan = trainer.plan(trainer.width(samples), target, adjacency);
        let (plan, shape) = (plan.map_err(failed)?, samples.without_users());
        let samples = move |table: &Interactions| samples_of(table, &shape).map(Box::new);
        Ok(Self::on(trainer, plan, samples))
    }
}

impl<T: Trainer> AuditedTrainer<T> {
    /// A trainer with a given plan, on data that `data` creates from the tables used by audits,
    /// with users in the same order.
    #[must_use]
    pub fn on(
        trainer: T,
        plan: Plan,
        data: impl Fn(&Interactions) -> Result<Box<T::Data>> + Sync + 'static,
    ) -> Self {
        Self {
            trainer,
            plan,
            data: Box::new(data),
            oracle: (),
            shared: Vec::new(),
        }
    }

    /// The same, with each of its runs checked by `oracle`.
    #[must_use]
    pub fn checked_by<O: Oracle<T::Model>>(self, oracle: O) -> AuditedTrainer<T, O> {
        AuditedTrainer {
            trainer: self.trainer,
            plan: self.plan,
            data: self.data,
            oracle,
            shared: self.shared,
        }
    }
}

impl<T: Trainer, O> AuditedTrainer<T, O> {
    /// The same, with releases of these labels [shared](AuditedRun::is_shared) by all canaries.
    #[must_use]
    pub fn sharing(mut self, labels: &[&str]) -> Self {
        self.shared = labels.iter().map(|label| (*label).to_owned()).collect();
        self
    }

    /// The same with a given plan, such as a part of a longer run's plan.
    #[must_use]
    pub fn with_plan(self, plan: Plan) -> Self {
        Self { plan, ..self }
    }
}

impl<T, O> AuditedTrainer<T, O>
where
    T: Trainer,
    T::Error: std::error::Error + Send + Sync + 'static,
    O: Oracle<T::Model>,
{
    /// The trainer.
    #[must_use]
    pub const fn trainer(&self) -> &T {
        &self.trainer
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The oracle that checks the runs.
    #[must_use]
    pub const fn oracle(&self) -> &O {
        &self.oracle
    }

    /// One run with separate ledgers: returns its model, and each release with its exact sums.
    ///
    /// # Errors
    /// [`Error::Trainer`] if the run fails; [`Error::Shape`] if it does not show all of its
    /// releases, if its releases differ from its plan, or if the oracle rejects it.
    pub fn run(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<(Fitted<T::Model>, Vec<View>)> {
        let mut spends = Vec::new();
        for account in 0..self.trainer.n_accounts() {
            let budget = Budget::schedule(self.plan.target(), self.plan.adjacency())?;
            let mut ledger = Ledger::in_memory(&format!("audit {account}"), budget)?;
            spends.extend(ledger.reserve(&self.plan)?);
        }
        let made = (self.data)(data.expose())?;
        let users = AuditedUsers {
            data: data.expose(),
            canaries,
        };
        let mut looking = Looking {
            users,
            fills: self.oracle.trusts_contributions(),
            n_shown: 0,
            views: Vec::new(),
            watch: self.oracle.watch(users),
            outcome: Ok(()),
        };
        let run = Run::new(&self.plan, spends, noise).map_err(failed)?;
        let fitted = self.trainer.run(&made, run.observed_by(&mut looking));
        let fitted = fitted.map_err(failed)?;
        looking.outcome?;
        params::same_size("releases shown", looking.n_shown, fitted.n_releases)?;
        let mut views = looking.views;
        self.check_planned(&views)?;
        looking.watch.finish(&fitted.model, &mut views)?;
        Ok((fitted, views))
    }

    /// Every release must be one of the plan. If there is one account, all of them must occur, in
    /// order.
    fn check_planned(&self, views: &[View]) -> Result<()> {
        let planned = self.plan.releases();
        if self.trainer.n_accounts() > 1 {
            let known = |view: &View| planned.iter().any(|p| p.label() == view.label);
            return match views.iter().all(known) {
                true => Ok(()),
                false => Err(differs("releases of the plan")),
            };
        }
        params::same_size("releases seen", views.len(), planned.len())?;
        for (view, planned) in views.iter().zip(planned) {
            let paid = planned.noise_multiplier().unwrap_or(view.noise_multiplier);
            if view.label != planned.label() || view.noise_multiplier.to_bits() != paid.to_bits() {
                return Err(differs("releases of the plan, in its order"));
            }
        }
        Ok(())
    }
}

impl<T, O> AuditedRun for AuditedTrainer<T, O>
where
    T: Trainer,
    T::Error: std::error::Error + Send + Sync + 'static,
    O: Oracle<T::Model>,
{
    fn is_shared(&self, label: &str) -> bool {
        self.shared.iter().any(|shared| shared == label)
    }

    fn claim(&self) -> (ApproxDp, Gdp) {
        claim_of(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        Ok(self.run(data, canaries, noise)?.1)
    }
}

/// Creates views of a run and passes the run on to the oracle.
struct Looking<'a, M> {
    users: AuditedUsers<'a>,
    fills: bool,
    n_shown: usize,
    views: Vec<View>,
    watch: Box<dyn Watch<M> + 'a>,
    outcome: Result<()>,
}

impl<M> Observer for Looking<'_, M> {
    fn release(&mut self, seen: &Observed<'_>) {
        self.n_shown += 1;
        if self.outcome.is_ok() {
            self.outcome = self.look(seen);
        }
    }

    fn round(&mut self, round: &Round<'_>) {
        self.watch.round(round);
    }
}

impl<M> Looking<'_, M> {
    fn look(&mut self, seen: &Observed<'_>) -> Result<()> {
        let users = self.fills.then_some(self.users);
        self.views.extend(views_of(seen, users)?);
        self.watch.release(seen)
    }
}

/// The views of one release, filled with what `users` contribute if they are given.
pub(crate) fn views_of(seen: &Observed<'_>, users: Option<AuditedUsers<'_>>) -> Result<Vec<View>> {
    let ([label, second], [multiplier, of_rhs]) = (seen.labels, seen.noise_multipliers);
    match seen.sums {
        ObservedSums::Vector {
            grid,
            released,
            one_user,
        } => {
            let mut view = vector_view(label, multiplier, grid, released);
            if let Some(users) = users {
                fill_vector(&mut view, users, &|row| Ok(one_user(row)))?;
            }
            Ok(vec![view])
        }
        ObservedSums::Triangle {
            grid,
            side,
            off_diagonal,
            released,
            one_user,
        } => {
            let mut view = vector_view(label, multiplier, grid, released);
            if off_diagonal == OffDiagonalNoise::Isometric {
                view.layout = Layout::Packed {
                    diagonal: grid.sigma(),
                    off_diagonal: grid.off_diagonal_sigma(),
                    dim: side,
                };
            }
            if let Some(users) = users {
                fill_vector(&mut view, users, &|row| Ok(one_user(row)?))?;
            }
            Ok(vec![view])
        }
        ObservedSums::Grams {
            grids,
            released,
            one_user,
        } => {
            let multipliers = (multiplier, of_rhs);
            let mut views = gram_views((label, second), multipliers, grids, released);
            if let Some(users) = users {
                let (data, canaries) = (users.data, Some(users.canaries));
                fill_grams(&mut views, data, canaries, released.dim(), one_user)?;
            }
            Ok(views.into())
        }
    }
}

/// Fills in the exact sum over users and what each canary contributes if present.
fn fill_vector(
    view: &mut View,
    users: AuditedUsers<'_>,
    one_user: &dyn Fn(UserRow<'_>) -> Result<Entries>,
) -> Result<()> {
    for row in users.data.users() {
        add(&mut view.exact, &one_user(row)?);
    }
    for row in users.canaries.users() {
        view.canaries.push(one_user(row)?);
    }
    Ok(())
}

/// The same users with their rows; users without rows are kept.
pub(crate) fn samples_of(data: &Interactions, shape: &UserSamples) -> Result<UserSamples> {
    let mut builder = UserSamplesBuilder::like(shape);
    let n_features = shape.n_features();
    for (user, row) in (0..).zip(data.users()) {
        builder.push(user, &vec![f32::NAN; n_features], 0.0)?; // makes the user known even without rows
        let rows = SampleRows::of(row, n_features);
        for (x, y) in rows.iter() {
            builder.push(user, x, y)?;
        }
        if let Some([mean, deviation]) = rows.level().filter(|_| shape.has_levels()) {
            builder.set_level(user, mean, deviation);
        }
    }
    Ok(builder.build().0)
}

pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Trainer(Box::new(error))
}

/// The error of a [`Watch`] for a run whose `name` differs from the expected value.
#[must_use]
pub fn differs(name: &'static str) -> Error {
    let (found, expected) = (0, 1);
    ShapeError {
        name,
        found,
        expected,
    }
    .into()
}
