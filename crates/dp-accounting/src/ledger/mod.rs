//! Write-ahead bookkeeping of privacy spending.

mod lines;
mod replay;
mod store;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use dp_core::{Adjacency, ApproxDp, Gdp};

use crate::allowance::check_draws;
use crate::gdp::{from_mu_squared, mu_squared};
use crate::plan::mu_squared_budget;
use crate::{Error, Plan, PlannedRelease, Result, Spend};

pub use lines::LEDGER_SCHEMA;
pub(crate) use lines::sha256_hex;
use lines::{Header, LEDGER_NAME, Record, close, is_unborn, seal};
use replay::{Chain, Tail, replay};
use store::Store;

/// What may be spent on one data set, over all runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    target: ApproxDp,
    adjacency: Adjacency,
}

impl Budget {
    /// A budget of `target` under `adjacency`.
    ///
    /// # Errors
    /// [`Error::Param`] when the target's epsilon is not finite and positive or its delta does
    /// not lie strictly between 0 and 1.
    pub fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        Ok(Self { target, adjacency })
    }

    /// The guarantee that all releases together must keep.
    #[must_use]
    pub const fn target(&self) -> ApproxDp {
        self.target
    }

    /// The neighbours that it is for.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

/// The account book of one data set: a plan is paid here before any noise is drawn.
///
/// ```text
/// reserve(plan) succeeds   iff   Σ mu^2 (all releases ever reserved, and the plan's) <= mu_B^2
/// ```
///
/// with `mu_B` = [`crate::gdp::mu_for`] at the budget's epsilon and [`crate::usable_delta`]. This
/// Gaussian filter is valid under full adaptivity: each plan may depend on everything released
/// before (Smith, Thakurta, arXiv 2210.17520). The noise draws of all releases together must
/// fit [`crate::DELTA_RESERVE`].
///
/// # File
/// One JSON object a line. The first names schema, data set, adjacency, epsilon and delta; each
/// further line is one release, and every line carries the SHA-256 hash of itself and of the
/// line before. The lines of a plan are written in one write and flushed to the device before
/// the first [`Spend`] exists, so a crash can count a release that never happened but not miss
/// one that did. There are no refunds.
///
/// A crash during a write can leave whole lines, which are counted, and a last line without its
/// end. If that line is whole but for its newline it is counted. If it breaks off earlier, its
/// write never returned and nothing was handed out for it: the remains are kept and a seal that
/// names their length and hash is appended on the same line. Anything else that is malformed or
/// breaks the chain is [`Error::LedgerCorrupt`]. The chain guards against accidents and careless
/// edits; whoever can rewrite or roll back the whole file is not stopped by it.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Error, Ledger, Plan, ReleaseRequest};
/// use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 100)];
/// let plan = Plan::calibrate(target, Adjacency::AddRemoveUser, &requests)?;
///
/// let mut ledger = Ledger::in_memory("ratings", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let spends = ledger.reserve(&plan)?;
/// assert_eq!(spends.len(), 1);
/// assert!(matches!(ledger.reserve(&plan), Err(Error::BudgetSpent { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ledger {
    budget: Budget,
    mu_squared_budget: f64,
    data_set_id: String,
    chain: Chain,
    store: Option<Store>,
}

impl Ledger {
    /// Opens the ledger of `data_set_id` at `path`, or starts one. The file stays locked until
    /// the ledger is dropped.
    ///
    /// # Errors
    /// [`Error::LedgerLocked`] while another writer has it; [`Error::LedgerMismatch`] when it was
    /// made for another data set, adjacency, epsilon or delta, or by another schema version;
    /// [`Error::LedgerCorrupt`] when it is damaged; [`Error::Io`]; [`Error::Param`] for a budget
    /// whose delta is too small to aim at.
    pub fn open(path: impl AsRef<Path>, data_set_id: &str, budget: Budget) -> Result<Self> {
        Self::open_with(path.as_ref(), data_set_id, budget, |_| Ok(budget))
    }

