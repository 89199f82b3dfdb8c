//! The files of `dp federate` at several epsilons: an exploration of the cost of privacy. All of
//! them are internal.

use dp_page::{Axis, Block, Chart, Kind, Line, Lines, Page, Section, Stroke, Table, terminal};
use serde::Serialize;
use serde_json::{Value, json};

use super::release::internal_fact;
use super::{INTERNAL_PAGE, OutputFolder, internal_folder_of};
use crate::error::Result;
use crate::evaluate::shown;
use crate::federated::{alpha_name, alpha_value};
use crate::settings::OutputSettings;

/// Header of everything that is written and printed.
const NOTE: &str = "exploration: not covered by one certificate, nothing is released";
/// File of its chart.
const FRONTIER: &str = "internal-frontier.svg";
/// Runs without noise in their rounds.
const EXACT: &str = "exact sums";
/// Explanation of the noise in such a run, and of how the best alpha is determined.
const READING: &str = "exact sums: no noise in the rounds; the number of users and the popularity of items are still noisy where they are counted. The best alpha was \
                       chosen on these same test rows, so its error is slightly optimistic.";
/// Results this close to the best count as equally good.
const TIE: f64 = 0.01;

/// Result of one alpha at one epsilon, or with exact sums: private.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrontierPoint {
    pub(crate) alpha: f64,
    /// None with exact sums.
    pub(crate) epsilon: Option<f64>,
    pub(crate) over_rows: Option<f64>,
    pub(crate) median_user: Option<f64>,
}

pub(crate) struct ExplorationReport<'a> {
    /// RMSE, where lower is better, or accuracy.
    pub(crate) metric: &'a str,
    pub(crate) delta: f64,
    pub(crate) alphas: &'a [f64],
    pub(crate) points: &'a [FrontierPoint],
    pub(crate) seconds: f64,
}

/// The best alpha at one epsilon, and those that are equally good.
#[derive(Serialize)]
struct Winner {
    epsilon: Option<f64>,
    alpha: Value,
    ties: Vec<Value>,
}

