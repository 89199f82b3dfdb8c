//! Charts: their data, and their rendering as SVG. All SVG of the project is written here.
//!
//! Shapes are positioned by percentages of the plot, so that the same drawing stretches with a page
//! and has a fixed size in a separate file, while text, lines and marks keep their size in both.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::page::Table;
use crate::style::chart_sheet;

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// How to read the chart; may be empty.
    pub note: String,
    /// The file that contains the chart as SVG, for a Markdown page.
    pub file: Option<String>,
    /// Whether a table next to the chart contains all of its numbers.
    pub has_table: bool,
    /// Bars or lines.
    pub drawing: Drawing,
}

/// The kinds of charts.
#[derive(Debug, Clone)]
pub enum Drawing {
    /// Rows of bars.
    Bars(Bars),
    /// Lines over two axes.
    Lines(Lines),
}

/// Rows of bars; each row has one bar per series.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Names of the series.
    pub series: Vec<String>,
    /// How the numbers are formatted.
    pub unit: Unit,
    /// The rows.
    pub rows: Vec<BarRow>,
}

/// A row of bars.
#[derive(Debug, Clone)]
pub struct BarRow {
    /// Its name.
    pub label: String,
    /// Shown next to the name, in small type; may be empty.
    pub detail: String,
    /// One per series; `None` if there is no value.
    pub values: Vec<Option<f64>>,
}

/// How the numbers of bars are formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// `0.031` as `3.1 %`; full bars are 1.
    Share,
    /// With four decimal places, or as `1.234e9`; a full bar is the largest value.
    Plain,
}

/// Numbers from this value on are written with powers of ten.
const LARGE: f64 = 1e7;

/// Lines in a coordinate system with two axes.
#[derive(Debug, Clone)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines; the first is drawn first.
    pub lines: Vec<Line>,
}

/// One named line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its colour by number, from 0 to 7; by default, its position among the lines.
    pub color: Option<usize>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// Half the length of the bar around `y`: a standard error, or half of an interval.
    pub error: Option<f64>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// With a mark at each point.
    Solid,
    /// Thin, with open marks: a variant of a solid line.
    Dotted,
    /// A reference level: no marks.
    Dashed,
    /// Too many points to mark each; the area below is tinted.
    Dense,
}

/// One axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The quantity.
    pub name: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Its minimum and maximum.
    pub range: [f64; 2],
    /// Tick positions and their labels.
    pub ticks: Vec<(f64, String)>,
}

/// A number of people out of a hundred compared with random guessing, shown as dots.
#[derive(Debug, Clone)]
pub struct Hundred {
    /// Number found by random guessing, out of 100.
    pub blind: f64,
    /// Number found, out of 100.
    pub found: f64,
    /// Who they are, and who finds them: "users who took part, the best attacker finds".
    pub subject: String,
}

/// Number of colours of series, which are classes of the style sheet.
pub(crate) const N_COLORS: usize = 8;
/// Coordinates of the paths of a plot run from 0 to this.
const SIDE: f64 = 1000.0;
/// Lines with more points than this are not listed as numbers.
const MOST_POINTS: usize = 24;
/// Number of characters of a full bar in text.
const BAR: f64 = 24.0;

/// A file with lines: its margins, and the size of its plot.
const LEFT: f64 = 72.0;
const PLOT: [f64; 2] = [430.0, 290.0];
const RIGHT: f64 = 190.0;
/// A file with bars: space for labels, for a full bar and for numbers.
const LABEL: f64 = 210.0;
const FULL: f64 = 320.0;
const VALUE: f64 = 90.0;
/// Maximum width of a character in small type.
const CHARACTER: f64 = 6.9;

impl Chart {
    /// A line chart without a file and without a table next to it.
    pub fn lines(title: impl Into<String>, note: impl Into<String>, lines: Lines) -> Self {
        Self::new(title.into(), note.into(), Drawing::Lines(lines))
    }

    /// A bar chart without a file and without a table next to it.
    pub fn bars(title: impl Into<String>, note: impl Into<String>, bars: Bars) -> Self {
        Self::new(title.into(), note.into(), Drawing::Bars(bars))
    }

