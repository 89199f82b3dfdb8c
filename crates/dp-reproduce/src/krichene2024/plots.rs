//! Figures from JSON rows.

use dp_page::{Chart, Line, Point, Stroke};
use serde_json::Value;

use super::super::chart::{chart, grouped, number, param, point};

/// Lines of the rows for which `point` returns a value, by the name it returns.
fn of_rows(rows: &[Value], point: impl Fn(&Value) -> Option<(String, Point)>) -> Vec<Line> {
    grouped(rows.iter().filter_map(point))
}

/// Excess risk against epsilon, a line for each method, at the middle number of features; with only
/// one epsilon, against the number of features.
pub(super) fn synthetic(rows: &[Value]) -> Chart {
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
        (here && squared(row)).then_some((name, point(x, row)?))
    });
    chart(
        [
            "Item vectors from public features",
            "Krichene et al. 2024 on made data: mean over seeds",
        ],
        [across, "excess risk per example"],
        true,
        drawn,
    )
}

/// Excess risk against the number of releases, a line for each epsilon.
pub(super) fn resamples(rows: &[Value]) -> Chart {
    let drawn = of_rows(rows, |row| {
        let name = format!("epsilon {}", number(&row["epsilon"])?);
        Some((name, point(param(row, "resamples")?, row)?))
    });
    chart(
        [
            "One release or several at the same budget",
            "Krichene et al. 2024, figure 4, on made data: 16 gradient steps, 1 release is SSP-c, 16 are SSP-i",
        ],
        ["releases of the statistics", "excess risk per example"],
        true,
        drawn,
    )
}

/// Ratio of the cost of statistics to that of gradients against the batch size, a line for each
/// number of epochs and cost of a pass, at equal counts.
pub(super) fn cost(rows: &[Value]) -> Chart {
    let drawn = of_rows(rows, |row| {
        let params = &row["params"];
        let (epochs, pass) = (number(&params["epochs"])?, params["pass"].as_str()?);
        let name = format!("{epochs} epochs, pass {pass}");
        let here = params["exponent"] == "equal counts";
        here.then_some((name, point(param(row, "batch")?, row)?))
    });
    chart(
        [
            "Cost of SSP-c over that of DP-SGD with one pass per item",
            "Krichene et al. 2024, figure 6: a million examples, 1000 items, dim 64",
        ],
        ["examples in a batch", "ratio of costs"],
        true,
        drawn,
    )
}

/// Test RMSE and Recall@20 against epsilon, a line for each method: solid with features, dotted
/// without.
pub(super) fn ml1m(rows: &[Value]) -> [Chart; 2] {
    let across = "epsilon (adding or removing a user)";
    let of = |words: [&str; 2], metric: &str| {
        chart(words, [across, metric], false, of_methods(rows, metric))
    };
    [
        of(
            [
                "Public features of films under privacy: MovieLens-1M",
                "Ratings: error, lower is better. Full lines use genres, decade and people, dotted ones do not",
            ],
            "test RMSE",
        ),
        of(
            [
                "The same for lists of films that users like",
                "Higher is better. Dashed: by exact counts, which nobody may publish",
            ],
            "Recall@20",
        ),
    ]
}

/// A line for each method; dashed and over the full width for a method without epsilon.
fn of_methods(rows: &[Value], metric: &str) -> Vec<Line> {
    let here = || rows.iter().filter(|row| row["metric"] == metric);
    let points = here().filter_map(|row| {
        let name = row["method"].as_str()?.to_owned();
        Some((name, point(number(&row["epsilon"])?, row)?))
    });
    let mut drawn: Vec<Line> = grouped(points).into_iter().map(in_its_colour).collect();
    let epsilons = || drawn.iter().flat_map(|line| &line.points).map(|p| p.x);
    let ends = epsilons().reduce(f64::min).zip(epsilons().reduce(f64::max));
    let free = here().filter(|row| row["epsilon"].is_null());
    let across = |row: &Value| {
        let ((low, high), mean) = (ends?, number(&row["mean"])?);
        let level = Line::solid(row["method"].as_str()?, [(low, mean), (high, mean)]);
        Some(level.with_stroke(Stroke::Dashed).with_color(GREY))
    };
    let free: Vec<Line> = free.filter_map(across).collect();
    drawn.extend(free);
    drawn
}

const GREY: usize = 7;

/// The same colour for a method with features and without.
fn in_its_colour(line: Line) -> Line {
    let (color, stroke) = match line.name.as_str() {
        "am-ssp-best" => (3, Stroke::Solid),
        "am-ssp-best-ids" => (3, Stroke::Dotted),
        "am-ssp" => (4, Stroke::Solid),
        "am-ssp-ids" => (4, Stroke::Dotted),
        "am-dpsgd" => (6, Stroke::Solid),
        "am-dpsgd-ids" => (6, Stroke::Dotted),
        "dp-cmf" => (2, Stroke::Solid),
        "pooled" => (0, Stroke::Dotted),
        "adadpals" => (5, Stroke::Dotted),
        "dpals" => (1, Stroke::Dotted),
        _ => return line,
    };
    line.with_color(color).with_stroke(stroke)
}
