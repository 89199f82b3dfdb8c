//! Rows of all methods for a task: settings are selected, then measured.

use dp_core::{Adjacency, ApproxDp};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorModel, Fitted, Trainer as _};
use serde_json::{Map, Value, json};

use super::super::ReproduceArgs;
use super::super::calibration::{Accounting, DELTA, pay};
use super::super::report::Row;
use super::methods::{Candidate, Method};
use super::task::{Figures, Task};
use dp_personal::error::{Error, Result};

const EPSILONS: [f64; 3] = [1.0, 5.0, 20.0];

/// How rows are measured.
pub(super) struct Table {
    seeds: Vec<u64>,
    /// Whether to use one setting per method, without selection.
    quick: bool,
}

impl Table {
    pub(super) fn new(args: &ReproduceArgs) -> Self {
        let seeds = (0..args.seeds).map(|s| args.seed_base.wrapping_add(s));
        Self {
            seeds: seeds.collect(),
            quick: args.quick,
        }
    }

    pub(super) fn rows(&self, task: &dyn Task, methods: &[Method]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (name, figures) in task.baselines()? {
            rows.extend(rows_of(name, None, &Map::new(), &[figures]));
        }
        for epsilon in EPSILONS {
            for method in methods {
                rows.extend(self.of_method(task, method, epsilon)?);
            }
        }
        Ok(rows)
    }

    /// Rows with exact accounting and, for the published methods, with the noise as published.
    fn of_method(&self, task: &dyn Task, method: &Method, epsilon: f64) -> Result<Vec<Row>> {
        let delta = DELTA;
        let mut candidates = (method.candidates)(ApproxDp { epsilon, delta });
        if self.quick {
            candidates.truncate(1);
        }
        let mut rows = Vec::new();
        for accounting in [Accounting::Gdp, Accounting::Closed] {
            if accounting == Accounting::Closed && !method.published {
                continue;
            }
            let target = accounting.target(epsilon)?;
            let chosen = self.select(task, &candidates, target)?;
            let mut by_metric: Vec<Vec<Figures>> = Vec::new();
            for &seed in &self.seeds {
                let figures = task.test(&fit(task, chosen, target, seed)?)?;
                by_metric.resize_with(figures.len(), Vec::new);
                let lists = by_metric.iter_mut().zip(figures);
                lists.for_each(|(list, of_seed)| list.push(of_seed));
            }
            let params = params(method, chosen, accounting, epsilon)?;
            for by_seed in &by_metric {
                rows.extend(rows_of(method.name, Some(epsilon), &params, by_seed));
            }
        }
        Ok(rows)
    }

    /// The best candidate on the validation part, with the first seed. Not charged.
    fn select<'c>(
        &self,
        task: &dyn Task,
        candidates: &'c [Candidate],
        target: ApproxDp,
    ) -> Result<&'c Candidate> {
        let [first, others @ ..] = candidates else {
            return Err(Error::Usage("a method without settings".to_owned()));
        };
        if others.is_empty() {
            return Ok(first);
        }
        let seed = self.seeds.first().copied().unwrap_or_default();
        let score = |candidate| task.validation(&fit(task, candidate, target, seed)?);
        let (mut best, mut least) = (first, score(first)?);
        for candidate in others {
            let found = score(candidate)?;
            if found < least {
                (best, least) = (candidate, found);
            }
        }
        Ok(best)
    }
}

/// Trains with seeded noise and a different initialisation for every seed.
fn fit(
    task: &dyn Task,
    candidate: &Candidate,
    target: ApproxDp,
    seed: u64,
) -> Result<Fitted<FactorModel>> {
    let mut settings = candidate.settings.clone();
    settings.init_seed = seed;
    let fit = settings.check()?;
    let train = task.train();
    let adjacency = Adjacency::AddRemoveUser;
    let plan = fit.plan(train.expose().n_items(), target, adjacency)?;
    let mut noise = NoiseSource::insecure_seeded(seed);
    let spends = pay(&plan, "ratings")?;
    Ok(fit.fit(train, &plan, spends, &mut noise)?)
}

fn params(
    method: &Method,
    chosen: &Candidate,
    accounting: Accounting,
    epsilon: f64,
) -> Result<Map<String, Value>> {
    let mut params: Map<String, Value> = method.params.clone();
    let name = match accounting {
        Accounting::Gdp => "gdp",
        // the published programs do not clip labels: docs/errata.md
        Accounting::Closed => "as published (there not private at this label)",
    };
    params.insert("accounting".to_owned(), json!(name));
    let true_epsilon = accounting.true_epsilon(epsilon)?;
    params.insert("true_epsilon".to_owned(), json!(true_epsilon));
    params.insert("settings".to_owned(), json!(chosen.label));
    Ok(params)
}

/// The overall row, and one per bucket.
fn rows_of(
    method: &'static str,
    epsilon: Option<f64>,
    params: &Map<String, Value>,
    by_seed: &[Figures],
) -> Vec<Row> {
    let Some(Figures { metric, .. }) = by_seed.first() else {
        return Vec::new();
    };
    let all: Vec<f64> = by_seed.iter().map(|figures| figures.all).collect();
    let over_seeds =
        |params, metric, values: &[f64]| Row::over_seeds(method, epsilon, params, metric, values);
    let mut rows = vec![over_seeds(params.clone(), metric.0, &all)];
    for bucket in 0..super::task::N_BUCKETS {
        let values = by_seed.iter().filter_map(|f| f.by_bucket[bucket]);
        let values: Vec<f64> = values.collect();
        if values.is_empty() {
            continue; // empty bucket
        }
        let mut params = params.clone();
        params.insert("bucket".to_owned(), json!(bucket + 1));
        rows.push(over_seeds(params, metric.1, &values));
    }
    rows
}