    const fn new(title: String, note: String, drawing: Drawing) -> Self {
        Self {
            title,
            note,
            file: None,
            has_table: false,
            drawing,
        }
    }

    /// All its numbers as a table; `None` if a table next to it has them, or if there are too many.
    #[must_use]
    pub fn numbers(&self) -> Option<Table> {
        match &self.drawing {
            _ if self.has_table => None,
            Drawing::Bars(bars) => Some(bars.numbers()),
            Drawing::Lines(lines) => lines.numbers(),
        }
    }

    /// The colour markers of the series and their names.
    pub(crate) fn legend(&self) -> Vec<(String, &str)> {
        let swatch = |class: &str| {
            format!(
                "<svg aria-hidden=\"true\" width=\"22\" height=\"10\"><path class=\"line {class}\" d=\"M2 5H20\"/></svg>"
            )
        };
        match &self.drawing {
            Drawing::Bars(bars) => {
                let names = bars.series.iter().enumerate();
                names
                    .map(|(at, name)| (swatch(&color(at)), name.as_str()))
                    .collect()
            }
            Drawing::Lines(lines) => {
                let all = lines.lines.iter().enumerate();
                all.map(|(at, line)| (swatch(&line.class(at)), line.name.as_str()))
                    .collect()
            }
        }
    }

    /// The chart as an SVG file, in light and dark colours.
    #[must_use]
    pub fn svg(&self) -> String {
        let [width, height] = self.size();
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-label=\"{}\">\n<style>\n{}</style>\n<rect class=\"card\" width=\"100%\" height=\"100%\"/>\n",
            escaped(&self.title),
            chart_sheet()
        );
        self.put(&mut text);
        text.push_str("</svg>\n");
        text
    }

    /// The height of the title and the note.
    fn top(&self) -> f64 {
        let legend = matches!(&self.drawing, Drawing::Bars(bars) if bars.series.len() > 1);
        let extra = if legend { 22.0 } else { 0.0 };
        34.0 + 16.0 * self.note_lines().len() as f64 + extra
    }

    fn width(&self) -> f64 {
        match &self.drawing {
            Drawing::Lines(_) => LEFT + PLOT[0] + RIGHT,
            Drawing::Bars(_) => LABEL + FULL + VALUE,
        }
    }

    /// The note, split into lines that fit into a file.
    fn note_lines(&self) -> Vec<String> {
        let fits = |n: usize| n as f64 * CHARACTER <= self.width() - 28.0;
        let mut lines: Vec<String> = Vec::new();
        for word in self.note.split_whitespace() {
            match lines.last_mut() {
                Some(line) if fits(line.chars().count() + 1 + word.chars().count()) => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }

    fn size(&self) -> [f64; 2] {
        let height = match &self.drawing {
            Drawing::Lines(_) => 30.0 + PLOT[1] + 58.0,
            Drawing::Bars(bars) => 14.0 + bars.rows.len() as f64 * bars.row_height() + 10.0,
        };
        [self.width(), self.top() + height]
    }

    /// Writes the content of a file.
    fn put(&self, text: &mut String) {
        // writing to a string does not fail
        let _ = writeln!(
            text,
            "<text class=\"title\" x=\"14\" y=\"26\">{}</text>",
            escaped(&self.title)
        );
        for (at, line) in self.note_lines().iter().enumerate() {
            let y = 46.0 + 16.0 * at as f64;
            let _ = writeln!(
                text,
                "<text class=\"below\" x=\"14\" y=\"{y}\">{}</text>",
                escaped(line)
            );
        }
        match &self.drawing {
            Drawing::Lines(lines) => lines.put_file(text, self.top() + 30.0),
            Drawing::Bars(bars) => bars.put_file(text, self.top() + 14.0),
        }
    }
}

/// Charts stacked vertically, as one file.
#[must_use]
pub fn stacked(charts: &[Chart]) -> String {
    let sizes: Vec<[f64; 2]> = charts.iter().map(Chart::size).collect();
    let width = sizes.iter().map(|size| size[0]).fold(0.0, f64::max);
    let height: f64 = sizes.iter().map(|size| size[1]).sum();
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{}\">\n<style>\n{}</style>\n<rect class=\"card\" width=\"100%\" height=\"100%\"/>\n",
        escaped(&titles.join("; ")),
        chart_sheet()
    );
    let mut y = 0.0;
    for (chart, size) in charts.iter().zip(sizes) {
        let _ = writeln!(text, "<g transform=\"translate(0 {y})\">");
        chart.put(&mut text);
        text.push_str("</g>\n");
        y += size[1];
    }
    text.push_str("</svg>\n");
    text
}

