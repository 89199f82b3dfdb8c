//! The releases of a run, and their cost.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, ReleaseRequest, Requests, Spend};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};
use dp_fedsgd::AlphaSelection;
use dp_personalize::ModelVotes;

use super::training::RunSettings;
use crate::error::Result;
use crate::metric_release::{MetricRelease, and_metrics};

/// The neighbouring relation of the guarantee.
pub const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
/// Cost of noisy counts of users and of item ratings, as shares of the rounds' budget.
const COUNT_SHARE: f64 = 0.02;
const ITEM_SHARE: f64 = 0.05;
/// The same for users' votes on the prior of their own fits.
const VOTE_SHARE: f64 = 0.05;

/// The releases of a run: counts, the rounds of each alpha, the choice among them, users' votes.
#[derive(Clone)]
pub struct Spending {
    /// Settings of every run.
    pub settings: RunSettings,
    /// The alphas above 0, with a run for each. If there are several, labels contain them.
    pub alphas: Vec<f64>,
    /// Whether the number of users is released.
    pub counts_users: bool,
    /// Number of items whose ratings are counted.
    pub n_items: Option<usize>,
    /// How one of several alphas is chosen.
    pub choice: Option<AlphaSelection>,
    /// Whether users vote on the prior of their own fits around the chosen run.
    pub has_votes: bool,
}

/// The spends of the releases, in order.
pub struct Paid {
    /// For counts of the ratings of items.
    pub items: Option<Spend>,
    /// For the number of users.
    pub users: Option<Spend>,
    /// For the runs, one after the other.
    pub runs: Vec<Vec<Spend>>,
    /// For the choice among alphas.
    pub choice: Option<Spend>,
    /// For users' votes.
    pub votes: Option<Spend>,
}

/// Start of a round's label; labels of runs of several alphas have `alpha X: ` before it.
const ROUND: &str = "round ";

fn is_round(label: &str) -> bool {
    label.starts_with(ROUND) || label.starts_with("alpha ")
}

impl Spending {
    /// Whether there are runs of several alphas, whose releases are told apart by their labels.
    pub(crate) const fn has_several_runs(&self) -> bool {
        self.alphas.len() > 1
    }

    /// Whether a ledger can add it up with other runs.
    pub const fn is_gaussian(&self) -> bool {
        self.choice.is_none() && self.settings.sampling_probability.is_none()
    }

    /// The plan with the least noise that meets `target`, for this many shared numbers.
    ///
    /// # Errors
    /// When the target cannot be met.
    pub fn plan(&self, n_shared: usize, target: ApproxDp) -> Result<Plan> {
        self.plan_with(n_shared, target, None)
    }

    /// The same for a run that releases metrics after everything else, if there are any to release.
    ///
    /// # Errors
    /// When the target cannot be met.
    pub(crate) fn plan_with(
        &self,
        n_shared: usize,
        target: ApproxDp,
        metrics: Option<&MetricRelease>,
    ) -> Result<Plan> {
        let requests = and_metrics(self.requests(n_shared, target.delta)?, metrics, target)?;
        Ok(requests.calibrate(target, ADJACENCY)?)
    }

    /// The releases, for this many shared numbers.
    ///
    /// # Errors
    /// When settings are out of range.
    pub fn requests(&self, n_shared: usize, delta: f64) -> Result<Requests> {
        if self.is_gaussian() {
            let requests = self.gaussians(n_shared).into_iter().chain(self.votes());
            let request = |(label, share, n): (String, f64, u64)| {
                ReleaseRequest::new(label, share, ReplaceFactor::Two, n)
            };
            return Ok(Requests::Shares(requests.map(request).collect()));
        }
        self.settings.round_event(1.0)?; // the only part of the list that can be refused
        let (own, choice) = (self.clone(), self.chosen(delta)?);
        Ok(Requests::schedule(move |z| {
            own.releases(n_shared, z, choice.as_ref())
        }))
    }

    /// The same plan for another number of shared numbers, which affects neither noise nor cost.
    ///
    /// # Errors
    /// When the plan does not consist of these releases.
    pub(crate) fn resized(
        &self,
        plan: &Plan,
        n_shared: usize,
        metrics: Option<&MetricRelease>,
    ) -> Result<Plan> {
        let target = plan.target();
        let requests = and_metrics(self.requests(n_shared, target.delta)?, metrics, target)?;
        match (requests, Self::round_noise(plan)) {
            (Requests::Schedule(releases), Some(noise)) => Ok(Plan::with_noise_multipliers(
                target.delta,
                ADJACENCY,
                releases(noise),
            )?),
            (requests, _) => Ok(requests.calibrate(target, ADJACENCY)?),
        }
    }

    /// The cost of all rounds, in units of a round of all users: a sampled one costs about q^2 of it.
    fn cost_of_rounds(&self) -> f64 {
        let rounds = (self.alphas.len() * self.settings.n_rounds) as f64;
        rounds * self.settings.sampling_probability.unwrap_or(1.0).powi(2)
    }

    /// Label, share of the budget and draws of the votes, which come last.
    fn votes(&self) -> Option<(String, f64, u64)> {
        let cost = VOTE_SHARE * self.cost_of_rounds();
        let votes = (ModelVotes::LABEL.to_owned(), cost, ModelVotes::N_DRAWS);
        self.has_votes.then_some(votes)
    }

