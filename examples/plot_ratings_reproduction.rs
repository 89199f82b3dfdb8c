//! What does privacy cost each method on ratings or lists, and whom?
//!
//! `dp-reproduce krichene2023-ml1m --data DIR --json > rows.json`, then
//! `cargo run --release -p dp-examples --example plot_ratings_reproduction -- rows.json epsilon FILE.svg`
//! or `... rows.json EPSILON FILE.svg`, with `recall` behind either for lists
//!
//! The first draws test RMSE (Recall@20) against epsilon, one line per method; the second that of the items of each
//! popularity bucket, at one epsilon. Exact accounting.

use std::path::Path;

use plotters::prelude::*;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Which of a method's rows.
#[derive(Clone, Copy)]
enum Pick {
    All,
    Sampling(&'static str),
    Exponent(f64),
}
use Pick::{All, Exponent, Sampling};

/// Method, which of its rows, name in the figure, color.
type Shown = (&'static str, Pick, &'static str, RGBColor);
const LINES: [Shown; 8] = [
    (
        "ssp",
        Sampling("uniform"),
        "uniform",
        RGBColor(150, 150, 60),
    ),
    ("ssp", Sampling("tail"), "tail", RGBColor(200, 120, 40)),
    ("ssp", Exponent(0.0), "ssp, mu 0", RGBColor(150, 80, 40)),
    ("ssp", Exponent(0.25), "ssp, mu 1/4", RGBColor(170, 40, 60)),
    (
        "noisy-gd",
        Exponent(0.25),
        "noisy-gd, mu 1/4",
        RGBColor(31, 97, 166),
    ),
    ("residual", All, "residual", RGBColor(30, 120, 60)),
    ("pooled", All, "pooled", RGBColor(120, 60, 140)),
    ("best", All, "best mode", RGBColor(20, 20, 20)),
];
const BASELINES: [&str; 3] = ["constant", "user-mean", "non-private"];
const SIZE: (u32, u32) = (760, 460);

/// What is drawn, and the names of its rows.
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

/// Points of one method.
struct Line {
    name: String,
    color: RGBColor,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

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
    if what == "epsilon" {
        let x_axis = ("epsilon (delta 1e-5, add or remove one user)", 0.9..50.0);
        let lines = against_epsilon(rows, figure);
        return draw(Path::new(out), &lines, x_axis, figure.name);
    }
    let lines = against_popularity(rows, what.parse()?, figure);
    let x_axis = ("fifth of the items, rarest first", 0.9..6.4);
    draw(Path::new(out), &lines, x_axis, figure.name)
}

/// Whether a row is of this line, by exact accounting.
fn is_of(row: &Value, (method, pick, ..): &Shown) -> bool {
    let params = &row["params"];
    let picked = match *pick {
        All => true,
        Sampling(name) => params["sampling"] == name,
        Exponent(mu) => params["mu"].as_f64().is_some_and(|m| (m - mu).abs() < 1e-9),
    };
    row["method"] == *method && params["accounting"] == "gdp" && picked
}

fn against_epsilon(rows: &[Value], figure: Figure) -> Vec<Line> {
    let point = |row: &Value| Some((row["epsilon"].as_f64()?, row["mean"].as_f64()?));
    let of_all = |row: &&Value| row["metric"] == figure.all;
    let mut lines: Vec<Line> = LINES
        .iter()
        .map(|line| Line {
            name: line.2.to_owned(),
            color: line.3,
            dashed: false,
            points: rows
                .iter()
                .filter(of_all)
                .filter(|row| is_of(row, line))
                .filter_map(point)
                .collect(),
        })
        .collect();
    for name in BASELINES {
        let found = rows.iter().find(|r| of_all(r) && r["method"] == name);
        let error = found.and_then(|row| row["mean"].as_f64());
        lines.push(Line {
            name: name.to_owned(),
            color: RGBColor(140, 140, 140),
            dashed: true,
            points: error.map_or_else(Vec::new, |e| vec![(0.9, e), (20.0, e)]),
        });
    }
    let popular = |row: &&Value| row["metric"] == POPULAR && row["method"] == "pooled";
    if figure.all == LISTS.all {
        lines.push(Line {
            name: "most popular".to_owned(),
            color: RGBColor(140, 140, 140),
            dashed: true,
            points: rows.iter().filter(popular).filter_map(point).collect(),
        });
    }
    lines
}

fn against_popularity(rows: &[Value], epsilon: f64, figure: Figure) -> Vec<Line> {
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
    let mut lines: Vec<Line> = LINES
        .iter()
        .map(|line| Line {
            name: line.2.to_owned(),
            color: line.3,
            dashed: false,
            points: points(&|row| at(row) && is_of(row, line)),
        })
        .collect();
    for name in &BASELINES[1..] {
        lines.push(Line {
            name: (*name).to_owned(),
            color: RGBColor(140, 140, 140),
            dashed: true,
            points: points(&|row| row["method"] == **name),
        });
    }
    lines
}

fn draw(
    out: &Path,
    lines: &[Line],
    (x_name, x_range): (&str, std::ops::Range<f64>),
    y_name: &str,
) -> Result<()> {
    let logarithmic = x_name.starts_with("epsilon");
    let x = |value: f64| if logarithmic { value.ln() } else { value };
    let area = SVGBackend::new(out, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let values = lines.iter().flat_map(|line| &line.points).map(|p| p.1);
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let mut chart = ChartBuilder::on(&area)
        .margin(18)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x(x_range.start)..x(x_range.end), low - 0.01..high + 0.01)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .bold_line_style(RGBColor(230, 230, 230))
        .light_line_style(TRANSPARENT)
        .x_desc(x_name)
        .y_desc(y_name)
        .label_style(("sans-serif", 14))
        .draw()?;
    let mut ends = Vec::new();
    for line in lines {
        let points: Vec<(f64, f64)> = line.points.iter().map(|p| (x(p.0), p.1)).collect();
        let style = line.color.stroke_width(2);
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            let dots = points
                .iter()
                .map(|&at| Circle::new(at, 3, line.color.filled()));
            chart.draw_series(dots)?;
        }
        ends.extend(points.last().map(|&end| (end, line)));
    }
    let step = (high - low + 0.02) / 24.0;
    for ((at, y), line) in apart(ends, step) {
        let style = ("sans-serif", 13).into_font().color(&line.color);
        let place = (
            at + (x(x_range.end) - x(x_range.start)) * 0.012,
            y + step / 2.0,
        );
        chart.draw_series([Text::new(line.name.clone(), place, style)])?;
    }
    let ticks: Vec<f64> = if logarithmic {
        vec![1.0, 5.0, 20.0]
    } else {
        (1..=5).map(f64::from).collect()
    };
    for tick in ticks {
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        chart.draw_series([Text::new(tick.to_string(), (x(tick), low - 0.004), style)])?;
    }
    area.present()?;
    Ok(())
}

/// Moves labels up until no two are closer than `step`.
fn apart(mut ends: Vec<((f64, f64), &Line)>, step: f64) -> Vec<((f64, f64), &Line)> {
    ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    for at in 1..ends.len() {
        let least = ends[at - 1].0.1 + step;
        ends[at].0.1 = ends[at].0.1.max(least);
    }
    ends
}
