//! Several runs in comparison: their joint cost, and the benefit of a larger budget.

use dp_accounting::gdp;
use dp_core::Adjacency;
use dp_page::{Axis, Block, Chart, Line, Lines, Point, Section, Stroke, Table, Unit, short};

use super::items::share_above;
use super::run::{ReportedRun, methods};
use crate::output::{Headline, rounded_up};
use crate::workflows::evaluate::NON_PRIVATE;

/// Sums are not computed for larger epsilons.
const LARGEST_SUM: f64 = 40.0;

/// Label of the horizontal axis of both curves.
const ACROSS: &str = "epsilon, add or remove one user";

/// Budgets in comparison, and the share of items above the noise against epsilon: released values
/// only.
pub(super) fn together(all: &[ReportedRun<'_>]) -> Option<Section> {
    if all.len() < 2 {
        return None;
    }
    let methods = methods(all);
    let rows = all.iter().zip(&methods).map(|(run, method)| {
        let epsilons = run.statement.epsilons().into_iter();
        let mut epsilons = epsilons.map(|(_, epsilon)| epsilon);
        let mut next = || epsilons.next().unwrap_or_else(|| "not private".to_owned());
        let share = released_share(run);
        let share = share.map_or_else(|| "\u{2013}".to_owned(), |s| format!("{:.0} %", 100.0 * s));
        let delta = format!("{:e}", run.certificate.target.delta);
        let name = run.name.clone();
        vec![name, method.clone(), next(), next(), delta, share]
    });
    let heads = [
        "run",
        "method",
        "epsilon, add or remove",
        "epsilon, replace",
        "delta",
        "items above noise",
    ];
    let mut blocks = vec![
        Block::Table(
            Table::new(
                "Budget of each run and its items above the noise",
                heads,
                rows,
            )
            .with_text([1]),
        ),
        Block::Text(sum(all)),
    ];
    blocks.extend(yield_chart(all, &methods).map(Block::Chart));
    Some(Section::new("runs", "What more budget buys", blocks))
}

/// The share of items above the noise, for counts that are released under a guarantee.
fn released_share(run: &ReportedRun<'_>) -> Option<f64> {
    let counts = run.counts().filter(|_| run.is_private());
    counts.and_then(share_above)
}

/// The guarantee against an observer of all runs.
fn sum(all: &[ReportedRun<'_>]) -> String {
    let first = &all[0].certificate;
    let same = |run: &ReportedRun<'_>| {
        run.certificate.data_set_id == first.data_set_id
            && run.certificate.adjacency == first.adjacency
    };
    if !all.iter().all(same) {
        return "The runs are on data sets with different names. If these contain the same people, someone who sees all of the runs learns more \
                than any one of these epsilons allows for."
            .to_owned();
    }
    let deltas = all.iter().map(|run| run.certificate.target.delta);
    let delta = deltas.fold(0.0, f64::max);
    let Some(epsilon) = joint_epsilon(all, first.adjacency, delta) else {
        return "Someone who sees all of the runs learns more than any one of these epsilons allows for; no total is given because not every \
                run is Gaussian and private with a total epsilon of at most 40."
            .to_owned();
    };
    let mut text = format!(
        "All runs are on {}. Together they cost as much privacy as one run with epsilon {} at delta {delta:e} \
         ({}), because Gaussian budgets add up in mu^2.",
        first.data_set_id,
        rounded_up(epsilon),
        first.adjacency
    );
    if let Some(other) = other_neighbours(first.adjacency) {
        text += &match joint_epsilon(all, other, delta) {
            Some(epsilon) => format!(" For {other} it is epsilon {}.", rounded_up(epsilon)),
            None => format!(" For {other} no total is given."),
        };
    }
    if all
        .iter()
        .any(|run| run.certificate.target.delta.to_bits() != delta.to_bits())
    {
        text += " The runs have different deltas: the total is at the largest.";
    }
    text
}

/// The other neighbouring relation for which a certificate states epsilon.
const fn other_neighbours(own: Adjacency) -> Option<Adjacency> {
    match own {
        Adjacency::AddRemoveUser => Some(Adjacency::ReplaceUser),
        Adjacency::AddRemoveRecord => Some(Adjacency::ReplaceRecord),
        _ => None,
    }
}

/// Epsilon at `delta` of all runs together, each counted once; none if it is too large to be
/// useful.
fn joint_epsilon(all: &[ReportedRun<'_>], adjacency: Adjacency, delta: f64) -> Option<f64> {
    let mut seen: Vec<&str> = Vec::new();
    let mut sum = 0.0;
    for run in all {
        let digest = run.certificate.digest.as_str();
        if !seen.contains(&digest) {
            sum += mu_squared(run, adjacency)?;
            seen.push(digest);
        }
    }
    // half of delta is far more than the samplers of any number of runs need up to this epsilon;
    // the rounding of a sum of fewer than 10^5 terms is below 1e-10
    let epsilon = gdp::epsilon((sum * (1.0 + 1e-10)).sqrt().next_up(), 0.5 * delta);
    (epsilon <= LARGEST_SUM).then_some(epsilon)
}

/// The cost of a run in mu^2; none for runs that promise nothing under this neighbouring relation
/// or are not Gaussian.
fn mu_squared(run: &ReportedRun<'_>, adjacency: Adjacency) -> Option<f64> {
    let guarantee = run.statement.guarantee.as_ref()?;
    if adjacency == run.certificate.adjacency {
        return guarantee.gdp_mu.map(|mu| mu * mu);
    }
    guarantee
        .epsilon_replace
        .filter(|_| guarantee.gdp_mu.is_some())?;
    let releases = run.certificate.releases.iter();
    let costs = releases.map(|release| gdp::mu_squared(&release.event, adjacency).ok());
    costs.sum()
}

/// Share of items above the noise against epsilon, one line per method.
fn yield_chart(all: &[ReportedRun<'_>], methods: &[String]) -> Option<Chart> {
    let points = all.iter().zip(methods).filter_map(|(run, method)| {
        let point = (run.epsilon()?, released_share(run)?);
        Some((method.as_str(), Point::from(point)))
    });
    let points: Vec<(&str, Point)> = points.collect();
    if points.len() < 2 {
        return None;
    }
    let heights = points.iter().map(|(_, p)| p.y);
    Some(Chart::lines(
        "Items above the noise against epsilon",
        "From released counts alone. How accurate the models are is measured on private data: see the internal page.",
        Lines {
            x: Axis::of_points(ACROSS, points.iter().map(|(_, p)| p.x)),
            y: Axis::around_shares("share of the items", heights),
            lines: lines_of(&points),
        },
    ))
}

/// One line per name, from left to right.
fn lines_of(points: &[(&str, Point)]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, point) in points {
        match lines.iter_mut().find(|line| line.name == *name) {
            Some(line) => line.points.push(*point),
            None => lines.push(Line::solid(*name, [*point])),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// A run's epsilon and the metric by which it is compared.
struct Measured<'a> {
    run: &'a ReportedRun<'a>,
    method: String,
    epsilon: f64,
    headline: &'a Headline,
}

impl Measured<'_> {
    /// The point to draw, with its interval.
    fn point(&self) -> Option<Point> {
        let half = |[lower, upper]: [f64; 2]| 0.5 * (upper - lower);
        Some(Point {
            x: self.epsilon,
            y: self.headline.finite()?,
            error: self.headline.finite_interval().map(half),
        })
    }
}

/// Whether epsilons of two runs are comparable: the same data, neighbouring relation and delta.
fn is_alike(run: &ReportedRun<'_>, first: &ReportedRun<'_>) -> bool {
    let (own, other) = (&run.certificate, &first.certificate);
    own.data_set_id == other.data_set_id
        && own.adjacency == other.adjacency
        && own.target.delta.to_bits() == other.target.delta.to_bits()
}

/// The runs with the data, neighbouring relation, delta and metric of the first, by epsilon.
fn measured<'a>(all: &'a [ReportedRun<'a>]) -> Vec<Measured<'a>> {
    let headline = |run: &ReportedRun<'_>| -> Option<String> {
        Some(run.internal.as_ref()?.headline.as_ref()?.metric.clone())
    };
    let Some((first, metric)) = all.first().and_then(|run| Some((run, headline(run)?))) else {
        return Vec::new();
    };
    let comparable = all.iter().zip(methods(all)).filter_map(|(run, method)| {
        let headline = run.internal.as_ref()?.headline.as_ref()?;
        let epsilon = run.epsilon()?;
        (headline.metric == metric && is_alike(run, first)).then_some(Measured {
            run,
            method,
            epsilon,
            headline,
        })
    });
    let mut runs: Vec<_> = comparable.collect();
    runs.sort_by(|a, b| a.epsilon.total_cmp(&b.epsilon));
    runs
}

/// Accuracy against epsilon: private.
pub(super) fn privacy_utility(all: &[ReportedRun<'_>]) -> Option<Section> {
    let runs = measured(all);
    let [first, _, ..] = runs.as_slice() else {
        return None;
    };
    // if all runs diverged there is nothing to draw
    runs.iter().find_map(|of| of.headline.finite())?;
    let metric = &first.headline.metric;
    let shown = |value| Unit::Plain.shown(value);
    let rows = runs.iter().map(|of| {
        let interval = of.headline.finite_interval().map_or_else(
            || "\u{2013}".to_owned(),
            |[lower, upper]| format!("{} to {}", shown(Some(lower)), shown(Some(upper))),
        );
        let value = shown(of.headline.finite());
        let (name, method) = (of.run.name.clone(), of.method.clone());
        vec![name, method, short(of.epsilon), value, interval]
    });
    let heads = ["run", "method", "epsilon", metric.as_str(), "95 % interval"];
    let table = Table::new(format!("{metric} of each run"), heads, rows).with_text([1]);
    let lines = utility_lines(&runs);
    let heights: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .flat_map(|p| {
            let half = p.error.unwrap_or(0.0);
            [p.y - half, p.y + half]
        })
        .collect();
    let mut note = String::new();
    if runs
        .iter()
        .any(|of| of.headline.finite_interval().is_some())
    {
        note += "Intervals are over users, at 95 %. ";
    }
    note += "One run each, with fresh noise, which the intervals do not include: small differences are chance. Choosing a run by this \
             curve is a use of the data that no budget has paid for.";
    let mut chart = Chart::lines(
        format!("{metric} against epsilon"),
        note,
        Lines {
            x: Axis::of_points(ACROSS, runs.iter().map(|of| of.epsilon)),
            y: Axis::around(metric, heights.into_iter()),
            lines,
        },
    );
    chart.has_table = true;
    let blocks = vec![Block::Chart(chart), Block::Table(table)];
    Some(Section::new("curve", "Privacy and utility", blocks))
}

/// The runs, and the same without privacy if it was measured.
fn utility_lines(runs: &[Measured<'_>]) -> Vec<Line> {
    let points = runs
        .iter()
        .filter_map(|of| Some((of.method.as_str(), of.point()?)));
    let points: Vec<(&str, Point)> = points.collect();
    let mut exact = runs.iter();
    let exact = exact.find_map(|of| level(of.run, of.headline));
    let level = exact.map(|(name, value)| {
        let ends = [runs.first(), runs.last()].into_iter().flatten();
        Line::solid(name, ends.map(|of| (of.epsilon, value))).with_stroke(Stroke::Dashed)
    });
    lines_of(&points).into_iter().chain(level).collect()
}

/// The model without privacy on what a run itself held out: name and metric.
fn level(run: &ReportedRun<'_>, headline: &Headline) -> Option<(String, f64)> {
    if let Some(value) = headline.non_private {
        return Some((format!("without privacy, settings of {}", run.name), value));
    }
    run.evaluation.as_ref().filter(|of| of.own_split)?;
    let name = format!(
        "without privacy, split of {}, settings of dp demo",
        run.name
    );
    Some((name, non_private(run)?))
}

/// The metric of the model without privacy measured by `dp evaluate`.
fn non_private(run: &ReportedRun<'_>) -> Option<f64> {
    evaluated(run, NON_PRIVATE)
}

/// The first metric of a method in `dp evaluate`: error of ratings, or recall of lists.
pub(super) fn evaluated(run: &ReportedRun<'_>, method: &str) -> Option<f64> {
    let scores = &run.evaluation.as_ref()?.scores;
    let score = scores.overall.iter().find(|s| s.method == method)?;
    score
        .figures
        .get(scores.metrics.first()?)
        .copied()
        .flatten()
}