    /// Opens the ledger of `data_set_id` at `path` with the budget it was made with, or starts one
    /// with `new_budget`. This is what repeated runs on one data set want: the first run sets the
    /// budget, the later ones live within it.
    ///
    /// # Errors
    /// As [`open`](Self::open), but an existing file may hold any epsilon and delta.
    pub fn open_or_create(
        path: impl AsRef<Path>,
        data_set_id: &str,
        new_budget: Budget,
    ) -> Result<Self> {
        Self::open_with(path.as_ref(), data_set_id, new_budget, |found| {
            let target = ApproxDp::target(found.epsilon, found.delta)?;
            Budget::new(target, new_budget.adjacency)
        })
    }

    /// `agreed` says which budget an existing file has to have.
    fn open_with(
        path: &Path,
        data_set_id: &str,
        new_budget: Budget,
        agreed: impl FnOnce(&Header) -> Result<Budget>,
    ) -> Result<Self> {
        mu_squared_budget(new_budget.target)?;
        let (mut store, bytes) = Store::open(path)?;
        let (budget, chain) = if is_unborn(&bytes) {
            let (line, hash) = close(&header(data_set_id, new_budget, now()));
            store.begin(line.as_bytes())?;
            (new_budget, Chain::after_header(hash))
        } else {
            let (found, chain, tail) = replay(&bytes).map_err(|bad| Error::LedgerCorrupt {
                path: path.to_owned(),
                line: bad.0,
            })?;
            let budget = agreed(&found)?;
            check_header(&found, &header(data_set_id, budget, 0), store.path())?;
            (budget, mend(&mut store, chain, &tail)?)
        };
        Ok(Self {
            budget,
            mu_squared_budget: mu_squared_budget(budget.target)?,
            data_set_id: data_set_id.to_owned(),
            chain,
            store: Some(store),
        })
    }

    /// A ledger that forgets when the process ends, for experiments and tests. Whoever runs it
    /// twice on one data set must add the two budgets.
    ///
    /// # Errors
    /// [`Error::Param`] for a budget whose delta is too small to aim at.
    pub fn in_memory(data_set_id: &str, budget: Budget) -> Result<Self> {
        let (_, hash) = close(&header(data_set_id, budget, now()));
        Ok(Self {
            budget,
            mu_squared_budget: mu_squared_budget(budget.target)?,
            data_set_id: data_set_id.to_owned(),
            chain: Chain::after_header(hash),
            store: None,
        })
    }

    /// Pays for every release of `plan`, or for none, and hands out one [`Spend`] a release in
    /// the plan's order.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`], [`Error::SamplerAllowance`] and [`Error::AdjacencyMismatch`] leave
    /// the ledger as it was. [`Error::Io`] means that the write failed: nothing is handed out,
    /// what reached the disk will be counted when the ledger is opened again, and until then
    /// every call gives [`Error::LedgerPoisoned`].
    pub fn reserve(&mut self, plan: &Plan) -> Result<Vec<Spend>> {
        if plan.adjacency() != self.budget.adjacency {
            return Err(Error::AdjacencyMismatch {
                found: plan.adjacency(),
                expected: self.budget.adjacency,
            });
        }
        let (chain, text, spends) = self.entries(plan.releases())?;
        self.check_filter(&chain, plan)?;
        if let (Some(store), false) = (&mut self.store, spends.is_empty()) {
            store.append(text.as_bytes())?;
        }
        self.chain = chain;
        Ok(spends)
    }

    /// The chain, the text and the spends as they are once `releases` are paid.
    fn entries(&self, releases: &[PlannedRelease]) -> Result<(Chain, String, Vec<Spend>)> {
        let mut chain = self.chain.clone();
        let mut text = String::new();
        let mut spends = Vec::with_capacity(releases.len());
        for release in releases {
            let cost = mu_squared(release.event(), self.budget.adjacency)?;
            let (line, hash) = close(&Record {
                seq: chain.next_seq,
                data_set: self.data_set_id.clone(),
                label: release.label().to_owned(),
                event: release.event().clone(),
                n_draws: release.n_draws(),
                mu_squared: cost,
                previous_hash: chain.head.clone(),
            });
            text.push_str(&line);
            spends.push(Spend::new(
                release.clone(),
                hash.clone(),
                self.data_set_id.clone(),
            ));
            chain.add(cost, release.n_draws(), hash);
        }
        Ok((chain, text, spends))
    }

