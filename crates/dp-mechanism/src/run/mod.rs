//! One training run: its releases in plan order, wherever the users, the spends and the noise are.

mod check;
mod folder;
#[cfg(test)]
mod folder_tests;
mod list;
mod nightly;
mod observer;
mod payment;
mod releases;
#[cfg(test)]
mod tests;
mod trainer;
mod wire;
mod workers;

use std::ops::ControlFlow;

use dp_accounting::{
    Certificate, CertificateBuilder, Plan, PlannedRelease, ReleaseRecord, Requests, Spend,
};
use dp_core::{DpEvent, Interactions, Private};

use crate::sum_backend::{InProcess, SumBackend, SumRequest, sum_over_users};
use crate::{ClientSampling, Error, NoiseSource, Result, RoundKey};

pub use check::{DealUsers, TrainerCheck, TrainerLaw};
pub use folder::{LedgerPayer, RunFolder};
pub use list::{
    GridForm, PaidLine, RELEASE_LIST_SCHEMA, ReleaseEntry, ReleaseForm, ReleaseKind, ReleaseList,
};
pub(crate) use list::{io_error, json, sync_folder_of};
pub use observer::{Observed, ObservedSums, Observer, OneUser, Progress, Round};
pub use payment::Payer;
use payment::Spends;
pub use releases::OpenSum;
pub use trainer::{Fitted, Provenance, Trainer, plan_for, try_grids};
pub use wire::{ByteLink, BytePool, ChannelLink, ChannelPool, worker_channels};
pub use workers::{Coordinator, CoordinatorLink, Dealing, FromWorker, Shard, ToWorker, WorkerPool};

/// A run in progress: the only way for a [`Trainer`] to make a release.
///
/// A run is a deterministic function of public inputs and of its releases so far. Users' data
/// affect it only through what each user contributes to the next release. How a run makes a release
/// depends on the kind of run:
///
/// | run | users | spends and noise | a release is |
/// |---|---|---|---|
/// | [`new`](Self::new), [`paying`](Self::paying) | here | here | summed, charged, noised, listed |
/// | the same, [`summed_by`](Self::summed_by) a [`Coordinator`] | at workers | here | requested, charged, noised, listed, sent out |
/// | [`worker`](Self::worker) | a shard of them | at the coordinator | summed over the shard, then received |
/// | [`replay`](Self::replay) | nowhere | nowhere | taken from a list |
/// | [`nightly`](Self::nightly) | here | here, one night of a [`PacedLifetime`](crate::PacedLifetime) | taken from the list for earlier nights; tonight's is summed, charged, noised, listed |
///
/// A run that is given a [list](Self::listed_in) takes the releases from it first and makes only
/// those that are missing.
///
/// # Privacy
/// Before the first secret random bit of a release (its noise, or the coins of its sample), its
/// charge is durable. Sums over all users are charged when all shards have arrived, so a worker
/// that dies costs nothing; samples are charged before their coins are tossed. A release is on disk
/// before anybody sees it. A release that was charged and not listed stays spent.
#[allow(
    missing_debug_implementations,
    reason = "holds a generator and spends; printing them is never wanted"
)]
pub struct Run<'a> {
    plan: &'a Plan,
    source: Source<'a>,
    list: ReleaseList,
    accounts: Vec<Account>,
    /// The account that later releases are charged to; all accounts if `None`.
    charged: Option<usize>,
    observer: Option<&'a mut dyn Observer>,
    assumptions: Vec<String>,
    insecure: bool,
    /// Whether users keep state that is not in any list.
    secret_state: bool,
    /// The last night of a paced lifetime that was made or replayed.
    last_night: Option<u32>,
}

/// Where releases that are not in the list come from.
enum Source<'a> {
    Here {
        spends: Given<'a>,
        noise: &'a mut NoiseSource,
        backend: &'a dyn SumBackend,
    },
    Nightly(nightly::Nightly<'a>),
    Worker {
        shard: Shard,
        link: &'a mut dyn CoordinatorLink,
    },
    Nowhere,
}

