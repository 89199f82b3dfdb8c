//! How does the error of the reproduced methods depend on the weight exponent?
//!
//! `dp-reproduce krichene2023-appendix-c --json > rows.json`, then
//! `cargo run --release -p dp-examples --example plot_reproduction -- rows.json A EPSILON FILE.svg`
//!
//! Draws test RMSE against mu, one line per method, closed-form accounting dashed. `A` is the power
//! law's parameter, 1 or 2, `EPSILON` one of 1, 5, 20.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const METHODS: [(&str, RGBColor); 3] = [
    ("ssp", RGBColor(150, 80, 40)),
    ("noisy-gd", RGBColor(31, 97, 166)),
    ("residual", RGBColor(30, 120, 60)),
];
const SIZE: (u32, u32) = (640, 420);
const EXPONENTS: [f64; 4] = [0.0, 0.25, 0.5, 1.0];

/// Points of one method under one accounting.
struct Line {
    method: &'static str,
    color: RGBColor,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rows, skew, epsilon, out] = args.as_slice() else {
        return Err("usage: plot_reproduction ROWS.json A EPSILON FILE.svg".into());
    };
    let json: Value = serde_json::from_str(&std::fs::read_to_string(rows)?)?;
    let rows = json["rows"].as_array().ok_or("no rows")?;
    let (skew, epsilon): (f64, f64) = (skew.parse()?, epsilon.parse()?);
    let lines = lines(rows, skew, epsilon);
    let area = SVGBackend::new(Path::new(out), SIZE).into_drawing_area();
    draw(&area, &lines, skew, epsilon)?;
    area.present()?;
    Ok(())
}

fn lines(rows: &[Value], skew: f64, epsilon: f64) -> Vec<Line> {
    let close = |value: &Value, wanted: f64| {
        value
            .as_f64()
            .is_some_and(|found| (found - wanted).abs() < 1e-9)
    };
    let mut lines = Vec::new();
    for (method, color) in METHODS {
        for (accounting, dashed) in [("closed", true), ("gdp", false)] {
            let mine = rows.iter().filter(|row| {
                row["method"] == method
                    && row["params"]["accounting"] == accounting
                    && close(&row["params"]["a"], skew)
                    && close(&row["epsilon"], epsilon)
            });
            let point = |row: &Value| Some((row["params"]["mu"].as_f64()?, row["mean"].as_f64()?));
            lines.push(Line {
                method,
                color,
                dashed,
                points: mine.filter_map(point).collect(),
            });
        }
    }
    lines
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    lines: &[Line],
    skew: f64,
    epsilon: f64,
) -> Result<()> {
    area.fill(&WHITE)?;
    let values = lines.iter().flat_map(|line| &line.points).map(|p| p.1);
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .caption(format!("a = {skew}, epsilon {epsilon}"), ("sans-serif", 16))
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(-0.03..1.2, (low / 1.4..high * 1.4).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(RGBColor(230, 230, 230))
        .light_line_style(TRANSPARENT)
        .x_desc("mu (weights n^-mu); dashed: closed-form accounting, full: exact")
        .y_desc("test RMSE")
        .x_label_formatter(&|x| tick(*x))
        .x_labels(25)
        .label_style(("sans-serif", 14))
        .draw()?;
    for line in lines {
        let points = line.points.iter().copied();
        let style = line.color.stroke_width(2);
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            let label = ("sans-serif", 14).into_font().color(&line.color);
            let end = points.clone().last().map(|(x, y)| (x + 0.02, y));
            chart.draw_series(end.map(|at| Text::new(line.method, at, label)))?;
        }
        chart.draw_series(points.map(|at| Circle::new(at, 3, line.color.filled())))?;
    }
    Ok(())
}

/// Labels only where a point is.
fn tick(x: f64) -> String {
    let measured = EXPONENTS.iter().find(|mu| (*mu - x).abs() < 1e-9);
    measured.map_or_else(String::new, f64::to_string)
}
