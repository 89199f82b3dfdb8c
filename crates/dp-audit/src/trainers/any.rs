//! Any trainer under audit.

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{
    Adjacency, ApproxDp, Gdp, Interactions, Private, SampleRows, UserSamples, UserSamplesBuilder,
};
use dp_mechanism::{Fitted, NoiseSource, Observed, Observer, Run, Trainer};

use super::failed;
use super::observe::Views;
use crate::Result;
use crate::view::View;

/// A trainer of any crate under audit: what its run shows, with the exact sums behind each release.
///
/// The views are made of what the trainer's own contributions say users add. A trainer whose contributions look at private data between
/// releases can agree with itself: for that, an oracle that computes them once more in its own words watches the same run
/// ([`run`](Self::run)).
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
pub struct AuditedTrainer<T: Trainer> {
    trainer: T,
    plan: Plan,
    data: Box<MakeData<T::Data>>,
}

/// Makes a trainer's data of the table that an audit deals in.
type MakeData<D> = dyn Fn(&Interactions) -> Result<Box<D>> + Sync;

impl<T> AuditedTrainer<T>
where
    T: Trainer<Data = Private<Interactions>>,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    /// A trainer on tables of items, calibrated to `target` at this width.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when there is no such plan.
    pub fn new(trainer: T, width: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let copy = |table: &Interactions| Ok(Box::new(Private::new(table.clone())));
        Self::on(trainer, width, target, adjacency, copy)
    }
}

impl<T> AuditedTrainer<T>
where
    T: Trainer<Data = UserSamples>,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    /// A trainer on users' rows, `max_rows` of `n_features` numbers at most, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when there is no such plan.
    pub fn on_samples(
        trainer: T,
        (n_features, max_rows): (usize, usize),
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let samples =
            move |table: &Interactions| samples_of(table, n_features, max_rows).map(Box::new);
        Self::on(trainer, n_features, target, adjacency, samples)
    }
}

impl<T> AuditedTrainer<T>
where
    T: Trainer,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    /// A trainer on data that `data` makes of the tables that audits deal in, users in the same order.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when there is no such plan.
    pub fn on(
        trainer: T,
        width: usize,
        target: ApproxDp,
        adjacency: Adjacency,
        data: impl Fn(&Interactions) -> Result<Box<T::Data>> + Sync + 'static,
    ) -> Result<Self> {
        let plan = trainer.plan(width, target, adjacency).map_err(failed)?;
        Ok(Self {
            trainer,
            plan,
            data: Box::new(data),
        })
    }

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

    /// One run on ledgers of its own, shown to `oracle` as well: its model, and each release with the exact sums behind it.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the run fails; [`crate::Error::Shape`] when it does not show what it releases.
    pub fn run(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
        oracle: &mut dyn Observer,
    ) -> Result<(Fitted<T::Model>, Vec<View>)> {
        let mut spends = Vec::new();
        for account in 0..self.trainer.n_accounts() {
            let budget = Budget::new(self.plan.target(), self.plan.adjacency())?;
            let mut ledger = Ledger::in_memory(&format!("audit {account}"), budget)?;
            spends.extend(ledger.reserve(&self.plan)?);
        }
        let made = (self.data)(data.expose())?;
        let mut both = Both {
            views: Views::of(data.expose(), canaries),
            n_shown: 0,
            oracle,
        };
        let run = Run::new(&self.plan, spends, noise).map_err(failed)?;
        let fitted = self.trainer.run(&made, run.observed_by(&mut both));
        let fitted = fitted.map_err(failed)?;
        let views = both.views.seen()?;
        dp_core::params::same_size("releases shown", both.n_shown, fitted.n_releases)?;
        Ok((fitted, views))
    }
}

/// Shows a run to views and oracle.
struct Both<'a> {
    views: Views<'a>,
    n_shown: usize,
    oracle: &'a mut dyn Observer,
}

impl Observer for Both<'_> {
    fn release(&mut self, seen: &Observed<'_>) {
        self.n_shown += 1;
        self.views.look(*seen);
        self.oracle.release(seen);
    }

    fn round(&mut self, round: &dp_mechanism::Round<'_>) {
        self.oracle.round(round);
    }
}

impl<T> crate::Trainer for AuditedTrainer<T>
where
    T: Trainer,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    fn claim(&self) -> (ApproxDp, Gdp) {
        super::claim(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        Ok(self.run(data, canaries, noise, &mut ())?.1)
    }
}

/// The same users with their rows; users without any stay.
pub(super) fn samples_of(
    data: &Interactions,
    n_features: usize,
    max_rows: usize,
) -> Result<UserSamples> {
    let mut builder = UserSamplesBuilder::new(n_features, max_rows)?;
    for (user, row) in (0..).zip(data.users()) {
        builder.push(user, &vec![f32::NAN; n_features], 0.0)?; // known even without rows
        for (x, y) in SampleRows::of(row, n_features).iter() {
            builder.push(user, x, y)?;
        }
    }
    Ok(builder.build().0)
}