/// Spends before and after they were divided among accounts.
enum Given<'a> {
    AllAtOnce(Vec<Spend>),
    Checked(Spends<'a>),
}

/// What has been charged to one account.
#[derive(Default)]
struct Account {
    data_set: Option<String>,
    records: Vec<ReleaseRecord>,
}

/// The sum over the users of a table, or over those selected by the key of a round.
type SumOfShard<'s> = dyn Fn(&Interactions, Option<&RoundKey>) -> Result<Vec<i64>> + Sync + 's;

/// Makes a total public.
type AddNoise<'n> = dyn FnMut(Vec<i64>, Vec<Spend>, &mut NoiseSource) -> Result<Vec<i64>> + 'n;

/// The request for a release. Public.
struct Ask {
    form: ReleaseForm,
    sampling: Option<ClientSampling>,
    /// Number of keys that its noise and coins take from the source.
    n_keys: u64,
}

/// The result of an [`Ask`]. Public.
struct ReleasedIntegers {
    integers: Vec<i64>,
    insecure: bool,
    /// Whether it was in the list already.
    replayed: bool,
}

impl<'a> Run<'a> {
    /// A run for which all releases were charged before: `spends` are those of `plan`, for each
    /// account in turn.
    ///
    /// # Errors
    /// [`Error::List`] if the plan cannot be written.
    pub fn new(plan: &'a Plan, spends: Vec<Spend>, noise: &'a mut NoiseSource) -> Result<Self> {
        Self::here(plan, Given::AllAtOnce(spends), noise)
    }

    /// A run that charges each release when it reaches it.
    ///
    /// # Errors
    /// [`Error::List`] if the plan cannot be written.
    pub fn paying(
        plan: &'a Plan,
        payer: &'a mut dyn Payer,
        noise: &'a mut NoiseSource,
    ) -> Result<Self> {
        Self::here(plan, Given::Checked(Spends::AsReleased(payer)), noise)
    }

    fn here(plan: &'a Plan, spends: Given<'a>, noise: &'a mut NoiseSource) -> Result<Self> {
        let insecure = noise.is_insecure();
        let backend = &InProcess;
        let source = Source::Here {
            spends,
            noise,
            backend,
        };
        Self::of(plan, source, insecure)
    }

    /// A worker's side of a run: it sums over the users of its shard and has neither spends nor
    /// noise. `users` is the table that the run will read.
    ///
    /// # Errors
    /// [`Error::UsersOfAnotherShard`]; [`Error::List`] if the plan cannot be written.
    pub fn worker(
        plan: &'a Plan,
        shard: Shard,
        users: &Private<Interactions>,
        link: &'a mut dyn CoordinatorLink,
    ) -> Result<Self> {
        shard.check(users.expose())?;
        let list = ReleaseList::hashes_only(shard.run(), plan)?;
        let run = Self::of(plan, Source::Worker { shard, link }, false)?;
        Ok(run.listed_in(list))
    }

    /// A run that makes no releases: its model follows from a list of releases. The data are an
    /// empty table of the right public shape.
    ///
    /// # Errors
    /// [`Error::List`] if the plan cannot be written.
    pub fn replay(plan: &'a Plan, list: ReleaseList) -> Result<Self> {
        Ok(Self::of(plan, Source::Nowhere, false)?.listed_in(list))
    }

    fn of(plan: &'a Plan, source: Source<'a>, insecure: bool) -> Result<Self> {
        Ok(Self {
            plan,
            source,
            list: ReleaseList::hashes_only("", plan)?,
            accounts: Vec::new(),
            charged: None,
            observer: None,
            assumptions: Vec::new(),
            insecure,
            secret_state: false,
            last_night: None,
        })
    }

    /// The same run, which takes the releases of `list` first and appends those that it makes.
    #[must_use]
    pub fn listed_in(mut self, list: ReleaseList) -> Self {
        self.list = list;
        self
    }

