//! `nights`: a recommender that is retrained every night, with one lifetime budget and with other
//! ways to divide one.

use std::path::Path;

use dp_accounting::{Budget, Ledger, Pace, gdp};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_data::{
    FeatureVocabulary, ItemCatalogue, RankingSums, RatingSplit, Ratings, RatingsColumns,
    RatingsFormat, SplitFractions, UserSplit, read_item_table, read_ratings, rmse,
};
use dp_mechanism::{NoiseSource, PacedLifetime, ReleaseList, Run};
use dp_multitask::{
    FactorModel, FactorizationParams, LocalBias, NightState, NightlyFactorization, NightlyParams,
    NonPrivateAls, Trainer as _, user_mean_predictions,
};
use dp_page::{Axis, Chart, Lines};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::ReproduceArgs;
use super::calibration::{DELTA, pay};
use super::chart::{grouped, param, point};
use super::data_file::data_file;
use super::report::Row;
use super::sizes;
use dp_personal::error::{Error, Result};
use dp_personal::workflows::input::hold_out_users;

const METRIC: &str = "test RMSE";
const RECALL: &str = "Recall@20";
/// Length of lists.
const LIST: usize = 20;
/// Ratings from this value on count as likes.
const LEAST_YES: f64 = 4.0;
pub(super) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
/// Shrinkage of the user-mean baseline, in ratings.
const USER_MEAN_SHRINKAGE: f64 = 5.0;
const EPSILONS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
/// Number of nights on which everything is measured, evenly spaced.
const MEASURED: u32 = 8;
/// Distance between the seeds of different lifetimes.
pub(super) const SEED_STRIDE: u64 = 1 << 20;

/// When records arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Users arrive evenly over all nights, with all their records.
    Even,
    /// Users arrive evenly over all nights, and each of their records evenly from then on.
    Adding,
    /// Half of the users arrive on the first night, the others evenly.
    Half,
    /// According to the timestamps in the data.
    Times,
}

pub(super) struct Setting {
    pub(super) arrival: Arrival,
    pub(super) nights: u32,
    pub(super) epsilons: Vec<f64>,
    /// Whether settings are compared on validation data instead of the test part.
    validates: bool,
    /// Minimum signal at which taste factors start, instead of the default.
    signal: Option<f64>,
    tastes: usize,
    /// Whether to compare lifetimes with public item features with those without.
    features: bool,
    /// Whether only lifetimes are measured.
    pub(super) is_brief: bool,
}

impl Setting {
    pub(super) fn new(args: &ReproduceArgs, arrival: Arrival, nights: u32) -> Result<Self> {
        let mut setting = Self {
            arrival,
            nights: if args.quick { 8 } else { nights },
            epsilons: EPSILONS.to_vec(),
            validates: false,
            signal: None,
            tastes: 8,
            features: false,
            is_brief: false,
        };
        sizes::apply(
            &args.size,
            "nights, epsilon, arrival (0 even, 1 adding, 2 half), validation (1: in place of the test part), signal, tastes, features (1: also with genres and decades of items), brief (1: lifetimes alone)",
            |key, value| {
                match key {
                    "nights" => setting.nights = u32::try_from(sizes::whole(value)).unwrap_or(0),
                    "epsilon" => setting.epsilons = vec![value],
                    "validation" => setting.validates = value > 0.0,
                    "signal" => setting.signal = Some(value),
                    "tastes" => setting.tastes = sizes::whole(value),
                    "features" => setting.features = value > 0.0,
                    "brief" => setting.is_brief = value > 0.0,
                    "arrival" => match sizes::whole(value) {
                        1 => setting.arrival = Arrival::Adding,
                        2 => setting.arrival = Arrival::Half,
                        _ if value == 0.0 => setting.arrival = Arrival::Even,
                        _ => return false,
                    },
                    _ => return false,
                }
                true
            },
        )?;
        if setting.nights < MEASURED {
            let text = format!("--size nights: {MEASURED} or more");
            return Err(Error::Usage(text));
        }
        Ok(setting)
    }

    /// The nights on which everything is measured.
    pub(super) fn measured(&self) -> Vec<u32> {
        (1..=MEASURED)
            .map(|k| k * self.nights / MEASURED - 1)
            .collect()
    }

