//! A page as words and numbers, whatever it is written in.

use std::cmp::Ordering;

/// One page.
pub(crate) struct Page {
    /// Whether it shows what is computed from private data.
    pub(crate) internal: bool,
    pub(crate) title: String,
    /// Short facts under the title.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) lead: String,
    /// Said before all else.
    pub(crate) caution: Option<String>,
    pub(crate) sections: Vec<Section>,
    pub(crate) footer: String,
}

/// A part of a page.
pub(crate) struct Section {
    /// Its place in the page's address.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) blocks: Vec<Block>,
}

/// What a section is made of.
pub(crate) enum Block {
    Text(String),
    /// A remark in small type.
    Note(String),
    Numbers(Vec<Number>),
    Hundred(Hundred),
    Bars(Bars),
    /// Small bars side by side.
    Cards(Vec<Bars>),
    Curve(Curve),
    Table(Table),
    List(&'static str, Vec<String>),
    /// Text to be shown when asked for, as it is.
    Details(&'static str, String),
}

/// A figure to be read from afar.
pub(crate) struct Number {
    pub(crate) value: String,
    pub(crate) label: String,
    pub(crate) note: String,
}

/// A share of a hundred people, beside what blind guessing gets.
pub(crate) struct Hundred {
    pub(crate) blind: f64,
    pub(crate) found: f64,
    pub(crate) caption: String,
}

/// How the numbers of bars are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// `0.031` as `3.1 %`; full bars are 1.
    Share,
    /// With four places, or as `1.234e9`; full bars are the largest.
    Plain,
}

/// Numbers from here on are written with powers of ten.
const LARGE: f64 = 1e7;

/// Rows of bars, one for each series.
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) series: Vec<String>,
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<BarRow>,
}

pub(crate) struct BarRow {
    pub(crate) label: String,
    /// Beside the label, in small type.
    pub(crate) detail: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// Lines over two axes.
pub(crate) struct Curve {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<CurveLine>,
    /// Whether a table beside it has all of its numbers.
    pub(crate) has_table: bool,
}

pub(crate) struct CurveLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// A level to compare with: no points are marked.
    pub(crate) dashed: bool,
    /// Too many points to mark each.
    pub(crate) dense: bool,
}

pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) log: bool,
    pub(crate) range: [f64; 2],
    /// Places with names.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// Words and numbers in rows; the first column is text.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Unit {
    pub(crate) fn shown(self, value: Option<f64>) -> String {
        match (self, value) {
            (_, None) => "\u{2013}".to_owned(),
            (Self::Share, Some(value)) => format!("{:.1} %", 100.0 * value),
            (Self::Plain, Some(value)) if value.abs() >= LARGE => format!("{value:.3e}"),
            (Self::Plain, Some(value)) => format!("{value:.4}"),
        }
    }
}

impl Bars {
    /// What a full bar stands for.
    pub(crate) fn full(&self) -> f64 {
        let values = self.rows.iter().flat_map(|row| row.values.iter().flatten());
        let largest = values.map(|value| value.abs()).fold(0.0, f64::max);
        match self.unit {
            Unit::Share if largest > 0.0 && largest < 0.5 => largest,
            Unit::Share => 1.0,
            Unit::Plain => largest,
        }
    }
}

