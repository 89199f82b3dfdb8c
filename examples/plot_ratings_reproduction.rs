//! How much does privacy cost each method on ratings or lists, and which items are affected?
//!
//! `dp-reproduce krichene2023-ml1m --data DIR --json > rows.json`, then
//! `cargo run --release -p dp-examples --example plot_ratings_reproduction -- rows.json epsilon FILE.svg`
//! or `... rows.json EPSILON FILE.svg`, followed by `recall` for lists
//!
//! The first form draws test RMSE (Recall@20) against epsilon, one line per method; the second form
//! draws it against the popularity bucket of items, at one epsilon. Exact accounting.

use dp_page::{Axis, Chart, Line, Lines, Stroke};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Selects rows of a method.
#[derive(Clone, Copy)]
enum Pick {
    All,
    Sampling(&'static str),
    Exponent(f64),
}
use Pick::{All, Exponent, Sampling};

/// Method, selection of its rows, name in the figure.
type Shown = (&'static str, Pick, &'static str);
const LINES: [Shown; 8] = [
    ("best", All, "best mode"),
    ("pooled", All, "pooled"),
    ("residual", All, "residual"),
    ("noisy-gd", Exponent(0.25), "noisy-gd, mu 1/4"),
    ("ssp", Exponent(0.25), "ssp, mu 1/4"),
    ("ssp", Exponent(0.0), "ssp, mu 0"),
    ("ssp", Sampling("tail"), "tail"),
    ("ssp", Sampling("uniform"), "uniform"),
];
/// The colour of dashed lines.
const GREY: usize = 7;
const BASELINES: [&str; 3] = ["constant", "user-mean", "non-private"];

/// The metric that is drawn, and the names of its rows.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    all: &'static str,
    by_popularity: &'static str,
}

const ERRORS: Figure = Figure {
    name: "test RMSE",
    all: "test RMSE",
    by_popularity: "test RMSE by popularity",
};
const LISTS: Figure = Figure {
    name: "Recall@20, test users",
    all: "Recall@20",
    by_popularity: "Recall@20 to 100 by popularity",
};
/// Recall of lists of the items that most users have.
const POPULAR: &str = "Recall@20 of the largest counts";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (rows, what, out, figure) = match args.as_slice() {
        [rows, what, out] => (rows, what, out, ERRORS),
        [rows, what, out, lists] if lists == "recall" => (rows, what, out, LISTS),
        _ => {
            let usage = "plot_ratings_reproduction ROWS.json epsilon|EPSILON FILE.svg [recall]";
            return Err(format!("usage: {usage}").into());
        }
    };
    let json: Value = serde_json::from_str(&std::fs::read_to_string(rows)?)?;
    let rows = json["rows"].as_array().ok_or("no rows")?;
    let chart = if what == "epsilon" {
        against_epsilon(rows, figure)
    } else {
        against_popularity(rows, what.parse()?, figure)
    };
    std::fs::write(out, chart.svg())?;
    Ok(())
}

/// Whether a row belongs to this line, with exact accounting.
fn is_of(row: &Value, (method, pick, ..): &Shown) -> bool {
    let params = &row["params"];
    let picked = match *pick {
        All => true,
        Sampling(name) => params["sampling"] == name,
        Exponent(mu) => params["mu"].as_f64().is_some_and(|m| (m - mu).abs() < 1e-9),
    };
    row["method"] == *method && params["accounting"] == "gdp" && picked
}

/// The lines of all methods, each from its own rows.
fn of_methods(points: impl Fn(&Shown) -> Vec<(f64, f64)>) -> Vec<Line> {
    let lines = LINES.iter().map(|line| Line::solid(line.2, points(line)));
    lines.collect()
}

fn dashed(name: &str, points: Vec<(f64, f64)>) -> Line {
    let line = Line::solid(name, points);
    line.with_stroke(Stroke::Dashed).with_color(GREY)
}

fn against_epsilon(rows: &[Value], figure: Figure) -> Chart {
    let point = |row: &Value| Some((row["epsilon"].as_f64()?, row["mean"].as_f64()?));
    let of_all = |row: &&Value| row["metric"] == figure.all;
    let mut lines = of_methods(|line| {
        let mine = rows.iter().filter(of_all).filter(|row| is_of(row, line));
        mine.filter_map(point).collect()
    });
    for name in BASELINES {
        let found = rows.iter().find(|r| of_all(r) && r["method"] == name);
        if let Some(error) = found.and_then(|row| row["mean"].as_f64()) {
            lines.push(dashed(name, vec![(1.0, error), (20.0, error)]));
        }
    }
    let popular = |row: &&Value| row["metric"] == POPULAR && row["method"] == "pooled";
    if figure.all == LISTS.all {
        let points = rows.iter().filter(popular).filter_map(point);
        lines.push(dashed("most popular", points.collect()));
    }
    let x = Axis::of_points(
        "epsilon (delta 1e-5, add or remove one user)",
        [1.0, 5.0, 20.0].into_iter(),
    );
    draw(x, lines, figure.name)
}

fn against_popularity(rows: &[Value], epsilon: f64, figure: Figure) -> Chart {
    let in_bucket = |row: &&Value| row["metric"] == figure.by_popularity;
    let point = |row: &Value| Some((row["params"]["bucket"].as_f64()?, row["mean"].as_f64()?));
    let at = |row: &Value| {
        row["epsilon"]
            .as_f64()
            .is_none_or(|e| (e - epsilon).abs() < 1e-9)
    };
    let points = |keep: &dyn Fn(&Value) -> bool| {
        let mine = rows.iter().filter(in_bucket).filter(|row| keep(row));
        mine.filter_map(point).collect::<Vec<_>>()
    };
    let mut lines = of_methods(|line| points(&|row| at(row) && is_of(row, line)));
    for name in &BASELINES[1..] {
        lines.push(dashed(name, points(&|row| row["method"] == **name)));
    }
    let x = Axis {
        name: "fifth of the items, rarest first".to_owned(),
        log: false,
        range: [0.9, 5.1],
        ticks: (1..=5).map(|n| (f64::from(n), n.to_string())).collect(),
    };
    draw(x, lines, figure.name)
}

fn draw(x: Axis, lines: Vec<Line>, up: &str) -> Chart {
    let heights = lines.iter().flat_map(|line| &line.points).map(|p| p.y);
    let y = Axis::around(up, heights);
    Chart::lines(
        format!("{up}: what privacy costs"),
        "exact accounting; mean over seeds",
        Lines { x, y, lines },
    )
}
