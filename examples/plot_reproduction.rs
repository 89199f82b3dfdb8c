//! How does the error of the reproduced methods depend on the weight exponent?
//!
//! `dp-reproduce krichene2023-appendix-c --json > rows.json`, then
//! `cargo run --release -p dp-examples --example plot_reproduction -- rows.json A EPSILON FILE.svg`
//!
//! Draws test RMSE against mu, one line per method, closed-form accounting dotted. `A` is the power
//! law's parameter, 1 or 2, `EPSILON` one of 1, 5, 20.

use dp_page::{Axis, Chart, Line, Lines, Stroke};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const METHODS: [&str; 3] = ["ssp", "noisy-gd", "residual"];
const EXPONENTS: [f64; 4] = [0.0, 0.25, 0.5, 1.0];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rows, skew, epsilon, out] = args.as_slice() else {
        return Err("usage: plot_reproduction ROWS.json A EPSILON FILE.svg".into());
    };
    let json: Value = serde_json::from_str(&std::fs::read_to_string(rows)?)?;
    let rows = json["rows"].as_array().ok_or("no rows")?;
    let (skew, epsilon): (f64, f64) = (skew.parse()?, epsilon.parse()?);
    std::fs::write(out, draw(lines(rows, skew, epsilon), skew, epsilon).svg())?;
    Ok(())
}

fn lines(rows: &[Value], skew: f64, epsilon: f64) -> Vec<Line> {
    let close = |value: &Value, wanted: f64| {
        value
            .as_f64()
            .is_some_and(|found| (found - wanted).abs() < 1e-9)
    };
    let mut lines = Vec::new();
    for (color, method) in METHODS.into_iter().enumerate() {
        for (accounting, stroke) in [("closed", Stroke::Dotted), ("gdp", Stroke::Solid)] {
            let mine = rows.iter().filter(|row| {
                row["method"] == method
                    && row["params"]["accounting"] == accounting
                    && close(&row["params"]["a"], skew)
                    && close(&row["epsilon"], epsilon)
            });
            let point = |row: &Value| Some((row["params"]["mu"].as_f64()?, row["mean"].as_f64()?));
            let name = match stroke {
                Stroke::Solid => method.to_owned(),
                _ => format!("{method}, closed form"),
            };
            let line = Line::solid(name, mine.filter_map(point));
            lines.push(line.with_color(color).with_stroke(stroke));
        }
    }
    lines
}

fn draw(lines: Vec<Line>, skew: f64, epsilon: f64) -> Chart {
    let heights = lines.iter().flat_map(|line| &line.points).map(|p| p.y);
    Chart::lines(
        format!("a = {skew}, epsilon {epsilon}"),
        "dotted: closed-form accounting, full: exact",
        Lines {
            x: Axis {
                name: "mu (weights n^-mu)".to_owned(),
                log: false,
                range: [-0.03, 1.03],
                ticks: EXPONENTS.map(|mu| (mu, mu.to_string())).into(),
            },
            y: Axis::log_around("test RMSE", heights),
            lines,
        },
    )
}
