//! Selection of one `alpha` for all users, on users' data: it spends budget.

use dp_accounting::{CertificateBuilder, Plan, PlannedRelease, Requests};
use dp_core::{Adjacency, Interactions, Private, UserRow, params};
use dp_mechanism::{
    ExponentialMechanism, Run, ScoreChange, SparseBuffer, Trainer, VectorContribution,
};

use crate::{Error, Result};

/// Selects one of several runs (with different `alpha` or step sizes) by their losses on users,
/// with the exponential mechanism.
///
/// ```text
/// score of run c = sum_u (bound - clamp(loss_u(c), 0, bound)),   P(c) proportional to exp(rate score)
/// ```
///
/// Scores lie in `[0, bound]` per user and all have the same sign: rate `epsilon / bound` under
/// add/remove, `epsilon / (2 bound)` under replacement.
///
/// # Privacy
/// Released: the index of one run. Unit: the user. A user's losses are computed from the user's own
/// rows and the runs' *released* models (with a local part that the user fits alone), so one user
/// changes every score by a number in `[0, bound]`, which the kernel enforces in integers. Bounded
/// range `epsilon`.
///
/// **What it does not cover.** Every run that trained its own `w` was a separate release: all plans
/// are charged to every user, together with this one. If users are held out, so that their data
/// were in no run, the held-out users pay for the selection only and the others for the runs only
/// in just two cases: under add/remove, where each user's own id or rows determine whether they are
/// held out, so that a user who is added or removed affects one side; and under replacement, where
/// this follows from an id that the replacement keeps. If it follows from rows, a replaced user may
/// leave one side and appear on the other: the runs then differ by a removal and the selection by
/// an addition, which together can cost more than either plan states under replacement. In that
/// case both plans add up.
///
/// # Examples
/// ```
/// use dp_fedsgd::{Adjacency, AlphaSelection, Budget, Ledger, NoiseSource, SampleRows, Trainer, UserRow, UserSamplesBuilder};
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
/// let spends = Ledger::in_memory("held-out users", budget)?.reserve(&plan)?;
/// let loss = |user: UserRow<'_>, run: usize| {
///     let errors = SampleRows::of(user, 1).iter().map(|(x, y)| (f64::from(y) - models[run] * f64::from(x[0])).powi(2));
///     errors.sum()
/// };
/// let noise = &mut NoiseSource::operating_system();
/// let selected = selection.among(models.len(), loss).fit(held_out.table(), &plan, spends, noise)?;
/// assert_eq!(selected.model, 1); // any other has probability below e^-300
/// assert!(selected.certificate.verify()?.is_private());
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
    /// A selection with bounded range `epsilon`, by losses clamped to `0..=loss_bound`.
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

    fn release(&self, adjacency: Adjacency) -> Result<PlannedRelease> {
        Ok(PlannedRelease::new(
            LABEL,
            self.mechanism(adjacency)?.event(),
            0,
        ))
    }

    /// The plan of the one release, stated at `delta`, which the release does not need.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] for a delta outside (0, 1).
    pub fn plan(&self, delta: f64, adjacency: Adjacency) -> Result<Plan> {
        let release = vec![self.release(adjacency)?];
        Ok(Plan::with_noise_multipliers(delta, adjacency, release)?)
    }

    /// The selection among `n_runs` by `loss(user, run)`, which sees one user's row and released
    /// models. A loss that is not a number counts as the bound.
    #[must_use]
    pub const fn among<F: Fn(UserRow<'_>, usize) -> f64 + Sync>(
        self,
        n_runs: usize,
        loss: F,
    ) -> SelectedRun<F> {
        let scores = RunScores {
            loss,
            n_runs,
            bound: self.loss_bound,
        };
        SelectedRun {
            selection: self,
            scores,
        }
    }
}

/// An [`AlphaSelection`] among runs: a [`Trainer`] whose model is the index of the selected run.
#[allow(missing_debug_implementations, reason = "holds a function")]
pub struct SelectedRun<F> {
    selection: AlphaSelection,
    scores: RunScores<F>,
}