    /// The same run with an observer.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a mut dyn Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same run with sums computed by `backend`. This has no effect on a worker or a replay,
    /// which compute no total.
    #[must_use]
    pub fn summed_by(mut self, by: &'a dyn SumBackend) -> Self {
        match &mut self.source {
            Source::Here { backend, .. } => *backend = by,
            Source::Nightly(nightly) => nightly.backend = by,
            Source::Worker { .. } | Source::Nowhere => {}
        }
        self
    }

    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Whether anything in the run so far is repeatable or not private, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }

    /// The provenance of a model that is built now.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        Provenance::of(self.insecure)
    }

    /// Marks the run as not private if something repeatable or not private went into the model.
    pub const fn taint(&mut self, insecure: bool) {
        self.insecure |= insecure;
    }

    /// Adds an assumption to the certificate.
    pub fn assume(&mut self, assumption: impl Into<String>) {
        self.assumptions.push(assumption.into());
    }

    /// Sets which account later releases are charged to: one account, or all of them, in which case
    /// the spend of the first one is used.
    pub const fn charge(&mut self, account: Option<usize>) {
        self.charged = account;
    }

    /// The releases charged to the first account so far, including those that were replayed.
    #[must_use]
    pub fn paid(&self) -> &[ReleaseRecord] {
        self.accounts
            .first()
            .map_or(&[], |account| &account.records)
    }

    /// Declares that users keep state that depends on secret coins of earlier rounds, which no list
    /// contains. Such a run cannot continue from a list if it is to make releases after those of
    /// the list, nor can a worker continue if it receives a release for which it was not asked for
    /// a sum. Must be called before the first release.
    ///
    /// Returns whether that state is kept in this run: not in a [replay](Self::replay), whose model
    /// follows from releases alone.
    ///
    /// # Errors
    /// [`Error::NotResumable`] if the run has releases to continue from. Nothing is charged.
    pub fn keeps_secret_state(&mut self) -> Result<bool> {
        self.secret_state = true;
        if matches!(self.source, Source::Nowhere) {
            return Ok(false);
        }
        if self.list.is_replaying()? {
            return Err(Error::NotResumable);
        }
        Ok(true)
    }

    /// Number of releases made so far, including those that were replayed.
    #[must_use]
    pub const fn n_releases(&self) -> usize {
        self.list.len()
    }

    /// The hash that identifies all releases so far.
    #[must_use]
    pub fn list_head(&self) -> &str {
        self.list.head()
    }

    /// Whether an observer of the run [reads what users contribute](Observer::reads_users).
    #[must_use]
    pub fn is_read_by_user(&self) -> bool {
        let observer = self.observer.as_ref();
        observer.is_some_and(|observer| observer.reads_users())
    }

    /// Whether the next release is one that the run has made before, so that it comes from the
    /// list. A trainer whose contributions have memory of their own then has to update that memory
    /// itself.
    ///
    /// # Errors
    /// [`Error::List`] if the list cannot be read.
    pub fn is_replaying(&mut self) -> Result<bool> {
        self.list.is_replaying()
    }

    /// Whether a replay is at the end of its list, so that there is no next release. A trainer
    /// whose model is defined after fewer rounds may stop here. Always false for a run that makes
    /// releases.
    ///
    /// # Errors
    /// [`Error::List`] if the list cannot be read.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(matches!(self.source, Source::Nowhere) && !self.list.is_replaying()?)
    }

    /// Signals the end of a round: shows the current parameters to the observer.
    pub fn round(&mut self, round: &Round<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.round(round);
        }
    }

    /// The planned releases that are still to come, for the account that is charged.
    fn ahead(&self) -> &'a [PlannedRelease] {
        let n_paid = self
            .paying_account()
            .map_or(0, |account| account.records.len());
        self.plan.releases().get(n_paid..).unwrap_or_default()
    }

    fn paying_account(&self) -> Option<&Account> {
        self.accounts.get(self.charged.unwrap_or(0))
    }

    /// Label and noise multiplier of the release that comes `after` the next one of the plan.
    fn planned(&self, after: usize) -> Result<(String, f64)> {
        let planned = self.ahead().get(after).ok_or_else(|| self.past_the_end())?;
        let label = planned.label().to_owned();
        let multiplier = noise_multiplier(planned.event()).ok_or(Error::WrongSpend {
            label: label.clone(),
            release: "one Gaussian release",
        })?;
        Ok((label, multiplier))
    }

    fn past_the_end(&self) -> Error {
        Error::Spends {
            expected: self.plan.releases().len(),
            found: 0,
            label: "past the end of the plan".to_owned(),
        }
    }

    /// Checks that plan, spends and requests match. [`Trainer::run`] does this; callers that make
    /// releases one at a time, such as a server whose clients send messages, must call it once
    /// before the first release.
    ///
    /// # Errors
    /// [`Error::Plan`] or [`Error::Spends`].
    pub fn begin(&mut self, requests: &Requests, n_accounts: usize) -> Result<()> {
        if let Some(label) = requests.first_difference(self.plan) {
            return Err(Error::Plan { label });
        }
        if let Source::Here { spends, .. } = &mut self.source
            && let Given::AllAtOnce(all) = spends
        {
            let queues = Spends::reserved(self.plan, std::mem::take(all), n_accounts)?;
            *spends = Given::Checked(Spends::Reserved(queues));
        }
        if let Source::Here {
            spends: Given::Checked(spends),
            ..
        } = &self.source
        {
            spends.check_paid(self.list.paid_before())?;
        }
        self.accounts.resize_with(n_accounts, Account::default);
        for (at, account) in self.accounts.iter_mut().enumerate() {
            if let Source::Here {
                spends: Given::Checked(spends),
                ..
            } = &self.source
            {
                let first = spends.left(at).next();
                account.data_set = first.map(|spend| spend.data_set_id().to_owned());
            }
        }
        Ok(())
    }

    /// One release: from the list, from the coordinator, or made here. `shard_sum` sums the users
    /// of a table; `add_noise` makes the total public.
    fn make(
        &mut self,
        ask: Ask,
        data: &Private<Interactions>,
        shard_sum: &SumOfShard<'_>,
        n_coordinates: usize,
        add_noise: &mut AddNoise<'_>,
    ) -> Result<ReleasedIntegers> {
        if let Some(entry) = self.list.next_replayed()? {
            return self.replayed(entry, &ask);
        }
        let request = self.request(n_coordinates)?;
        let entry = match &mut self.source {
            Source::Nowhere => return Err(Error::EndOfList),
            Source::Nightly(_) => return Err(nightly::only_nights()),
            Source::Worker { shard, link } => {
                let was_asked = std::cell::Cell::new(false);
                let entry = next_from(&mut **link, shard, &request, |key| {
                    was_asked.set(true);
                    shard_sum(data.expose(), key)
                })?;
                if self.secret_state && !was_asked.get() {
                    return Err(Error::NotResumable);
                }
                check_form(&entry, &ask)?;
                self.list.append(&entry)?;
                self.charge_listed(&entry)?;
                self.insecure |= entry.is_insecure();
                self.report(&entry)?;
                return Ok(ReleasedIntegers {
                    insecure: entry.is_insecure(),
                    integers: entry.into_integers(),
                    replayed: true,
                });
            }
            Source::Here { .. } => self.make_here(request, ask, data, shard_sum, add_noise)?,
        };
        Ok(ReleasedIntegers {
            insecure: entry.is_insecure(),
            integers: entry.into_integers(),
            replayed: false,
        })
    }

    /// The request for the next sum over users.
    fn request(&self, n_coordinates: usize) -> Result<SumRequest> {
        Ok(SumRequest {
            run: self.list.run().to_owned(),
            step: self.list.len(),
            list_head: self.list.head().to_owned(),
            n_coordinates,
            nonce: nonce()?,
            instructions: dp_linalg::vector_instructions(),
            round_key: None,
        })
    }

    fn make_here(
        &mut self,
        mut request: SumRequest,
        ask: Ask,
        data: &Private<Interactions>,
        shard_sum: &SumOfShard<'_>,
        add_noise: &mut AddNoise<'_>,
    ) -> Result<ReleaseEntry> {
        let Source::Here { backend, .. } = self.source else {
            return Err(Error::EndOfList);
        };
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("run-pays-after-the-noise")
            && let Source::Here { noise, .. } = &mut self.source
        {
            RoundKey::draw(noise)?;
        }
        // coins are secret random bits, so a sample is charged first; a sum over all users is
        // charged when it has arrived
        let mut paid = None;
        if let Some(sampling) = ask.sampling {
            if !backend.holds_all() || backend.n_shards() > 1 {
                sampling.check_shards()?;
            }
            sampling.check_population(data.expose().n_users())?;
            paid = Some(self.pay(&ask)?);
            if let Source::Here { noise, .. } = &mut self.source {
                request.round_key = Some(RoundKey::draw(noise)?);
            }
        }
        let key = request.round_key.clone();
        let local = |shard: &Interactions| shard_sum(shard, key.as_ref());
        let total = sum_over_users(backend, data.expose(), &request, &local)?;
        drop(request);
        let (spends, lines) = match paid {
            Some(paid) => paid,
            None => self.pay(&ask)?,
        };
        let Source::Here { noise, .. } = &mut self.source else {
            return Err(Error::EndOfList);
        };
        let integers = add_noise(total, spends, noise)?;
        let at = (self.list.len(), self.list.head());
        let entry = ReleaseEntry::new(ask.form, lines, noise.is_insecure(), integers, at)?;
        self.publish(entry, backend)
    }

    /// Appends a release to the list and passes it to workers and observer.
    fn publish(&mut self, entry: ReleaseEntry, backend: &dyn SumBackend) -> Result<ReleaseEntry> {
        self.list.append(&entry)?;
        self.insecure |= entry.is_insecure();
        for line in entry.paid() {
            let account = self.accounts.get_mut(line.account);
            let records = account.map(|account| account.records.iter_mut());
            let last = records.into_iter().flatten().rev().take(entry.paid().len());
            for record in last.filter(|record| record.release_id == line.release_id) {
                record.entry_hash = Some(entry.hash().to_owned());
            }
        }
        backend.released(&entry)?;
        self.report(&entry)?;
        Ok(entry)
    }

    /// Charges the next releases of the plan to every account in use; the returned spends are those
    /// of the first.
    fn pay(&mut self, ask: &Ask) -> Result<(Vec<Spend>, Vec<PaidLine>)> {
        let n = ask.form.labels.len();
        let accounts = match self.charged {
            Some(account) => account..account.saturating_add(1),
            None => 0..self.accounts.len(),
        };
        let (mut first, mut lines) = (None, Vec::new());
        for number in accounts {
            let (Some(account), Source::Here { spends, .. }) =
                (self.accounts.get_mut(number), &mut self.source)
            else {
                continue;
            };
            let Given::Checked(spends) = spends else {
                continue;
            };
            let made = account.records.len();
            let range = made..made.saturating_add(n);
            let paid = spends.next(self.plan, range, number, account.data_set.as_deref())?;
            for spend in &paid {
                account.data_set = Some(spend.data_set_id().to_owned());
                account.records.push(spend.record());
                lines.push(PaidLine {
                    account: number,
                    data_set: spend.data_set_id().to_owned(),
                    release_id: spend.release_id().to_owned(),
                });
            }
            first = first.or(Some(paid));
        }
        first
            .map(|spends| (spends, lines))
            .ok_or_else(|| self.past_the_end())
    }

    /// Takes a release from the list.
    fn replayed(&mut self, entry: ReleaseEntry, ask: &Ask) -> Result<ReleasedIntegers> {
        check_form(&entry, ask)?;
        self.charge_listed(&entry)?;
        self.insecure |= entry.is_insecure();
        if let Source::Here { noise, spends, .. } = &mut self.source {
            if let Given::Checked(Spends::Reserved(_)) = spends {
                // a run with freshly reserved spends for a whole plan is not a resumed run
                return Err(Error::List {
                    what: "a run with reserved spends does not go on from a list".to_owned(),
                });
            }
            let n_keys = ask.n_keys;
            #[cfg(privacy_mutants)]
            let n_keys = dp_core::mutants::pick("key-reused-on-resume", n_keys, 0);
            noise.skip(n_keys);
        }
        if let Source::Here { backend, .. } = self.source {
            backend.released(&entry)?;
        }
        self.report(&entry)?;
        Ok(ReleasedIntegers {
            insecure: entry.is_insecure(),
            integers: entry.into_integers(),
            replayed: true,
        })
    }

    /// Adds the cost of a listed release to the accounts.
    fn charge_listed(&mut self, entry: &ReleaseEntry) -> Result<()> {
        for line in entry.paid() {
            let account = self.accounts.get_mut(line.account);
            let planned = account
                .as_ref()
                .and_then(|account| self.plan.releases().get(account.records.len()));
            let (Some(account), Some(planned)) = (account, planned) else {
                return Err(Error::List {
                    what: "a release that the plan does not have".to_owned(),
                });
            };
            account.data_set = Some(line.data_set.clone());
            account.records.push(ReleaseRecord {
                label: planned.label().to_owned(),
                event: planned.event().clone(),
                n_draws: planned.n_draws(),
                release_id: line.release_id.clone(),
                entry_hash: Some(entry.hash().to_owned()),
            });
        }
        Ok(())
    }

    /// Reports a release that is safe to the observer, with the progress of the run.
    fn report(&mut self, entry: &ReleaseEntry) -> Result<()> {
        let done = self.accounts.iter().map(|account| account.records.len());
        let at = Progress {
            done: done.max().unwrap_or(0),
            total: self.plan.releases().len(),
        };
        let Some(observer) = &mut self.observer else {
            return Ok(());
        };
        observer.listed(entry);
        match observer.progress(at) {
            ControlFlow::Break(()) => Err(Error::Cancelled),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// Ends the run: returns `model` with the certificate, which `describe` completes.
    /// [`Trainer::run`] does this; see [`begin`](Self::begin).
    ///
    /// # Errors
    /// The errors of the certificate.
    pub fn finish<M>(
        self,
        model: M,
        describe: impl FnOnce(CertificateBuilder) -> CertificateBuilder,
    ) -> Result<Fitted<M>> {
        Ok(Fitted {
            model,
            provenance: self.provenance(),
            n_releases: self.n_releases(),
            releases_hash: self.list_head().to_owned(),
            certificate: self.certificate(describe)?,
        })
    }

    /// The certificate of the run, which covers everything that was charged and, if it ended early,
    /// the remaining plan.
    fn certificate(
        self,
        describe: impl FnOnce(CertificateBuilder) -> CertificateBuilder,
    ) -> Result<Certificate> {
        let mut accounts = self.accounts;
        if let Source::Here {
            spends: Given::Checked(spends),
            ..
        } = &self.source
        {
            for (at, account) in accounts.iter_mut().enumerate() {
                account.records.extend(spends.left(at).map(Spend::record));
            }
        }
        let others = other_accounts(&accounts);
        let first = accounts.into_iter().next().unwrap_or_default();
        // when a run ends may depend on what it released, so the guarantee is that of the whole
        // plan
        let rest = self.plan.releases().get(first.records.len()..);
        let builder = Certificate::builder(self.plan, first.data_set.unwrap_or_default());
        let builder = builder.not_made(rest.unwrap_or_default());
        let builder = builder.releases(first.records);
        let mut builder = describe(builder).not_covered("total running time");
        if self.last_night.is_some() {
            builder = builder
                .assumption("a person keeps one user id for the lifetime: ages of users follow ids")
                .not_covered("on which days there was a night, and when");
        }
        for assumption in self.assumptions.into_iter().chain(others) {
            builder = builder.assumption(assumption);
        }
        let insecure = self.insecure;
        #[cfg(privacy_mutants)]
        let insecure = dp_core::mutants::pick("seeded-noise-unmarked", insecure, false);
        if insecure {
            builder = builder.not_private("seeded noise");
        }
        Ok(builder.build()?)
    }
}

/// A number that no other request has. Public, from the operating system.
fn nonce() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| Error::EntropyUnavailable)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The statements in a certificate about accounts beyond the first.
fn other_accounts(accounts: &[Account]) -> Vec<String> {
    let n = accounts.len();
    if n <= 1 {
        return Vec::new();
    }
    let mut said = vec![
        format!(
            "users are dealt to {n} batches by their own rows; every batch has an account that pays for what \
             reads its users, and the releases listed are those of the first (parallel composition)"
        ),
        "all of these accounts are charged by every run on these users, and their number stays the same; \
         what was paid from other ledgers is not included"
            .to_owned(),
    ];
    for account in accounts.iter().skip(1) {
        let ids: Vec<_> = account
            .records
            .iter()
            .map(|r| r.release_id.as_str())
            .collect();
        let name = account.data_set.as_deref().unwrap_or_default();
        said.push(format!("account {name} paid with {}", ids.join(", ")));
    }
    said
}

