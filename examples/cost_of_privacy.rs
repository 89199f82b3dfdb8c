//! How much accuracy does privacy cost on ratings like mine?
//!
//! `cargo run --release -p dp-examples --example cost_of_privacy -- [RATINGS] [--plot FILE.svg]
//! [--set NAME=VALUE ...]`
//!
//! `--set` changes a default of `FactorizationParams` (a nested field as `a/b`), to measure the
//! effect of that setting.
//!
//! Without a file the ratings are generated. Noise is seeded so that the table can be repeated: the
//! runs are measurements, not releases. Reading the table is a use of private data.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{
    LongTailRatings, RatingSplit, Ratings, RatingsFormat, SplitFractions, read_ratings, rmse,
};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    FactorModel, FactorizationParams, LocalBias, NonPrivateAls, Trainer, constant_predictions,
    user_mean_predictions,
};
use dp_page::{Axis, Chart, Line, Lines, Stroke};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const EPSILONS: [f64; 6] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
const SEEDS: u64 = 5;

/// Mean and standard error of the test error at one epsilon.
struct Point {
    epsilon: f64,
    mean: f64,
    standard_error: f64,
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let plot = take_flag(&mut args, "--plot")?;
    let mut changes = Vec::new();
    while let Some(change) = take_flag(&mut args, "--set")? {
        changes.push(change);
    }
    let ratings = match args.first() {
        Some(path) => read_ratings(path, &RatingsFormat::default())?,
        None => LongTailRatings::movielens_1m().generate(&mut ChaCha20Rng::seed_from_u64(1))?,
    };
    let split = ratings.split(SplitFractions::default(), 0)?;
    let baselines = baselines(&split)?;
    println!(
        "{:<12} test RMSE (split seed 0, noise seeds 0 to {})",
        "epsilon",
        SEEDS - 1
    );
    let mut points = Vec::new();
    for epsilon in EPSILONS {
        let point = measure(&ratings, &split, epsilon, &changes)?;
        println!(
            "{epsilon:<12} {:.4} +- {:.4}",
            point.mean, point.standard_error
        );
        points.push(point);
    }
    for (name, value) in &baselines {
        println!("{name:<12} {value:.4}");
    }
    if let Some(path) = plot {
        std::fs::write(path, draw(&points, &baselines).svg())?;
    }
    Ok(())
}

/// Removes a flag and its value, if the flag is present.
fn take_flag(args: &mut Vec<String>, flag: &str) -> Result<Option<String>> {
    match args.iter().position(|a| a == flag) {
        Some(at) if at + 1 < args.len() => Ok(args.drain(at..at + 2).next_back()),
        Some(_) => Err(format!("{flag} needs a value").into()),
        None => Ok(None),
    }
}

/// The defaults for `target` with each `NAME=VALUE` applied.
fn settings(target: ApproxDp, changes: &[String]) -> Result<FactorizationParams> {
    let mut json = serde_json::to_value(FactorizationParams::for_target(target))?;
    for change in changes {
        let (name, value) = change.split_once('=').ok_or("expected NAME=VALUE")?;
        let slot = json.pointer_mut(&format!("/{name}"));
        *slot.ok_or_else(|| format!("there is no setting {name}"))? = value.parse()?;
    }
    Ok(serde_json::from_value(json)?)
}

fn measure(
    ratings: &Ratings,
    split: &RatingSplit,
    epsilon: f64,
    changes: &[String],
) -> Result<Point> {
    let target = ApproxDp::target(epsilon, 1e-5)?;
    let adjacency = Adjacency::AddRemoveUser;
    let mut errors = Vec::new();
    for seed in 0..SEEDS {
        let mut params = settings(target, changes)?;
        params.init_seed = seed;
        let fit = params.check()?;
        let plan = fit.plan(ratings.catalogue().len(), target, adjacency)?;
        let mut ledger = Ledger::in_memory("measurement", Budget::new(target, adjacency)?)?;
        let spends = ledger.reserve(&plan)?;
        let mut noise = NoiseSource::insecure_seeded(seed);
        let fitted = fit.fit(&split.train, &plan, spends, &mut noise)?;
        errors.push(test_rmse(&fitted.model, split)?);
    }
    let n = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / n;
    let variance = errors.iter().map(|e| (e - mean) * (e - mean)).sum::<f64>() / (n - 1.0);
    Ok(Point {
        epsilon,
        mean,
        standard_error: (variance / n).sqrt(),
    })
}

fn test_rmse(model: &FactorModel, split: &RatingSplit) -> Result<f64> {
    Ok(rmse(
        model
            .predict_held_out(&split.train, &split.test)?
            .into_exposed(),
    )?)
}

fn baselines(split: &RatingSplit) -> Result<Vec<(&'static str, f64)>> {
    let (train, test) = (split.train.expose(), split.test.expose());
    let total: f64 = train
        .users()
        .flat_map(|row| row.values().to_vec())
        .map(f64::from)
        .sum();
    let bias = LocalBias {
        center: total / train.n_records() as f64,
        shrinkage: 5.0,
    };
    let als = NonPrivateAls::default().fit(&split.train)?;
    Ok(vec![
        ("constant", rmse(constant_predictions(test, bias.center))?),
        ("user mean", rmse(user_mean_predictions(train, test, bias))?),
        ("no privacy", test_rmse(&als, split)?),
    ])
}

fn draw(points: &[Point], baselines: &[(&str, f64)]) -> Chart {
    let private = points.iter().map(|of| dp_page::Point {
        x: of.epsilon,
        y: of.mean,
        error: Some(of.standard_error),
    });
    let level = |&(name, value): &(&str, f64)| {
        let ends = [EPSILONS[0], EPSILONS[EPSILONS.len() - 1]];
        let line = Line::solid(name, ends.map(|epsilon| (epsilon, value)));
        line.with_stroke(Stroke::Dashed).with_color(7)
    };
    let levels = baselines.iter().map(level);
    let lines: Vec<Line> = [Line::solid("private", private)]
        .into_iter()
        .chain(levels)
        .collect();
    let heights = lines.iter().flat_map(|line| &line.points).map(|p| p.y);
    Chart::lines(
        "Test RMSE against epsilon",
        "delta 1e-5; mean over seeds",
        Lines {
            x: Axis::of_points("epsilon, add or remove one user", EPSILONS.into_iter()),
            y: Axis::around("test RMSE", heights),
            lines,
        },
    )
}
