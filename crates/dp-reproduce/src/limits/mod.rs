//! `limits`: a lower bound on the error of item biases under any mu-GDP mechanism, compared with
//! the error of `dp train --method biases`.

mod bound;

use dp_accounting::{Plan, ReleaseRequest, Requests, gdp};
use dp_core::{Adjacency, ApproxDp, Interactions, ReplaceFactor, UserRow};
use dp_data::{RatingSplit, RatingsFormat, SplitFractions, read_ratings, rmse};
use dp_mechanism::{NoiseSource, Run, SparseBuffer, VectorContribution};
use dp_multitask::{
    FactorModel, FactorizationParams, LocalBias, Provenance, ScoreModel, Scoring, Trainer as _,
};
use dp_page::Chart;
use serde_json::{Value, json};

use self::bound::{Items, any_mechanism, norm_of, same_covariance};
use super::ReproduceArgs;
use super::calibration::{DELTA, pay};
use super::chart::{chart, grouped, point};
use super::data_file::data_file;
use super::report::Row;
use super::sizes;
use dp_personal::error::Result;

const METRIC: &str = "test RMSE";
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const EPSILONS: [f64; 6] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
/// Rounds that alternate between fitting offsets and item biases, and rounds of estimating the
/// prior.
const ROUNDS: usize = 30;