    fn settings(&self, default: NightlyParams, n_tastes: usize) -> NightlyParams {
        NightlyParams {
            n_tastes,
            most_nights: self.nights,
            least_signal: self.signal.unwrap_or(default.least_signal),
            ..default
        }
    }
}

pub(super) fn ml1m(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(
        args,
        "ml-1m",
        &["ratings.csv.gz", "ratings.csv", "ratings.dat"],
        Arrival::Even,
        365,
    )
}

/// The data set's 215 days.
pub(super) fn ml100k(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(
        args,
        "ml-100k",
        &["ratings.csv.gz", "ratings.csv", "u.data"],
        Arrival::Times,
        215,
    )
}

/// The data set's twenty years, treated as one.
pub(super) fn latest_small(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(
        args,
        "ml-latest-small-2016",
        &["ratings.csv.gz", "ratings.csv"],
        Arrival::Times,
        365,
    )
}

fn run(
    args: &ReproduceArgs,
    folder: &str,
    files: &[&str],
    arrival: Arrival,
    nights: u32,
) -> Result<Vec<Row>> {
    let setting = Setting::new(args, arrival, nights)?;
    let path = data_file(args, folder, files)?;
    let ratings = read_ratings(&path, &RatingsFormat::default())?;
    let times = match setting.arrival {
        Arrival::Times => Some(read_times(&path)?),
        _ => None,
    };
    let features = match setting.features {
        true => Some(read_features(
            &data_file(args, folder, &["items.tsv.gz", "items.tsv"])?,
            ratings.catalogue(),
        )?),
        false => None,
    };
    let public = (times.as_ref(), features.as_ref());
    let split = ratings.split(SplitFractions::default(), 0)?;
    let mut measured = Vec::new();
    for seed in 0..args.seeds {
        let seed = args.seed_base.wrapping_add(seed);
        measured.push(one_seed(&setting, &split, public, seed)?);
    }
    Ok(rows(&setting, folder, METRIC, &measured))
}

/// Likes: ratings of 4 and above, lists for held-out users.
pub(super) fn likes(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let setting = Setting::new(args, Arrival::Even, 365)?;
    let files = ["ratings.csv.gz", "ratings.csv", "ratings.dat"];
    let path = data_file(args, "ml-1m", &files)?;
    let ratings = read_ratings(&path, &RatingsFormat::default())?;
    let split = hold_out_users(&ratings.to_implicit(LEAST_YES)?, 0)?;
    let mut measured = Vec::new();
    for seed in 0..args.seeds {
        let seed = args.seed_base.wrapping_add(seed);
        measured.push(one_seed_of_likes(&setting, &split, seed)?);
    }
    Ok(rows(&setting, "ml-1m", RECALL, &measured))
}

fn one_seed_of_likes(setting: &Setting, split: &UserSplit, seed: u64) -> Result<Measured> {
    let train = split.train.expose();
    let n_items = train.n_items();
    let arrivals = arrivals(setting, train, None, seed);
    let mut seeds = (1..).map(|at| seed.wrapping_mul(SEED_STRIDE).wrapping_add(at << 12));
    let mut lifetimes = Vec::new();
    for &epsilon in &setting.epsilons {
        for (method, n_tastes) in [
            ("paced, popularity", 0),
            ("paced, with tastes", setting.tastes),
        ] {
            let params = setting.settings(NightlyParams::for_likes(n_items), n_tastes);
            let seed = seeds.next().unwrap_or_default();
            lifetimes.push(Lifetime::new(
                method, epsilon, params, setting, n_items, seed,
            )?);
        }
    }
    let users = match setting.validates {
        true => &split.valid,
        false => &split.test,
    };
    let recall = |model: &FactorModel| -> Result<f64> {
        let mut sums = RankingSums::new(LIST, None)?;
        let lists = model.recommend_held_out(&users.history, &users.targets, sums.depth())?;
        sums.add_all(&lists, &users.targets)?;
        Ok(sums.finish()?.recall)
    };
    let mut found = of_lifetimes(setting, train, &arrivals, lifetimes, &recall)?;
    if setting.is_brief {
        return Ok(found);
    }
    for night in setting.measured() {
        let data = table(train, &arrivals, night)?;
        for &epsilon in &setting.epsilons {
            let target = ApproxDp::target(epsilon, DELTA)?;
            for (method, params) in [
                (
                    "one run, popularity",
                    FactorizationParams::popularity_for_target(target),
                ),
                (
                    "one run, with tastes",
                    FactorizationParams::implicit_plain_for_target(target),
                ),
            ] {
                let noise = NoiseSource::insecure_seeded(seeds.next().unwrap_or_default());
                let model = trained(params, target, &data, noise)?;
                found.push((method, Some(epsilon), night, recall(&model)?));
            }
        }
        let model = NonPrivateAls::implicit().fit(&data)?;
        found.push(("no privacy", None, night, recall(&model)?));
    }
    Ok(found)
}

