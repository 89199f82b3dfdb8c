//! Line charts as SVG: a few lines of text, the same at every call.

use std::fmt::Write as _;

use super::bars::{escaped, head};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 160.0;
const TOP: f64 = 66.0;
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 280.0;
/// Of a whole chart.
const SIZE: [f64; 2] = [LEFT + WIDTH + RIGHT, TOP + HEIGHT + 52.0];
/// Distinct also in print.
const COLORS: [&str; 8] = [
    "#1f61a6", "#964f28", "#1e783c", "#c88c28", "#7a3c96", "#c0392b", "#2aa3a3", "#555555",
];

/// One named line; one that is dashed goes all the way across.
#[derive(Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Across and up.
    pub points: Vec<(f64, f64)>,
    /// Whether it goes all the way across.
    pub dashed: bool,
    /// How it is drawn.
    pub look: Look,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Look {
    /// A colour by its place among the lines.
    #[default]
    Own,
    /// This colour of the palette.
    Full(usize),
    /// The same, thin and dotted: a variant of the full line.
    Dotted(usize),
}

impl Look {
    fn color(self, place: usize) -> &'static str {
        let at = match self {
            Self::Own => place,
            Self::Full(color) | Self::Dotted(color) => color,
        };
        COLORS[at % COLORS.len()]
    }
}

/// Names of the axes and what they measure: the horizontal one is logarithmic.
#[derive(Debug)]
pub struct Axes {
    across: &'static str,
    up: String,
    log_y: bool,
    /// Places on the horizontal axis with names of their own.
    pub names: Vec<(f64, String)>,
}

impl Axes {
    /// Axes without named places.
    pub fn new(across: &'static str, up: &str) -> Self {
        Self {
            across,
            up: up.to_owned(),
            log_y: false,
            names: Vec::new(),
        }
    }

    /// Both axes logarithmic.
    pub fn with_log_y(mut self) -> Self {
        self.log_y = true;
        self
    }

    fn height(&self, y: f64) -> f64 {
        if self.log_y { y.log10() } else { y }
    }

    /// Places and names on the vertical axis within a range.
    fn steps(&self, [low, high]: [f64; 2]) -> Vec<(f64, String)> {
        if self.log_y {
            let powers = (-12..12_i32).map(f64::from);
            let powers = powers.filter(|p| (low..=high).contains(p));
            return powers.map(|p| (p, format!("1e{p}"))).collect();
        }
        round_steps(low, high)
    }
}

/// Multiples of a round number, four to nine of them.
fn round_steps(low: f64, high: f64) -> Vec<(f64, String)> {
    let wanted = ((high - low) / 4.0).max(1e-12);
    let unit = 10_f64.powf(wanted.log10().floor());
    let step = [5.0, 2.0, 1.0].map(|m| m * unit);
    let step = step.into_iter().find(|s| *s <= wanted * 1.0001);
    let step = step.unwrap_or(unit);
    let (mut digits, mut first_digit) = (0_usize, step);
    while first_digit < 0.999 && digits < 12 {
        first_digit *= 10.0;
        digits += 1;
    }
    let first = (low / step).ceil();
    let steps = (0..20).map(|n| (first + f64::from(n)) * step);
    let inside = steps.take_while(|y| *y <= high);
    inside.map(|y| (y, format!("{y:.digits$}"))).collect()
}

/// Ranges of a chart, as they are drawn.
struct Frame {
    x: [f64; 2],
    y: [f64; 2],
}

impl Frame {
    fn around(axes: &Axes, lines: &[Line]) -> Self {
        let all = || lines.iter().flat_map(|line| &line.points);
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values
                .filter(|v| v.is_finite())
                .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| {
                    [low.min(v), high.max(v)]
                })
        };
        let widened = |[low, high]: [f64; 2], by: f64| {
            let gap = by * (high - low).max(1e-9);
            if low <= high {
                [low - gap, high + gap]
            } else {
                [0.0, 1.0]
            }
        };
        Self {
            x: widened(range(&mut all().map(|p| p.0.ln())), 0.03),
            y: widened(range(&mut all().map(|p| axes.height(p.1))), 0.06),
        }
    }

    /// Where a point is drawn; `y` as high as the axis has it.
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |[low, high]: [f64; 2], v: f64| ((v - low) / (high - low)).clamp(0.0, 1.0);
        (
            LEFT + WIDTH * share(self.x, x.ln()),
            TOP + HEIGHT * (1.0 - share(self.y, y)),
        )
    }
}

/// Lines over a logarithmic axis, each with its name at its end.
pub fn lines(title: &str, below: &str, axes: &Axes, lines: &[Line]) -> String {
    let frame = Frame::around(axes, lines);
    let mut text = head(SIZE, title, below);
    put_axes(&mut text, &frame, lines, axes);
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line
            .points
            .iter()
            .map(|&(x, y)| frame.at(x, axes.height(y)))
            .collect();
        put_line(&mut text, at, line, &points);
        ends.extend(points.last().map(|&(_, y)| (y, at)));
    }
    put_names(&mut text, ends, lines);
    text.push_str("</svg>\n");
    text
}

