//! `data-sets`: `dp train` with its defaults on every rating data set under --data, compared with
//! free baselines and with models without privacy.

use std::collections::BTreeMap;
use std::path::Path;

use dp_core::{Interactions, Private};
use dp_data::{HeldOutUsers, RankingSums, RatingsFormat, SplitFractions, read_ratings, rmse};
use dp_multitask::{FactorModel, NonPrivateAls};
use dp_personal::error::{Error, Result};
use dp_personal::settings::{Given, TrainSettings};
use dp_personal::watch::Silent;
use dp_personal::workflows::input::hold_out_users;
use dp_personal::workflows::train::{TrainOutcome, train};
use serde_json::{Map, Value, json};

use super::ReproduceArgs;
use super::calibration::DELTA;
use super::data_file::data_file;
use super::report::Row;
use super::sizes;

/// Length of the lists.
const K: usize = 20;
pub(super) const FILES: [&str; 2] = ["ratings.csv.gz", "ratings.csv"];
const EPSILONS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 20.0];

/// A rating data set.
struct DataSet {
    folder: &'static str,
    /// The smallest rating that counts as positive, if the set is also used for implicit feedback.
    least_yes: Option<f64>,
}

const ALL: [DataSet; 5] = [
    DataSet {
        folder: "jester-1",
        least_yes: Some(3.0),
    },
    DataSet {
        folder: "insteval",
        least_yes: None,
    },
    DataSet {
        folder: "ml-latest-small-2016",
        least_yes: Some(4.0),
    },
    DataSet {
        folder: "ml-100k",
        least_yes: Some(4.0),
    },
    DataSet {
        folder: "ml-1m",
        least_yes: Some(4.0),
    },
];

/// Candidates for the model without privacy, selected on the validation part: numbers of factors,
/// and ridges.
const LENGTHS: [usize; 5] = [1, 2, 5, 17, 33];
const RIDGES: [f64; 3] = [3.0, 10.0, 30.0];

/// Results of the seeds by method, index of epsilon and metric, in the order of the tables.
type Found = BTreeMap<(usize, &'static str), Cell>;

#[derive(Default)]
struct Cell {
    values: Vec<f64>,
    choices: Vec<String>,
}

pub(super) fn run(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let epsilons = epsilons(args)?;
    let mut rows = Vec::new();
    let mut n_found = 0;
    for set in &ALL {
        let Ok(path) = data_file(args, set.folder, &FILES) else {
            continue;
        };
        n_found += 1;
        let path = path.to_string_lossy();
        for least_yes in [None].into_iter().chain(set.least_yes.map(Some)) {
            let mut found = Found::new();
            for seed in args.seed_base..args.seed_base.saturating_add(args.seeds) {
                without_privacy(&path, least_yes, seed, args.quick, &mut found)?;
                for (at, epsilon) in epsilons.iter().enumerate() {
                    one(&path, least_yes, (at + 1, *epsilon), seed, &mut found)?;
                }
            }
            rows.extend(table(set.folder, least_yes, &epsilons, &found));
        }
    }
    match n_found {
        0 => {
            let folders: Vec<_> = ALL.iter().map(|set| set.folder).collect();
            let text = format!(
                "--data DIR: a folder with ratings.csv.gz in one of {}",
                folders.join(", ")
            );
            Err(Error::Usage(text))
        }
        _ => Ok(rows),
    }
}

/// The epsilons of the tables, or the one given by `--size epsilon=E`.
pub(super) fn epsilons(args: &ReproduceArgs) -> Result<Vec<f64>> {
    let mut epsilons = EPSILONS.to_vec();
    sizes::apply(&args.size, "epsilon", |key, value| {
        epsilons = vec![value];
        key == "epsilon" && value > 0.0
    })?;
    Ok(epsilons)
}

/// `dp train` with default settings; one seed determines split and noise.
pub(super) fn defaults(ratings: &Path, out: &Path, epsilon: f64, seed: u64) -> Given {
    Given::default()
        .with("ratings", ratings.as_os_str())
        .with("out", out.as_os_str())
        .with("epsilon", epsilon.to_string())
        .with("delta", DELTA.to_string())
        .with("split_seed", seed.to_string())
        .with("insecure_seed", seed.to_string())
        .with("no_ledger", "true")
        .with("show_internal", "true")
        .with("item_ids_are_public", "true")
}

/// The values of `metric` measured in a run, by method.
pub(super) fn measured<'a>(
    outcome: &'a TrainOutcome,
    metric: &'a str,
) -> impl Iterator<Item = (&'a str, f64)> {
    let rows = outcome.json["internal"]["quality"]["metrics"].as_array();
    let rows = rows.into_iter().flatten();
    rows.filter(move |row| row["metric"] == metric)
        .filter_map(|row| Some((row["method"].as_str()?, row["estimate"]["value"].as_f64()?)))
}

