//! Rows of all methods: rating errors, ranked lists, by popularity, and for new items.

use dp_core::{ApproxDp, Interactions, UserRow};
use dp_data::{PopularityBuckets, RankingSums};
use dp_multitask::{LocalBias, user_mean_predictions};
use serde_json::{Map, Value, json};

use super::super::super::calibration::DELTA;
use super::super::super::report::Row;
use super::Ask;
use super::data::{Data, N_BUCKETS, is_new};
use super::methods::{METHODS, Method};
use super::problem::{Feedback, Model, Problem};
use dp_personal::error::Result;

const RMSE: [&str; 2] = ["test RMSE", "test RMSE by popularity"];
const NEW: &str = "test RMSE of new items";
const RECALL: [&str; 2] = ["Recall@20", "Recall@20 to 100 by popularity"];
const NDCG: &str = "NDCG@20";
const K: usize = 20;

/// Metrics of one model: name, bucket, value.
type Figures = Vec<(&'static str, Option<usize>, f64)>;

/// Squared errors, overall and by popularity.
struct Errors<'a> {
    buckets: &'a PopularityBuckets,
    sums: [(f64, u32); N_BUCKETS + 1],
}

impl<'a> Errors<'a> {
    const fn new(buckets: &'a PopularityBuckets) -> Self {
        let sums = [(0.0, 0); N_BUCKETS + 1];
        Self { buckets, sums }
    }

    fn add(&mut self, item: u32, error: f64) {
        let bucket = self.buckets.of(item as usize).map(|b| b + 1);
        for at in [Some(0), bucket].into_iter().flatten() {
            self.sums[at].0 += error * error;
            self.sums[at].1 += 1;
        }
    }

    fn rmse(&self, at: usize) -> Option<f64> {
        let (sum, n) = self.sums[at];
        (n > 0).then(|| (sum / f64::from(n)).sqrt())
    }

    fn figures(&self) -> Figures {
        let all = self.rmse(0).map(|e| (RMSE[0], None, e));
        let each = (1..=N_BUCKETS).filter_map(|b| self.rmse(b).map(|e| (RMSE[1], Some(b), e)));
        all.into_iter().chain(each).collect()
    }
}

/// Errors of a model on held-out ratings of the users whom it folds in from `train`.
pub(super) fn rmse(
    model: &dyn Model,
    train: &Interactions,
    held_out: &Interactions,
    counts: impl Fn(u32) -> bool,
) -> Result<f64> {
    let (mut sum, mut n) = (0.0, 0_u32);
    for_each(model, train, held_out, |item, error| {
        if counts(item) {
            sum += error * error;
            n += 1;
        }
    })?;
    Ok((sum / f64::from(n.max(1))).sqrt())
}

fn for_each(
    model: &dyn Model,
    train: &Interactions,
    held_out: &Interactions,
    mut see: impl FnMut(u32, f64),
) -> Result<()> {
    let pairs = train.users().zip(held_out.users());
    for (user, asked) in pairs.filter(|(_, asked)| !asked.is_empty()) {
        let scores = model.scores(user)?;
        for (item, y) in asked.iter() {
            see(item, scores[item as usize] - f64::from(y));
        }
    }
    Ok(())
}

/// The user's shrunken mean: local and free.
pub(super) fn baselines(data: &Data) -> Result<Vec<Row>> {
    let bias = LocalBias {
        center: 3.5,
        shrinkage: 5.0,
    };
    let test = data.ratings.test.expose();
    let mut figures = Vec::new();
    for (train, only_new) in [(&data.ratings.train, false), (&data.known, true)] {
        let mut errors = Errors::new(&data.buckets);
        let pairs = user_mean_predictions(train.expose(), test, bias);
        let items = test.users().flat_map(|row| row.items().to_vec());
        for (item, (guess, y)) in items.zip(pairs) {
            if !only_new || is_new(item) {
                errors.add(item, guess - y);
            }
        }
        if only_new {
            figures.extend(errors.rmse(0).map(|e| (NEW, None, e)));
        } else {
            figures.extend(errors.figures());
        }
    }
    let mut rows = rows_of("user-mean", None, &[figures]);
    rows.extend(rows_of("popularity", None, &[popularity(data)?]));
    Ok(rows)
}

