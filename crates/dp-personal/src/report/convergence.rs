//! The error of a run, round by round.

use dp_page::{Axis, Block, Chart, Line, Lines, Section, Table, Unit};

use crate::output::{ByRound, InternalRun, RoundLine};

/// Maximum number of lines that a reader can distinguish in one chart.
const MOST_LINES: usize = 4;
/// Lines that reach this many times the height of the released line are not drawn.
const FAR: f64 = 10.0;

pub(super) fn convergence(internal: &InternalRun) -> Option<Section> {
    let by_round = internal.by_round.as_ref()?;
    let rounds = rounds_of(by_round);
    let all = lines_of(by_round);
    if !all.iter().any(RoundLine::has_figures) {
        return None;
    }
    let mut blocks = vec![Block::Chart(chart(&by_round.metric, &rounds, &all))];
    if all.len() > 1 {
        blocks.push(Block::Table(table(&by_round.metric, &rounds, &all)));
    }
    Some(Section::new("convergence", "Convergence by round", blocks))
}

/// Recall against the length of lists.
pub(super) fn recall_curve(internal: &InternalRun) -> Option<Section> {
    let curve = internal.recall_curve.as_ref()?;
    let all = lines_of(curve);
    let lines: Vec<Line> = (all.iter().filter(|line| line.has_figures()))
        .map(|line| Line::solid(&line.name, points(&curve.rounds, &line.values)))
        .collect();
    let heights = lines.iter().flat_map(|line| &line.points).map(|p| p.y);
    let chart = Chart::lines(
        "Recall by length of the list",
        "Share of what held-out users went on to like that is among the first k items of their lists, of at most k.",
        Lines {
            x: Axis::of_points(
                "length of the list, k",
                curve.rounds.iter().map(|&k| k as f64),
            ),
            y: Axis::around(&curve.metric, heights),
            lines,
        },
    );
    Some(Section::new(
        "recall",
        "Recall by length of the list",
        vec![Block::Chart(chart)],
    ))
}

/// The round numbers; in files of earlier versions there is one value for each round from the
/// first.
fn rounds_of(by_round: &ByRound) -> Vec<usize> {
    if by_round.rounds.is_empty() {
        return (1..=by_round.values.len()).collect();
    }
    by_round.rounds.clone()
}

/// All lines, that of the released model first.
fn lines_of(by_round: &ByRound) -> Vec<RoundLine> {
    let released = RoundLine {
        name: by_round.name.clone(),
        values: by_round.values.clone(),
    };
    let others = by_round.others.iter().cloned();
    std::iter::once(released).chain(others).collect()
}

/// The released line and those that fit into the chart with it, if they have values; if there are
/// too many lines to distinguish, the first and last of the others. A diverging line would make the
/// rest a flat line at the bottom; next to a line of zeros no limit applies.
fn drawn(all: &[RoundLine]) -> Vec<&RoundLine> {
    let released = all.iter().take(1).filter(|line| line.has_figures());
    let most = FAR * released.clone().map(highest).sum::<f64>();
    let fits = |line: &&RoundLine| most <= 0.0 || highest(line) <= most;
    let others = all.iter().skip(1).filter(|line| line.has_figures());
    let near: Vec<&RoundLine> = others.filter(fits).collect();
    match near[..] {
        [first, .., last] if released.clone().count() + near.len() > MOST_LINES => {
            released.chain([first, last]).collect()
        }
        _ => released.chain(near).collect(),
    }
}

fn highest(line: &RoundLine) -> f64 {
    line.values.iter().flatten().copied().fold(0.0, f64::max)
}

fn chart(metric: &str, rounds: &[usize], all: &[RoundLine]) -> Chart {
    let drawn = drawn(all).into_iter();
    let lines: Vec<Line> = drawn
        .map(|line| Line::solid(&line.name, points(rounds, &line.values)))
        .collect();
    let mut note =
        "Error of the model after each round; the released model is that of the last one."
            .to_owned();
    if rounds.first() == Some(&0) {
        note += " Round 0 is the starting point of the first round.";
    }
    if lines.len() < all.len() {
        note += " Lines that are not drawn are in the table.";
    }
    let heights = lines.iter().flat_map(|line| &line.points).map(|p| p.y);
    let (x, y) = (across(rounds), Axis::around(metric, heights));
    let mut chart = Chart::lines(format!("{metric} by round"), note, Lines { x, y, lines });
    chart.has_table = all.len() > 1;
    chart
}

fn points(rounds: &[usize], values: &[Option<f64>]) -> Vec<(f64, f64)> {
    let pairs = rounds.iter().zip(values);
    pairs
        .filter_map(|(round, value)| Some((*round as f64, value.filter(|v| v.is_finite())?)))
        .collect()
}

