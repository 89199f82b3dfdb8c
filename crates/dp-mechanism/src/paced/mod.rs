//! Releases of many nights that together are one Gaussian event: see `docs/nights-proof.md`.

mod first_seen;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dp_accounting::{Ledger, LifetimeState, NightSpend, Pace, Plan};
use dp_core::{Interactions, PerUser};

use crate::payment::check_night_spend;
use crate::release::ReleasedVector;
use crate::{Grid, NoiseSource, Result};

use first_seen::{FirstSeen, promote};

/// Ids that were set are distinguished from user numbers by their highest bit:
/// [`InteractionsBuilder::set_id`](dp_core::InteractionsBuilder::set_id).
const GIVEN_IDS: u128 = 1 << 127;

/// A lifetime of nightly releases on one budget: its ledger, and its store of the nights on which
/// users were first seen.
///
/// ```text
/// night t      a = t - (night on which the user was first seen)
///              Z_t of norm at most D_a, checked in integers;  0 for a >= L and for whoever was erased
///              release  sum_u Z_t + floor(2^k N(0, 1)),  one grid scale 2^k and one bound D >= sqrt(sum_a D_a^2) for the lifetime
/// ```
///
/// # Privacy
/// All nights together are the Gaussian mechanism of `mu = D / 2^k <= 1 / z` under add/remove, `2 D
/// / 2^k` under replacement, whatever users add, change, delete or leave out on whichever nights,
/// and whatever is released in between (`docs/nights-proof.md`). The order of writes on a night is: the
/// store with tonight's newcomers as a pending file, the ledger's line with the night's number and
/// the MAC of that store, then noise, then the release. A missing, older or changed store is
/// rejected. Users are identified by [`set_id`](dp_core::InteractionsBuilder::set_id); tables
/// without ids are rejected.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Pace, Plan, PlannedRelease};
/// use dp_core::{Adjacency, ApproxDp, InteractionsBuilder, Private, ReplaceFactor, UserRow};
/// use dp_mechanism::{NoiseSource, PacedLifetime, Run, SparseBuffer, VectorContribution};
///
/// struct Votes; // one vote for the first item of a user
/// impl VectorContribution for Votes {
///     type Scratch = ();
///     fn scratch(&self) {}
///     fn contribute(&self, user: UserRow<'_>, _: &mut (), out: &mut SparseBuffer) {
///         out.extend(user.items().first().map(|&item| (item, 1.0)));
///     }
/// }
///
/// let folder = tempfile::tempdir()?;
/// let (target, adjacency) = (ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser);
/// // 365 nights of at most 3 items: one event
/// let event = PlannedRelease::gaussian("nights", 4.0, ReplaceFactor::Two, 365 * 3)?;
/// let plan = Plan::with_noise_multipliers(target.delta, adjacency, vec![event])?;
/// let ledger = Ledger::create(folder.path().join("l"), "votes", Budget::new(target, adjacency)?)?;
/// let mut lifetime = PacedLifetime::begin(ledger, &plan, Pace::new(0.4, 365)?, folder.path().join("first-seen"))?;
///
/// let mut builder = InteractionsBuilder::new(3);
/// builder.push(0, 2, 1.0)?;
/// builder.set_id(0, 0x5ee1); // such as a hash of the id in the data
/// let users = Private::new(builder.build().0);
/// let noise = &mut NoiseSource::operating_system();
/// let mut run = Run::nightly(&plan, &mut lifetime, 0, noise)?;
/// while let Some(night) = run.night(&users, (3, 1.0), &Votes)? {
///     assert_eq!((night.number, night.sum.len()), (0, 3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds the store of first nights; printing it is never wanted"
)]
pub struct PacedLifetime {
    ledger: Ledger,
    release_id: String,
    path: PathBuf,
    store: FirstSeen,
    /// Whether a change of the store failed midway, so that only opening it again shows which one
    /// is valid.
    poisoned: bool,
    /// Whether nights may have been made that neither ledger nor store contains.
    was_restored: bool,
}