/// All nights of several lifetimes, with measurements on some of them.
fn of_lifetimes(
    setting: &Setting,
    train: &Interactions,
    arrivals: &[Vec<u32>],
    mut lifetimes: Vec<Lifetime>,
    measure: &(dyn Fn(&FactorModel) -> Result<f64> + Sync),
) -> Result<Measured> {
    let measured = setting.measured();
    let mut found = Measured::new();
    for night in 0..setting.nights {
        let data = table(train, arrivals, night)?;
        let is_measured = measured.contains(&night);
        let made: Vec<_> = (lifetimes.par_iter_mut())
            .map(|lifetime| {
                let model = lifetime.night(night, &data)?;
                let error = is_measured.then(|| measure(&model)).transpose()?;
                Ok(error.map(|error| (lifetime.method, Some(lifetime.epsilon), night, error)))
            })
            .collect::<Result<_>>()?;
        found.extend(made.into_iter().flatten());
    }
    Ok(found)
}

/// Rows of public item features, and the number of features.
type Features = (Vec<f64>, usize);

/// Genres and decades of the items.
fn read_features(path: &Path, catalogue: &ItemCatalogue) -> Result<Features> {
    let items = read_item_table(path, &["genres", "year"])?.with_decades("year");
    let vocabulary = FeatureVocabulary::new(&items, 2)?;
    let rows = vocabulary.rows(&items, catalogue.ids().iter().map(String::as_str));
    Ok((rows, vocabulary.category_sizes().iter().sum()))
}

/// The column `timestamp` read as ratings.
pub(super) fn read_times(path: &Path) -> Result<Ratings> {
    let columns = RatingsColumns {
        rating: Some("timestamp".to_owned()),
        ..RatingsColumns::default()
    };
    Ok(read_ratings(
        path,
        &RatingsFormat::default().with_columns(columns),
    )?)
}

/// The night on which each training record arrives, user by user.
fn arrivals(
    setting: &Setting,
    train: &Interactions,
    times: Option<&Ratings>,
    seed: u64,
) -> Vec<Vec<u32>> {
    let nights = setting.nights;
    if let Some(times) = times {
        let times = times.interactions().expose();
        let all = || times.users().flat_map(|row| row.values());
        let first = all().copied().fold(f32::INFINITY, f32::min);
        let last = all().copied().fold(f32::NEG_INFINITY, f32::max);
        let night = |time: f32| {
            let share = f64::from(time - first) / (f64::from(last - first) + 1.0);
            floor(share * f64::from(nights)).min(nights - 1)
        };
        let users = train.users().zip(times.users());
        return users
            .map(|(row, times)| {
                let of = |item: &u32| {
                    let at = times.items().binary_search(item);
                    at.map_or(0, |at| night(times.values()[at]))
                };
                row.items().iter().map(of).collect()
            })
            .collect();
    }
    let mut coins = ChaCha20Rng::seed_from_u64(seed);
    let users = train.users().map(|row| {
        let is_first = setting.arrival == Arrival::Half && coins.random_bool(0.5);
        let arrival = if is_first {
            0
        } else {
            coins.random_range(0..nights)
        };
        let each = row.items().iter().map(|_| match setting.arrival {
            Arrival::Adding => coins.random_range(arrival..nights),
            _ => arrival,
        });
        each.collect()
    });
    users.collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of some nights"
)]
fn floor(x: f64) -> u32 {
    x as u32
}