    /// Refuses what the budget does not cover.
    fn check_filter(&self, after: &Chain, plan: &Plan) -> Result<()> {
        if after.spent.total() > self.mu_squared_budget {
            return Err(Error::BudgetSpent {
                requested: plan.mu_squared(),
                spent: self.chain.spent.total(),
                budget: self.mu_squared_budget,
            });
        }
        check_draws(self.budget.target, after.n_draws)
    }

    /// What has been reserved so far, rounded up.
    #[must_use]
    pub fn spent(&self) -> Gdp {
        from_mu_squared(self.chain.spent.total())
    }

    /// What can still be reserved, rounded down: `sqrt(mu_B^2 - mu_spent^2)`.
    #[must_use]
    pub fn remaining(&self) -> Gdp {
        let left = (self.mu_squared_budget - self.chain.spent.total()).next_down();
        Gdp {
            mu: left.max(0.0).sqrt().next_down().max(0.0),
        }
    }

    /// The budget.
    #[must_use]
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The data set that the budget belongs to.
    #[must_use]
    pub fn data_set_id(&self) -> &str {
        &self.data_set_id
    }

    /// Number of releases reserved so far.
    #[must_use]
    pub const fn n_releases(&self) -> u64 {
        self.chain.next_seq
    }
}

fn header(data_set_id: &str, budget: Budget, created: u64) -> Header {
    Header {
        ledger: LEDGER_NAME.to_owned(),
        schema_version: LEDGER_SCHEMA,
        data_set: data_set_id.to_owned(),
        adjacency: budget.adjacency,
        epsilon: budget.target.epsilon,
        delta: budget.target.delta,
        created,
    }
}

/// Nanoseconds since 1970, 0 where the clock cannot say.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(0))
}

/// Mends the end of a file that a crash may have torn.
fn mend(store: &mut Store, mut chain: Chain, tail: &Tail<'_>) -> Result<Chain> {
    match tail {
        Tail::Clean => {}
        Tail::NoNewline => store.append(b"\n")?,
        Tail::Torn(torn) => {
            let (mend, hash) = seal(torn, &chain.head);
            store.append(&mend)?;
            chain.head = hash;
        }
    }
    Ok(chain)
}

/// Refuses a file that was made for something else.
fn check_header(found: &Header, expected: &Header, path: &Path) -> Result<()> {
    let describe = |h: &Header| {
        [
            ("schema_version", h.schema_version.to_string()),
            ("data_set", h.data_set.clone()),
            ("adjacency", h.adjacency.to_string()),
            ("epsilon", h.epsilon.to_string()),
            ("delta", h.delta.to_string()),
        ]
    };
    for ((field, have), (_, want)) in describe(found).into_iter().zip(describe(expected)) {
        if have != want {
            return Err(Error::LedgerMismatch {
                path: path.to_owned(),
                field,
                found: have,
                expected: want,
            });
        }
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use dp_core::ReplaceFactor;

    use super::*;
    use crate::ReleaseRequest;

    const TARGET: ApproxDp = ApproxDp {
        epsilon: 1.0,
        delta: 1e-5,
    };

    #[test]
    fn full_disk_hands_out_nothing_and_poisons_the_ledger() {
        if !Path::new("/dev/full").exists() {
            eprintln!("SKIPPED: this system has no /dev/full");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let budget = Budget::new(TARGET, Adjacency::AddRemoveUser).unwrap();
        let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1)];
        let plan = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &requests).unwrap();

        let mut ledger = Ledger::open(&path, "d", budget).unwrap();
        ledger.store.as_mut().unwrap().fill_disk().unwrap();
        assert!(matches!(ledger.reserve(&plan), Err(Error::Io { .. })));
        assert!(matches!(
            ledger.reserve(&plan),
            Err(Error::LedgerPoisoned { .. })
        ));
        drop(ledger);
        // Nothing had reached the real file, so the budget is whole when it is opened again.
        let mut reopened = Ledger::open(&path, "d", budget).unwrap();
        assert_eq!(reopened.reserve(&plan).unwrap().len(), 1);
    }
}
