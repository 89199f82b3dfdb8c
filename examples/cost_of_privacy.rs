//! How much accuracy does privacy cost on ratings like mine?
//!
//! `cargo run --release -p dp-examples --example cost_of_privacy -- [RATINGS] [--plot FILE.svg]
//! [--set NAME=VALUE ...]`
//!
//! `--set` changes a default of `FactorizationParams`, a member of a member as `a/b`: what does that
//! setting contribute?
//!
//! Without a file the ratings are generated. Noise is seeded so that the table can be repeated:
//! the runs are measurements, not releases. Reading the table is a use of private data.

use std::path::Path;

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
use plotters::prelude::*;
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
    let split = ratings.split(SplitFractions::default(), 0);
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
        draw(Path::new(&path), &points, &baselines)?;
    }
    Ok(())
}

/// Removes a flag and its value, if the flag is there.
fn take_flag(args: &mut Vec<String>, flag: &str) -> Result<Option<String>> {
    match args.iter().position(|a| a == flag) {
        Some(at) if at + 1 < args.len() => Ok(args.drain(at..at + 2).next_back()),
        Some(_) => Err(format!("{flag} needs a value").into()),
        None => Ok(None),
    }
}

/// The defaults for `target` with each `NAME=VALUE` put in place.
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

fn draw(path: &Path, points: &[Point], baselines: &[(&str, f64)]) -> Result<()> {
    let area = SVGBackend::new(path, (720, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let low = baselines.iter().map(|b| b.1).fold(f64::MAX, f64::min) - 0.02;
    let high = baselines.iter().map(|b| b.1).fold(f64::MIN, f64::max) + 0.02;
    let mut chart = ChartBuilder::on(&area)
        .margin(18)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((0.4..25.0).log_scale(), low..high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(RGBColor(230, 230, 230))
        .light_line_style(TRANSPARENT)
        .x_desc("epsilon (delta 1e-5, add or remove one user)")
        .y_desc("test RMSE")
        .x_label_formatter(&|x| tick(*x))
        .label_style(("sans-serif", 14))
        .draw()?;
    for &(name, value) in baselines {
        let grey = RGBColor(150, 150, 150);
        chart.draw_series(DashedLineSeries::new(
            [(0.4, value), (25.0, value)],
            5,
            4,
            grey.into(),
        ))?;
        let style = ("sans-serif", 14).into_font().color(&RGBColor(90, 90, 90));
        chart.draw_series([Text::new(name.to_owned(), (0.42, value + 0.016), style)])?;
    }
    let blue = RGBColor(31, 97, 166);
    let line = points.iter().map(|p| (p.epsilon, p.mean));
    chart.draw_series(LineSeries::new(line.clone(), blue.stroke_width(3)))?;
    chart.draw_series(line.map(|at| Circle::new(at, 5, blue.filled())))?;
    for p in points {
        let label = format!("{:.3}", p.mean);
        let style = ("sans-serif", 13).into_font().color(&blue);
        chart.draw_series([Text::new(label, (p.epsilon, p.mean + 0.022), style)])?;
    }
    area.present()?;
    Ok(())
}

/// Labels only where a point is; the other ticks of a logarithmic axis stay bare.
fn tick(x: f64) -> String {
    let measured = EPSILONS.iter().any(|e| (e - x).abs() < 1e-9);
    if measured {
        format!("{x}")
    } else {
        String::new()
    }
}