fn put_axes(text: &mut String, frame: &Frame, lines: &[Line], axes: &Axes) {
    let (bottom, end) = (TOP + HEIGHT, LEFT + WIDTH);
    let mut ticks: Vec<f64> = lines
        .iter()
        .filter(|line| !line.dashed)
        .flat_map(|line| line.points.iter().map(|p| p.0))
        .collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup_by(|a, b| a.total_cmp(b).is_eq());
    for x in ticks {
        let named = axes.names.iter().find(|(at, _)| at.total_cmp(&x).is_eq());
        let name = named.map_or_else(|| x.to_string(), |(_, name)| escaped(name));
        let (at, _) = frame.at(x, 0.0);
        // writing to a string does not fail
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#e6e6e6\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            bottom + 17.0
        );
    }
    for (y, name) in axes.steps(frame.y) {
        let (_, at) = frame.at(1.0, y);
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\" stroke=\"#e6e6e6\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text x=\"{LEFT}\" y=\"{}\" font-size=\"12\">{}</text>",
        LEFT + WIDTH / 2.0,
        bottom + 38.0,
        escaped(axes.across),
        TOP - 9.0,
        escaped(&axes.up)
    );
}

fn put_line(text: &mut String, at: usize, line: &Line, points: &[(f64, f64)]) {
    let color = line.look.color(at);
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let dotted = matches!(line.look, Look::Dotted(_));
    let (width, dashes) = match (line.dashed, dotted) {
        (true, _) => (1.5, " stroke-dasharray=\"5 4\""),
        (false, true) => (
            1.5,
            " stroke-dasharray=\"1.5 3.5\" stroke-linecap=\"round\"",
        ),
        (false, false) => (2.2, ""),
    };
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"{dashes}/>",
        path.join(" ")
    );
    let fill = if dotted { "white" } else { color };
    for (x, y) in points.iter().filter(|_| !line.dashed) {
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{color}\"/>"
        );
    }
}

/// Charts below each other, as one.
pub fn stacked(charts: &[String]) -> String {
    let [width, height] = SIZE;
    let whole = height * charts.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{whole}\">\n"
    );
    for (at, chart) in charts.iter().enumerate() {
        let _ = writeln!(
            text,
            "<g transform=\"translate(0 {})\">",
            height * at as f64
        );
        text.push_str(chart);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

/// Names at the ends of their lines, moved apart where those meet.
fn put_names(text: &mut String, mut ends: Vec<(f64, usize)>, lines: &[Line]) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let room = 15.0;
    let last = TOP + HEIGHT + 4.0 - room * (ends.len().max(1) - 1) as f64;
    let mut free = f64::NEG_INFINITY;
    for (rank, (y, at)) in ends.into_iter().enumerate() {
        let y = y.min(last + room * rank as f64).max(free);
        free = y + room;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
            LEFT + WIDTH + 8.0,
            y + 4.0,
            lines[at].look.color(at),
            escaped(&lines[at].name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers_inside_the_range() {
        let names = |low, high| {
            let all = round_steps(low, high);
            assert!(all.iter().all(|(y, _)| (low..=high).contains(y)));
            all.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(0.848, 1.055),
            ["0.85", "0.90", "0.95", "1.00", "1.05"]
        );
        assert_eq!(names(-0.02, 0.41), ["0.0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(
            names(12.0, 90.0),
            ["20", "30", "40", "50", "60", "70", "80", "90"]
        );
        assert!((4..=9).contains(&names(0.0, 3.99e-4).len()));
    }

    #[test]
    fn variants_are_dotted_in_the_colour_of_their_line() {
        let line = |look| Line {
            name: "a".to_owned(),
            points: vec![(1.0, 1.0), (2.0, 2.0)],
            dashed: false,
            look,
        };
        let axes = Axes::new("x", "y");
        let both = lines(
            "t",
            "b",
            &axes,
            &[line(Look::Full(3)), line(Look::Dotted(3))],
        );
        assert_eq!(both.matches("stroke=\"#c88c28\" stroke-width").count(), 2);
        assert_eq!(both.matches("stroke-dasharray").count(), 1);
        assert_eq!(both.matches("fill=\"white\" stroke=\"#c88c28\"").count(), 2);
    }

    #[test]
    fn lines_are_drawn_to_scale_and_names_do_not_meet() {
        let line = |name: &str, ys: [f64; 2]| Line {
            name: name.to_owned(),
            points: vec![(1.0, ys[0]), (100.0, ys[1])],
            dashed: false,
            look: Look::Own,
        };
        let chart = lines(
            "t <",
            "b",
            &Axes::new("epsilon", "RMSE"),
            &[
                line("a", [3.0, 1.0]),
                line("b & c", [2.0, 1.0]),
                line("d", [1.0, 1.0]),
            ],
        );
        assert!(chart.contains("t &lt;") && chart.contains("b &amp; c") && !chart.contains("NaN"));
        let names = chart.lines().filter(|l| l.starts_with("<text x=\"492\""));
        let at = |line: &str| line.split('"').nth(3).unwrap().parse::<f64>().unwrap();
        let places: Vec<f64> = names.map(at).collect();
        assert_eq!(places.len(), 3);
        assert!(
            places
                .windows(2)
                .all(|pair| (pair[1] - pair[0]).abs() >= 14.9),
            "{places:?}"
        );
        let empty = lines("t", "b", &Axes::new("x", "y"), &[]);
        assert!(!empty.contains("NaN") && !empty.contains("inf"));
        let pair = stacked(&[
            empty,
            lines("t", "b", &Axes::new("x", "y"), &[line("a", [1.0, 2.0])]),
        ]);
        assert!(pair.matches("<svg").count() == 3 && pair.contains("height=\"796\""));
        let log = Axes::new("x", "y").with_log_y();
        let log = lines("t", "b", &log, &[line("a", [1e-3, 10.0])]);
        assert!(log.contains(">1e-2</text>") && log.contains(">1e1</text>"));
    }
}