/// The records that have arrived by a night.
fn table(train: &Interactions, arrivals: &[Vec<u32>], night: u32) -> Result<Private<Interactions>> {
    let mut builder = InteractionsBuilder::new(train.n_items());
    let mut at = 0;
    for (user, (row, arrivals)) in train.users().zip(arrivals).enumerate() {
        let there = row
            .iter()
            .zip(arrivals)
            .filter(|(_, arrival)| **arrival <= night);
        let mut is_there = false;
        for ((item, value), _) in there {
            builder.push(at, item, value)?;
            is_there = true;
        }
        if is_there {
            builder.set_id(at, 1 << 127 | user as u128);
            at += 1;
        }
    }
    Ok(Private::new(builder.build().0))
}

/// One lifetime, night by night.
struct Lifetime {
    method: &'static str,
    epsilon: f64,
    fit: NightlyFactorization,
    plan: dp_accounting::Plan,
    folder: tempfile::TempDir,
    id: String,
    kept: Option<NightState>,
    seed: u64,
}

impl Lifetime {
    fn new(
        method: &'static str,
        epsilon: f64,
        params: NightlyParams,
        setting: &Setting,
        n_items: usize,
        seed: u64,
    ) -> Result<Self> {
        let fit = params.check()?;
        let plan = fit.plan(n_items, ApproxDp::target(epsilon, DELTA)?, ADJACENCY)?;
        let folder = tempfile::tempdir()
            .map_err(|e| Error::read(Path::new("a folder for a lifetime"), e))?;
        let budget = Budget::new(plan.target(), ADJACENCY)?;
        let ledger = Ledger::create(folder.path().join("ledger"), "nights", budget)?;
        let pace = Pace::new(0.4, setting.nights)?;
        let begun = PacedLifetime::begin(ledger, &plan, pace, folder.path().join("first-seen"));
        let id = begun.map_err(Error::from)?.release_id().to_owned();
        Ok(Self {
            method,
            epsilon,
            fit,
            plan,
            folder,
            id,
            kept: None,
            seed,
        })
    }

    fn night(&mut self, number: u32, data: &Private<Interactions>) -> Result<FactorModel> {
        let at = |name: &str| self.folder.path().join(name);
        let ledger = Ledger::open(at("ledger"), "nights", ADJACENCY)?;
        let mut lifetime = PacedLifetime::resume(ledger, self.id.clone(), at("first-seen"))?;
        let list = ReleaseList::open(at("list"), "nights", &self.plan)?;
        let noise = &mut NoiseSource::insecure_seeded(self.seed.wrapping_add(number.into()));
        let run = Run::nightly(&self.plan, &mut lifetime, number, noise)?;
        let fit = match self.kept.take() {
            Some(kept) => self.fit.clone().continuing(kept),
            None => self.fit.clone(),
        };
        let made = fit.run(data, run.listed_in(list))?.model;
        self.kept = Some(made.state);
        Ok(made.model)
    }
}

/// Another way to spend a lifetime's budget, described by the budget of the model of one night.
struct Other {
    method: &'static str,
    /// Whether it learns only item biases.
    is_of_biases: bool,
    /// For night `t`: the night whose records the model uses, and the part of mu that is spent on
    /// it.
    spends: fn(t: u32, nights: u32) -> (u32, f64),
}

const OTHERS: &[Other] = &[
    Other {
        method: "one run, item biases",
        is_of_biases: true,
        spends: |t, _| (t, 1.0),
    },
    Other {
        method: "one run, with tastes",
        is_of_biases: false,
        spends: |t, _| (t, 1.0),
    },
    Other {
        method: "divided over all nights",
        is_of_biases: true,
        spends: |t, nights| (t, f64::from(nights).sqrt().recip()),
    },
    Other {
        method: "runs on nights 1, 2, 4, ...",
        is_of_biases: true,
        spends: |t, nights| {
            (
                (1 << (t + 1).ilog2()) - 1,
                f64::from(nights.ilog2() + 1).sqrt().recip(),
            )
        },
    },
    Other {
        method: "prefix sums, tree",
        is_of_biases: true,
        spends: |t, nights| (t, tree(t, nights)),
    },
    Other {
        method: "prefix sums, Toeplitz",
        is_of_biases: true,
        spends: |t, nights| (t, toeplitz(t, nights)),
    },
];