impl Bars {
    /// The value of a full bar.
    fn full(&self) -> f64 {
        let values = self.rows.iter().flat_map(|row| row.values.iter().flatten());
        let finite = values.map(|value| value.abs()).filter(|v| v.is_finite());
        match self.unit {
            Unit::Share => 1.0,
            Unit::Plain => finite.fold(0.0, f64::max),
        }
    }

    /// The length of a bar, from 0 to 1.
    fn length(&self, value: Option<f64>) -> f64 {
        let full = self.full();
        let value = value.filter(|v| full > 0.0 && !v.is_nan()).unwrap_or(0.0);
        (value.abs() / full.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    fn class(at: usize, value: Option<f64>) -> String {
        let below = if value.is_some_and(|v| v < 0.0) {
            " below"
        } else {
            ""
        };
        format!("fill {}{below}", color(at))
    }

    /// The bar of a series on its track, as wide as its container.
    pub(crate) fn inline(&self, at: usize, value: Option<f64>) -> String {
        format!(
            "<svg aria-hidden=\"true\" width=\"100%\" height=\"10\"><rect class=\"{}\" width=\"{:.2}%\" height=\"10\" rx=\"2\"/></svg>",
            Self::class(at, value),
            100.0 * self.length(value)
        )
    }

    fn numbers(&self) -> Table {
        let has_details = self.rows.iter().any(|row| !row.detail.is_empty());
        let is_one = self.series.len() == 1;
        let mut heads = vec![String::new()];
        heads.extend(has_details.then(String::new));
        heads.extend(self.series.iter().cloned());
        heads.extend(is_one.then(String::new));
        let rows = self.rows.iter().map(|row| {
            let mut cells = vec![row.label.clone()];
            cells.extend(has_details.then(|| row.detail.clone()));
            cells.extend(row.values.iter().map(|value| self.unit.shown(*value)));
            let length = self.length(row.values.first().copied().flatten());
            let filled = (0..24).filter(|n| f64::from(*n) < BAR * length).count();
            cells.extend(is_one.then(|| "\u{2588}".repeat(filled)));
            cells
        });
        let last = heads.len() - 1;
        let text = is_one.then_some(last);
        let text = text.into_iter().chain(has_details.then_some(1));
        Table::new("", heads.clone(), rows).with_text(text)
    }

    fn row_height(&self) -> f64 {
        9.0 + 14.0 * self.series.len().max(1) as f64
    }

    fn put_file(&self, text: &mut String, top: f64) {
        if self.series.len() > 1 {
            let mut x = LABEL;
            for (at, name) in self.series.iter().enumerate() {
                let (y, class) = (top - 24.0, color(at));
                let _ = writeln!(
                    text,
                    "<rect class=\"fill {class}\" x=\"{x:.0}\" y=\"{y}\" width=\"14\" height=\"10\" rx=\"2\"/>\
                     <text class=\"below\" x=\"{:.0}\" y=\"{}\">{}</text>",
                    x + 20.0,
                    y + 9.5,
                    escaped(name)
                );
                x += 44.0 + 6.5 * name.chars().count() as f64;
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = top + self.row_height() * at as f64;
            let middle = y + 7.0 * row.values.len().max(1) as f64 + 3.5;
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
                LABEL - 10.0,
                escaped(&shortened(&row.label))
            );
            for (series, value) in row.values.iter().enumerate() {
                let y = y + 14.0 * series as f64;
                let length = FULL * self.length(*value);
                let _ = writeln!(
                    text,
                    "<rect class=\"track\" x=\"{LABEL}\" y=\"{y:.1}\" width=\"{FULL}\" height=\"11\" rx=\"2\"/>\
                     <rect class=\"{}\" x=\"{LABEL}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"11\" rx=\"2\"/>\
                     <text class=\"value\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    Self::class(series, *value),
                    LABEL + FULL + VALUE - 14.0,
                    y + 10.0,
                    self.unit.shown(*value)
                );
            }
        }
    }
}

impl Lines {
    /// Only the plot, as wide and high as its container; its labels are in the margin around it.
    pub(crate) fn inline(&self, title: &str) -> String {
        let mut text = format!(
            "<svg role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"100%\">\n",
            escaped(title)
        );
        self.put_plot(&mut text);
        text.push_str("</svg>");
        text
    }

    /// The plot with the names of the lines at their ends, moved apart if they overlap.
    fn put_file(&self, text: &mut String, top: f64) {
        let [width, height] = PLOT;
        let _ = writeln!(
            text,
            "<svg x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" overflow=\"visible\">"
        );
        self.put_plot(text);
        text.push_str("</svg>\n");
        let ends = self.lines.iter().enumerate().filter_map(|(at, line)| {
            let last = line.drawn().last()?;
            Some((top + height * (1.0 - self.y.place(last.y)), at))
        });
        let mut ends: Vec<(f64, usize)> = ends.collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let room = 16.0;
        let lowest = top + height + 4.0 - room * (ends.len().max(1) - 1) as f64;
        let mut free = f64::NEG_INFINITY;
        for (rank, (y, at)) in ends.into_iter().enumerate() {
            let y = y.min(lowest + room * rank as f64).max(free);
            free = y + room;
            let line = &self.lines[at];
            let _ = writeln!(
                text,
                "<text class=\"name {}\" x=\"{}\" y=\"{:.1}\">{}</text>",
                line.color(at),
                LEFT + width + 10.0,
                y + 4.5,
                escaped(&line.name)
            );
        }
    }

    fn put_plot(&self, text: &mut String) {
        for (value, name) in &self.y.ticks {
            let y = 100.0 * (1.0 - self.y.place(*value));
            let _ = write!(
                text,
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.2}%\" y2=\"{y:.2}%\"/>\
                 <text class=\"tick up\" x=\"-10\" y=\"{y:.2}%\" dy=\"4.5\" text-anchor=\"end\">{}</text>",
                escaped(name)
            );
        }
        text.push_str("<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"100%\" y2=\"100%\"/>\n");
        for (value, name) in spread(&self.x) {
            let x = 100.0 * self.x.place(value);
            let _ = write!(
                text,
                "<text class=\"tick across\" x=\"{x:.2}%\" y=\"100%\" dy=\"20\" text-anchor=\"middle\">{}</text>",
                escaped(name)
            );
        }
        let _ = writeln!(
            text,
            "<text class=\"axis\" x=\"50%\" y=\"100%\" dy=\"43\" text-anchor=\"middle\">{}</text>\
             <text class=\"axis\" x=\"0\" y=\"0\" dy=\"-12\">{}</text>",
            escaped(&self.x.name),
            escaped(&self.y.name)
        );
        for (at, line) in self.lines.iter().enumerate() {
            self.put_line(text, at, line);
        }
    }

    fn put_line(&self, text: &mut String, at: usize, line: &Line) {
        let places: Vec<(Point, f64, f64)> = line
            .drawn()
            .map(|p| (*p, self.x.place(p.x), 1.0 - self.y.place(p.y)))
            .collect();
        let Some((_, last, _)) = places.last() else {
            return;
        };
        let path = places
            .iter()
            .map(|(_, x, y)| format!("{:.1} {:.1}", SIDE * x, SIDE * y));
        let path = path.collect::<Vec<_>>().join("L");
        let (class, color) = (line.class(at), line.color(at));
        let _ = write!(
            text,
            "<svg width=\"100%\" height=\"100%\" viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\" overflow=\"visible\">"
        );
        if line.stroke == Stroke::Dense {
            let (first, last) = (SIDE * places[0].1, SIDE * last);
            let _ = write!(
                text,
                "<path class=\"area {color}\" d=\"M{path}L{last:.1} {SIDE}L{first:.1} {SIDE}Z\"/>"
            );
        }
        let _ = write!(text, "<path class=\"line {class}\" d=\"M{path}\"/></svg>");
        for (point, x, y) in &places {
            let x = 100.0 * x;
            if let Some(error) = point.error.filter(|error| *error > 0.0) {
                let [high, low] =
                    [point.y + error, point.y - error].map(|y| 100.0 * (1.0 - self.y.place(y)));
                let _ = write!(
                    text,
                    "<line class=\"error {color}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{high:.2}%\" y2=\"{low:.2}%\"/>"
                );
            }
            let open = match line.stroke {
                Stroke::Solid => "",
                Stroke::Dotted => " open",
                Stroke::Dashed | Stroke::Dense => continue,
            };
            let _ = write!(
                text,
                "<circle class=\"mark {color}{open}\" cx=\"{x:.2}%\" cy=\"{:.2}%\" r=\"3.5\"/>",
                100.0 * y
            );
        }
        text.push('\n');
    }

    fn numbers(&self) -> Option<Table> {
        let first = self.lines.first()?;
        if first.points.len() > MOST_POINTS {
            return None;
        }
        let shown = |p: &Point| match p.error {
            Some(error) => format!("{} \u{b1} {}", Unit::Plain.shown(Some(p.y)), short(error)),
            None => Unit::Plain.shown(Some(p.y)),
        };
        let rows = self.lines.iter().flat_map(|line| {
            let is_level = line.stroke == Stroke::Dashed;
            let n = if is_level { 1 } else { line.points.len() };
            line.points.iter().take(n).map(move |p| {
                let x = if is_level {
                    String::new()
                } else {
                    self.x.name_of(p.x)
                };
                vec![x, line.name.clone(), shown(p)]
            })
        });
        let heads = [self.x.name.as_str(), "", self.y.name.as_str()];
        Some(Table::new("", heads, rows).with_text([1]))
    }
}

impl Line {
    /// A line with a mark at each point, in a colour determined by its position.
    pub fn solid(
        name: impl Into<String>,
        points: impl IntoIterator<Item = impl Into<Point>>,
    ) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().map(Into::into).collect(),
            stroke: Stroke::Solid,
            color: None,
        }
    }

    /// The same line, drawn in another way.
    #[must_use]
    pub const fn with_stroke(mut self, stroke: Stroke) -> Self {
        self.stroke = stroke;
        self
    }

    /// The same line in a colour by number.
    #[must_use]
    pub const fn with_color(mut self, color: usize) -> Self {
        self.color = Some(color);
        self
    }

    /// Points that can be drawn on the axes.
    fn drawn(&self) -> impl Iterator<Item = &Point> {
        let points = self.points.iter();
        points.filter(|p| p.x.is_finite() && p.y.is_finite())
    }

    fn color(&self, at: usize) -> String {
        color(self.color.unwrap_or(at))
    }

    fn class(&self, at: usize) -> String {
        let stroke = match self.stroke {
            Stroke::Solid | Stroke::Dense => "",
            Stroke::Dotted => " dotted",
            Stroke::Dashed => " dashed",
        };
        format!("{}{stroke}", self.color(at))
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, error: None }
    }
}

