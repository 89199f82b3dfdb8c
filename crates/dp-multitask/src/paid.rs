//! Spends of a plan, checked against it and handed out in its order.

use std::collections::VecDeque;

use dp_accounting::{
    Certificate, CertificateBuilder, Plan, PlannedRelease, ReleaseRecord, ReleaseRequest, Spend,
};
use dp_core::{Interactions, Private, ShapeError};
use dp_mechanism::{
    FactorContribution, GramGrids, NoiseSource, ReleasedGrams, ReleasedVector, VectorContribution,
    Watch, WatchedNoise,
};

use crate::{Error, Result};

/// The spends of one run, all paid before it.
pub(crate) struct Paid<'a> {
    plan: &'a Plan,
    spends: VecDeque<Spend>,
    records: Vec<ReleaseRecord>,
    data_set_id: String,
    watch: &'a mut Watch<'a>,
}

impl<'a> Paid<'a> {
    /// The plan must list `wanted`, and the spends must be those of the plan.
    pub(crate) fn new(
        plan: &'a Plan,
        wanted: &[ReleaseRequest],
        spends: Vec<Spend>,
        watch: &'a mut Watch<'a>,
    ) -> Result<Self> {
        check_plan(plan, wanted)?;
        check_spends(plan, plan.releases(), &spends)?;
        Ok(Self {
            plan,
            records: spends.iter().map(Spend::record).collect(),
            data_set_id: data_set_of(&spends),
            spends: spends.into(),
            watch,
        })
    }

    /// Releases a vector sum of sensitivity `clip_norm` with the next spend.
    pub(crate) fn vector<C: VectorContribution>(
        &mut self,
        data: &Private<Interactions>,
        (n_coordinates, clip_norm): (usize, f64),
        contribution: &C,
        noise: &mut NoiseSource,
    ) -> Result<ReleasedVector> {
        let spend = self.next()?;
        let shape = (n_coordinates, clip_norm);
        let watch = &mut *self.watch;
        let mut out = WatchedNoise { noise, watch };
        Ok(out.vector(data, shape, contribution, spend)?)
    }

    /// Releases Gram sums on the grids for their two noise multipliers, with the next two spends.
    pub(crate) fn grams<C: FactorContribution>(
        &mut self,
        data: &Private<Interactions>,
        grids: impl FnOnce(f64, f64) -> Result<GramGrids>,
        contribution: &C,
        noise: &mut NoiseSource,
    ) -> Result<ReleasedGrams> {
        let (matrix, rhs) = (self.next()?, self.next()?);
        let grids = grids(matrix.noise_multiplier()?, rhs.noise_multiplier()?)?;
        let watch = &mut *self.watch;
        let mut out = WatchedNoise { noise, watch };
        Ok(out.grams(data, grids, contribution, [matrix, rhs])?)
    }

    /// The spend of the next release of the plan.
    fn next(&mut self) -> Result<Spend> {
        self.spends
            .pop_front()
            .ok_or_else(|| mismatch(self.plan.releases(), &[], "past the end of the plan"))
    }

    /// The certificate of the run that made all releases of the plan.
    pub(crate) fn certificate(
        self,
        output: &str,
        assumptions: &[String],
        insecure: bool,
    ) -> Result<Certificate> {
        let builder = Certificate::builder(self.plan, self.data_set_id)
            .releases(self.records)
            .released_output(output, "anyone")
            .assumption("settings were not chosen by looking at this data set");
        complete(builder, assumptions, insecure, false)
    }
}

/// Adds what holds for every trainer here and what the caller takes on trust.
pub(crate) fn complete(
    mut builder: CertificateBuilder,
    assumptions: &[String],
    insecure: bool,
    tuning_included: bool,
) -> Result<Certificate> {
    #[cfg(privacy_mutants)]
    let insecure = dp_core::mutants::pick("seeded-noise-unmarked", insecure, false);
    builder = builder
        .assumption("one person has one user id")
        .not_covered("internal report: accuracy and data-handling counts")
        .not_covered("total running time")
        .tuning_included(tuning_included);
    for assumption in assumptions {
        builder = builder.assumption(assumption.as_str());
    }
    if insecure {
        builder = builder.not_private("seeded noise");
    }
    Ok(builder.build()?)
}

/// The plan must list the releases that a fit makes.
pub(crate) fn check_plan(plan: &Plan, wanted: &[ReleaseRequest]) -> Result<()> {
    let fits = wanted.len() == plan.releases().len()
        && wanted
            .iter()
            .zip(plan.releases())
            .all(|(request, planned)| {
                request.label == planned.label() && request.n_draws == planned.n_draws()
            });
    if fits {
        return Ok(());
    }
    Err(Error::Shape(ShapeError {
        name: "plan (made for other settings or another number of items)",
        found: plan.releases().len(),
        expected: wanted.len(),
    }))
}

pub(crate) fn data_set_of(spends: &[Spend]) -> String {
    spends
        .first()
        .map_or_else(String::new, |spend| spend.data_set_id().to_owned())
}

/// The spends must be those of the releases, in order, and of one data set.
pub(crate) fn check_spends(
    plan: &Plan,
    releases: &[PlannedRelease],
    spends: &[Spend],
) -> Result<()> {
    let wrong = releases.iter().enumerate().find(|(at, planned)| {
        spends.get(*at).is_none_or(|spend| {
            spend.label() != planned.label()
                || spend.event() != planned.event()
                || spend.adjacency() != plan.adjacency()
                || spend.data_set_id() != spends[0].data_set_id()
        })
    });
    match wrong {
        Some((_, planned)) => Err(mismatch(releases, spends, planned.label())),
        None if spends.len() != releases.len() => Err(mismatch(releases, spends, "")),
        None => Ok(()),
    }
}

pub(crate) fn mismatch(releases: &[PlannedRelease], spends: &[Spend], label: &str) -> Error {
    Error::Spends {
        expected: releases.len(),
        found: spends.len(),
        label: label.to_owned(),
    }
}
