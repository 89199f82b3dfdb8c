//! `evidence`: `dp train --prior` with information about the items from public ratings and
//! features, compared with runs without it and with a prior of other items.

use std::collections::{HashMap, HashSet};
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

const GENRES: &[&str] = &["genres", "year"];
const CREDITS: &[&str] = &["mpaa_rating", "directors", "writers", "actors"];
/// Left out of titles.
const ARTICLES: [&str; 12] = [
    "the", "a", "an", "la", "le", "il", "les", "los", "el", "das", "die", "der",
];
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
    let described = folder.join("items.csv");
    let columns = describe(args, pair, &items, &described)?;
    let path = data_file(args, pair.public, &RATINGS)?;
    let public = folder.join("public.csv");
    let n_matched = write_public(&path, pair.after, &same, &public)?;
    let both = folder.join("both.csv");
    let mut given = Given::default()
        .with("kind", "ratings")
        .with("ratings", public.as_os_str())
        .with("items", described.as_os_str())
        .with("out", both.as_os_str());
    for column in columns {
        given = given.with("feature_cols", column);
    }
    let settings: EvidenceSettings = given
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

/// Writes the genres and years of a private set's items, and the credits where there are any;
/// returns the names of these columns.
fn describe(
    args: &ReproduceArgs,
    pair: &Pair,
    items: &Path,
    to: &Path,
) -> Result<Vec<&'static str>> {
    let mut tables = vec![(GENRES, dp_data::read_item_table(items, GENRES)?)];
    if pair.private == "ml-1m" {
        let path = data_file(
            args,
            pair.private,
            &["items_credits.tsv.gz", "items_credits.tsv"],
        )?;
        tables.push((CREDITS, dp_data::read_item_table(&path, CREDITS)?));
    }
    let columns: Vec<&str> = tables
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    let header = ["item"].iter().chain(&columns).map(|&name| name.to_owned());
    let catalogue = dp_data::read_catalogue(items)?;
    let rows = catalogue.ids().iter().map(|id| {
        let of_table = |(columns, table): &(&[&str], dp_data::ItemTable)| -> Vec<String> {
            let all = 0..columns.len();
            all.map(|column| table.names(id, column).join("|"))
                .collect()
        };
        let own = tables.iter().flat_map(of_table);
        std::iter::once(id.clone()).chain(own).collect()
    });
    write_table(to, std::iter::once(header.collect()).chain(rows))?;
    Ok(columns)
}

/// Titles under which an item may appear, each as its words in order of the alphabet, without
/// articles and punctuation: the first without what is in parentheses, then the whole, what is in
/// parentheses, and what is before and after a colon or dash.
fn names(title: &str, year: &str) -> Vec<String> {
    let words = |text: &str| {
        let kept = |c: &char| c.is_ascii_alphanumeric() || *c == ' ';
        let text = text.to_lowercase().replace('&', "and");
        let text: String = text.chars().filter(kept).collect();
        let mut words: Vec<&str> = text.split(' ').filter(|w| !w.is_empty()).collect();
        words.retain(|word| !ARTICLES.contains(word));
        words.sort_unstable();
        words.join(" ")
    };
    let title = title.trim().trim_end_matches("(V)").trim();
    let title = title.strip_suffix(&format!("({year})")).unwrap_or(title);
    let (mut outside, mut inside) = (String::new(), Vec::new());
    for (at, part) in title.split('(').enumerate() {
        let (within, after) = match part.split_once(')') {
            Some(parts) if at > 0 => parts,
            _ => ("", part),
        };
        inside.push(within);
        outside.push_str(after);
    }
    let parts = outside.split(": ").flat_map(|part| part.split(" - "));
    let all = [outside.as_str(), title].into_iter().chain(inside);
    all.chain(parts).map(words).collect()
}