impl Hundred {
    /// A sentence without the picture.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "Of 100 {} at most {:.1}; random guessing finds {:.0}.",
            self.subject, self.found, self.blind
        )
    }

    /// A sentence below the picture.
    pub(crate) fn caption(&self) -> String {
        format!(
            "Of 100 {} at most the filled dots; random guessing finds the dark ones.",
            self.subject
        )
    }

    pub(crate) fn svg(&self) -> String {
        let mut text = format!(
            "<svg viewBox=\"0 0 500 125\" role=\"img\" aria-label=\"{:.1} of 100 found, {:.0} by random guessing\">",
            self.found, self.blind
        );
        for dot in 0..100_u8 {
            let (row, column) = (f64::from(dot / 20), f64::from(dot % 20));
            let place = f64::from(dot);
            let class = if place + 0.5 <= self.blind {
                "blind"
            } else if place < self.found {
                "found"
            } else {
                "rest"
            };
            let (x, y) = (12.5 + 25.0 * column, 12.5 + 25.0 * row);
            let _ = write!(
                text,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\"/>"
            );
        }
        text.push_str("</svg>");
        text
    }
}

impl Unit {
    /// A number as text; a dash if it is missing or not finite.
    #[must_use]
    pub fn shown(self, value: Option<f64>) -> String {
        match (self, value) {
            (_, None) => "\u{2013}".to_owned(),
            (_, Some(value)) if !value.is_finite() => "\u{2013}".to_owned(),
            (Self::Share, Some(value)) => format!("{:.1} %", 100.0 * value),
            (Self::Plain, Some(value)) if value.abs() >= LARGE => format!("{value:.3e}"),
            (Self::Plain, Some(value)) => figure(value, value),
        }
    }
}

