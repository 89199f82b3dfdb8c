//! How does the error of personal models depend on the privacy of the shared subspace?
//!
//! `dp-reproduce jain2021-figure2 --json > rows.json`, then
//! `cargo run --release -p dp-examples --example plot_subspace_reproduction -- rows.json AXIS FILE.svg`
//!
//! Draws population MSE against `epsilon` as defined in the paper (dotted: closed form, whose true
//! epsilon is smaller) and exact (solid), for replacing a user; or against `rho`, for replacing
//! (solid) and for adding or removing a user (dotted).

use dp_page::{Axis, Chart, Line, Lines, Stroke};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Method, its noise of symmetric matrices, name in the figure.
const METHODS: [(&str, Option<&str>, &str); 4] = [
    ("paper", Some("copied"), "paper"),
    ("paper", Some("isometric"), "isometric"),
    ("projectors", None, "projectors"),
    ("best", None, "best"),
];
const BASELINES: [(&str, &str); 3] = [
    ("zero", "zero"),
    ("own-data", "own data"),
    ("true-subspace", "true subspace"),
];

/// The horizontal axis.
struct Across {
    key: &'static str,
    words: &'static str,
    /// Note on the solid and the dotted line.
    note: &'static str,
    range: [f64; 2],
    /// Accounting of the solid and of the dotted line.
    lines: [&'static [&'static str]; 2],
}

const EPSILON: Across = Across {
    key: "epsilon",
    words: "epsilon, replacing a user",
    note: "full: exact, dotted: as the paper names it",
    range: [0.9, 16.0],
    lines: [&["gdp-replace"], &["closed-replace"]],
};
const RHO: Across = Across {
    key: "rho",
    words: "rho",
    note: "full: replacing a user, dotted: adding or removing",
    range: [0.008, 4.0],
    lines: [&["closed-replace", "gdp-replace"], &["gdp-addremove"]],
};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let axis = match args.as_slice() {
        [_, axis, _] if axis == "epsilon" => EPSILON,
        [_, axis, _] if axis == "rho" => RHO,
        _ => return Err("usage: plot_subspace_reproduction ROWS.json epsilon|rho FILE.svg".into()),
    };
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&args[0])?)?;
    let rows = json["rows"].as_array().ok_or("no rows")?;
    std::fs::write(&args[2], draw(rows, &axis).svg())?;
    Ok(())
}

/// Points of a method from left to right.
fn points(
    rows: &[Value],
    axis: &Across,
    (method, noise): (&str, Option<&str>),
    accountings: &[&str],
) -> Vec<(f64, f64)> {
    let mine = rows.iter().filter(|row| {
        let params = &row["params"];
        row["method"] == method
            && params["symmetric_noise"].as_str() == noise
            && params["feature_decay"].is_null()
            && accountings.iter().any(|name| params["accounting"] == *name)
            && row["epsilon"]
                .as_f64()
                .is_some_and(|epsilon| epsilon >= 1.0)
    });
    let x = |row: &Value| match axis.key {
        "rho" => row["params"]["rho"].as_f64(),
        key => row[key].as_f64(),
    };
    let mut points: Vec<_> = mine
        .filter_map(|row| Some((x(row)?, row["mean"].as_f64()?)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn draw(rows: &[Value], axis: &Across) -> Chart {
    let mut lines = Vec::new();
    for (color, (method, noise, name)) in METHODS.into_iter().enumerate() {
        for (accountings, stroke) in axis.lines.into_iter().zip([Stroke::Solid, Stroke::Dotted]) {
            let points = points(rows, axis, (method, noise), accountings);
            lines.push(
                Line::solid(name, points)
                    .with_color(color)
                    .with_stroke(stroke),
            );
        }
    }
    for (method, name) in BASELINES {
        let row = rows.iter().find(|row| {
            row["method"] == method && row["params"]["feature_decay"].as_f64() == Some(0.0)
        });
        if let Some(mean) = row.and_then(|row| row["mean"].as_f64()) {
            let level = Line::solid(name, axis.range.map(|x| (x, mean)));
            lines.push(level.with_color(7).with_stroke(Stroke::Dashed));
        }
    }
    let mut x = Axis::log_around(axis.words, axis.range.into_iter());
    x.range = axis.range;
    let y = Axis::log_around("population MSE", [1e-5, 6.0].into_iter());
    let title = "Personal models in a private shared subspace";
    Chart::lines(title, axis.note, Lines { x, y, lines })
}
