//! Time against quality (figures 3 and 8): how long statistics take to reach the best quality of
//! gradients.

use dp_core::ApproxDp;
use serde_json::{Map, Value, json};

use super::super::super::calibration::DELTA;
use super::super::super::report::Row;
use super::Ask;
use super::alternating::{Rounds, Steps, am_dp_sgd, am_ssp_with};
use super::best::am_residual;
use super::data::Data;
use super::problem::{Feedback, Model, Problem};
use super::table::rmse;
use dp_personal::error::Result;

const QUALITY: &str = "validation RMSE";
const SECONDS: &str = "seconds";
const EXAMPLES: &str = "examples per second";
/// Epsilon of all runs.
pub(super) const EPSILON: f64 = 5.0;
/// Numbers of steps that are tried, each with the whole budget.
const STEPS: [usize; 6] = [10, 20, 40, 80, 160, 320];
const ROUNDS: [usize; 4] = [2, 3, 4, 5];
const BEST_ROUNDS: [usize; 4] = [1, 2, 4, 10];

/// A model, the time of its fit, and its number of passes over the examples.
type Run = (Box<dyn Model>, f64, f64);

/// Runs with one number of steps: quality and time, excluding the calibration of the noise.
struct Point {
    length: usize,
    rmse: f64,
    seconds: f64,
    /// Number of examples processed.
    examples: f64,
}

pub(super) fn rows(data: &Data, ask: &Ask) -> Result<Vec<Row>> {
    let shorten = |all: &[usize]| all[..if ask.quick { 2 } else { all.len() }].to_vec();
    let gradients = curve(data, ask, &shorten(&STEPS), |problem, n_steps| {
        let settings = Steps::of_length(problem, n_steps);
        let passes = n_steps as f64 * settings.sampling_probability;
        let model = am_dp_sgd(problem, true, &settings)?;
        let seconds = model.seconds;
        Ok((Box::new(model), seconds, passes))
    })?;
    let statistics = curve(data, ask, &shorten(&ROUNDS), |problem, n_rounds| {
        let settings = Rounds {
            n_rounds,
            ..Rounds::of(problem)
        };
        let model = am_ssp_with(problem, true, &settings)?;
        let seconds = model.seconds;
        Ok((Box::new(model), seconds, n_rounds as f64))
    })?;
    let best = curve(data, ask, &shorten(&BEST_ROUNDS), |problem, n_rounds| {
        let found = am_residual(problem, true, Some(n_rounds))?;
        let model: Box<dyn Model> = Box::new(found.model);
        Ok((model, found.seconds, n_rounds as f64))
    })?;
    let mut rows = Vec::new();
    for (method, name, curve) in [
        ("am-dpsgd", "steps", &gradients),
        ("am-ssp", "rounds", &statistics),
        ("am-ssp-best", "rounds", &best),
    ] {
        rows.extend(
            curve
                .iter()
                .flat_map(|points| point_rows(method, name, points)),
        );
    }
    rows.extend(race(&gradients, "am-ssp", &statistics));
    rows.extend(race(&gradients, "am-ssp-best", &best));
    Ok(rows)
}

/// Runs for each number of steps, with all seeds of one number together. `fit` returns its number
/// of passes over the examples.
fn curve(
    data: &Data,
    ask: &Ask,
    lengths: &[usize],
    fit: impl Fn(&Problem<'_>, usize) -> Result<Run>,
) -> Result<Vec<Vec<Point>>> {
    let (train, valid) = (&data.ratings.train, data.ratings.valid.expose());
    let point = |length, seed| {
        let problem = Problem {
            features: &data.features,
            train,
            feedback: Feedback::Ratings,
            without_new: false,
            target: ApproxDp::target(EPSILON, DELTA)?,
            seed,
        };
        let (model, seconds, passes) = fit(&problem, length)?;
        Ok(Point {
            length,
            rmse: rmse(&*model, train.expose(), valid, |_| true)?,
            examples: passes * train.expose().n_records() as f64,
            seconds,
        })
    };
    let of_length = |&length: &usize| ask.seeds.iter().map(|&s| point(length, s)).collect();
    lengths.iter().map(of_length).collect()
}

fn over(points: &[Point], of: impl Fn(&Point) -> f64) -> Vec<f64> {
    points.iter().map(of).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn point_rows(method: &'static str, name: &str, points: &[Point]) -> Vec<Row> {
    let length = points.first().map_or(0, |point| point.length);
    let params = Map::from_iter([(name.to_owned(), json!(length))]);
    let row = |metric, values: &[f64]| {
        Row::over_seeds(method, Some(EPSILON), params.clone(), metric, values)
    };
    vec![
        row(QUALITY, &over(points, |p| p.rmse)),
        row(SECONDS, &over(points, |p| p.seconds)),
        row(EXAMPLES, &over(points, |p| p.examples / p.seconds)),
    ]
}

/// Ratio of the time of gradients at their best quality to that of the first run of statistics that
/// is as good; none if none is.
fn race(gradients: &[Vec<Point>], method: &'static str, statistics: &[Vec<Point>]) -> Option<Row> {
    let quality = |points: &[Point]| mean(&over(points, |p| p.rmse));
    let best = gradients
        .iter()
        .min_by(|a, b| quality(a).total_cmp(&quality(b)))?;
    let reached = statistics.iter().find(|s| quality(s) <= quality(best))?;
    let pairs = best.iter().zip(reached);
    let ratios: Vec<f64> = pairs.map(|(g, s)| g.seconds / s.seconds).collect();
    let params: Map<String, Value> = Map::from_iter([
        ("steps".to_owned(), json!(best.first()?.length)),
        ("rounds".to_owned(), json!(reached.first()?.length)),
    ]);
    let metric = "time of AM-DPSGD over time to be as good";
    Some(Row::over_seeds(
        method,
        Some(EPSILON),
        params,
        metric,
        &ratios,
    ))
}