pub(super) fn ml1m(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let mut epsilons = if args.quick {
        vec![1.0]
    } else {
        EPSILONS.to_vec()
    };
    sizes::apply(&args.size, "epsilon", |key, value| {
        epsilons = vec![value];
        key == "epsilon"
    })?;
    let path = data_file(
        args,
        "ml-1m",
        &["ratings.csv.gz", "ratings.csv", "ratings.dat"],
    )?;
    let ratings = read_ratings(&path, &RatingsFormat::default())?;
    let split = ratings.split(SplitFractions::default(), 0)?;
    let exact = Exact::fit(split.train.expose());
    let shares = shares(split.test.expose());
    let items = Items {
        table: split.train.expose(),
        shares: &shares,
        residual: exact.residual,
        prior: exact.prior,
    };
    let base = test_error(&model_of(exact.biases.clone())?, &split)?.powi(2);
    let one = |method, epsilon, params: Value, value: f64| {
        let params = params.as_object().cloned().unwrap_or_default();
        Row::over_seeds(method, epsilon, params, METRIC, &[value])
    };
    let mut rows = vec![one(
        "no privacy",
        None,
        json!({
            "residual_variance": exact.residual,
            "prior_variance": exact.prior,
            "of_item_biases": items.without_privacy(),
        }),
        base.sqrt(),
    )];
    // the noise and clipping of `dp train`
    let counts = items.counts();
    let plain: Vec<f64> = counts.iter().map(|n| n.max(1.0).powf(-0.25)).collect();
    for epsilon in epsilons {
        let target = ApproxDp::target(epsilon, DELTA)?;
        let mu = gdp::mu_for(target)?;
        let params = FactorizationParams {
            dim: Some(1),
            global_effects: false,
            ..FactorizationParams::for_target(target).with_rating_range(1.0, 5.0)
        };
        let fit = params.check()?;
        let plan = fit.plan(items.table.n_items(), target, ADJACENCY)?;
        let any = items.least_error(any_mechanism(mu)).excess;
        let least = items.least_error(same_covariance(mu));
        let sum = |gains: &[f64], mu: f64| exact.one_sum(&items, gains, mu).excess;
        let of_sums = mu * part_of_sums(&plan)?;
        let computed = [
            ("bound, any mechanism", any),
            ("bound, noise that no user changes", least.excess),
            ("one sum", sum(&least.gains, mu)),
            ("one sum, counts paid for", sum(&least.gains, of_sums)),
            (
                "one sum, counts paid for, plain weights",
                sum(&plain, of_sums),
            ),
        ];
        for (method, excess) in computed {
            let value = (base + excess).sqrt();
            rows.push(one(method, Some(epsilon), json!({"mu": mu}), value));
        }
        let seeds = || (0..args.seeds).map(|seed| args.seed_base.wrapping_add(seed));
        let reached = seeds().map(|seed| {
            let noise = &mut NoiseSource::insecure_seeded(seed);
            let trained = fit.fit(&split.train, &plan, pay(&plan, "limits")?, noise)?;
            test_error(&trained.model, &split)
        });
        let summed =
            seeds().map(|seed| exact.error_of_one_sum(&items, &least.gains, target, &split, seed));
        let measured = [
            ("one sum, measured", summed.collect::<Result<Vec<f64>>>()?),
            ("dp train --method biases", reached.collect::<Result<_>>()?),
        ];
        for (method, values) in measured {
            let params = json!({"mu": mu}).as_object().cloned().unwrap_or_default();
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

/// The part of mu that a plan spends on sums of users' ratings per item.
fn part_of_sums(plan: &Plan) -> Result<f64> {
    let (mut sums, mut all) = (0.0, 0.0);
    for release in plan.releases() {
        let square = release.noise_multiplier()?.powi(-2);
        all += square;
        if release.label().ends_with("residuals") || release.label().ends_with("right-hand sides") {
            sums += square;
        }
    }
    Ok((sums / all).sqrt())
}

fn test_error(model: &FactorModel, split: &RatingSplit) -> Result<f64> {
    let pairs = model.predict_held_out(&split.train, &split.test)?;
    Ok(rmse(pairs.expose().iter().copied())?)
}

/// Share of each item in the test records.
fn shares(test: &Interactions) -> Vec<f64> {
    let mut shares = vec![0.0; test.n_items()];
    let each = (test.n_records() as f64).recip();
    for row in test.users() {
        row.items()
            .iter()
            .for_each(|&item| shares[item as usize] += each);
    }
    shares
}

/// Item biases and variances without privacy.
struct Exact {
    /// Prior means `a + b ln n`, and posterior means around them.
    means: Vec<f64>,
    biases: Vec<f64>,
    residual: f64,
    prior: f64,
}

impl Exact {
    fn fit(train: &Interactions) -> Self {
        let n_items = train.n_items();
        let (mut n, mut biases) = (vec![0.0; n_items], vec![0.0; n_items]);
        for row in train.users() {
            row.items().iter().for_each(|&item| n[item as usize] += 1.0);
        }
        let mut squares = 0.0;
        for _ in 0..ROUNDS {
            squares = 0.0;
            let mut sums = vec![0.0; n_items];
            for row in train.users() {
                let own = row.iter().map(|(i, y)| f64::from(y) - biases[i as usize]);
                let offset = own.sum::<f64>() / row.len().max(1) as f64;
                for (i, y) in row.iter() {
                    let rest = f64::from(y) - offset;
                    sums[i as usize] += rest;
                    squares += (rest - biases[i as usize]).powi(2);
                }
            }
            let each = biases.iter_mut().zip(&sums).zip(&n);
            each.for_each(|((b, sum), n)| *b = if *n > 0.0 { sum / n } else { 0.0 });
        }
        let known = n.iter().filter(|n| **n > 0.0).count() + train.n_users();
        let residual = squares / (train.n_records() as f64 - known as f64).max(1.0);
        let (prior, means, biases) = prior(&biases, &n, residual);
        Self {
            means,
            biases,
            residual,
            prior,
        }
    }

    /// A user's residuals from their own offset and the items' prior means.
    fn rests<'a>(&'a self, row: UserRow<'a>) -> impl Iterator<Item = (u32, f64)> + 'a {
        let around = |(i, y): (u32, f32)| f64::from(y) - self.biases[i as usize];
        let offset = row.iter().map(around).sum::<f64>() / row.len().max(1) as f64;
        let rest = move |(i, y): (u32, f32)| (i, f64::from(y) - offset - self.means[i as usize]);
        row.iter().map(rest)
    }

    /// A user's contribution to one sum before scaling and clipping: a root mean square of about 1,
    /// divided by `gains`.
    fn sent<'a>(
        &'a self,
        row: UserRow<'a>,
        gains: &'a [f64],
    ) -> impl Iterator<Item = (u32, f64)> + 'a {
        let unit = self.residual.sqrt() * norm_of(row.items(), gains).max(f64::MIN_POSITIVE);
        let of = move |(i, rest): (u32, f64)| (i, gains[i as usize] * rest / unit);
        self.rests(row).map(of)
    }

    /// One Gaussian release that divides users' budgets by `gains` and clips contributions to `mu`
    /// in units of the noise, at the best scale before clipping; offsets, counts and prior are
    /// free. After clipping, the release retains the part of the residuals' squares that the
    /// factors let through.
    fn one_sum(&self, items: &Items<'_>, gains: &[f64], mu: f64) -> OneSum {
        let lengths = items.table.users().map(|row| {
            let squares = self.sent(row, gains).map(|(_, z)| z * z);
            squares.sum::<f64>().sqrt()
        });
        let lengths: Vec<f64> = lengths.filter(|length| *length > 0.0).collect();
        let all: f64 = lengths.iter().map(|length| length * length).sum();
        let ideal = items.signals_at(gains);
        let scales = (-8..=8).map(|step| mu * 2.0_f64.powf(f64::from(step) / 2.0));
        let sums = scales.map(|scale| {
            let passes = lengths
                .iter()
                .map(|length| length * length * (mu / (scale * length)).min(1.0));
            let left = scale * passes.sum::<f64>() / all;
            let signals: Vec<f64> = ideal.iter().map(|q| left * q).collect();
            OneSum {
                excess: items.excess_at(&signals),
                scale: scale / mu,
                signals,
            }
        });
        let least = sums.min_by(|a, b| a.excess.total_cmp(&b.excess));
        least.unwrap_or_default()
    }

    /// Test error after that release.
    fn error_of_one_sum(
        &self,
        items: &Items<'_>,
        gains: &[f64],
        target: ApproxDp,
        split: &RatingSplit,
        seed: u64,
    ) -> Result<f64> {
        let mu = gdp::mu_for(target)?;
        let n_items = items.table.n_items();
        let draws = n_items as u64;
        let request = ReleaseRequest::new("item biases", 1.0, ReplaceFactor::Two, draws);
        let requests = [request];
        let plan = Plan::calibrate(target, ADJACENCY, &requests)?;
        let noise = &mut NoiseSource::insecure_seeded(seed);
        let mut run = Run::new(&plan, pay(&plan, "limits")?, noise)?;
        run.begin(&Requests::Shares(requests.to_vec()), 1)?;
        let sum = self.one_sum(items, gains, mu);
        let clipped = Clipped {
            exact: self,
            gains,
            scale: sum.scale,
        };
        let released = run.vector(&split.train, (n_items, 1.0), &clipped)?;
        let counts = items.counts();
        let places = self.means.iter().zip(released.values()).enumerate();
        let biases = places.map(|(i, (mean, z))| {
            let signal = sum.signals[i];
            if signal == 0.0 {
                return *mean;
            }
            let variance = self.residual * (counts[i].recip() + signal.powi(-2));
            let found = z * mu * self.residual.sqrt() / signal;
            mean + self.prior / (self.prior + variance) * found
        });
        test_error(&model_of(biases.collect())?, split)
    }
}

/// A release that could be made: its mean squared error in excess of that without privacy, the
/// scale before clipping to 1, and `Q_i`.
#[derive(Default)]
struct OneSum {
    excess: f64,
    scale: f64,
    signals: Vec<f64>,
}

struct Clipped<'a> {
    exact: &'a Exact,
    gains: &'a [f64],
    scale: f64,
}