/// The items that most users in training like, the same for every user: by exact counts, which must
/// not be published.
fn popularity(data: &Data) -> Result<Figures> {
    let items = data.lists.train.expose().item_major();
    let count = |item| items.item(item).len() as f64;
    let counts: Vec<f64> = (0..items.n_items()).map(count).collect();
    lists(data, |_| Ok(counts.clone()))
}

pub(super) fn rows(data: &Data, ask: &Ask, epsilon: f64) -> Result<Vec<Row>> {
    let target = ApproxDp::target(epsilon, DELTA)?;
    let mut rows = Vec::new();
    let wanted = |n: usize| ask.method.is_none_or(|only| only == n);
    let methods = (1..).zip(&METHODS).filter(|(n, _)| wanted(*n));
    for (_, method) in methods {
        let mut by_seed = Vec::new();
        for &seed in &ask.seeds {
            by_seed.push(figures(data, method, target, seed)?);
        }
        rows.extend(rows_of(method.name, Some(epsilon), &by_seed));
    }
    Ok(rows)
}

/// Metrics of ratings, of new items if items have features, and of lists.
fn figures(data: &Data, method: &Method, target: ApproxDp, seed: u64) -> Result<Figures> {
    let problem = |train, feedback, without_new| Problem {
        features: &data.features,
        train,
        feedback,
        without_new,
        target,
        seed,
    };
    let test = data.ratings.test.expose();
    let train = &data.ratings.train;
    let model = (method.fit)(&problem(train, Feedback::Ratings, false))?;
    let mut errors = Errors::new(&data.buckets);
    for_each(&*model, train.expose(), test, |item, error| {
        errors.add(item, error);
    })?;
    let mut figures = errors.figures();
    if method.features {
        let model = (method.fit)(&problem(&data.known, Feedback::Ratings, true))?;
        let error = rmse(&*model, data.known.expose(), test, is_new)?;
        figures.push((NEW, None, error));
    }
    let model = (method.fit)(&problem(&data.lists.train, Feedback::Likes, false))?;
    figures.extend(lists(data, |history| model.scores(history))?);
    Ok(figures)
}

/// Metrics of lists ranked by these scores of all items.
fn lists(data: &Data, mut scores: impl FnMut(UserRow<'_>) -> Result<Vec<f64>>) -> Result<Figures> {
    let users = &data.lists.test;
    let mut sums = RankingSums::new(K, Some(&data.list_buckets))?;
    let pairs = users
        .history
        .expose()
        .users()
        .zip(users.targets.expose().users());
    for (history, targets) in pairs {
        let ranked = best(&scores(history)?, history, sums.depth());
        sums.add(&ranked, targets.items());
    }
    let found = sums.finish()?;
    let buckets = found.by_bucket.iter().enumerate();
    let buckets = buckets.filter_map(|(b, f)| f.recall.map(|r| (RECALL[1], Some(b + 1), r)));
    let all = [(RECALL[0], None, found.recall), (NDCG, None, found.ndcg)];
    Ok(all.into_iter().chain(buckets).collect())
}

/// The items with the highest scores, excluding those in the history.
fn best(scores: &[f64], history: UserRow<'_>, k: usize) -> Vec<u32> {
    let items = (0_u32..).zip(scores);
    let mut ranked: Vec<(u32, &f64)> = items
        .filter(|(item, _)| history.items().binary_search(item).is_err())
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(k);
    ranked.into_iter().map(|(item, _)| item).collect()
}

/// A row for each metric, over seeds.
fn rows_of(method: &'static str, epsilon: Option<f64>, by_seed: &[Figures]) -> Vec<Row> {
    let Some(first) = by_seed.first() else {
        return Vec::new();
    };
    let row = |&(metric, bucket, _): &(&'static str, Option<usize>, f64)| {
        let same = |f: &&(&str, Option<usize>, f64)| (f.0, f.1) == (metric, bucket);
        let values = by_seed.iter().filter_map(|all| all.iter().find(same));
        let values: Vec<f64> = values.map(|f| f.2).collect();
        let params = bucket.map(|b| ("bucket".to_owned(), json!(b)));
        let params: Map<String, Value> = params.into_iter().collect();
        Row::over_seeds(method, epsilon, params, metric, &values)
    };
    first.iter().map(row).collect()
}
