//! Audit of the release of held-out metrics.
//!
//! Planted users have metrics far beyond both ends of the public ranges, all other users have the
//! middle of each range: a planted user who is included moves the sum by the whole bound `C`.
//! Clipping, noise and payment are those of a run; the audit may choose the users' metrics, because
//! the bound must hold for all.

use dp_accounting::{CertificateBuilder, Plan, PlannedRelease, ReleasedMetric, Requests};
use dp_audit::{
    AuditedRun, AuditedTrainer, AuditedUsers, Canaries, Oracle, Result as AuditResult, View, Watch,
    claim_of, differs,
};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, InteractionsBuilder, Private, UserRow};
use dp_mechanism::{NoiseSource, Observed, ObservedSums, Run, Trainer};

use super::{LABEL, MetricRelease};
use crate::error::{Error, Result};

/// Beyond every range.
const FAR: f32 = 1e30;

/// The release alone, for users whose features are their values.
struct MetricsAlone {
    release: MetricRelease,
    planned: PlannedRelease,
}

impl Trainer for MetricsAlone {
    type Data = Private<Interactions>;
    type Model = Vec<ReleasedMetric>;
    type Error = Error;

    fn width(&self, _: &Private<Interactions>) -> usize {
        1
    }

    fn requests(&self, _: usize, _: Adjacency) -> Result<Requests> {
        Ok(Requests::Fixed(vec![self.planned.clone()]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        MetricRelease::describe(certificate)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<Self::Model> {
        Ok(self.release.of_table(data, run)?)
    }
}

/// Recomputes users' contributions as described in the module's documentation, and the metrics from
/// the released sums.
impl Oracle<Vec<ReleasedMetric>> for MetricRelease {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<Vec<ReleasedMetric>> + 'a> {
        Box::new(Watched {
            release: self,
            users,
            follows: None,
        })
    }
}

struct Watched<'a> {
    release: &'a MetricRelease,
    users: AuditedUsers<'a>,
    /// The metrics that follow from the releases.
    follows: Option<Vec<ReleasedMetric>>,
}

impl Watched<'_> {
    /// A user's contribution: 1, each value mapped from its range to -1 to 1, and half of each
    /// square.
    fn of_user(&self, user: UserRow<'_>) -> Vec<f64> {
        let pairs = user.features().iter().zip(self.release.ranges());
        let place = |(&x, [low, high]): (&f32, [f64; 2])| {
            let share = (f64::from(x) - low) / (high - low);
            (2.0 * share - 1.0).clamp(-1.0, 1.0)
        };
        let places: Vec<f64> = pairs.map(place).collect();
        let squares = places.iter().map(|v| 0.5 * v * v);
        let first = std::iter::once(1.0);
        first.chain(places.iter().copied()).chain(squares).collect()
    }
}

impl Watch<Vec<ReleasedMetric>> for Watched<'_> {
    fn release(&mut self, seen: &Observed<'_>) -> AuditResult<()> {
        let ObservedSums::Vector {
            grid,
            released,
            one_user,
        } = seen.sums
        else {
            return Err(differs("held-out metrics in one vector"));
        };
        for user in self.users.rows() {
            let mut left = self.of_user(user);
            for (at, z) in one_user(user) {
                if let Some(x) = left.get_mut(at) {
                    *x -= z as f64 * grid.step();
                }
            }
            if left.iter().any(|x| x.abs() > 1e-6 + grid.step()) {
                return Err(differs("what a user adds to held-out metrics"));
            }
        }
        self.follows = Some(
            self.release
                .estimates(&released.values(), released.noise_stddev()),
        );
        Ok(())
    }

    fn finish(self: Box<Self>, model: &Vec<ReleasedMetric>, _: &mut [View]) -> AuditResult<()> {
        match self.follows.as_ref() == Some(model) {
            true => Ok(()),
            false => Err(differs("metrics that follow from the released sums")),
        }
    }
}

/// The release of metrics as part of an audited run.
pub(crate) struct AuditedMetrics {
    audited: AuditedTrainer<MetricsAlone, MetricRelease>,
    /// Number of users who are included in every run.
    n_base: usize,
}

impl AuditedMetrics {
    /// The last release of `plan`.
    pub(crate) fn new(release: &MetricRelease, plan: &Plan, canaries: &Canaries) -> Result<Self> {
        let last = plan.releases().len().saturating_sub(1);
        let planned = plan.releases().get(last).cloned();
        let planned = planned.ok_or_else(|| Error::Usage("nothing is released".to_owned()))?;
        let trainer = MetricsAlone {
            release: release.clone(),
            planned,
        };
        let copy = |table: &Interactions| Ok(Box::new(Private::new(table.clone())));
        let audited = AuditedTrainer::on(trainer, plan.part(last..last + 1)?, copy);
        let nobody = canaries.with(&vec![false; canaries.len()])?;
        Ok(Self {
            audited: audited.checked_by(release.clone()),
            n_base: nobody.expose().n_users(),
        })
    }

    /// The releases over these users, of whom those after the first `n_base` are planted.
    pub(crate) fn views(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> AuditResult<Vec<View>> {
        let ranges = self.audited.oracle().ranges();
        let far = (0..ranges.len()).map(|at| if at % 2 == 0 { FAR } else { -FAR });
        let far: Vec<f32> = far.collect();
        #[allow(
            clippy::cast_possible_truncation,
            reason = "features are in single precision"
        )]
        let middle: Vec<f32> = ranges
            .iter()
            .map(|[low, high]| (0.5 * (low + high)) as f32)
            .collect();
        let table = |n_users: usize, n_base: usize| -> AuditResult<Interactions> {
            let mut builder = InteractionsBuilder::new(1).with_feature_dim(far.len());
            for (number, user) in (0..).zip(0..n_users) {
                let values = if user < n_base { &middle } else { &far };
                builder.set_features(number, values)?;
            }
            Ok(builder.build().0)
        };
        let data = table(data.expose().n_users(), self.n_base)?;
        let canaries = table(canaries.n_users(), 0)?;
        self.audited.train(&Private::new(data), &canaries, noise)
    }
}

