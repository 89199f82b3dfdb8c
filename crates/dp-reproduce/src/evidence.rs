//! `evidence`: `dp train --prior` with information about the items from public ratings and
//! features, compared with runs without it and with a prior of other items.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dp_data::{ItemCatalogue, Ratings, RatingsFormat, SplitFractions, read_ratings};
use dp_page::Chart;
use dp_personal::error::{Error, Result};
use dp_personal::settings::{EvidenceSettings, Given, TrainSettings};
use dp_personal::watch::Silent;
use dp_personal::workflows::evidence::evidence;
use dp_personal::workflows::train::train;
use serde_json::{Map, Value, json};

use super::ReproduceArgs;
use super::chart::{chart, grouped, point};
use super::data_file::data_file;
use super::data_sets::{FILES as RATINGS, defaults, epsilons, measured};
use super::nights::read_times;
use super::report::Row;

const ITEMS: [&str; 2] = ["items.tsv.gz", "items.tsv"];
const METRIC: &str = "test RMSE";

/// A private and a public data set.
struct Pair {
    private: &'static str,
    public: &'static str,
    /// The public users are those whose first rating is later than this (seconds since 1970): none
    /// of them rates in the private set under the same id.
    after: f64,
}

const PAIRS: [Pair; 3] = [
    Pair {
        private: "ml-1m",
        public: "ml-100k",
        after: 0.0,
    },
    Pair {
        private: "ml-1m",
        public: "ml-latest-small-2016",
        // April 2003: MovieLens-1M has ratings up to February
        after: 1_049_155_200.0,
    },
    Pair {
        private: "ml-100k",
        public: "ml-latest-small-2016",
        // May 1998: MovieLens-100K has ratings up to April
        after: 893_980_800.0,
    },
];

/// Item information given to a run.
const METHODS: [&str; 4] = [
    "nothing",
    "features",
    "public ratings and features",
    "those of other items",
];

pub(super) fn run(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let epsilons = epsilons(args)?;
    let pairs = if args.quick { &PAIRS[2..] } else { &PAIRS[..] };
    let mut rows = Vec::new();
    for pair in pairs {
        rows.extend(of_pair(args, pair, &epsilons)?);
    }
    Ok(rows)
}

fn of_pair(args: &ReproduceArgs, pair: &Pair, epsilons: &[f64]) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir().map_err(|e| Error::write(Path::new("a new folder"), e))?;
    let (priors, n_matched) = priors(args, pair, folder.path())?;
    let ratings = data_file(args, pair.private, &RATINGS)?;
    let mut rows = Vec::new();
    for (method, prior) in METHODS.into_iter().zip(&priors) {
        for &epsilon in epsilons {
            let seeds = args.seed_base..args.seed_base.saturating_add(args.seeds);
            let values = seeds
                .map(|seed| error_of(&ratings, prior.as_deref(), epsilon, seed, folder.path()))
                .collect::<Result<Vec<_>>>()?;
            let mut params = Map::new();
            params.insert("set".to_owned(), json!(pair.private));
            params.insert("public".to_owned(), json!(pair.public));
            params.insert("matched".to_owned(), json!(n_matched));
            rows.push(Row::over_seeds(
                method,
                Some(epsilon),
                params,
                METRIC,
                &values,
            ));
        }
    }
    Ok(rows)
}

/// Tables for [`METHODS`], and the number of items in both the public ratings and the private set.
fn priors(
    args: &ReproduceArgs,
    pair: &Pair,
    folder: &Path,
) -> Result<([Option<PathBuf>; 4], usize)> {
    let items = data_file(args, pair.private, &ITEMS)?;
    let same = matched(&data_file(args, pair.public, &ITEMS)?, &items)?;
    let path = data_file(args, pair.public, &RATINGS)?;
    let public = folder.join("public.csv");
    let n_matched = write_public(&path, pair.after, &same, &public)?;
    let both = folder.join("both.csv");
    let settings: EvidenceSettings = Given::default()
        .with("kind", "ratings")
        .with("ratings", public.as_os_str())
        .with("items", items.as_os_str())
        .with("feature_cols", "genres")
        .with("feature_cols", "year")
        .with("out", both.as_os_str())
        .settings()
        .map_err(|error| Error::Usage(error.to_string()))?;
    evidence(&settings)?;
    let (features, others) = (folder.join("features.csv"), folder.join("others.csv"));
    let table = read_table(&both)?;
    let kept: Vec<usize> = (0..table[0].len())
        .filter(|&at| table[0][at] == "item" || table[0][at].contains('='))
        .collect();
    let lines = table
        .iter()
        .map(|row| kept.iter().map(|&at| row[at].clone()).collect());
    write_table(&features, lines)?;
    let n = table.len() - 1;
    let lines = (0..=n).map(|line| {
        let mut row = table[line].clone();
        if line > 0 {
            row[0].clone_from(&table[1 + (line - 1 + n / 3) % n][0]);
        }
        row
    });
    write_table(&others, lines)?;
    Ok(([None, Some(features), Some(both), Some(others)], n_matched))
}