impl<F: Fn(UserRow<'_>, usize) -> f64 + Sync> Trainer for SelectedRun<F> {
    type Data = Private<Interactions>;
    type Model = usize;
    type Error = Error;

    /// The number of runs.
    fn width(&self, _: &Self::Data) -> usize {
        self.scores.n_runs
    }

    fn requests(&self, _: usize, adjacency: Adjacency) -> Result<Requests> {
        Ok(Requests::Fixed(vec![self.selection.release(adjacency)?]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        certificate
            .released_output("index of the selected run", "anyone")
            .assumption("one person has one user id")
            .assumption(RUNS_ADD_UP)
            .tuning_included(false)
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<usize> {
        let mechanism = self.selection.mechanism(run.plan().adjacency())?;
        let selected = run.select(data, self.scores.n_runs, mechanism, &self.scores)?;
        Ok(selected.index())
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
#[allow(clippy::disallowed_types, reason = "tests pay for runs")]
mod tests {
    use dp_accounting::{Budget, Ledger, Spend};
    use dp_core::{UserSamples, UserSamplesBuilder};
    use dp_mechanism::{Error as KernelError, NoiseSource, ScoreSum};

    use super::*;

    const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

    fn users(n: u32) -> UserSamples {
        let mut builder = UserSamplesBuilder::new(1, 1).unwrap();
        for user in 0..n {
            builder.push(user, &[1.0], 1.0).unwrap();
        }
        builder.build().0
    }

    fn paid(plan: &Plan) -> Vec<Spend> {
        let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
        let mut ledger = Ledger::in_memory("test", budget).unwrap();
        ledger.reserve(plan).unwrap()
    }

    #[test]
    fn replacement_halves_the_rate_and_costs_the_same() {
        // scores in [0, bound]: all of one sign when a user is added or removed, of both signs when
        // one is replaced
        let selection = AlphaSelection::new(1.0, 4.0).unwrap();
        for (adjacency, same) in [
            (ADD_REMOVE, ScoreChange::Monotone),
            (Adjacency::ReplaceUser, ScoreChange::General),
        ] {
            let found = selection.mechanism(adjacency).unwrap();
            let expected = ExponentialMechanism::new(1.0, 4.0, same, adjacency.relation());
            assert_eq!(found, expected.unwrap());
            let plan = selection.plan(1e-6, adjacency).unwrap();
            assert_eq!(plan.releases()[0].event(), &found.event());
        }
        // two runs, one user for whom the first is better by the full bound: odds e and e^(1/2).
        // 2^14 selections each, off by 6.2 standard deviations with probability below 1e-9
        let (data, n) = (users(1), 1 << 14);
        for (adjacency, odds) in [(ADD_REMOVE, 1.0_f64), (Adjacency::ReplaceUser, 0.5)] {
            let mechanism = selection.mechanism(adjacency).unwrap();
            let plan = selection.plan(1e-6, adjacency).unwrap();
            let loss = |_: UserRow<'_>, run: usize| if run == 0 { -7.0 } else { 9.0 };
            let scores = RunScores {
                loss,
                n_runs: 2,
                bound: 4.0,
            };
            let noise = &mut NoiseSource::insecure_seeded(3);
            let firsts = (0..n).filter(|_| {
                let sum = ScoreSum::accumulate(data.table(), 2, mechanism, &scores).unwrap();
                sum.select(paid(&plan).remove(0), noise).unwrap().index() == 0
            });
            let share = firsts.count() as f64 / f64::from(n);
            let p = 1.0 / (1.0 + (-odds).exp());
            let stddev = (p * (1.0 - p) / f64::from(n)).sqrt();
            assert!((share - p).abs() < 6.2 * stddev, "{share} {p}");
        }
    }

    #[test]
    fn a_loss_that_is_not_a_number_is_the_worst_one() {
        let (data, selection) = (users(400), AlphaSelection::new(1.0, 4.0).unwrap());
        let plan = selection.plan(1e-6, ADD_REMOVE).unwrap();
        for good in 0..3 {
            // the others are worse by 400 bounds: chosen with probability below e^-390
            let losses = |_: UserRow<'_>, run| if run == good { 0.0 } else { f64::NAN };
            let noise = &mut NoiseSource::insecure_seeded(1);
            let chosen = selection
                .among(3, losses)
                .fit(data.table(), &plan, paid(&plan), noise);
            let chosen = chosen.unwrap();
            assert_eq!(chosen.model, good);
            assert!(!chosen.certificate.verify().unwrap().is_private()); // seeded
        }
    }

    #[test]
    fn plans_of_others_select_nothing() {
        let (data, selection) = (users(5), AlphaSelection::new(1.0, 4.0).unwrap());
        let plan = selection.plan(1e-6, ADD_REMOVE).unwrap();
        let cheaper = AlphaSelection::new(0.1, 4.0).unwrap();
        let cheaper = cheaper.plan(1e-6, ADD_REMOVE).unwrap();
        let replace = selection.plan(1e-6, Adjacency::ReplaceUser).unwrap();
        let other = PlannedRelease::new("round 1", plan.releases()[0].event().clone(), 0);
        let other = Plan::with_noise_multipliers(1e-6, ADD_REMOVE, vec![other]).unwrap();
        let select = |plan: &Plan, spends| {
            let noise = &mut NoiseSource::insecure_seeded(1);
            let among = selection.among(2, |_: UserRow<'_>, _| 0.0);
            among.fit(data.table(), plan, spends, noise)
        };
        assert!(select(&plan, paid(&plan)).is_ok());
        for foreign in [&cheaper, &other, &replace] {
            let refused = select(&plan, paid(foreign));
            assert!(matches!(
                refused,
                Err(Error::Mechanism(KernelError::Spends { .. }))
            ));
        }
        // plans and spends that agree with one another but not with the selection
        for foreign in [&cheaper, &other] {
            let refused = select(foreign, paid(foreign));
            assert!(matches!(
                refused,
                Err(Error::Mechanism(KernelError::Plan { .. }))
            ));
        }
    }
}
