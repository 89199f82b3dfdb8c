//! Converts JSON rows to the lines of a chart.

use dp_page::{Axis, Chart, Line, Lines, Point};
use serde_json::Value;

/// A number, also if it is written as text.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    }
}

/// A setting of a row.
pub(super) fn param(row: &Value, name: &str) -> Option<f64> {
    number(&row["params"][name])
}

/// The mean of a row at position `x`, with its standard error if the row has one.
pub(super) fn point(x: f64, row: &Value) -> Option<Point> {
    let (y, error) = (number(&row["mean"])?, number(&row["se"]));
    Some(Point { x, y, error })
}

/// Groups points into lines by a key, in the order of first appearance.
pub(super) fn grouped(points: impl IntoIterator<Item = (String, Point)>) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for (name, point) in points {
        match all.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => all.push(Line::solid(name, [point])),
        }
    }
    for line in &mut all {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    all
}

/// A chart with a logarithmic horizontal axis whose ticks are the points; the vertical axis is
/// linear or logarithmic.
pub(super) fn chart(
    [title, note]: [&str; 2],
    [across, up]: [&str; 2],
    log_y: bool,
    lines: Vec<Line>,
) -> Chart {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (places, ys) = (points().map(|p| p.x), points());
    // error bars must be visible, but a logarithmic axis cannot extend to where they reach 0
    let heights = ys.flat_map(|p| {
        let error = p.error.unwrap_or(0.0);
        let low = p.y - error;
        [if log_y { low.max(0.5 * p.y) } else { low }, p.y + error]
    });
    let y = if log_y {
        Axis::log_around(up, heights)
    } else {
        Axis::around(up, heights)
    };
    let x = Axis::of_points(across, places);
    Chart::lines(title, note, Lines { x, y, lines })
}
