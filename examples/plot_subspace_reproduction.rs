//! How does the error of personal models depend on the privacy of the shared subspace?
//!
//! `dp-reproduce jain2021-figure2 --json > rows.json`, then
//! `cargo run --release -p dp-examples --example plot_subspace_reproduction -- rows.json AXIS FILE.svg`
//!
//! Draws population MSE against `epsilon`, as named in the paper (dashed: closed form, truly less) and exactly (full), for
//! replacing a user; or against `rho`, for replacing (full) and for adding or removing a user (dashed).

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SIZE: (u32, u32) = (680, 460);
/// Method, its noise of symmetric matrices, name in the figure.
const METHODS: [(&str, Option<&str>, &str, RGBColor); 4] = [
    ("paper", Some("copied"), "paper", RGBColor(150, 80, 40)),
    (
        "paper",
        Some("isometric"),
        "isometric",
        RGBColor(200, 140, 40),
    ),
    ("projectors", None, "projectors", RGBColor(31, 97, 166)),
    ("best", None, "best", RGBColor(30, 120, 60)),
];
const BASELINES: [(&str, &str); 3] = [
    ("zero", "zero"),
    ("own-data", "own data"),
    ("true-subspace", "true subspace"),
];

/// What the horizontal axis is.
struct Axis {
    key: &'static str,
    words: &'static str,
    range: std::ops::Range<f64>,
    /// Accounting of the full and of the dashed line.
    lines: [&'static [&'static str]; 2],
}

const EPSILON: Axis = Axis {
    key: "epsilon",
    words: "epsilon, replacing a user; dashed: as the paper names it, full: exact",
    range: 0.9..16.0,
    lines: [&["gdp-replace"], &["closed-replace"]],
};
const RHO: Axis = Axis {
    key: "rho",
    words: "rho; full: replacing a user, dashed: adding or removing",
    range: 0.008..4.0,
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
    let area = SVGBackend::new(Path::new(&args[2]), SIZE).into_drawing_area();
    draw(&area, rows, &axis)?;
    area.present()?;
    Ok(())
}

/// Points of a method from left to right.
fn points(
    rows: &[Value],
    axis: &Axis,
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

fn draw(area: &DrawingArea<SVGBackend<'_>, Shift>, rows: &[Value], axis: &Axis) -> Result<()> {
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(axis.range.clone().log_scale(), (1e-5..6.0).log_scale())?;
    chart
        .configure_mesh()
        .bold_line_style(RGBColor(230, 230, 230))
        .light_line_style(TRANSPARENT)
        .x_desc(axis.words)
        .y_desc("population MSE")
        .y_label_formatter(&|y| format!("{y:e}"))
        .label_style(("sans-serif", 14))
        .draw()?;
    for (method, noise, name, color) in METHODS {
        for (accountings, dashed) in axis.lines.into_iter().zip([false, true]) {
            let points = points(rows, axis, (method, noise), accountings);
            let style = color.stroke_width(2);
            let line = points.iter().copied();
            if dashed {
                chart.draw_series(DashedLineSeries::new(line, 6, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(line, style))?;
                let font = ("sans-serif", 14).into_font().color(&color);
                let end = points.last().map(|&(x, y)| (1.06 * x, 1.2 * y));
                chart.draw_series(end.map(|at| Text::new(name, at, font)))?;
            }
            chart.draw_series(points.iter().map(|&at| Circle::new(at, 3, color.filled())))?;
        }
    }
    let gray = RGBColor(120, 120, 120);
    for (method, name) in BASELINES {
        let row = rows.iter().find(|row| {
            row["method"] == method && row["params"]["feature_decay"].as_f64() == Some(0.0)
        });
        let Some(mean) = row.and_then(|row| row["mean"].as_f64()) else {
            continue;
        };
        let ends = [(axis.range.start, mean), (axis.range.end, mean)];
        chart.draw_series(DashedLineSeries::new(ends, 2, 3, gray.stroke_width(1)))?;
        let font = ("sans-serif", 12).into_font().color(&gray);
        // zero and own data lie close together: one name above its line, the other below
        let above = if method == "own-data" { 0.9 } else { 1.9 };
        let at = (1.03 * axis.range.start, above * mean);
        chart.draw_series([Text::new(name, at, font)])?;
    }
    Ok(())
}