/// Labels for up to eight rounds, including the last.
fn across(rounds: &[usize]) -> Axis {
    let [first, last] = [rounds.first(), rounds.last()].map(|at| at.map_or(1.0, |&r| r as f64));
    let gap = (0.02 * (last - first)).max(0.3);
    let step = rounds.len().div_ceil(8).max(1);
    let mut named: Vec<usize> = rounds.iter().rev().step_by(step).copied().collect();
    named.reverse();
    Axis {
        name: "round".to_owned(),
        log: false,
        range: [first - gap, last + gap],
        ticks: named
            .into_iter()
            .map(|round| (round as f64, round.to_string()))
            .collect(),
    }
}

fn table(metric: &str, rounds: &[usize], all: &[RoundLine]) -> Table {
    let names = all.iter().map(|line| line.name.clone());
    let rows = rounds.iter().enumerate().map(|(at, round)| {
        let figures = all.iter().map(|line| line.values.get(at).copied());
        let figures = figures.map(|figure| Unit::Plain.shown(figure.flatten()));
        [round.to_string()].into_iter().chain(figures).collect()
    });
    Table::new(
        format!("{metric} by round, in numbers"),
        ["round".to_owned()].into_iter().chain(names),
        rows,
    )
}

#[cfg(test)]
mod tests {
    use dp_page::{Drawing, Point};

    use super::*;

    fn line(name: &str) -> RoundLine {
        RoundLine {
            name: name.to_owned(),
            values: vec![Some(2.0), None, Some(1.0)],
        }
    }

    fn names(all: &[RoundLine]) -> Vec<&str> {
        let shown = drawn(all).into_iter();
        shown.map(|line| line.name.as_str()).collect()
    }

    #[test]
    fn four_lines_are_drawn_and_of_more_the_released_one_and_the_ends() {
        let all: Vec<RoundLine> = ["chosen", "a", "b", "c", "d"].map(line).into();
        assert_eq!(names(&all[..4]), ["chosen", "a", "b", "c"]);
        assert_eq!(names(&all), ["chosen", "a", "d"]);
        let drawn = chart("RMSE", &[5, 10, 12], &all);
        let Drawing::Lines(of) = &drawn.drawing else {
            unreachable!()
        };
        assert_eq!(
            of.lines[2].points,
            [(5.0, 2.0), (12.0, 1.0)].map(Point::from)
        );
        assert!(
            drawn
                .note
                .ends_with("Lines that are not drawn are in the table.")
        );
        let table = table("RMSE", &[5, 10, 12], &all);
        assert_eq!(
            table.rows[1],
            [
                "10", "\u{2013}", "\u{2013}", "\u{2013}", "\u{2013}", "\u{2013}"
            ]
        );
        assert_eq!(table.rows[2][..2], ["12", "1.0000"]);
    }

    #[test]
    fn what_runs_away_is_left_to_the_table() {
        let mut all: Vec<RoundLine> = ["chosen", "a", "b"].map(line).into();
        all[1].values[1] = Some(1e36);
        all[2].values[1] = Some(19.0);
        assert_eq!(names(&all), ["chosen", "b"]);
        let table = table("RMSE", &[1, 2, 3], &all);
        assert_eq!(table.rows[1][2..], ["1.000e36", "19.0000"]);
    }

    #[test]
    fn four_lines_are_drawn_where_the_released_one_has_no_figures() {
        let mut all: Vec<RoundLine> = ["chosen", "a", "b", "c", "d"].map(line).into();
        all[0].values.fill(None);
        assert_eq!(names(&all), ["a", "b", "c", "d"]);
        all.push(line("e"));
        assert_eq!(names(&all), ["a", "e"]);
    }

    #[test]
    fn files_of_earlier_versions_begin_at_the_first_round() {
        let text = r#"{"metric": "RMSE validation", "values": [0.9, null, 0.8]}"#;
        let older: ByRound = serde_json::from_str(text).unwrap();
        assert_eq!(rounds_of(&older), [1, 2, 3]);
        assert_eq!(names(&lines_of(&older)), ["private"]);
        let [low, high] = across(&rounds_of(&older)).range;
        assert!((low - 0.7).abs() + (high - 3.3).abs() < 1e-9);
    }

    #[test]
    fn the_last_round_has_its_name_on_the_axis() {
        let rounds: Vec<usize> = (1..=10).map(|n| 5 * n).collect();
        let named: Vec<f64> = across(&rounds).ticks.iter().map(|tick| tick.0).collect();
        assert_eq!(named, [10.0, 20.0, 30.0, 40.0, 50.0]);
    }
}
