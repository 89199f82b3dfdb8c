//! Figures from rows as JSON.

use serde_json::Value;

use super::super::chart::{grouped, number, param};
use crate::output::{Axes, Line, lines};

/// Lines of the rows that `point` takes, by the name it gives.
fn of_rows(rows: &[Value], point: impl Fn(&Value) -> Option<(String, (f64, f64))>) -> Vec<Line> {
    grouped(rows.iter().filter_map(point).collect())
}

/// Excess risk against epsilon, a line for each method, at the middle number of features; of one epsilon against the features.
pub(super) fn synthetic(rows: &[Value]) -> String {
    let squared = |row: &Value| row["metric"] == "excess risk per example";
    let sorted = |of: &dyn Fn(&Value) -> Option<f64>| {
        let mut all: Vec<f64> = rows.iter().filter(|r| squared(r)).filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        all.dedup_by(|a, b| a.total_cmp(b).is_eq());
        all
    };
    let epsilons = sorted(&|row| number(&row["epsilon"]));
    let features = sorted(&|row| param(row, "n_features"));
    let middle = |all: &[f64]| all.get(all.len() / 2).copied();
    let by_features = epsilons.len() < 2;
    let (across, fixed) = if by_features {
        ("number of features", middle(&epsilons))
    } else {
        ("epsilon (adding or removing a user)", middle(&features))
    };
    let drawn = of_rows(rows, |row| {
        let (epsilon, p) = (number(&row["epsilon"])?, param(row, "n_features")?);
        let (x, other) = if by_features {
            (p, epsilon)
        } else {
            (epsilon, p)
        };
        let here = fixed.is_some_and(|fixed| (fixed - other).abs() < 1e-9);
        let name = row["method"].as_str()?.to_owned();
        (here && squared(row)).then_some((name, (x, number(&row["mean"])?)))
    });
    lines(
        "Item vectors from public features",
        "Krichene et al. 2024 on made data: mean over seeds",
        &Axes::new(across, "excess risk per example").with_log_y(),
        &drawn,
    )
}

/// Excess risk against the number of releases, a line for each epsilon.
pub(super) fn resamples(rows: &[Value]) -> String {
    let drawn = of_rows(rows, |row| {
        let name = format!("epsilon {}", number(&row["epsilon"])?);
        Some((name, (param(row, "resamples")?, number(&row["mean"])?)))
    });
    lines(
        "One release or several at the same budget",
        "Krichene et al. 2024, figure 4, on made data: 16 gradient steps, 1 release is SSP-c, 16 are SSP-i",
        &Axes::new("releases of the statistics", "excess risk per example").with_log_y(),
        &drawn,
    )
}

/// Cost of statistics over that of gradients against the batch size, a line for each number of epochs and cost of a pass, at equal counts.
pub(super) fn cost(rows: &[Value]) -> String {
    let drawn = of_rows(rows, |row| {
        let params = &row["params"];
        let (epochs, pass) = (number(&params["epochs"])?, params["pass"].as_str()?);
        let name = format!("{epochs} epochs, pass {pass}");
        let here = params["exponent"] == "equal counts";
        here.then_some((name, (param(row, "batch")?, number(&row["mean"])?)))
    });
    lines(
        "Cost of SSP-c over that of DP-SGD with one pass per item",
        "Krichene et al. 2024, figure 6: a million examples, 1000 items, dim 64",
        &Axes::new("examples in a batch", "ratio of costs").with_log_y(),
        &drawn,
    )
}

/// Test RMSE against epsilon, a line for each method.
pub(super) fn ml1m(rows: &[Value]) -> String {
    let mut drawn = of_rows(rows, |row| {
        let name = row["method"].as_str()?.to_owned();
        let here = row["metric"] == "test RMSE";
        here.then_some((name, (number(&row["epsilon"])?, number(&row["mean"])?)))
    });
    let free = |row: &&Value| row["metric"] == "test RMSE" && row["epsilon"].is_null();
    let ends = |at: &dyn Fn(f64, f64) -> f64| {
        let all = drawn.iter().flat_map(|line| &line.points);
        all.map(|point| point.0).reduce(at)
    };
    if let (Some(low), Some(high)) = (ends(&f64::min), ends(&f64::max)) {
        for row in rows.iter().filter(free) {
            let mean = number(&row["mean"]).unwrap_or_default();
            drawn.push(Line {
                name: row["method"].as_str().unwrap_or_default().to_owned(),
                points: vec![(low, mean), (high, mean)],
                dashed: true,
            });
        }
    }
    lines(
        "Test RMSE against epsilon: MovieLens-1M",
        "Krichene et al. 2024, figure 1: with genres, decade and credits; mean over seeds",
        &Axes::new("epsilon (adding or removing a user)", "test RMSE"),
        &drawn,
    )
}
