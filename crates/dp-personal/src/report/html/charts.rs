//! Charts as inline SVG. Words and numbers stand in HTML beside the shapes, so that they keep their size on every
//! screen while the shapes stretch.

use std::fmt::Write as _;

use crate::output::escaped;
use crate::report::page::{BarRow, Bars, Curve, CurveLine, Hundred};

/// Colours of series, by the classes of the style sheet.
const N_COLORS: usize = 4;
/// Coordinates of a curve run from 0 to this.
const SIDE: f64 = 1000.0;

/// Bars in a table: name, bars, numbers.
pub(super) fn put_bars(text: &mut String, bars: &Bars) {
    let _ = writeln!(
        text,
        "<figure>\n<figcaption>{}</figcaption>",
        escaped(&bars.title)
    );
    if !bars.note.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(&bars.note));
    }
    if bars.series.len() > 1 {
        put_legend(text, bars.series.iter().map(String::as_str), &[]);
    }
    text.push_str("<table class=\"bars\"><tbody>\n");
    let full = bars.full();
    for row in &bars.rows {
        put_row(text, bars, row, full);
    }
    text.push_str("</tbody></table>\n</figure>\n");
}

/// One row; `full` is what a full bar stands for.
fn put_row(text: &mut String, bars: &Bars, row: &BarRow, full: f64) {
    let _ = write!(text, "<tr><th scope=\"row\">{}", escaped(&row.label));
    if !row.detail.is_empty() {
        let _ = write!(text, " <small>{}</small>", escaped(&row.detail));
    }
    text.push_str("</th><td class=\"track\">");
    for (at, value) in row.values.iter().enumerate() {
        let value = value.filter(|_| full > 0.0).unwrap_or(0.0);
        let sign = if value < 0.0 { " below" } else { "" };
        let _ = write!(
            text,
            "<svg aria-hidden=\"true\" width=\"100%\" height=\"10\"><rect class=\"fill c{}{sign}\" width=\"{:.2}%\" height=\"10\" rx=\"2\"/></svg>",
            at % N_COLORS,
            100.0 * (value.abs() / full.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        );
    }
    text.push_str("</td><td class=\"value\">");
    for (at, value) in row.values.iter().enumerate() {
        text.push_str("<span>");
        if let Some(name) = bars.series.get(at).filter(|_| bars.series.len() > 1) {
            let _ = write!(text, "<span class=\"heard\">{}: </span>", escaped(name));
        }
        let _ = write!(text, "{}</span>", bars.unit.shown(*value));
    }
    text.push_str("</td></tr>\n");
}

/// Names beside their colours.
fn put_legend<'a>(text: &mut String, names: impl Iterator<Item = &'a str>, dashed: &[bool]) {
    text.push_str("<ul class=\"legend\">");
    for (at, name) in names.enumerate() {
        let dash = if dashed.get(at).copied().unwrap_or(false) {
            " dashed"
        } else {
            ""
        };
        let _ = write!(
            text,
            "<li><svg aria-hidden=\"true\" width=\"18\" height=\"10\"><path class=\"line c{}{dash}\" d=\"M1 5H17\"/></svg>{}</li>",
            at % N_COLORS,
            escaped(name)
        );
    }
    text.push_str("</ul>\n");
}

/// A hundred dots: found by blind guessing, found by the best attacker, not found.
pub(super) fn put_hundred(text: &mut String, of: &Hundred) {
    let _ = write!(
        text,
        "<figure class=\"hundred\">\n<svg viewBox=\"0 0 500 125\" role=\"img\" aria-label=\"{:.1} of 100 found, {:.0} by blind guessing\">",
        of.found, of.blind
    );
    for dot in 0..100_u8 {
        let (row, column) = (dot / 20, dot % 20);
        let place = f64::from(dot);
        let class = if place + 0.5 <= of.blind {
            "blind"
        } else if place < of.found {
            "found"
        } else {
            "rest"
        };
        let _ = write!(
            text,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"8\"/>",
            12.5 + 25.0 * f64::from(column),
            12.5 + 25.0 * f64::from(row)
        );
    }
    let _ = writeln!(
        text,
        "</svg>\n<p class=\"note\">{}</p>\n</figure>",
        escaped(&of.caption)
    );
}

/// Lines over two axes.
pub(super) fn put_curve(text: &mut String, curve: &Curve) {
    let _ = writeln!(
        text,
        "<figure class=\"curve\">\n<figcaption>{}</figcaption>\n<p class=\"note\">{}</p>",
        escaped(&curve.title),
        escaped(&curve.note)
    );
    if curve.lines.len() > 1 {
        let dashed: Vec<bool> = curve.lines.iter().map(|line| line.dashed).collect();
        put_legend(
            text,
            curve.lines.iter().map(|line| line.name.as_str()),
            &dashed,
        );
    }
    let _ = write!(
        text,
        "<p class=\"axis\">{}</p>\n<div class=\"plot\">\n<svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        escaped(&curve.y.name),
        escaped(&curve.title)
    );
    put_grid(text, curve);
    for (at, line) in curve.lines.iter().enumerate() {
        put_line(text, curve, at % N_COLORS, line);
    }
    text.push_str("</svg>\n");
    for (value, name) in &curve.y.ticks {
        let _ = write!(
            text,
            "<span class=\"tick up\" style=\"bottom:{:.2}%\">{}</span>",
            100.0 * curve.y.place(*value),
            escaped(name)
        );
    }
    for (value, name) in spread(curve) {
        let _ = write!(
            text,
            "<span class=\"tick across\" style=\"left:{:.2}%\">{}</span>",
            100.0 * curve.x.place(value),
            escaped(name)
        );
    }
    let _ = writeln!(
        text,
        "\n</div>\n<p class=\"axis below\">{}</p>\n</figure>",
        escaped(&curve.x.name)
    );
}

/// Names along the horizontal axis that do not meet on a narrow screen.
fn spread(curve: &Curve) -> Vec<(f64, &str)> {
    let mut free = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for (value, name) in &curve.x.ticks {
        let at = curve.x.place(*value);
        if at >= free {
            kept.push((*value, name.as_str()));
            free = at + 0.11;
        }
    }
    kept
}

fn put_grid(text: &mut String, curve: &Curve) {
    for (value, _) in &curve.y.ticks {
        let y = SIDE * (1.0 - curve.y.place(*value));
        let _ = write!(text, "<path class=\"grid\" d=\"M0 {y:.1}H{SIDE}\"/>");
    }
}

fn put_line(text: &mut String, curve: &Curve, color: usize, line: &CurveLine) {
    let points = line.points.iter();
    let points: Vec<(f64, f64)> = points
        .map(|(x, y)| (SIDE * curve.x.place(*x), SIDE * (1.0 - curve.y.place(*y))))
        .collect();
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1} {y:.1}"))
        .collect();
    if path.is_empty() {
        return;
    }
    let path = path.join("L");
    if line.dense {
        let _ = write!(
            text,
            "<path class=\"area c{color}\" d=\"M{path}V{SIDE}H0Z\"/>"
        );
    }
    let dash = if line.dashed { " dashed" } else { "" };
    let _ = write!(text, "<path class=\"line c{color}{dash}\" d=\"M{path}\"/>");
    if !line.dashed && !line.dense {
        for (x, y) in points {
            // a line without length has a round end, which no stretching turns into an ellipse
            let _ = write!(
                text,
                "<path class=\"dot c{color}\" d=\"M{x:.1} {y:.1}h.01\"/>"
            );
        }
    }
}
