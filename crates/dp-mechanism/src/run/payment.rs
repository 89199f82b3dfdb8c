//! The source of a run's spends.

use std::collections::VecDeque;
use std::ops::Range;

use dp_accounting::{BudgetKind, Ledger, Plan, PlannedRelease, Spend};

use super::PaidLine;
use crate::{Error, Result};

/// Pays for releases when a run reaches them.
///
/// The charge must be durable when [`pay`](Self::pay) returns: the run draws noise, or secret
/// coins, right after.
pub trait Payer {
    /// Charges the `releases` of `plan` to an account, numbered from 0, and returns their spends in
    /// order.
    ///
    /// # Errors
    /// The errors of the ledger; nothing is then released.
    fn pay(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        account: usize,
    ) -> dp_accounting::Result<Vec<Spend>>;

    /// Whether an account was charged for a release that is in a list, and has handed out its
    /// spend. Checked before a run continues from the list.
    fn has_paid(&self, line: &PaidLine) -> bool;
}

/// Charges each release just before it is made. A run that is abandoned has been charged for what
/// it released. A ledger for one schedule is rejected, because it accepts only one reservation:
/// [`RunFolder`](crate::RunFolder) holds the schedule.
impl Payer for Ledger {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        _: usize,
    ) -> dp_accounting::Result<Vec<Spend>> {
        let whole = releases.len() == plan.releases().len();
        if self.budget().kind() == BudgetKind::Schedule && !whole {
            return Err(dp_accounting::Error::ScheduleInParts);
        }
        self.reserve(&plan.part(releases)?)
    }

    fn has_paid(&self, line: &PaidLine) -> bool {
        // a listed release that is still held is one that a restored copy of the ledger does not
        // know about
        self.data_set_id() == line.data_set
            && self.contains(&line.release_id)
            && self.is_taken(&line.release_id) != Some(false)
    }
}

/// The spends of a run.
pub(super) enum Spends<'a> {
    /// All reserved before the run: a queue for each account.
    Reserved(Vec<VecDeque<Spend>>),
    /// Charged one by one.
    AsReleased(&'a mut dyn Payer),
}

impl Spends<'_> {
    /// Spends that were reserved for `n_accounts` accounts, each for the whole plan, one account
    /// after the other.
    pub(super) fn reserved(
        plan: &Plan,
        mut spends: Vec<Spend>,
        n_accounts: usize,
    ) -> Result<Vec<VecDeque<Spend>>> {
        let n = plan.releases().len();
        let expected = n.saturating_mul(n_accounts);
        if spends.len() != expected {
            return Err(Error::Spends {
                expected,
                found: spends.len(),
                label: String::new(),
            });
        }
        let mut accounts = Vec::with_capacity(n_accounts);
        for _ in 0..n_accounts {
            let rest = spends.split_off(n.min(spends.len()));
            check(plan, plan.releases(), &spends, None)?;
            accounts.push(spends.into());
            spends = rest;
        }
        Ok(accounts)
    }

    /// The next spends of one account.
    pub(super) fn next(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        account: usize,
        data_set: Option<&str>,
    ) -> Result<Vec<Spend>> {
        let planned = plan.releases().get(releases.clone()).unwrap_or_default();
        let spends = match self {
            Self::Reserved(accounts) => {
                let queue = accounts.get_mut(account);
                queue.map_or_else(Vec::new, |queue| {
                    queue.drain(..releases.len().min(queue.len())).collect()
                })
            }
            Self::AsReleased(payer) => payer.pay(plan, releases, account)?,
        };
        check(plan, planned, &spends, data_set)?;
        Ok(spends)
    }

    /// Every release in the list must have been charged to the same payer as the rest.
    pub(super) fn check_paid(&self, lines: &[PaidLine]) -> Result<()> {
        let paid = match self {
            Self::Reserved(_) => true, // a run with reserved spends does not continue from a list
            Self::AsReleased(payer) => lines.iter().all(|line| payer.has_paid(line)),
        };
        if paid {
            return Ok(());
        }
        Err(Error::List {
            what: "it names releases that this ledger did not pay for".to_owned(),
        })
    }

    /// Reserved spends that were not used: they stay spent.
    pub(super) fn left(&self, account: usize) -> impl Iterator<Item = &Spend> {
        let queues = match self {
            Self::Reserved(accounts) => accounts.get(account),
            Self::AsReleased(_) => None,
        };
        queues.into_iter().flatten()
    }
}

/// The spends must be those of the releases, in order, and of one data set.
fn check(
    plan: &Plan,
    planned: &[PlannedRelease],
    spends: &[Spend],
    data_set: Option<&str>,
) -> Result<()> {
    let data_set = data_set.or(spends.first().map(Spend::data_set_id));
    let wrong = planned.iter().enumerate().find(|(at, planned)| {
        spends.get(*at).is_none_or(|spend| {
            spend.label() != planned.label()
                || spend.event() != planned.event()
                || spend.adjacency() != plan.adjacency()
                || Some(spend.data_set_id()) != data_set
        })
    });
    if wrong.is_none() && spends.len() == planned.len() && !planned.is_empty() {
        return Ok(());
    }
    Err(Error::Spends {
        expected: planned.len(),
        found: spends.len(),
        label: wrong.map_or("", |(_, planned)| planned.label()).to_owned(),
    })
}
