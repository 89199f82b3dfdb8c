//! Figures from rows as JSON.

use serde_json::Value;

use super::super::chart::{grouped, number, param};
use dp_personal::output::{Axes, Line, Look, lines, stacked};

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

/// Test RMSE and Recall@20 against epsilon, a line for each method: full with features, dotted without.
pub(super) fn ml1m(rows: &[Value]) -> String {
    let chart = |title: &str, below: &str, metric: &str| {
        let across = "epsilon (adding or removing a user)";
        lines(
            title,
            below,
            &Axes::new(across, metric),
            &of_methods(rows, metric),
        )
    };
    stacked(&[
        chart(
            "Public features of films under privacy: MovieLens-1M",
            "Ratings: error, lower is better. Full lines use genres, decade and people, dotted ones do not",
            "test RMSE",
        ),
        chart(
            "The same for lists of films that users like",
            "Higher is better. Dashed: by exact counts, which nobody may publish",
            "Recall@20",
        ),
    ])
}

/// A line for each method, dashed and all the way across for one that has no epsilon.
fn of_methods(rows: &[Value], metric: &str) -> Vec<Line> {
    let here = || rows.iter().filter(|row| row["metric"] == metric);
    let point = |row: &Value| {
        let name = row["method"].as_str()?.to_owned();
        Some((name, (number(&row["epsilon"])?, number(&row["mean"])?)))
    };
    let mut drawn = grouped(here().filter_map(point).collect());
    for line in &mut drawn {
        line.look = look(&line.name);
    }
    let epsilons = || drawn.iter().flat_map(|line| &line.points).map(|p| p.0);
    let ends = epsilons().reduce(f64::min).zip(epsilons().reduce(f64::max));
    let free = here().filter(|row| row["epsilon"].is_null());
    let across = |row: &Value| {
        let (low, high) = ends?;
        let mean = number(&row["mean"])?;
        Some(Line {
            name: row["method"].as_str()?.to_owned(),
            points: vec![(low, mean), (high, mean)],
            dashed: true,
            look: Look::Full(GREY),
        })
    };
    let free: Vec<Line> = free.filter_map(across).collect();
    drawn.extend(free);
    drawn
}

const GREY: usize = 7;

/// One colour for a method with features and without.
fn look(method: &str) -> Look {
    match method {
        "am-ssp-best" => Look::Full(0),
        "am-ssp-best-ids" => Look::Dotted(0),
        "am-ssp" => Look::Full(5),
        "am-ssp-ids" => Look::Dotted(5),
        "am-dpsgd" => Look::Full(3),
        "am-dpsgd-ids" => Look::Dotted(3),
        "dp-cmf" => Look::Full(4),
        "pooled" => Look::Dotted(2),
        "adadpals" => Look::Dotted(6),
        "dpals" => Look::Dotted(1),
        _ => Look::Own,
    }
}