impl VectorContribution for Clipped<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, row: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let sent = || self.exact.sent(row, self.gains);
        let length = sent().map(|(_, z)| z * z).sum::<f64>().sqrt();
        let factor = self.scale.min(length.max(f64::MIN_POSITIVE).recip());
        out.extend(sent().map(|(i, z)| (i, factor * z)));
    }
}

/// Item biases with the fold-in that `dp train` uses for its models.
fn model_of(biases: Vec<f64>) -> Result<FactorModel> {
    let scoring = Scoring {
        dim: 1,
        bias: LocalBias {
            center: 3.0,
            shrinkage: 5.0,
        },
        score_model: ScoreModel::Biased,
        penalties: None,
        unobserved_weight: None,
        n_effects: 0,
    };
    Ok(FactorModel::new(scoring, biases, Provenance::NonPrivate)?)
}

/// Variance of the item biases around `a + b ln n`, those means and the posterior means, by expectation and maximisation.
fn prior(found: &[f64], n: &[f64], residual: f64) -> (f64, Vec<f64>, Vec<f64>) {
    let used: Vec<usize> = (0..n.len()).filter(|&i| n[i] > 0.0).collect();
    let x = |i: usize| n[i].max(1.0).ln();
    let mut variance = 1.0;
    let mut line = [0.0; 2];
    let posterior = |i: usize, variance: f64, mean: f64| {
        let trust = n[i] * variance / (n[i] * variance + residual);
        (
            mean + trust * (found[i] - mean),
            variance * residual / (n[i] * variance + residual),
        )
    };
    for _ in 0..ROUNDS * 10 {
        let (mut g, mut r) = ([0.0; 3], [0.0; 2]);
        for &i in &used {
            let weight = (variance + residual / n[i]).recip();
            for (sum, term) in g.iter_mut().zip([1.0, x(i), x(i) * x(i)]) {
                *sum += weight * term;
            }
            for (sum, term) in r.iter_mut().zip([1.0, x(i)]) {
                *sum += weight * term * found[i];
            }
        }
        let determinant = g[0] * g[2] - g[1] * g[1];
        line = if determinant > 1e-9 * g[0] * g[2] {
            [
                (g[2] * r[0] - g[1] * r[1]) / determinant,
                (g[0] * r[1] - g[1] * r[0]) / determinant,
            ]
        } else {
            [r[0] / g[0], 0.0]
        };
        let squares = used.iter().map(|&i| {
            let mean = line[0] + line[1] * x(i);
            let (estimate, own) = posterior(i, variance, mean);
            (estimate - mean).powi(2) + own
        });
        variance = squares.sum::<f64>() / used.len().max(1) as f64;
    }
    let means: Vec<f64> = (0..n.len()).map(|i| line[0] + line[1] * x(i)).collect();
    let biases = means
        .iter()
        .enumerate()
        .map(|(i, mean)| posterior(i, variance, *mean).0);
    let biases = biases.collect();
    (variance, means, biases)
}