impl PacedLifetime {
    /// Reserves the one event of `plan` in `ledger` and creates an empty store of first nights at
    /// `path`, with its key in a file of the same name and the extension `.key`. Only the owner can
    /// read either file. If an interrupted call reserved the same event for this store, this call
    /// continues with it, and nothing is charged a second time.
    ///
    /// # Errors
    /// Those of [`Ledger::reserve_lifetime`], for which nothing is charged;
    /// [`crate::Error::FirstSeen`] if a lifetime with another plan or pace, or one with nights, was
    /// begun with the store at `path`; [`crate::Error::Param`] for noise that fits no grid;
    /// [`crate::Error::Io`].
    pub fn begin(
        mut ledger: Ledger,
        plan: &Plan,
        pace: Pace,
        path: impl Into<PathBuf>,
    ) -> Result<Self> {
        let path = path.into();
        crate::run::try_grids(plan, &[1.0])?;
        let store = FirstSeen::create(&path)?;
        let mac = store.mac()?;
        let mut reserved = None;
        for id in ledger.lifetimes() {
            let state = ledger.lifetime(id)?;
            if state.first_seen != mac {
                continue;
            }
            let is_same = *plan.releases() == [state.release] && state.pace == pace;
            if !is_same || state.n_nights > 0 {
                return Err(first_seen::begun(&path));
            }
            reserved = Some(id.to_owned());
        }
        let release_id = match reserved {
            Some(id) => id,
            None => ledger.reserve_lifetime(plan, pace, &mac)?,
        };
        Ok(Self {
            ledger,
            release_id,
            path,
            store,
            poisoned: false,
            was_restored: false,
        })
    }

    /// Continues the lifetime that [`begin`](Self::begin) reserved under `release_id`, with the
    /// store at `path` that the ledger's last line for it names. After a crash this is the store
    /// from before the interrupted night or the one with its newcomers.
    ///
    /// # Errors
    /// [`crate::Error::FirstSeen`] if store or key is missing, older or changed;
    /// [`dp_accounting::Error::NotALifetime`]; [`crate::Error::Io`].
    pub fn resume(
        ledger: Ledger,
        release_id: impl Into<String>,
        path: impl Into<PathBuf>,
    ) -> Result<Self> {
        let (release_id, path) = (release_id.into(), path.into());
        let state = ledger.lifetime(&release_id)?;
        let store = FirstSeen::open(&path, &state.first_seen)?;
        Ok(Self {
            ledger,
            release_id,
            path,
            store,
            poisoned: false,
            was_restored: false,
        })
    }

    /// Continues after ledger and store were restored together from a backup, if nights may have
    /// been made since. Unknown users may have been first seen on any of these nights. Tonight they
    /// count as first seen on the night after the backup's last one, so that their ages continue
    /// above those that they may have spent, and stay within one lifetime. Tonight's number must be
    /// above those of all nights that were made, and users who were erased since must be erased
    /// again.
    #[must_use]
    pub const fn restored(mut self) -> Self {
        self.was_restored = true;
        self
    }

    /// Erases users by their 128-bit ids. A tombstone of each is kept, the id under the store's
    /// key, so that an erased user cannot return as a new one: an erased user contributes nothing
    /// any more. Durable when this returns.
    ///
    /// # Errors
    /// [`crate::Error::Io`]; the errors of the ledger.
    pub fn erase(&mut self, ids: impl IntoIterator<Item = u128>) -> Result<()> {
        let next = self.store.without(ids.into_iter());
        let macs = self.stage(&next)?;
        let macs = macs.each_ref().map(String::as_str);
        self.ledger.rebind_first_seen(&self.release_id, macs)?;
        self.adopt(next)
    }

    /// Whether the user with this id was erased. Such a user contributes nothing; this is for
    /// leaving the user out of what is measured on the data.
    ///
    /// # Privacy
    /// The result depends on private data.
    #[must_use]
    pub fn is_erased(&self, id: u128) -> bool {
        self.store.is_erased(id)
    }

    /// Whether none of these users, given by their 128-bit ids, was there on an earlier night
    /// although others were. Erased users count as known. This indicates renamed ids, which would
    /// give everybody a new budget. No night is refused here because of it, since everybody can
    /// see whether there is a night.
    ///
    /// # Privacy
    /// The result depends on private data.
    #[must_use]
    pub fn knows_nobody_of(&self, ids: impl IntoIterator<Item = u128>) -> bool {
        let mut ids = ids.into_iter().peekable();
        !self.store.is_empty() && ids.peek().is_some() && !self.store.knows(ids)
    }

    /// The progress of the lifetime.
    ///
    /// # Errors
    /// None, as long as the ledger contains the lifetime.
    pub fn state(&self) -> Result<LifetimeState> {
        Ok(self.ledger.lifetime(&self.release_id)?)
    }

    /// The lifetime's id in the ledger.
    #[must_use]
    pub fn release_id(&self) -> &str {
        &self.release_id
    }

    /// The path of the store of first nights.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The ledger, for other releases.
    #[must_use]
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// Makes sure that everything that was charged is in the ledger's file: [`Ledger::confirm`].
    ///
    /// # Errors
    /// As there.
    pub fn confirm(&mut self) -> Result<()> {
        Ok(self.ledger.confirm()?)
    }