/// An audited run, and the metrics that it releases at its end.
pub(crate) struct AndMetrics<R> {
    run: R,
    metrics: AuditedMetrics,
    /// The plan of both.
    plan: Plan,
}

impl<R: AuditedRun> AndMetrics<R> {
    /// `plan` is that of the whole run, and `run` makes all of its releases except the metrics.
    pub(crate) fn new(
        run: R,
        release: &MetricRelease,
        plan: Plan,
        canaries: &Canaries,
    ) -> Result<Self> {
        let metrics = AuditedMetrics::new(release, &plan, canaries)?;
        Ok(Self { run, metrics, plan })
    }
}

impl<R: AuditedRun> AuditedRun for AndMetrics<R> {
    fn is_shared(&self, label: &str) -> bool {
        label == LABEL || self.run.is_shared(label)
    }

    fn claim(&self) -> (ApproxDp, Gdp) {
        claim_of(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> AuditResult<Vec<View>> {
        let mut views = self.run.train(data, canaries, noise)?;
        views.extend(self.metrics.views(data, canaries, noise)?);
        Ok(views)
    }
}

/// The audited run of a trainer with the metrics that it releases, if any. `plan` is that of the
/// whole run.
pub(crate) fn with_audited_metrics<R: AuditedRun + 'static>(
    release: Option<&MetricRelease>,
    plan: &Plan,
    canaries: &Canaries,
    run: impl FnOnce(Plan) -> Result<R>,
) -> Result<Box<dyn AuditedRun>> {
    let Some(release) = release else {
        return Ok(Box::new(run(plan.clone())?));
    };
    let own = plan.part(0..plan.releases().len() - 1)?;
    let run = AndMetrics::new(run(own)?, release, plan.clone(), canaries)?;
    Ok(Box::new(run))
}

#[cfg(test)]
mod tests {
    use dp_audit::{RunAudit, RunSettings, audit_run};

    use super::super::tests::{Counting, release};
    use super::super::with_metrics;
    use super::*;

    /// Planted users among fifty in runs that release a count and, for this share of mu^2, metrics,
    /// audited against this plan.
    fn audited(share: f64, confidence: f64, claims: impl FnOnce(Plan) -> Plan) -> RunAudit {
        let (target, adjacency) = (
            ApproxDp::target(4.0, 1e-5).unwrap(),
            Adjacency::AddRemoveUser,
        );
        let mut users = InteractionsBuilder::new(1);
        (0..50).for_each(|user| users.push(user, 0, 1.0).unwrap());
        let users = Private::new(users.build().0);
        let canaries = Canaries::new(users, 10, 1, 1.0).unwrap();
        let release = release(share);
        let plan = with_metrics(&Counting, Some(&release), target);
        let plan = plan.plan(1, target, adjacency).unwrap();
        let own = plan.part(0..plan.releases().len() - 1).unwrap();
        let count = AuditedTrainer::new(Counting, 1, target, adjacency).unwrap();
        let mut run =
            AndMetrics::new(count.with_plan(own), &release, plan.clone(), &canaries).unwrap();
        run.plan = claims(plan);
        // eighty draws determine the noise of the count
        let settings = RunSettings {
            n_runs: 80,
            confidence,
            ..RunSettings::default()
        };
        audit_run(&run, &canaries, &settings, NoiseSource::operating_system).unwrap()
    }

    #[test]
    fn figures_at_the_ends_of_their_ranges_are_worth_all_that_is_paid_for() {
        let audit = audited(0.5, 1.0 - 1e-9, |plan| plan);
        assert!(audit.verdict.holds(), "{audit}");
        let labels: Vec<&str> = audit.releases.iter().map(|of| of.label.as_str()).collect();
        assert_eq!(labels, ["count", super::super::LABEL]);
        assert!(audit.canary_mu / audit.claimed_mu > 0.999, "{audit}");
    }

    /// The noise of the metrics is common to all ten planted users of a run. If the outputs were
    /// treated as independent, 800 of them would bound mu by about .7. The count alone contributes
    /// .13; its bound at .45 is five standard deviations away.
    #[test]
    fn noise_that_all_planted_users_share_does_not_count_as_many_outputs() {
        let audit = audited(0.98, 0.9, |plan| plan);
        assert!(
            audit.canary_mu > 0.9 && audit.black_box.lower_bound_mu < 0.45,
            "{audit}"
        );
    }

    /// The claim has three times the actual noise. The planted users' mu is 2.2 times the claim,
    /// with two releases measured to within two thirds.
    #[test]
    fn a_claim_that_leaves_most_of_the_metrics_unpaid_is_refuted() {
        let audit = audited(0.5, 1.0 - 1e-9, |plan| {
            let releases = plan.releases().iter().map(|of| {
                let z = of.noise_multiplier().unwrap();
                let event = dp_core::DpEvent::gaussian(3.0 * z);
                PlannedRelease::new(of.label(), event, of.n_draws())
            });
            Plan::with_noise_multipliers(1e-5, plan.adjacency(), releases.collect()).unwrap()
        });
        assert!(audit.verdict.is_violated(), "{audit}");
    }
}