/// Rows that split the gap into its parts.
const NOT_DRAWN: [&str; 3] = [
    "one sum, measured",
    "one sum, counts paid for",
    "one sum, counts paid for, plain weights",
];

/// Error against epsilon, a line for each method.
pub(super) fn plot(rows: &[Value]) -> Chart {
    let without = rows.iter().find(|row| row["epsilon"].is_null());
    let points = rows.iter().filter_map(|row| {
        let name = row["method"]
            .as_str()
            .filter(|name| !NOT_DRAWN.contains(name))?;
        Some((name.to_owned(), point(row["epsilon"].as_f64()?, row)?))
    });
    let mut lines = grouped(points);
    if let (Some(row), Some(line)) = (without, lines.first()) {
        let across = line.points.iter().map(|p| p.x);
        let flat = across.filter_map(|x| Some(("no privacy".to_owned(), point(x, row)?)));
        lines.extend(grouped(flat.collect::<Vec<_>>()));
    }
    chart(
        [
            "Item biases: what no mechanism can do, and what is done",
            "MovieLens-1M, delta 1e-5, users added or removed; mean over seeds",
        ],
        ["epsilon", METRIC],
        false,
        lines,
    )
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn variances_of_made_ratings_are_found() {
        use rand::{RngExt as _, SeedableRng as _};
        // 400 users, 60 items, biases of variance 1/12, residuals of variance 1/3: uniform draws on [-1/2, 1/2] and [-1, 1]
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(5);
        let biases: Vec<f64> = (0..60).map(|_| rng.random_range(-0.5..0.5)).collect();
        let mut builder = InteractionsBuilder::new(60);
        for user in 0..400 {
            let offset: f64 = rng.random_range(2.0..4.0);
            for (item, bias) in (0..).zip(&biases) {
                if rng.random_bool(0.3) {
                    let y = offset + bias + rng.random_range(-1.0..1.0);
                    #[allow(clippy::cast_possible_truncation, reason = "a rating")]
                    builder.push(user, item, y as f32).unwrap();
                }
            }
        }
        let exact = Exact::fit(&builder.build().0);
        // relative standard errors: .011 of the residuals' variance from 6,800 of them, .12 of that of 60 uniform biases; five of each
        assert!(
            (exact.residual * 3.0 - 1.0).abs() < 0.055,
            "{}",
            exact.residual
        );
        assert!((exact.prior * 12.0 - 1.0).abs() < 0.6, "{}", exact.prior);
    }
}