/// Private item ids by public ones: items with the same title and year, if it is unique in both.
fn matched(public: &Path, private: &Path) -> Result<HashMap<String, String>> {
    let by_name = |path: &Path| -> Result<HashMap<(String, String), Vec<String>>> {
        let catalogue: ItemCatalogue = dp_data::read_catalogue(path)?;
        let years = dp_data::read_item_table(path, &["year"])?;
        let mut found: HashMap<_, Vec<String>> = HashMap::new();
        for (at, id) in catalogue.ids().iter().enumerate() {
            let year = years.names(id, 0).first().cloned().unwrap_or_default();
            let title = catalogue.title(at).unwrap_or_default().trim();
            let title = title.strip_suffix(&format!("({year})")).unwrap_or(title);
            let name = (title.trim().to_lowercase(), year);
            found.entry(name).or_default().push(id.clone());
        }
        Ok(found)
    };
    let private = by_name(private)?;
    let pairs = by_name(public)?.into_iter().filter_map(|(name, ids)| {
        match (ids.as_slice(), private.get(&name)?.as_slice()) {
            ([public], [private]) => Some((public.clone(), private.clone())),
            _ => None,
        }
    });
    Ok(pairs.collect())
}

/// Writes the ratings by users who came later than `after`, of items that are also in the private
/// set, under the ids of these; returns the number of such items.
fn write_public(
    path: &Path,
    after: f64,
    same: &HashMap<String, String>,
    to: &Path,
) -> Result<usize> {
    let all = |ratings: &Ratings| -> Result<dp_data::RatingSplit> {
        Ok(ratings.split(SplitFractions::new(1.0, 0.0, 0.0)?, 0)?)
    };
    let ratings = read_ratings(path, &RatingsFormat::default())?;
    let (split, times) = (all(&ratings)?, all(&read_times(path)?)?);
    let ids = ratings.catalogue().ids();
    let mut lines = vec![["user", "item", "rating"].map(str::to_owned).to_vec()];
    let mut items = std::collections::HashSet::new();
    let rows = split
        .train
        .expose()
        .users()
        .zip(times.train.expose().users());
    for (user, (row, times)) in rows.enumerate() {
        let first = times.values().iter().copied().fold(f32::INFINITY, f32::min);
        if f64::from(first) < after {
            continue;
        }
        for (&item, rating) in row.items().iter().zip(row.values()) {
            if let Some(id) = same.get(&ids[item as usize]) {
                items.insert(id);
                lines.push(vec![format!("p{user}"), id.clone(), rating.to_string()]);
            }
        }
    }
    write_table(to, lines.into_iter())?;
    Ok(items.len())
}

fn read_table(path: &Path) -> Result<Vec<Vec<String>>> {
    let wrong = |e: csv::Error| Error::model(path, e);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_path(path)
        .map_err(wrong)?;
    let rows = reader.records().map(|row| {
        let row = row.map_err(wrong)?;
        Ok(row.iter().map(str::to_owned).collect())
    });
    rows.collect()
}

fn write_table(path: &Path, rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
    let wrong = |e: csv::Error| Error::model(path, e);
    let mut writer = csv::Writer::from_path(path).map_err(wrong)?;
    for row in rows {
        writer.write_record(&row).map_err(wrong)?;
    }
    writer.flush().map_err(|e| Error::write(path, e))
}

/// Test RMSE of `dp train`.
fn error_of(
    ratings: &Path,
    prior: Option<&Path>,
    epsilon: f64,
    seed: u64,
    folder: &Path,
) -> Result<f64> {
    let mut given = defaults(ratings, &folder.join("model"), epsilon, seed).with("force", "true");
    if let Some(prior) = prior {
        given = given.with("prior", prior.as_os_str());
    }
    let settings: TrainSettings = given
        .settings()
        .map_err(|error| Error::Usage(error.to_string()))?;
    let outcome = train(&settings, &mut Silent)?;
    let mut found = measured(&outcome, "RMSE");
    let value = found.find_map(|(method, value)| (method == "model").then_some(value));
    value.ok_or_else(|| Error::Usage("a run without held-out ratings".to_owned()))
}

/// Error against epsilon, a chart for each pair and a line for each method.
pub(super) fn plot(rows: &[Value]) -> Vec<Chart> {
    let of_pair = |pair: &Pair| {
        let rows = rows.iter().filter(|row| {
            row["params"]["set"] == pair.private && row["params"]["public"] == pair.public
        });
        let points = rows.filter_map(|row| {
            let name = row["method"].as_str()?.to_owned();
            Some((name, point(row["epsilon"].as_f64()?, row)?))
        });
        let lines = grouped(points);
        let title = format!("{} with evidence from {}", pair.private, pair.public);
        (!lines.is_empty()).then(|| {
            let note = "What is known of items before; delta 1e-5, users added or removed";
            chart([&title, note], ["epsilon", METRIC], false, lines)
        })
    };
    PAIRS.iter().filter_map(of_pair).collect()
}
