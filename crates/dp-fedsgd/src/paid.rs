//! Spends of a plan, checked against it and handed out in its order.

use std::collections::VecDeque;

use dp_accounting::{Certificate, Plan, ReleaseRecord, Spend};

use crate::{Error, Result};

/// The spends of one run, all paid before it.
pub(crate) struct Paid<'a> {
    plan: &'a Plan,
    spends: VecDeque<Spend>,
    records: Vec<ReleaseRecord>,
    data_set_id: String,
}

impl<'a> Paid<'a> {
    /// The spends must be those of the plan.
    pub(crate) fn new(plan: &'a Plan, spends: Vec<Spend>) -> Result<Self> {
        check_spends(plan, &spends)?;
        Ok(Self {
            plan,
            records: spends.iter().map(Spend::record).collect(),
            data_set_id: spends
                .first()
                .map_or_else(String::new, |spend| spend.data_set_id().to_owned()),
            spends: spends.into(),
        })
    }

    /// The spend of the next release of the plan.
    pub(crate) fn next(&mut self) -> Result<Spend> {
        let n = self.plan.releases().len();
        self.spends
            .pop_front()
            .ok_or_else(|| mismatch(n, 0, "past the end of the plan"))
    }

    /// The certificate of the run: of every release that was paid for, made or not. None where nothing was to be released.
    pub(crate) fn certificate(
        self,
        assumptions: &[&str],
        insecure: bool,
    ) -> Result<Option<Certificate>> {
        if self.records.is_empty() {
            return Ok(None);
        }
        let mut builder = Certificate::builder(self.plan, self.data_set_id)
            .releases(self.records)
            .released_output("shared parameters after every round, settings", "anyone")
            .assumption("one person has one user id")
            .assumption("settings were not chosen by looking at this data set")
            .not_covered("local parameters, which stay with their users")
            .not_covered("total running time")
            .tuning_included(false);
        for &assumption in assumptions {
            builder = builder.assumption(assumption);
        }
        if insecure {
            builder = builder.not_private("seeded noise");
        }
        Ok(Some(builder.build()?))
    }
}

/// The spends must be those of the plan, in order, and of one data set.
fn check_spends(plan: &Plan, spends: &[Spend]) -> Result<()> {
    let n = plan.releases().len();
    if spends.len() != n {
        return Err(mismatch(n, spends.len(), ""));
    }
    let wrong = plan.releases().iter().zip(spends).find(|(planned, spend)| {
        spend.label() != planned.label()
            || spend.event() != planned.event()
            || spend.adjacency() != plan.adjacency()
            || spend.data_set_id() != spends[0].data_set_id()
    });
    match wrong {
        Some((planned, _)) => Err(mismatch(n, n, planned.label())),
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