impl Axis {
    /// Where a value lies between the ends, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let scaled = |v: f64| {
            if self.log {
                v.max(f64::MIN_POSITIVE).ln()
            } else {
                v
            }
        };
        let [low, high] = self.range.map(scaled);
        if high <= low {
            return 0.5;
        }
        ((scaled(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// From nothing to all.
    pub(crate) fn of_shares(name: &str) -> Self {
        let ticks = [0.0, 0.25, 0.5, 0.75, 1.0];
        Self {
            name: name.to_owned(),
            log: false,
            range: [0.0, 1.0],
            ticks: ticks
                .map(|v: f64| (v, format!("{:.0} %", 100.0 * v)))
                .into(),
        }
    }

    /// A linear axis around values, with four or five round ticks.
    pub(crate) fn around(name: &str, values: impl Iterator<Item = f64>) -> Self {
        let [low, high] = ends(values);
        let gap = 0.08 * (high - low).max(1e-3);
        let range = [low - gap, high + gap];
        Self {
            name: name.to_owned(),
            log: false,
            ticks: round_ticks(range),
            range,
        }
    }

    /// A logarithmic axis around positive values, which are its ticks.
    pub(crate) fn of_points(name: &str, values: impl Iterator<Item = f64>) -> Self {
        let mut at: Vec<f64> = values.collect();
        at.sort_by(f64::total_cmp);
        at.dedup_by(|a, b| a.total_cmp(b) == Ordering::Equal);
        let [low, high] = ends(at.iter().copied());
        Self {
            name: name.to_owned(),
            log: true,
            range: [low / 1.25, high * 1.25],
            ticks: at.iter().map(|&v| (v, short(v))).collect(),
        }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let finite = values.filter(|v| v.is_finite());
    let [low, high] = finite.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| {
        [low.min(v), high.max(v)]
    });
    if low <= high { [low, high] } else { [1.0, 1.0] }
}

/// Multiples of 1, 2 or 5 times a power of ten within a range.
fn round_ticks([low, high]: [f64; 2]) -> Vec<(f64, String)> {
    let rough = (high - low) / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let step = steps.into_iter().find(|s| *s >= rough).unwrap_or(rough);
    let places = places_between(1.0, step);
    let first = (low / step).ceil();
    (0..12)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|v| *v <= high)
        .map(|v| (v, tick(v, step, places)))
        .collect()
}

/// The name of a tick: where numbers are written with powers of ten, in as many digits as tell it from the next one.
fn tick(value: f64, step: f64, places: usize) -> String {
    if value.abs() < LARGE {
        return format!("{value:.places$}");
    }
    let digits = places_between(value.abs(), step);
    format!("{value:.digits$e}")
}

/// Powers of ten from a step up to a number, as digits: 9 at most.
fn places_between(value: f64, step: f64) -> usize {
    let powers = (value.log10().floor() - step.log10().floor()).clamp(0.0, 9.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 0 and 9"
    )]
    let powers = powers as usize;
    powers
}

/// A number in few digits.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if value != 0.0 && (text == "0" || value.abs() >= 1e5) {
        return format!("{value:.1e}");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let axis = Axis::around("RMSE", [0.8913, 0.9777].into_iter());
        let names: Vec<&str> = axis.ticks.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["0.90", "0.95"]);
        let one = Axis::around("RMSE", std::iter::once(0.5));
        assert!(one.ticks.iter().all(|(v, _)| (0.4..0.6).contains(v)));
        let none = Axis::around("RMSE", std::iter::empty());
        assert!(none.range.iter().all(|v| v.is_finite()));
        let log = Axis::of_points("epsilon", [5.0, 0.5, 5.0].into_iter());
        assert_eq!(log.ticks, [(0.5, "0.5".to_owned()), (5.0, "5".to_owned())]);
        assert!((log.place(5.0_f64.sqrt() * 0.5_f64.sqrt()) - 0.5).abs() < 1e-9);
        assert_eq!(short(1e-5), "1.0e-5");
    }

    #[test]
    fn ticks_of_large_numbers_are_short_and_differ() {
        let names = |values: [f64; 2]| -> Vec<String> {
            let axis = Axis::around("RMSE", values.into_iter());
            axis.ticks.into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names([0.5, 4e45]), ["0", "2e45", "4e45"]);
        let close = names([1.0e9, 1.01e9]);
        assert_eq!(close, ["1.000e9", "1.005e9", "1.010e9"]);
        assert_eq!(names([0.0, 9e6]), ["0", "5000000"]);
        assert!(names([1e300, 1e300]).is_empty());
    }
}