/// The part of mu of a prefix sum up to night `t` under a binary tree over all nights whose nodes
/// are refined from below (Honaker 2015): a user is in one node of each level, and a node of height
/// `h` has the variance `1 / (2 - 2^-h)`.
fn tree(t: u32, nights: u32) -> f64 {
    let levels = f64::from(nights.next_power_of_two().ilog2() + 1);
    let length = t + 1;
    let heights = (0..32).filter(|h| length >> h & 1 == 1);
    let variance: f64 = heights.map(|h| (2.0 - 0.5_f64.powi(h)).recip()).sum();
    (levels * variance).sqrt().recip()
}

/// The same under the square root of the matrix of prefix sums (Fichtenberger, Henzinger and
/// Upadhyay 2023): coefficients `binom(2k, k) / 4^k`.
fn toeplitz(t: u32, nights: u32) -> f64 {
    let squares = |n: u32| -> f64 {
        let coefficients = (0..n).scan(1.0, |next, k| {
            let now = *next;
            *next *= (2.0 * f64::from(k) + 1.0) / (2.0 * f64::from(k) + 2.0);
            Some(now)
        });
        coefficients.map(|c: f64| c * c).sum()
    };
    (squares(nights) * squares(t + 1)).sqrt().recip()
}

/// Rows of one seed: method, epsilon, night, error.
pub(super) type Measured = Vec<(&'static str, Option<f64>, u32, f64)>;

fn one_seed(
    setting: &Setting,
    split: &RatingSplit,
    (times, features): (Option<&Ratings>, Option<&Features>),
    seed: u64,
) -> Result<Measured> {
    let train = split.train.expose();
    let arrivals = arrivals(setting, train, times, seed);
    let mut seeds = (1..).map(|at| seed.wrapping_mul(SEED_STRIDE).wrapping_add(at << 12));
    let mut lifetimes = Vec::new();
    for &epsilon in &setting.epsilons {
        for ([method, with_features], n_tastes) in [
            (["paced, item biases", "paced, item biases, features"], 0),
            (
                ["paced, with tastes", "paced, with tastes, features"],
                setting.tastes,
            ),
        ] {
            let default = NightlyParams::for_ratings(1.0, 5.0, train.n_items());
            let params = setting.settings(default, n_tastes);
            let seed = seeds.next().unwrap_or_default();
            let begin = |method| {
                Lifetime::new(
                    method,
                    epsilon,
                    params.clone(),
                    setting,
                    train.n_items(),
                    seed,
                )
            };
            lifetimes.push(begin(method)?);
            if let Some((rows, n_columns)) = features {
                // the same noise
                let mut lifetime = begin(with_features)?;
                lifetime.fit = lifetime.fit.with_columns(rows.clone(), *n_columns)?;
                lifetimes.push(lifetime);
            }
        }
    }
    let held_out = match setting.validates {
        true => &split.valid,
        false => &split.test,
    };
    let error = |model: &FactorModel| -> Result<f64> {
        let pairs = model.predict_held_out(&split.train, held_out)?;
        Ok(rmse(pairs.expose().iter().copied())?)
    };
    let mut found = of_lifetimes(setting, train, &arrivals, lifetimes, &error)?;
    if setting.is_brief {
        return Ok(found);
    }
    let measured = setting.measured();
    let jobs = (measured.iter()).flat_map(|&night| {
        setting
            .epsilons
            .iter()
            .map(move |&epsilon| (night, epsilon))
    });
    for (night, epsilon) in jobs {
        let mu = gdp::mu_for(ApproxDp::target(epsilon, DELTA)?)?;
        for other in OTHERS {
            let (of, part) = (other.spends)(night, setting.nights);
            let data = table(train, &arrivals, of)?;
            let noise = NoiseSource::insecure_seeded(seeds.next().unwrap_or_default());
            let model = once(other.is_of_biases, mu * part, &data, noise)?;
            found.push((other.method, Some(epsilon), night, error(&model)?));
        }
    }
    for &night in &measured {
        let data = table(train, &arrivals, night)?;
        for (method, dim) in [
            ("no privacy, item biases", 1),
            ("no privacy, with tastes", 17),
        ] {
            let model = NonPrivateAls {
                dim,
                ..NonPrivateAls::default()
            }
            .fit(&data)?;
            found.push((method, None, night, error(&model)?));
        }
    }
    let bias = LocalBias {
        center: 3.0,
        shrinkage: USER_MEAN_SHRINKAGE,
    };
    let means = user_mean_predictions(train, held_out.expose(), bias);
    found.push(("user mean", None, setting.nights - 1, rmse(means)?));
    Ok(found)
}

/// One run of `dp train`'s default method.
fn once(
    is_of_biases: bool,
    mu: f64,
    data: &Private<Interactions>,
    noise: NoiseSource,
) -> Result<FactorModel> {
    let target = ApproxDp::target(gdp::epsilon(mu, DELTA), DELTA)?;
    let mut params = FactorizationParams::for_target(target).with_rating_range(1.0, 5.0);
    params.dim = is_of_biases.then_some(1);
    trained(params, target, data, noise)
}

fn trained(
    params: FactorizationParams,
    target: ApproxDp,
    data: &Private<Interactions>,
    mut noise: NoiseSource,
) -> Result<FactorModel> {
    let fit = params.check()?;
    let plan = fit.plan(data.expose().n_items(), target, ADJACENCY)?;
    Ok(fit
        .fit(data, &plan, pay(&plan, "nights")?, &mut noise)?
        .model)
}

pub(super) fn rows(
    setting: &Setting,
    data: &str,
    metric: &'static str,
    measured: &[Measured],
) -> Vec<Row> {
    let Some(first) = measured.first() else {
        return Vec::new();
    };
    let arrival = match setting.arrival {
        Arrival::Even => "even",
        Arrival::Adding => "even, then adding",
        Arrival::Half => "half on the first night",
        Arrival::Times => "as in the data",
    };
    let cells = first.iter().enumerate().map(|(at, &(method, epsilon, night, _))| {
        let values: Vec<f64> = measured.iter().map(|of| of[at].3).collect();
        let params = json!({"data": data, "arrival": arrival, "night": night + 1, "nights": setting.nights});
        let params = params.as_object().cloned().unwrap_or_else(Map::new);
        Row::over_seeds(method, epsilon, params, metric, &values)
    });
    cells.collect()
}

/// Methods that are close to others, or the same on every night.
const NOT_DRAWN: [&str; 4] = [
    "user mean",
    "one run, item biases",
    "prefix sums, tree",
    "no privacy, item biases",
];

/// Error against night, a chart for each epsilon and a line for each method.
pub(super) fn plot(rows: &[Value]) -> Vec<Chart> {
    let mut epsilons: Vec<f64> = rows
        .iter()
        .filter_map(|row| row["epsilon"].as_f64())
        .collect();
    epsilons.dedup();
    epsilons.sort_by(f64::total_cmp);
    epsilons.dedup();
    epsilons
        .into_iter()
        .map(|epsilon| at(epsilon, rows))
        .collect()
}

fn at(epsilon: f64, rows: &[Value]) -> Chart {
    let is_mine = |of: f64| of.to_bits() == epsilon.to_bits();
    let mine = |row: &&Value| row["epsilon"].as_f64().is_none_or(is_mine);
    let points = rows.iter().filter(mine).filter_map(|row| {
        let name = row["method"]
            .as_str()
            .filter(|name| !NOT_DRAWN.contains(name))?;
        Some((name.to_owned(), point(param(row, "night")?, row)?))
    });
    let note = format!("lifetime epsilon {epsilon}, delta 1e-5; mean over seeds");
    let lines = grouped(points);
    let all = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::around("night", all().map(|p| p.x));
    let metric = rows.first().and_then(|row| row["metric"].as_str());
    let y = Axis::around(metric.unwrap_or(METRIC), all().map(|p| p.y));
    Chart::lines("A model for every night", &note, Lines { x, y, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_sums_have_the_parts_of_the_budget_that_are_published() {
        // one night: the full budget; Toeplitz over 2 nights: sensitivity and row norm are both 1 +
        // 1/4
        assert!((toeplitz(0, 1) - 1.0).abs() < 1e-12);
        assert!((toeplitz(1, 2) - 0.8).abs() < 1e-12);
        // a tree over 4 nights has 3 levels; the root, refined from two levels below, has the
        // variance 1 / (2 - 1/4)
        assert!((tree(3, 4) - (1.75_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((tree(0, 4) - 3.0_f64.sqrt().recip()).abs() < 1e-12);
        let doubling = OTHERS[3].spends;
        assert_eq!(doubling(4, 8), (3, 0.5));
    }
}
