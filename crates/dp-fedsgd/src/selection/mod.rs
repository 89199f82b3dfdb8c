//! One `alpha` for all, chosen on users' data: charged.

use dp_accounting::{Certificate, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, Interactions, Private, UserRow, params};
use dp_mechanism::{
    ExponentialMechanism, NoiseSource, ScoreChange, ScoreSum, SparseBuffer, VectorContribution,
};

use crate::{Error, Result};

/// Selects one of several runs (other `alpha`, other steps) by losses on users, with the exponential mechanism.
///
/// ```text
/// score of run c = sum_u (bound - clamp(loss_u(c), 0, bound)),   P(c) proportional to exp(rate score)
/// ```
///
/// Scores lie in `[0, bound]` per user and are all of one sign: rate `epsilon / bound` under add/remove, `epsilon / (2 bound)` under replacement.
///
/// # Privacy
/// Released: the index of one run. Unit: the user. A user's losses are computed from the user's own rows and the runs' *released* models (with a local
/// part that the user fits alone), so one user changes every score by a number in `[0, bound]`, which the kernel enforces in integers.
/// Bounded range `epsilon`.
///
/// **What it does not cover.** Every run that trained its own `w` was a release of its own: all plans are charged to everybody, together with this one. Held-out users,
/// whose data were in no run, pay for the selection alone, and the others for the runs alone, only in two cases: under add/remove, where who is held out follows from
/// each user's own id or rows, so that a user who comes or goes does so on one side; and under replacement where it follows from an id that the replacement keeps.
/// Where it follows from rows, a replaced user may leave one side and appear on the other: the runs differ by a removal and the selection by an
/// addition, which together can cost more than either plan says under replacement. Then both plans add up.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::{Adjacency, UserSamplesBuilder, SampleRows};
/// use dp_fedsgd::AlphaSelection;
/// use dp_mechanism::NoiseSource;
///
/// let mut builder = UserSamplesBuilder::new(1, 1)?;
/// for user in 0..400 {
///     builder.push(user, &[1.0], 2.0)?;
/// }
/// let held_out = builder.build().0;
/// let models = [0.0, 1.9, 5.0]; // of three runs
/// let selection = AlphaSelection::new(1.0, 4.0)?;
/// let plan = selection.plan(1e-6, Adjacency::AddRemoveUser)?;
/// let budget = Budget::schedule(plan.target(), Adjacency::AddRemoveUser)?;
/// let spend = Ledger::in_memory("held-out users", budget)?.reserve(&plan)?.remove(0);
/// let noise = &mut NoiseSource::operating_system();
/// let (run, certificate) = selection.select(
///     held_out.table(),
///     models.len(),
///     |user, run| {
///         let errors = SampleRows::of(user, 1).iter().map(|(x, y)| (f64::from(y) - models[run] * f64::from(x[0])).powi(2));
///         errors.sum()
///     },
///     &plan,
///     spend,
///     noise,
/// )?;
/// assert_eq!(run, 1); // any other has probability below e^-300
/// assert!(certificate.verify()?.is_private());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlphaSelection {
    epsilon: f64,
    loss_bound: f64,
}

const LABEL: &str = "choice among runs";
const RUNS_ADD_UP: &str = "the runs were released under certificates of their own, which add up with this one for everybody, \
    unless these users were in no run and, under replacement, that follows from an id which the replacement keeps";

impl AlphaSelection {
    /// A selection of bounded range `epsilon` by losses clamped to `0..=loss_bound`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless both are finite and positive, and `epsilon` from 1e-3 to 40.
    pub fn new(epsilon: f64, loss_bound: f64) -> Result<Self> {
        let selection = Self {
            epsilon: params::finite_positive("epsilon", epsilon)?,
            loss_bound: params::finite_positive("loss_bound", loss_bound)?,
        };
        selection.mechanism(Adjacency::AddRemoveUser)?;
        Ok(selection)
    }

    fn mechanism(&self, adjacency: Adjacency) -> Result<ExponentialMechanism> {
        let change = if adjacency.is_replace() {
            ScoreChange::General
        } else {
            ScoreChange::Monotone
        };
        let (epsilon, bound) = (self.epsilon, self.loss_bound);
        Ok(ExponentialMechanism::new(
            epsilon,
            bound,
            change,
            adjacency.relation(),
        )?)
    }

    /// The plan of the one release, stated at `delta`, which it does not need.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] for a delta outside (0, 1).
    pub fn plan(&self, delta: f64, adjacency: Adjacency) -> Result<Plan> {
        let release = PlannedRelease::new(LABEL, self.mechanism(adjacency)?.event(), 0);
        Ok(Plan::with_noise_multipliers(
            delta,
            adjacency,
            vec![release],
        )?)
    }

    /// Selects one of `n_runs` by `loss(user, run)`, which sees one user's row and released models, consuming the spend of `plan`. A
    /// loss that is not a number counts as the bound.
    ///
    /// # Errors
    /// [`crate::Error::Spends`] when plan and spend do not belong together, [`crate::Error::Mechanism`] for no runs and when the release is refused.
    pub fn select<F: Fn(UserRow<'_>, usize) -> f64 + Sync>(
        &self,
        users: &Private<Interactions>,
        n_runs: usize,
        loss: F,
        plan: &Plan,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<(usize, Certificate)> {
        let planned = plan
            .releases()
            .first()
            .filter(|_| plan.releases().len() == 1);
        let paid = planned.is_some_and(|planned| {
            planned.label() == LABEL
                && spend.label() == planned.label()
                && spend.event() == planned.event()
                && spend.adjacency() == plan.adjacency()
        });
        if !paid {
            return Err(Error::Spends {
                expected: 1,
                found: 1,
                label: LABEL.to_owned(),
            });
        }
        let mut certificate = Certificate::builder(plan, spend.data_set_id())
            .releases(vec![spend.record()])
            .released_output("index of the selected run", "anyone")
            .assumption("one person has one user id")
            .assumption(RUNS_ADD_UP)
            .not_covered("total running time")
            .tuning_included(false);
        let scores = RunScores {
            loss,
            n_runs,
            bound: self.loss_bound,
        };
        let mechanism = self.mechanism(plan.adjacency())?;
        let sum = ScoreSum::accumulate(users, n_runs, mechanism, &scores)?;
        let selected = sum.select(spend, noise)?;
        if selected.is_insecure() {
            certificate = certificate.not_private("seeded noise");
        }
        Ok((selected.index(), certificate.build()?))
    }
}

/// One user's scores of all runs.
struct RunScores<F> {
    loss: F,
    n_runs: usize,
    bound: f64,
}

/// # Privacy
/// Each score is `bound - loss` with the loss clamped to `[0, bound]`; the kernel clamps again in integers.
impl<F: Fn(UserRow<'_>, usize) -> f64 + Sync> VectorContribution for RunScores<F> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (at, run) in (0..).zip(0..self.n_runs) {
            let loss = (self.loss)(user, run);
            let loss = if loss.is_nan() {
                self.bound
            } else {
                loss.clamp(0.0, self.bound)
            };
            out.push(at, self.bound - loss);
        }
    }
}

#[cfg(test)]
mod tests;