fn color(at: usize) -> String {
    format!("c{}", at % N_COLORS)
}

/// Labels along the horizontal axis that do not overlap on a narrow screen.
fn spread(axis: &Axis) -> Vec<(f64, &str)> {
    let mut free = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for (value, name) in &axis.ticks {
        let at = axis.place(*value);
        let half = 0.014 * name.chars().count().max(4) as f64;
        if at - half >= free {
            kept.push((*value, name.as_str()));
            free = at + half;
        }
    }
    kept
}

/// A label shortened to fit next to its bar.
fn shortened(name: &str) -> String {
    if name.chars().count() <= 28 {
        return name.to_owned();
    }
    name.chars().take(27).chain(['…']).collect()
}

/// Text escaped for XML and HTML, in elements and in quoted attributes, without characters that
/// they cannot contain.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' => safe.push('\n'),
            c if c.is_control() => safe.push('?'),
            // marks that change the direction of the following text, and so could make one text
            // look like another
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

impl Axis {
    /// The relative position of a value between the ends, from 0 to 1.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
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

    /// An axis from 0 % to 100 %.
    #[must_use]
    pub fn of_shares(name: &str) -> Self {
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

    /// A linear axis around shares, in percent, within nothing and all.
    pub fn around_shares(name: &str, values: impl Iterator<Item = f64>) -> Self {
        let percent = Self::around(name, values.map(|v| 100.0 * v));
        let [low, high] = percent.range.map(|end| end / 100.0);
        let ticks = percent.ticks.into_iter();
        let ticks = ticks.map(|(value, name)| (value / 100.0, format!("{name} %")));
        Self {
            range: [low.max(0.0), high.min(1.0)],
            ticks: ticks.filter(|(v, _)| (0.0..=1.0).contains(v)).collect(),
            ..percent
        }
    }

    /// A linear axis around values, with four or five round ticks.
    pub fn around(name: &str, values: impl Iterator<Item = f64>) -> Self {
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

    /// A logarithmic axis around positive values, with powers of ten as ticks, and their multiples
    /// if there are few powers.
    pub fn log_around(name: &str, values: impl Iterator<Item = f64>) -> Self {
        let [low, high] = ends(values.filter(|v| *v > 0.0));
        let gap = (high / low).powf(0.06).max(1.01);
        let range = [low / gap, high * gap];
        let powers = (-300..300).map(|p| 10_f64.powi(p));
        let inside = |v: &f64| (range[0]..=range[1]).contains(v);
        let mut ticks: Vec<f64> = powers.clone().filter(inside).collect();
        if ticks.len() < 3 {
            let finer = powers.flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * p));
            ticks = finer.filter(inside).collect();
        }
        let step = ticks.len().div_ceil(7).max(1);
        let ticks = ticks.into_iter().step_by(step);
        Self {
            name: name.to_owned(),
            log: true,
            range,
            ticks: ticks.map(|v| (v, short(v))).collect(),
        }
    }