    /// Label, share of the budget and draws of counts and rounds.
    fn gaussians(&self, n_shared: usize) -> Vec<(String, f64, u64)> {
        let rounds = self.cost_of_rounds();
        let items = self
            .n_items
            .map(|n| ("ratings of items".to_owned(), ITEM_SHARE * rounds, n as u64));
        let users = ("number of users".to_owned(), COUNT_SHARE * rounds, 1);
        let users = self.counts_users.then_some(users);
        let runs = self.alphas.iter().flat_map(|alpha| {
            let of_alpha = match self.has_several_runs() {
                true => format!("alpha {alpha}: {ROUND}"),
                false => ROUND.to_owned(),
            };
            let round = move |n| (format!("{of_alpha}{n}"), 1.0, n_shared as u64);
            (1..=self.settings.n_rounds).map(round)
        });
        items.into_iter().chain(users).chain(runs).collect()
    }

    fn releases(
        &self,
        n_shared: usize,
        noise_multiplier: f64,
        choice: Option<&PlannedRelease>,
    ) -> Vec<PlannedRelease> {
        let round = self.settings.round_event(noise_multiplier).ok();
        let release = |(label, share, n_draws): (String, f64, u64)| {
            let event = match &round {
                Some(event) if is_round(&label) => event.clone(),
                _ => DpEvent::gaussian(noise_multiplier / share.sqrt()),
            };
            PlannedRelease::new(label, event, n_draws)
        };
        let gaussians = self.gaussians(n_shared).into_iter().map(release);
        let gaussians = gaussians.chain(choice.cloned());
        gaussians.chain(self.votes().map(release)).collect()
    }

    fn chosen(&self, delta: f64) -> Result<Option<PlannedRelease>> {
        let Some(choice) = &self.choice else {
            return Ok(None);
        };
        let plan = choice.plan(delta, ADJACENCY)?;
        Ok(plan.releases().first().cloned())
    }

    /// The noise multiplier of all rounds of a plan.
    pub fn round_noise(plan: &Plan) -> Option<f64> {
        let mut releases = plan.releases().iter();
        let event = releases.find(|release| is_round(release.label()))?.event();
        match event {
            DpEvent::PoissonSampled { event, .. } => match **event {
                DpEvent::Gaussian {
                    noise_multiplier, ..
                } => Some(noise_multiplier),
                _ => None,
            },
            &DpEvent::Gaussian {
                noise_multiplier, ..
            } => Some(noise_multiplier),
            _ => None,
        }
    }

    /// Spends from a separate budget, for values that are measured and not released.
    ///
    /// # Errors
    /// When the plan cannot be paid for.
    pub fn reserve_in_memory(&self, plan: &Plan) -> Result<Vec<Spend>> {
        let of_kind = if self.is_gaussian() {
            Budget::new
        } else {
            Budget::schedule
        };
        let budget = of_kind(plan.target(), plan.adjacency())?;
        Ok(Ledger::in_memory("measured, not released", budget)?.reserve(plan)?)
    }

    /// The spends of a plan by their purpose.
    pub fn divide(&self, spends: Vec<Spend>) -> Paid {
        let mut spends = spends.into_iter();
        Paid {
            items: self.n_items.and_then(|_| spends.next()),
            users: self.counts_users.then(|| spends.next()).flatten(),
            runs: (0..self.alphas.len())
                .map(|_| spends.by_ref().take(self.settings.n_rounds).collect())
                .collect(),
            choice: self.choice.as_ref().and_then(|_| spends.next()),
            votes: self.has_votes.then(|| spends.next()).flatten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_accounting::gdp;

    use super::*;
    use crate::settings::{MetricSettings, TaskKind};

    /// Whatever kinds of events the metrics are composed with: the whole plan meets the target, and
    /// the metrics cost their share of its mu^2.
    #[test]
    fn metrics_are_composed_with_samples_and_a_choice_within_the_target() {
        let target = ApproxDp::target(2.0, 1e-5).unwrap();
        let asked = MetricSettings {
            release_metrics: Some(0.3),
            metric_bound: Some(2.0),
        };
        let metrics = MetricRelease::of_rows(&asked, TaskKind::Regression, None, "own rows");
        let metrics = metrics.unwrap();
        let selection = || Some(AlphaSelection::new(0.2, 0.1).unwrap());
        for (sampling_probability, choice) in [
            (None, None),
            (None, selection()),
            (Some(0.2), None),
            (Some(0.2), selection()),
        ] {
            let spending = Spending {
                settings: RunSettings {
                    n_rounds: 5,
                    learning_rate: 1.0,
                    clip_norm: 1.0,
                    shrink: None,
                    batch_size: 4,
                    sampling_probability,
                },
                alphas: vec![0.5, 1.0],
                counts_users: true,
                n_items: None,
                choice,
                has_votes: true,
            };
            let alone = spending.plan(3, target).unwrap();
            let whole = spending.plan_with(3, target, metrics.as_ref()).unwrap();
            let n = alone.releases().len();
            assert_eq!(whole.releases().len(), n + 1);
            let epsilon = whole.guarantee().epsilon;
            assert!(epsilon <= 2.0 && epsilon > 1.99, "{epsilon}");
            // the budget for the metrics is taken from the rest
            let rest = whole.part(0..n).unwrap().guarantee().epsilon;
            assert!(rest < 1.9, "{rest}");
            let noise = |plan: &Plan| Spending::round_noise(plan).unwrap();
            assert!(noise(&whole) > 1.05 * noise(&alone));
            let cost = gdp::mu_squared(whole.releases()[n].event(), ADJACENCY).unwrap();
            let all = gdp::mu_for(target).unwrap().powi(2);
            assert!((cost / all - 0.3).abs() < 1e-3, "{}", cost / all);
            // more shared numbers cost nothing
            let resized = spending.resized(&whole, 9, metrics.as_ref()).unwrap();
            let pairs = whole.releases().iter().zip(resized.releases());
            assert!({ pairs }.all(|(a, b)| a.event() == b.event() && a.label() == b.label()));
            assert_eq!(
                resized.releases()[n - 2 - usize::from(spending.choice.is_some())].n_draws(),
                9
            );
        }
    }
}