fn table<'a>(
    folder: &'static str,
    least_yes: Option<f64>,
    epsilons: &'a [f64],
    found: &'a Found,
) -> impl Iterator<Item = Row> + 'a {
    found.iter().map(move |((at, method), cell)| {
        let epsilon = at.checked_sub(1).and_then(|at| epsilons.get(at)).copied();
        let mut params = Map::new();
        params.insert("set".to_owned(), json!(folder));
        if let Some(least) = least_yes {
            params.insert("likes from".to_owned(), json!(least));
        }
        if !cell.choices.is_empty() {
            params.insert("chose".to_owned(), json!(cell.choices.join("; ")));
        }
        let metric = least_yes.map_or("test RMSE", |_| "Recall@20");
        Row::over_seeds(method, epsilon, params, metric, &cell.values)
    })
}

/// One run of `dp train`: the model's metrics and those of its baselines.
fn one(
    path: &str,
    least_yes: Option<f64>,
    (at, epsilon): (usize, f64),
    seed: u64,
    found: &mut Found,
) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|source| Error::write(path.as_ref(), source))?;
    let out = folder.path().join("model");
    let mut given = defaults(path.as_ref(), &out, epsilon, seed);
    if let Some(least) = least_yes {
        given = given
            .with("feedback", "implicit")
            .with("min_rating", least.to_string());
    }
    let settings: TrainSettings = given
        .settings()
        .map_err(|error| Error::Usage(error.to_string()))?;
    let outcome = train(&settings, &mut Silent)?;
    let metric = least_yes.map_or("RMSE", |_| "Recall@20");
    for (method, value) in measured(&outcome, metric) {
        let place = match method {
            "model" => (at, "auto"),
            "user mean (free, local)" => (0, "user mean (free)"),
            "item biases (private, whole budget)" => (at, "item biases, whole budget"),
            "popularity (private, whole budget)" => (at, "popularity, whole budget"),
            _ => continue,
        };
        // free baselines are the same at every epsilon
        if place.0 == 0 && at > 1 {
            continue;
        }
        let cell = found.entry(place).or_default();
        cell.values.push(value);
        if place.1 == "auto" {
            let n_tastes = outcome.model.n_tastes();
            let verdict = outcome.verdict.as_ref().map(|of| json!(of.outcome));
            let verdict = verdict.as_ref().and_then(Value::as_str).unwrap_or("-");
            cell.choices.push(format!("{n_tastes} tastes, {verdict}"));
        }
    }
    Ok(())
}

/// The best model without privacy, selected on the validation part.
fn without_privacy(
    path: &str,
    least_yes: Option<f64>,
    seed: u64,
    is_quick: bool,
    found: &mut Found,
) -> Result<()> {
    let ratings = read_ratings(path, &RatingsFormat::default())?;
    let lengths = if is_quick { &LENGTHS[..1] } else { &LENGTHS };
    let scored = match least_yes {
        None => {
            let split = ratings.split(SplitFractions::default(), seed)?;
            let errors = |model: &FactorModel, part: &Private<Interactions>| -> Result<f64> {
                let pairs = model.predict_held_out(&split.train, part)?;
                Ok(rmse(pairs.into_exposed())?)
            };
            let best = NonPrivateAls::default()
                .on_scale_of(&split.train)
                .best_among(lengths, &RIDGES, &split.train, |model| {
                    errors(model, &split.valid)
                })?;
            errors(&best.fit(&split.train)?, &split.test)?
        }
        Some(least) => {
            let split = hold_out_users(&ratings.to_implicit(least)?, seed)?;
            let recall = |model: &FactorModel, users: &HeldOutUsers| -> Result<f64> {
                let mut sums = RankingSums::new(K, None)?;
                let lists =
                    model.recommend_held_out(&users.history, &users.targets, sums.depth())?;
                sums.add_all(&lists, &users.targets)?;
                Ok(sums.finish()?.recall)
            };
            let best =
                NonPrivateAls::implicit().best_among(lengths, &RIDGES, &split.train, |model| {
                    Ok::<_, Error>(-recall(model, &split.valid)?)
                })?;
            recall(&best.fit(&split.train)?, &split.test)?
        }
    };
    let cell = found.entry((usize::MAX, "no privacy")).or_default();
    cell.values.push(scored);
    Ok(())
}
