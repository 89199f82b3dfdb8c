//! From rows as JSON to the lines of a chart.

use serde_json::Value;

use dp_personal::output::{Line, Look};

/// A number, also one that is written as text.
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

/// Lines by a key, in the order of first appearance.
pub(super) fn grouped(points: Vec<(String, (f64, f64))>) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for (name, point) in points {
        match all.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => all.push(Line {
                name,
                points: vec![point],
                dashed: false,
                look: Look::Own,
            }),
        }
    }
    for line in &mut all {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    all
}