/// Answers a coordinator until it sends the release that the request is for.
fn next_from(
    link: &mut dyn CoordinatorLink,
    shard: &Shard,
    own: &SumRequest,
    sum: impl Fn(Option<&RoundKey>) -> Result<Vec<i64>>,
) -> Result<ReleaseEntry> {
    let mut answer = None;
    let mut asked: Option<Option<RoundKey>> = None;
    loop {
        match link.exchange(answer.take())? {
            ToWorker::End => return Err(Error::EndOfList),
            // one that this worker already has: a coordinator that continues from a list sends all
            // of them
            ToWorker::Released(entry) if entry.step() < own.step => {}
            ToWorker::Released(entry) => return Ok(entry),
            ToWorker::Sum(request) => {
                let same = request.step == own.step
                    && request.list_head == own.list_head
                    && request.n_coordinates == own.n_coordinates
                    && request.instructions == own.instructions;
                if !same {
                    return Err(Error::Link {
                        what: "the coordinator is at another step, list or length, or its vector instructions differ",
                    });
                }
                // the sums over two samples of one step would reveal more than one release does
                let key = request.round_key.clone();
                let again = asked.get_or_insert_with(|| key.clone());
                let same_users = match (&*again, &key) {
                    (None, None) => true,
                    (Some(a), Some(b)) => a.is_same(b),
                    _ => false,
                };
                if !same_users {
                    return Err(Error::Link {
                        what: "the coordinator asks once more for this step, and for other users",
                    });
                }
                answer = Some(shard.answer(&request, sum(request.round_key.as_ref())?));
            }
        }
    }
}

fn check_form(entry: &ReleaseEntry, ask: &Ask) -> Result<()> {
    if *entry.form() == ask.form && entry.integers().len() == ask.form.n_integers {
        return Ok(());
    }
    Err(Error::List {
        what: format!(
            "release {} is not the one that the settings make there",
            entry.step()
        ),
    })
}

/// The noise multiplier of a Gaussian, on all users or on a sample.
fn noise_multiplier(event: &DpEvent) -> Option<f64> {
    match event {
        &DpEvent::Gaussian {
            noise_multiplier, ..
        } => Some(noise_multiplier),
        DpEvent::PoissonSampled { event, .. }
        | DpEvent::SampledWithoutReplacement { event, .. } => noise_multiplier(event),
        _ => None,
    }
}
