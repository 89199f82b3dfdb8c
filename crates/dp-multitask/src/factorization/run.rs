//! The releases of one run: what is paid for when, what was made, and its certificate.

use std::collections::VecDeque;

use dp_accounting::{Certificate, Plan, ReleaseRecord, Spend};

use super::fit::Released;
use crate::Result;
use crate::paid::{check_spends, complete, data_set_of, mismatch};

/// How far a fit has come. Depends on public settings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Releases made so far.
    pub done: usize,
    /// Releases of the whole plan.
    pub total: usize,
}

/// Pays for a plan, as `Ledger::reserve` does.
pub type Pay<'a> = dyn FnMut(&Plan) -> dp_accounting::Result<Vec<Spend>> + 'a;

/// Where the spends of a run come from.
enum Purse<'a> {
    /// All paid before the run.
    Paid(VecDeque<Spend>),
    /// Each step is paid just before it.
    ByStep(&'a mut Pay<'a>),
}

/// A run along a plan.
pub(super) struct Run<'a> {
    plan: &'a Plan,
    purse: Purse<'a>,
    /// Releases paid for in this run or by the run that it goes on with, in plan order.
    records: Vec<ReleaseRecord>,
    data_set_id: String,
    progress: &'a mut dyn FnMut(Progress),
    watch: Option<&'a mut dyn FnMut(Released<'_>)>,
}

impl<'a> Run<'a> {
    /// A run whose spends are all there; they must be those of the plan.
    pub(super) fn paid(
        plan: &'a Plan,
        spends: Vec<Spend>,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Self> {
        check_spends(plan, plan.releases(), &spends)?;
        Ok(Self {
            plan,
            records: Vec::new(),
            data_set_id: data_set_of(&spends),
            purse: Purse::Paid(spends.into()),
            progress,
            watch: None,
        })
    }

    /// A run that pays step by step and has made the releases in `records` already.
    pub(super) fn by_step(
        plan: &'a Plan,
        pay: &'a mut Pay<'a>,
        records: Vec<ReleaseRecord>,
        data_set_id: String,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self {
            plan,
            purse: Purse::ByStep(pay),
            records,
            data_set_id,
            progress,
            watch: None,
        }
    }

    /// The spends of the next `N` releases of the plan.
    pub(super) fn next<const N: usize>(&mut self) -> Result<[Spend; N]> {
        let ahead = self.plan.releases().get(self.records.len()..);
        let wanted = ahead.and_then(|ahead| ahead.get(..N)).unwrap_or_default();
        let spends = match &mut self.purse {
            Purse::Paid(spends) => spends.drain(..N.min(spends.len())).collect(),
            Purse::ByStep(pay) => {
                let (delta, adjacency) = (self.plan.target().delta, self.plan.adjacency());
                let step = Plan::with_noise_multipliers(delta, adjacency, wanted.to_vec())?;
                pay(&step)?
            }
        };
        check_spends(self.plan, wanted, &spends)?;
        let data_set_id = data_set_of(&spends);
        if self.records.is_empty() {
            self.data_set_id = data_set_id;
        } else if self.data_set_id != data_set_id {
            return Err(mismatch(wanted, &spends, "another data set's ledger"));
        }
        self.records.extend(spends.iter().map(Spend::record));
        spends
            .try_into()
            .map_err(|spends: Vec<Spend>| mismatch(wanted, &spends, "past the end of the plan"))
    }

    /// The same run with somebody who sees each release.
    pub(super) fn watched_by(mut self, watch: &'a mut dyn FnMut(Released<'_>)) -> Self {
        self.watch = Some(watch);
        self
    }

    pub(super) fn show(&mut self, released: Released<'_>) {
        if let Some(watch) = &mut self.watch {
            watch(released);
        }
    }

    pub(super) fn report(&mut self) {
        (self.progress)(Progress {
            done: self.records.len(),
            total: self.plan.releases().len(),
        });
    }

    pub(super) const fn plan(&self) -> &Plan {
        self.plan
    }

    pub(super) fn records(&self) -> &[ReleaseRecord] {
        &self.records
    }

    pub(super) fn data_set_id(&self) -> &str {
        &self.data_set_id
    }

    pub(super) fn certificate(self, assumptions: &[String], insecure: bool) -> Result<Certificate> {
        certificate(
            self.plan,
            self.data_set_id,
            self.records,
            assumptions,
            insecure,
        )
    }
}

/// The certificate of a run that made the releases of `plan`.
pub(super) fn certificate(
    plan: &Plan,
    data_set_id: String,
    records: Vec<ReleaseRecord>,
    assumptions: &[String],
    insecure: bool,
) -> Result<Certificate> {
    let builder = Certificate::builder(plan, data_set_id)
        .releases(records)
        .released_output("item factors, every release listed below, settings", "anyone")
        .assumption("settings were not chosen by looking at this data set (the rules behind the defaults come from MovieLens sets)")
        .not_covered("personal models: each is seen by its own user only (joint DP)");
    complete(builder, assumptions, insecure, false)
}