    /// Whether the ledger handed out this night.
    pub(crate) fn has_night(&self, night: u32) -> bool {
        self.ledger.has_night(&self.release_id, night)
    }

    /// Determines tonight's users and how much each may change the release. Nothing is written.
    /// Users who share an id are one user: none of their rows contributes anything.
    pub(crate) fn tonight(
        &self,
        data: &Interactions,
        (night, n_draws): (u32, usize),
        grid: &Grid,
    ) -> Result<Tonight> {
        if self.poisoned {
            return Err(first_seen::poisoned(&self.path));
        }
        let draws = n_draws as u64;
        self.ledger.check_night(&self.release_id, night, draws)?;
        let state = self.state()?;
        let ids = |user| data.user_id(user);
        let users = 0..data.n_users();
        // a number is specific to one table, and on another night it may stand for a different user
        if users.clone().any(|user| ids(user) < GIVEN_IDS) {
            return Err(crate::Error::Nightly {
                what: "the users of a paced lifetime need ids that stay theirs from night to night, and this table has numbers only: \
                       give each user an id made of the id in the data",
            });
        }
        let first = match self.was_restored {
            true => state.last_night.map_or(0, |last| last.saturating_add(1)),
            false => night,
        };
        let store = self.store.with_users(users.clone().map(ids), first);
        let by_age = state.pace.bounds(grid.l2_bound())?;
        let twice = repeated(users.clone().map(ids));
        let bound = |user| {
            let id = ids(user);
            let age = store.age(id, night).filter(|_| !twice.contains(&id));
            #[cfg(privacy_mutants)]
            let age = crate::mutants::age(age, state.n_nights, by_age.len());
            let at = usize::try_from(age?).ok()?;
            by_age.get(at).copied()
        };
        let bounds = users.map(|user| bound(user).unwrap_or(0)).collect();
        Ok(Tonight {
            night,
            n_draws: draws,
            bounds: PerUser::from_values(data, bounds),
            store,
        })
    }

    /// Records tonight in the store and then in the ledger, both durable when this returns.
    pub(crate) fn pay(&mut self, tonight: Tonight) -> Result<NightSpend> {
        let Tonight {
            night,
            n_draws,
            store,
            ..
        } = tonight;
        let macs = self.stage(&store)?;
        let macs = macs.each_ref().map(String::as_str);
        let spend = self
            .ledger
            .take_night(&self.release_id, night, n_draws, macs)?;
        self.adopt(store)?;
        Ok(spend)
    }

    /// Writes the next store to a pending file; returns the MACs of both stores.
    fn stage(&mut self, next: &FirstSeen) -> Result<[String; 2]> {
        if self.poisoned {
            return Err(first_seen::poisoned(&self.path));
        }
        self.poisoned = true; // until the ledger names it
        let macs = [self.store.mac()?, next.mac()?];
        next.write_beside(&self.path)?;
        Ok(macs)
    }

    /// Continues with the store that the ledger names now.
    fn adopt(&mut self, store: FirstSeen) -> Result<()> {
        promote(&self.path)?;
        self.store = store;
        self.poisoned = false;
        Ok(())
    }
}

/// The ids that several users have.
fn repeated(ids: impl Iterator<Item = u128>) -> HashSet<u128> {
    let mut ids: Vec<u128> = ids.collect();
    ids.sort_unstable();
    let pairs = ids.iter().zip(ids.iter().skip(1));
    pairs.filter(|(a, b)| a == b).map(|(id, _)| *id).collect()
}

/// The users of a night, before anything of it is durable.
pub(crate) struct Tonight {
    night: u32,
    n_draws: u64,
    /// `D_a` of each user: 0 for a user who contributes nothing.
    pub(crate) bounds: PerUser<u64>,
    store: FirstSeen,
}

/// The release of one night.
#[derive(Debug, Clone)]
pub struct ReleasedNight {
    /// Number of the night.
    pub number: u32,
    /// The noisy sum of the users' contributions, each scaled by `D_a / D`.
    pub sum: ReleasedVector,
}

/// Adds the lifetime's noise to the sum of a night.
pub(crate) fn add_noise(
    mut total: Vec<i64>,
    grid: &Grid,
    spend: &NightSpend,
    noise: &mut NoiseSource,
) -> Result<Vec<i64>> {
    check_night_spend(spend, grid, total.len())?;
    let stream = noise.release_stream()?;
    stream.add_floored_gaussian(grid.sigma(), &mut total);
    Ok(total)
}