    /// The same axis with other labels at some positions.
    #[must_use]
    pub fn with_names(mut self, names: &[(f64, &str)]) -> Self {
        for (at, name) in names {
            let same = |tick: &&mut (f64, String)| tick.0.total_cmp(at).is_eq();
            if let Some(tick) = self.ticks.iter_mut().find(same) {
                (*name).clone_into(&mut tick.1);
            }
        }
        self
    }

    /// The label of a position, or its number.
    fn name_of(&self, value: f64) -> String {
        let mut ticks = self.ticks.iter();
        let tick = ticks.find(|tick| tick.0.total_cmp(&value).is_eq());
        tick.map_or_else(|| short(value), |(_, name)| name.clone())
    }

    /// A logarithmic axis around positive values, with the values as ticks.
    pub fn of_points(name: &str, values: impl Iterator<Item = f64>) -> Self {
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

/// The label of a tick. If numbers are written with powers of ten, it has as many digits as are
/// needed to distinguish it from the next one.
fn tick(value: f64, step: f64, places: usize) -> String {
    if value.abs() < LARGE {
        return format!("{value:.places$}");
    }
    let digits = places_between(value.abs(), step);
    format!("{value:.digits$e}")
}

/// Number of decimal places between a step and a number, as digits: at most 9.
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

/// A number with few digits.
#[must_use]
pub fn short(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e5).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    let decimals = decimals(value).saturating_sub(1);
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with four decimal places, or if `size`, the number that it is compared with, is below
/// 0.01 with as many as show four significant digits of that.
#[must_use]
pub fn figure(value: f64, size: f64) -> String {
    let decimals = decimals(size);
    format!("{value:.decimals$}")
}

/// The decimal places that show four significant digits of a small number, and at least four.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 4 and 20"
)]
pub fn decimals(size: f64) -> usize {
    let size = size.abs();
    match size > 0.0 && size < 0.01 {
        true => (3.0 - size.log10().floor()).clamp(4.0, 20.0) as usize,
        false => 4,
    }
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
        assert_eq!([short(0.004_123), short(0.005)], ["0.00412", "0.005"]);
        assert_eq!(figure(-1.4e-5, 0.001_712), "-0.000014");
        assert_eq!([figure(0.5, 0.5), figure(0.0, 0.0)], ["0.5000", "0.0000"]);
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

    #[test]
    fn axes_of_shares_fit_the_values_and_end_at_nothing_and_all() {
        let axis = |values: [f64; 2]| Axis::around_shares("share", values.into_iter());
        let names: Vec<String> = axis([0.97, 0.99]).ticks.into_iter().map(|t| t.1).collect();
        assert_eq!(names, ["97 %", "98 %", "99 %"]);
        let [low, high] = axis([0.0, 1.0]).range;
        assert!(low.abs() + (high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn bars_of_shares_are_on_an_absolute_scale() {
        let rows = [0.02, 0.04].map(|share| BarRow {
            label: String::new(),
            detail: String::new(),
            values: vec![Some(share)],
        });
        let bars = Bars {
            series: vec!["budget".to_owned()],
            unit: Unit::Share,
            rows: rows.into(),
        };
        assert!((bars.length(Some(0.04)) - 0.04).abs() < 1e-12);
        assert!(bars.inline(0, Some(0.02)).contains("width=\"2.00%\""));
    }

    fn plot(lines: Vec<Line>) -> Chart {
        let points = || lines.iter().flat_map(|line| &line.points);
        let (x, y) = (
            Axis::of_points("epsilon", points().map(|p| p.x)),
            Axis::around("RMSE", points().map(|p| p.y)),
        );
        Chart::lines("t <", "b", Lines { x, y, lines })
    }

    #[test]
    fn a_log_axis_has_round_ticks_in_its_range() {
        let names = |values: [f64; 2]| -> Vec<String> {
            let axis = Axis::log_around("risk", values.into_iter());
            assert!(
                axis.ticks
                    .iter()
                    .all(|(v, _)| (0.0..=1.0).contains(&axis.place(*v)))
            );
            axis.ticks.into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names([1e-3, 10.0]), ["0.001", "0.01", "0.1", "1", "10"]);
        assert_eq!(names([0.3, 3.0]), ["0.5", "1", "2"]);
        assert!(names([1e-30, 1e30]).len() <= 7);
    }

    #[test]
    fn lines_are_drawn_to_scale_and_their_names_do_not_meet() {
        let line = |name: &str, ys: [f64; 2]| Line::solid(name, [(1.0, ys[0]), (100.0, ys[1])]);
        let lines = vec![
            line("a", [3.0, 1.0]),
            line("b & c", [2.0, 1.0]),
            line("d", [1.0, 1.0]),
        ];
        let svg = plot(lines).svg();
        assert!(svg.contains("t &lt;") && svg.contains("b &amp; c") && !svg.contains("NaN"));
        let names = svg.lines().filter(|l| l.starts_with("<text class=\"name"));
        let at = |line: &str| line.split(" y=\"").nth(1)?.split('"').next()?.parse().ok();
        let places: Vec<f64> = names.filter_map(at).collect();
        assert_eq!(places.len(), 3);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.into_iter().all(|gap| gap > 15.9), "{places:?}");
        let empty = plot(Vec::new()).svg();
        assert!(!empty.contains("NaN") && !empty.contains("inf"));
        let pair = stacked(&[plot(Vec::new()), plot(vec![line("a", [1.0, 2.0])])]);
        assert!(pair.matches("<style>").count() == 1 && pair.contains(">a</text>"));
    }

    #[test]
    fn standard_errors_and_variants_are_drawn() {
        let point = |x, error| Point { x, y: 1.0, error };
        let with = Line::solid("a", [point(1.0, Some(0.5)), point(2.0, None)]).with_color(3);
        let variant = with.clone().with_stroke(Stroke::Dotted);
        let level = Line::solid("level", [(1.0, 2.0), (2.0, 2.0)]).with_stroke(Stroke::Dashed);
        let chart = plot(vec![with, variant, level]);
        let svg = chart.svg();
        assert_eq!(svg.matches("<line class=\"error c3\"").count(), 2);
        assert_eq!(svg.matches("<circle class=\"mark c3").count(), 4);
        assert_eq!(svg.matches("<circle class=\"mark c3 open\"").count(), 2);
        assert_eq!(svg.matches("<path class=\"line c3 dotted\"").count(), 1);
        let rows = chart.numbers().unwrap().rows;
        assert_eq!(rows[0], ["1", "a", "1.0000 \u{b1} 0.5"]);
        assert_eq!(rows[4], ["", "level", "2.0000"]);
    }

    #[test]
    fn bars_are_in_proportion_and_names_are_text() {
        let row = |label: &str, values: [Option<f64>; 2]| BarRow {
            label: label.to_owned(),
            detail: String::new(),
            values: values.into(),
        };
        let rows = vec![
            row("a<b & \"c\"\u{1}", [Some(2.0), Some(-1.0)]),
            row(&"x".repeat(40), [None, Some(f64::NAN)]),
        ];
        let bars = |rows| {
            let series = ["one", "two"].map(str::to_owned).into();
            let unit = Unit::Plain;
            Chart::bars("t", "b", Bars { series, unit, rows })
        };
        let svg = bars(rows).svg();
        assert!(svg.contains("a&lt;b &amp; &quot;c&quot;?"));
        assert!(svg.contains("width=\"320.0\"") && svg.contains("width=\"160.0\""));
        assert!(svg.contains("class=\"fill c1 below\"") && svg.contains(">\u{2013}</text>"));
        assert!(svg.contains(&format!(">{}…<", "x".repeat(27))));
        let empty = bars(vec![row("zero", [Some(0.0), None])]).svg();
        assert!(empty.contains("width=\"0.0\"") && !empty.contains("NaN"));
    }

    #[test]
    fn no_character_of_a_name_is_markup() {
        let hostile = "<script>alert('x')</script>\" onload=\"y\" &amp; \u{1}\u{202e}";
        let safe = escaped(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{1}', '\u{202e}']));
        assert!(safe.starts_with("&lt;script&gt;alert(&#39;x&#39;)") && safe.contains("&amp;amp;"));
    }
}
