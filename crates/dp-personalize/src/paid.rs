//! Spends of a plan, checked against it and handed out in its order.

use std::collections::VecDeque;

use dp_accounting::{Certificate, Plan, ReleaseRecord, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, ShapeError};
use dp_mechanism::Grid;

use crate::{Error, Result};

/// A plan for Gaussian releases, with every grid tried once, so that nothing is paid for that could not be
/// released.
pub(crate) fn plan_of(
    requests: &[ReleaseRequest],
    target: ApproxDp,
    adjacency: Adjacency,
) -> Result<Plan> {
    let plan = Plan::calibrate(target, adjacency, requests)?;
    for release in plan.releases() {
        Grid::new(release.noise_multiplier()?, 1.0)?;
    }
    Ok(plan)
}

/// The spends of one run, all paid before it: for each account the releases of the plan, in order.
///
/// A run over all users has one account. A run over disjoint batches of users has one account for each
/// batch, because what a user has spent is what that user's batch has spent.
pub(crate) struct Paid<'a> {
    plan: &'a Plan,
    accounts: Vec<VecDeque<Spend>>,
    records: Vec<Vec<ReleaseRecord>>,
    names: Vec<String>,
}

impl<'a> Paid<'a> {
    /// The plan must list `wanted`, and the spends must be those of the plan, once for each account.
    pub(crate) fn new(
        plan: &'a Plan,
        wanted: &[ReleaseRequest],
        mut spends: Vec<Spend>,
        n_accounts: usize,
    ) -> Result<Self> {
        check_plan(plan, wanted)?;
        let n = plan.releases().len();
        if spends.len() != n * n_accounts {
            return Err(mismatch(n * n_accounts, spends.len(), ""));
        }
        let mut accounts = Vec::with_capacity(n_accounts);
        while !spends.is_empty() {
            let rest = spends.split_off(n);
            check_account(plan, &spends)?;
            accounts.push(spends);
            spends = rest;
        }
        let name = |spends: &Vec<Spend>| spends[0].data_set_id().to_owned();
        Ok(Self {
            plan,
            names: accounts.iter().map(name).collect(),
            records: accounts
                .iter()
                .map(|spends| spends.iter().map(Spend::record).collect())
                .collect(),
            accounts: accounts.into_iter().map(VecDeque::from).collect(),
        })
    }

    /// The next spend of one account: for a release that reads the users of that batch alone.
    pub(crate) fn next_of(&mut self, account: usize) -> Result<Spend> {
        let spends = self.accounts.get_mut(account);
        let n = self.plan.releases().len();
        spends
            .and_then(VecDeque::pop_front)
            .ok_or_else(|| mismatch(n, 0, "past the end of the plan"))
    }

    /// The next spend of every account, for a release that reads all users: all are charged, one pays.
    pub(crate) fn next(&mut self) -> Result<Spend> {
        let first = self.next_of(0)?;
        for account in 1..self.accounts.len() {
            drop(self.next_of(account)?);
        }
        Ok(first)
    }

    /// The certificate of a run that made all releases of the plan.
    pub(crate) fn certificate(
        self,
        output: &str,
        assumptions: &[String],
        insecure: bool,
    ) -> Result<Certificate> {
        let others = self.other_accounts();
        let mut records = self.records.into_iter();
        let mut builder = Certificate::builder(self.plan, self.names[0].clone())
            .releases(records.next().unwrap_or_default())
            .released_output(output, "anyone")
            .assumption("one person has one user id")
            .assumption("settings were not chosen by looking at this data set")
            .not_covered("personal models, which stay with their users")
            .not_covered("total running time")
            .tuning_included(false);
        for assumption in assumptions.iter().chain(&others) {
            builder = builder.assumption(assumption.as_str());
        }
        if insecure {
            builder = builder.not_private("seeded noise");
        }
        Ok(builder.build()?)
    }

    /// What the certificate says of accounts beyond the first.
    fn other_accounts(&self) -> Vec<String> {
        let n = self.names.len();
        if n == 1 {
            return Vec::new();
        }
        let mut said = vec![format!(
            "users are dealt to {n} batches by their own rows; every batch has an account that pays for what \
             reads its users, and the releases listed are those of the first (parallel composition)"
        )];
        said.push(
            "all of these accounts are charged by every run on these users, and their number stays the same; \
             what was paid from other ledgers is not included"
                .to_owned(),
        );
        for (name, records) in self.names.iter().zip(&self.records).skip(1) {
            let ids: Vec<_> = records.iter().map(|r| r.release_id.as_str()).collect();
            said.push(format!("account {name} paid with {}", ids.join(", ")));
        }
        said
    }
}

/// The plan must list the releases that a fit makes.
fn check_plan(plan: &Plan, wanted: &[ReleaseRequest]) -> Result<()> {
    let same = |(request, planned): (&ReleaseRequest, &dp_accounting::PlannedRelease)| {
        request.label == planned.label() && request.n_draws == planned.n_draws()
    };
    let n = plan.releases().len();
    if n > 0 && wanted.len() == n && wanted.iter().zip(plan.releases()).all(same) {
        return Ok(());
    }
    Err(Error::Shape(ShapeError {
        name: "plan (made for other settings or another number of features)",
        found: n,
        expected: wanted.len(),
    }))
}

/// One account's spends must be those of the plan, in order, and of one data set.
fn check_account(plan: &Plan, spends: &[Spend]) -> Result<()> {
    let pairs = plan.releases().iter().zip(spends);
    let wrong = |(planned, spend): &(&dp_accounting::PlannedRelease, &Spend)| {
        spend.label() != planned.label()
            || spend.event() != planned.event()
            || spend.adjacency() != plan.adjacency()
            || spend.data_set_id() != spends[0].data_set_id()
    };
    match pairs.clone().find(wrong) {
        Some((planned, _)) => Err(mismatch(spends.len(), spends.len(), planned.label())),
        None => Ok(()),
    }
}

fn mismatch(expected: usize, found: usize, label: &str) -> Error {
    Error::Spends {
        expected,
        found,
        label: label.to_owned(),
    }
}