/// Private item ids by public ones, in three passes: by title without parentheses and year; by any of
/// the [`names`] and year; by title and a year that differs by one. There must be one such private
/// item. The second and third pass are about items that no earlier pass has matched, and there must
/// be one such public item too. (In the first, a film that is listed twice has the ratings of both.)
fn matched(public: &Path, private: &Path) -> Result<HashMap<String, String>> {
    let items = |path: &Path| -> Result<Vec<(String, i32, Vec<String>)>> {
        let catalogue: ItemCatalogue = dp_data::read_catalogue(path)?;
        let years = dp_data::read_item_table(path, &["year"])?;
        let ids = catalogue.ids().iter().enumerate();
        let item = |(at, id): (usize, &String)| {
            let year = years.names(id, 0).first().cloned().unwrap_or_default();
            let names = names(catalogue.title(at).unwrap_or_default(), &year);
            Some((id.clone(), year.parse().ok()?, names))
        };
        Ok(ids.filter_map(item).collect())
    };
    fn usable(names: &[String], n: usize) -> impl Iterator<Item = &String> {
        names.iter().take(n).filter(|name| !name.is_empty())
    }
    let (public, private) = (items(public)?, items(private)?);
    let mut found: HashMap<String, String> = HashMap::new();
    for (n_names, distance) in [(1, 0), (usize::MAX, 0), (1, 1)] {
        let used: HashSet<&String> = match (n_names, distance) {
            (1, 0) => HashSet::new(),
            _ => found.values().collect(),
        };
        let mut by_name: HashMap<(&String, i32), HashSet<&String>> = HashMap::new();
        for (id, year, names) in private.iter().filter(|(id, ..)| !used.contains(id)) {
            for name in usable(names, n_names) {
                for year in [year - distance, year + distance] {
                    by_name.entry((name, year)).or_default().insert(id);
                }
            }
        }
        let mut more = Vec::new();
        for (id, year, names) in public.iter().filter(|(id, ..)| !found.contains_key(id)) {
            let same = usable(names, n_names).filter_map(|name| by_name.get(&(name, *year)));
            let same: HashSet<&String> = same.flatten().copied().collect();
            if let (1, Some(other)) = (same.len(), same.iter().next()) {
                more.push((id.clone(), (*other).clone()));
            }
        }
        let mut n_of: HashMap<String, usize> = HashMap::new();
        for (_, private) in &more {
            *n_of.entry(private.clone()).or_default() += 1;
        }
        let is_first = (n_names, distance) == (1, 0);
        more.retain(|(_, private)| is_first || n_of[private] == 1);
        found.extend(more);
    }
    Ok(found)
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
    let mut items = HashSet::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_matched_however_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, titles: &[(&str, &str)]| {
            let path = folder.path().join(name);
            let lines = titles.iter().enumerate().map(|(at, (title, year))| {
                let id = format!("{}{at}", &name[..2]);
                [&id, *title, year].map(str::to_owned).to_vec()
            });
            let header = ["item", "title", "year"].map(str::to_owned).to_vec();
            write_table(&path, std::iter::once(header).chain(lines)).unwrap();
            path
        };
        let public = [
            ("Star Wars (1977)", "1977"),
            ("Boot, Das (1981)", "1981"),
            ("Conan the Barbarian (1981)", "1981"),
            ("Chasing Amy (1997)", "1997"),
            ("Chasing Amy (1997)", "1997"),
            ("Rebecca (1940)", "1940"),
            ("Land Before Time III, The (1995) (V)", "1995"),
            ("", "1995"),
            ("Mission: Impossible (1996)", "1996"),
            ("Impossible Mission (1996)", "1996"),
        ];
        let private = [
            ("Star Wars: Episode IV - A New Hope (1977)", "1977"),
            ("Boat, The (Das Boot) (1981)", "1981"),
            ("Conan the Barbarian (1982)", "1982"),
            ("Chasing Amy (1997)", "1997"),
            ("Rebecca (1960)", "1960"),
            ("Land Before Time III (1995)", "1995"),
            ("Mission (1996)", "1996"),
        ];
        let found = matched(
            &write("public.csv", &public),
            &write("private.csv", &private),
        )
        .unwrap();
        let mut found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&a[2..], &b[2..])).collect();
        found.sort_unstable();
        // 5: another film; 7: no title; 8: by its first part; 9: words in another order are no part
        let expected = [
            ("0", "0"),
            ("1", "1"),
            ("2", "2"),
            ("3", "3"),
            ("4", "3"),
            ("6", "5"),
            ("8", "6"),
        ];
        assert_eq!(found, expected);
    }
}