impl ExplorationReport<'_> {
    pub(crate) fn write(&self, folder: &OutputFolder) -> Result<()> {
        let page = self.page();
        folder.write_internal(INTERNAL_PAGE, page.markdown().as_bytes())?;
        folder.write_internal("internal-frontier.csv", self.csv().as_bytes())?;
        for (name, svg) in page.figures() {
            folder.write_internal(name, svg.as_bytes())?;
        }
        Ok(())
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self, output: &OutputSettings) -> Value {
        let point = |p: &FrontierPoint| {
            json!({
                "alpha": alpha_value(p.alpha),
                "epsilon": p.epsilon,
                "over_rows": p.over_rows,
                "median_user": p.median_user,
            })
        };
        let mut object = json!({
            "exploration": NOTE,
            "released": Value::Null,
            "internal_folder": internal_folder_of(&output.out).display().to_string(),
        });
        if output.show_internal {
            object["internal"] = json!({
                "metric": self.metric,
                "delta": self.delta,
                "frontier": self.points.iter().map(point).collect::<Vec<_>>(),
                "winners": self.epsilons().into_iter().map(|e| self.winner(e)).collect::<Vec<_>>(),
                "seconds": self.seconds,
            });
        }
        object
    }

    /// The text for the terminal.
    pub(crate) fn summary(&self, output: &OutputSettings) -> String {
        let facts = Block::Facts(vec![internal_fact(&output.out)]);
        if !output.show_internal {
            return format!("{NOTE}\n") + &terminal(&[facts]);
        }
        let mut table = self.by_alpha();
        table.title = format!(
            "internal, do not publish: {} by epsilon at delta {:e}",
            self.metric, self.delta
        );
        let best = self
            .epsilons()
            .into_iter()
            .map(|e| word(&self.winner(e).alpha));
        let best = ["best on test rows".to_owned()].into_iter().chain(best);
        table.rows.push(best.collect());
        format!("{NOTE}\n")
            + &terminal(&[facts, Block::Table(table), Block::Text(READING.to_owned())])
    }

    /// Epsilons in order; none for exact sums.
    fn epsilons(&self) -> Vec<Option<f64>> {
        let mut all: Vec<f64> = self.points.iter().filter_map(|p| p.epsilon).collect();
        all.sort_by(f64::total_cmp);
        all.dedup_by(|a, b| a.total_cmp(b).is_eq());
        all.into_iter().map(Some).chain([None]).collect()
    }

    /// The result of an alpha; if it releases nothing, the result is the same at every epsilon.
    fn at(&self, alpha: f64, epsilon: Option<f64>) -> Option<f64> {
        let alone = |p: &FrontierPoint| p.alpha <= 0.0 && p.epsilon.is_some();
        let is_released = alpha > 0.0 || self.points.iter().any(alone);
        let epsilon = epsilon.filter(|_| is_released);
        let same = |p: &&FrontierPoint| {
            p.alpha.total_cmp(&alpha).is_eq()
                && p.epsilon.is_some() == epsilon.is_some()
                && p.epsilon
                    .zip(epsilon)
                    .is_none_or(|(a, b)| a.total_cmp(&b).is_eq())
        };
        self.points.iter().find(same)?.over_rows
    }

    fn winner(&self, epsilon: Option<f64>) -> Winner {
        let sign = if self.metric == "RMSE" { 1.0 } else { -1.0 };
        let figures = self
            .alphas
            .iter()
            .map(|&alpha| (alpha, self.at(alpha, epsilon)));
        let figures: Vec<(f64, f64)> = figures.filter_map(|(a, f)| Some((a, f?))).collect();
        let best = figures
            .iter()
            .min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
        let as_good = |figure: f64, best: f64| sign * (figure - best) <= TIE * best.abs();
        Winner {
            epsilon,
            alpha: best.map_or(Value::Null, |&(alpha, _)| alpha_value(alpha)),
            ties: figures
                .iter()
                .filter(|(alpha, figure)| {
                    best.is_some_and(|&(other, best)| {
                        alpha.total_cmp(&other).is_ne() && as_good(*figure, best)
                    })
                })
                .map(|&(alpha, _)| alpha_value(alpha))
                .collect(),
        }
    }

    /// The exploration as one page.
    fn page(&self) -> Page {
        let winners = self.epsilons().into_iter().map(|epsilon| {
            let winner = self.winner(epsilon);
            let ties: Vec<String> = winner.ties.iter().map(word).collect();
            vec![epsilon_name(epsilon), word(&winner.alpha), ties.join(", ")]
        });
        let heads = ["epsilon", "best alpha", "within 1 % of it"];
        let winners = Table::new("", heads, winners).with_text([2]);
        let delta = format!("Delta {:e}; {:.2} seconds.", self.delta, self.seconds);
        Page {
            kind: Kind::Internal,
            title: format!("Internal: {NOTE}"),
            facts: Vec::new(),
            lead: "Each cell is a separate run with its own budget on the same data: publishing these figures, or a setting chosen by them, \
                   would cost the sum. Computed from private data; do not publish."
                .to_owned(),
            caution: None,
            sections: vec![
                Section::new(
                    "frontier",
                    "Error by alpha and epsilon",
                    vec![Block::Chart(self.chart()), Block::Table(self.by_alpha())],
                ),
                Section::new(
                    "winners",
                    "Which alpha wins on the test rows",
                    vec![
                        Block::Table(winners),
                        Block::Text(READING.to_owned()),
                        Block::Note(delta),
                    ],
                ),
            ],
            footer: String::new(),
        }
    }

    fn by_alpha(&self) -> Table {
        let names = self.epsilons().into_iter().map(epsilon_name);
        let names = [format!("{} by alpha", self.metric)]
            .into_iter()
            .chain(names);
        let rows = self.alphas.iter().map(|&alpha| {
            let figures = self
                .epsilons()
                .into_iter()
                .map(|e| shown(self.at(alpha, e)));
            [alpha_name(alpha)].into_iter().chain(figures).collect()
        });
        Table::new("", names, rows)
    }

    fn csv(&self) -> String {
        let mut text = "alpha,epsilon,over_rows,median_user\n".to_owned();
        for p in self.points {
            let cell = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
            let cells = [
                word(&alpha_value(p.alpha)),
                cell(p.epsilon),
                cell(p.over_rows),
                cell(p.median_user),
            ];
            text += &format!("{}\n", cells.join(","));
        }
        text
    }

    fn chart(&self) -> Chart {
        let epsilons: Vec<f64> = self.epsilons().into_iter().flatten().collect();
        let ends = [epsilons.first(), epsilons.last()].map(|e| e.copied().unwrap_or(1.0));
        let mut lines: Vec<Line> = Vec::new();
        for &alpha in self.alphas {
            let points = epsilons.iter();
            let points = points.filter_map(|&e| Some((e, self.at(alpha, Some(e))?)));
            let stroke = if alpha > 0.0 {
                Stroke::Solid
            } else {
                Stroke::Dashed
            };
            lines.push(Line::solid(alpha_name(alpha), points).with_stroke(stroke));
        }
        let best = self.alphas.iter().filter_map(|&alpha| self.at(alpha, None));
        let pick = if self.metric == "RMSE" {
            f64::min
        } else {
            f64::max
        };
        if let Some(best) = best.reduce(pick) {
            let level = Line::solid(format!("best, {EXACT}"), ends.map(|e| (e, best)));
            lines.push(level.with_stroke(Stroke::Dashed));
        }
        let heights: Vec<f64> = lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|p| p.y)
            .collect();
        let mut chart = Chart::lines(
            format!("{} on held-out rows against epsilon, by alpha", self.metric),
            format!("{NOTE}."),
            Lines {
                x: Axis::of_points("epsilon", epsilons.into_iter()),
                y: Axis::around(self.metric, heights.into_iter()),
                lines,
            },
        );
        chart.file = Some(FRONTIER.to_owned());
        chart.has_table = true;
        chart
    }
}

fn epsilon_name(epsilon: Option<f64>) -> String {
    epsilon.map_or_else(|| EXACT.to_owned(), |e| e.to_string())
}

/// An alpha as written in flags.
fn word(alpha: &Value) -> String {
    match alpha {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other
            .as_f64()
            .map_or_else(|| other.to_string(), |x| x.to_string()),
    }
}
