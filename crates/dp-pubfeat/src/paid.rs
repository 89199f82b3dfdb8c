//! Spends of a plan, checked against it and handed out in its order.

use std::collections::VecDeque;

use dp_accounting::{Certificate, Plan, PlannedRelease, ReleaseRecord, Spend};
use dp_core::ShapeError;

use crate::{Error, Result};

/// The spends of one run, all paid before it.
pub(crate) struct Paid<'a> {
    plan: &'a Plan,
    spends: VecDeque<Spend>,
    records: Vec<ReleaseRecord>,
    data_set_id: String,
}

impl<'a> Paid<'a> {
    /// The plan must list releases like these, but for their noise, and the spends must be those of the plan.
    pub(crate) fn new(
        plan: &'a Plan,
        wanted: &[PlannedRelease],
        spends: Vec<Spend>,
    ) -> Result<Self> {
        check_plan(plan, wanted)?;
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
        self.spends
            .pop_front()
            .ok_or_else(|| mismatch(self.plan, 0, "past the end of the plan"))
    }

    /// The certificate of the run that made all releases of the plan.
    pub(crate) fn certificate(
        self,
        output: &str,
        assumptions: &[String],
        insecure: bool,
    ) -> Result<Certificate> {
        #[cfg(privacy_mutants)]
        let insecure = crate::mutants::insecure(insecure);
        let mut builder = Certificate::builder(self.plan, self.data_set_id)
            .releases(self.records)
            .released_output(output, "anyone")
            .assumption("item features and the item catalogue are public and were not made from this data set")
            .assumption("settings were not chosen by looking at this data set")
            .not_covered("vectors of users, which stay with their users")
            .not_covered("total running time")
            .tuning_included(false);
        for assumption in assumptions {
            builder = builder.assumption(assumption.as_str());
        }
        if insecure {
            builder = builder.not_private("seeded noise");
        }
        Ok(builder.build()?)
    }
}

/// Same labels, draws and kinds of event, whatever the noise.
fn check_plan(plan: &Plan, wanted: &[PlannedRelease]) -> Result<()> {
    let same = |(a, b): (&PlannedRelease, &PlannedRelease)| {
        a.label() == b.label()
            && a.n_draws() == b.n_draws()
            && crate::events::same_kind(a.event(), b.event())
    };
    let planned = plan.releases();
    if planned.len() == wanted.len() && planned.iter().zip(wanted).all(same) {
        return Ok(());
    }
    Err(Error::Shape(ShapeError {
        name: "plan (made for other settings or another number of items)",
        found: planned.len(),
        expected: wanted.len(),
    }))
}

/// The spends must be those of the plan, in order, and of one data set.
fn check_spends(plan: &Plan, spends: &[Spend]) -> Result<()> {
    let planned = plan.releases();
    if spends.len() != planned.len() {
        return Err(mismatch(plan, spends.len(), ""));
    }
    let wrong = planned.iter().zip(spends).find(|(planned, spend)| {
        spend.label() != planned.label()
            || spend.event() != planned.event()
            || spend.adjacency() != plan.adjacency()
            || spend.data_set_id() != spends[0].data_set_id()
    });
    match wrong {
        Some((planned, _)) => Err(mismatch(plan, spends.len(), planned.label())),
        None => Ok(()),
    }
}

fn mismatch(plan: &Plan, found: usize, label: &str) -> Error {
    Error::Spends {
        expected: plan.releases().len(),
        found,
        label: label.to_owned(),
    }
}
