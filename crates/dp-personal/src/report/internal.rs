//! The page for the operator only: everything on it is computed from private data.

use dp_page::{BarRow, Bars, Block, Chart, Kind, Number, Page, Section, Table, Unit};

use super::convergence::{convergence, recall_curve};
use super::privacy::sentence;
use super::released::{facts, footer};
use super::run::ReportedRun;
use super::runs::{evaluated, privacy_utility};
use crate::output::ChartData;
use crate::quality::GAIN_OVER;
use crate::ranking::bucket_name;
use crate::workflows::evaluate::{Evaluated, MODEL, NON_PRIVATE};

/// The page of the first run; none if no internal values were kept.
pub(crate) fn internal_page(all: &[ReportedRun<'_>]) -> Option<Page> {
    let run = &all[0];
    if run.internal.is_none() && run.evaluation.is_none() {
        return None;
    }
    let mut sections = vec![warnings(run), quality(run)];
    sections.extend(privacy_utility(all));
    sections.extend(groups(run));
    sections.extend(popularity(run));
    sections.extend(run.internal.as_ref().and_then(recall_curve));
    sections.extend(run.internal.as_ref().and_then(convergence));
    sections.extend(without_privacy(run));
    sections.push(Section::new("ledger", "Ledger", run.ledger.clone()));
    sections.push(data_handling(run));
    sections.retain(|section| !section.blocks.is_empty());
    Some(Page {
        kind: Kind::Internal,
        title: "Internal: not covered by the guarantee".to_owned(),
        facts: facts(run),
        lead: "Everything on this page is computed from private data.".to_owned(),
        caution: Some(
            "Do not publish it, and do not choose settings by it: the budget that the runs spent does not cover that choice. dp tune \
             chooses settings within the budget."
                .to_owned(),
        ),
        sections,
        footer: footer(run),
    })
}

fn shown(value: Option<f64>) -> String {
    Unit::Plain.shown(value)
}

/// Warnings about the records, before any figure: it may mean little because of them.
fn warnings(run: &ReportedRun<'_>) -> Section {
    let internal = run.internal.iter();
    let texts = internal.flat_map(|internal| &internal.aside.warnings);
    let blocks = texts.map(|text| Block::Warning(sentence(text))).collect();
    Section::new("warnings", "Warnings", blocks)
}

fn quality(run: &ReportedRun<'_>) -> Section {
    let mut blocks = Vec::new();
    let internal = run.internal.as_ref();
    if let Some(headline) = internal.and_then(|internal| internal.headline.as_ref()) {
        blocks.push(Block::Numbers(vec![Number {
            value: shown(headline.finite()),
            label: headline.metric.clone(),
            note: match headline.finite() {
                Some(_) => "on held-out data",
                None => "no figure: the run diverged",
            }
            .to_owned(),
        }]));
    }
    if let Some(verdict) = internal.and_then(|internal| internal.verdict.as_ref()) {
        let words = format!("Verdict: {verdict}.");
        blocks.push(if verdict.is_worse() {
            Block::Warning(words)
        } else {
            Block::Text(words)
        });
    }
    let tables = internal.and_then(|internal| internal.quality.as_ref());
    if let Some(tables) = tables {
        blocks.push(Block::Table(tables.overall()));
    }
    let metrics = internal.map_or(&[][..], |internal| &internal.metrics);
    if !metrics.is_empty() {
        let rows = metrics.iter();
        let rows = rows.map(|(name, value)| vec![name.trim().to_owned(), shown(*value)]);
        let table = Table::new("Measured by the run", ["metric", "value"], rows);
        blocks.push(Block::Table(table));
    }
    // charts by popularity are in a separate section
    let charts = internal.into_iter().flat_map(|internal| &internal.charts);
    let charts = charts.filter(|data| !is_popularity(data)).enumerate();
    blocks.extend(charts.map(|(at, data)| Block::Chart(data.chart(run.figure(at, true)))));
    let command = internal.map(|internal| internal.command.as_str());
    blocks.extend(users_note(command).map(|words| Block::Note(words.to_owned())));
    if let Some(found) = &run.evaluation {
        blocks.push(Block::Table(overall(found)));
        let quality = found.scores.quality.iter();
        blocks.extend(quality.map(|quality| Block::Table(quality.overall())));
    } else if run.model.is_some() {
        let words = "dp evaluate RATINGS --model DIR --non-private --save, then dp report DIR, adds the error by popularity of items and \
                     a comparison with the model without privacy.";
        blocks.push(Block::Note(words.to_owned()));
    }
    Section::new("quality", "Quality", blocks)
}

/// The first metric for quarters of the users by activity, as a chart, and its values with
/// intervals.
fn groups(run: &ReportedRun<'_>) -> Option<Section> {
    let internal = run.internal.as_ref()?;
    let tables = internal.quality.as_ref()?;
    let rows = &tables.by_activity;
    let metric = rows.first()?.metric.clone();
    // a gain is a difference, so its scale differs from that of the metric itself
    let measured = || rows.iter().filter(|row| !row.method.starts_with(GAIN_OVER));
    let (mut names, mut series) = (Vec::<&str>::new(), Vec::<&str>::new());
    for row in measured() {
        for (all, name) in [(&mut names, &row.group), (&mut series, &row.method)] {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
    }
    let value = |group: &str, method: &str| {
        let row = measured().find(|row| row.group == group && row.method == method);
        row.and_then(|row| Some(row.estimate?.value))
    };
    let bars = Bars {
        series: series.iter().map(ToString::to_string).collect(),
        unit: Unit::Plain,
        rows: names
            .iter()
            .map(|group| BarRow {
                label: (*group).to_owned(),
                detail: String::new(),
                values: series.iter().map(|method| value(group, method)).collect(),
            })
            .collect(),
    };
    let note =
        "Users with held-out records, in four groups of equal size by the number of their records.";
    let mut chart = Chart::bars(format!("{metric} by activity of users"), note, bars);
    chart.has_table = true;
    let mut blocks = vec![Block::Chart(chart)];
    blocks.extend(tables.groups().map(Block::Table));
    Some(Section::new("groups", "Quality by group", blocks))
}

/// Where the errors of each user are stored, and whether a choice based on errors is paid for.
fn users_note(command: Option<&str>) -> Option<&'static str> {
    match command? {
        "train" | "tune" | "nightly" => Some("internal-users.csv has the same for every user."),
        "personalize" => Some("internal-users.csv has the same for every user."),
        "federate" => Some(
            "internal-users.csv has the same for every user. The choice of alpha was charged separately.",
        ),
        _ => None,
    }
}

fn is_popularity(data: &ChartData) -> bool {
    data.title.contains("popularity")
}

/// All methods of an evaluation with all metrics.
fn overall(found: &Evaluated) -> Table {
    let scores = &found.scores;
    let names = scores
        .metrics
        .iter()
        .map(|name| crate::workflows::evaluate::title(name));
    let rows = scores.overall.iter().map(|score| {
        let figures = scores.metrics.iter();
        let figures = figures.map(|name| shown(score.figures.get(name).copied().flatten()));
        [score.method.clone()].into_iter().chain(figures).collect()
    });
    let heads = ["method".to_owned()].into_iter().chain(names);
    Table::new("Measured by dp evaluate", heads, rows)
}

fn popularity(run: &ReportedRun<'_>) -> Option<Section> {
    let mut blocks = Vec::new();
    blocks.extend(
        run.evaluation
            .as_ref()
            .map(|found| Block::Chart(by_popularity(found))),
    );
    if blocks.is_empty() {
        let internal = run.internal.iter();
        let charts = internal.flat_map(|internal| &internal.charts);
        blocks.extend(
            charts
                .filter(|data| is_popularity(data))
                .map(|data| Block::Chart(data.chart(None))),
        );
    }
    (!blocks.is_empty()).then(|| Section::new("popularity", "Quality by popularity", blocks))
}

fn by_popularity(found: &Evaluated) -> Chart {
    let buckets = &found.scores.by_popularity;
    let first = buckets.first();
    let methods = first.map_or(&[][..], |bucket| &bucket.scores);
    let series = methods.iter().map(|score| score.method.clone());
    let rows = buckets.iter().map(|bucket| {
        let scores = bucket.scores.iter();
        let detail = match bucket.k {
            Some(k) => format!("Recall@{k}, {} held out", bucket.n_targets),
            None => format!("{} held out", bucket.n_targets),
        };
        BarRow {
            label: bucket_name(bucket.bucket - 1).to_owned(),
            detail,
            values: scores
                .map(|score| score.figures.get(bucket.metric()).copied().flatten())
                .collect(),
        }
    });
    let metric = first.map_or("rmse", |bucket| bucket.metric());
    let note = if metric == "rmse" {
        "Smaller is better. Items are grouped into fifths by how many users rated them."
    } else {
        "Larger is better. Items are grouped into fifths by how many users have them; lists are longer for rarer items."
    };
    let bars = Bars {
        series: series.collect(),
        unit: Unit::Plain,
        rows: rows.collect(),
    };
    let metric = crate::workflows::evaluate::title(metric);
    Chart::bars(format!("{metric} by popularity of items"), note, bars)
}

/// The cost of privacy, if it was measured.
fn without_privacy(run: &ReportedRun<'_>) -> Option<Section> {
    let headline = run
        .internal
        .as_ref()
        .and_then(|internal| internal.headline.as_ref());
    let ran_away = headline.is_some_and(|of| of.finite().is_none());
    let stated = headline.and_then(|of| Some((of.metric.clone(), of.finite()?, of.non_private?)));
    let measured = || {
        let metric = match run.evaluation.as_ref()?.scores.feedback.as_str() {
            "implicit" => "Recall@20 of dp evaluate",
            _ => "RMSE of dp evaluate",
        };
        let (own, exact) = (evaluated(run, MODEL)?, evaluated(run, NON_PRIVATE)?);
        Some((metric.to_owned(), own, exact))
    };
    let block = match stated.or_else(measured) {
        Some((metric, private, exact)) => {
            let row = |label: &str, value| BarRow {
                label: label.to_owned(),
                detail: String::new(),
                values: vec![Some(value)],
            };
            let change = 100.0 * (private / exact - 1.0);
            let bars = Bars {
                series: vec![metric.clone()],
                unit: Unit::Plain,
                rows: vec![row("private", private), row(NON_PRIVATE, exact)],
            };
            let note = format!("{change:+.1} % relative to the model without privacy.");
            Block::Chart(Chart::bars(metric, note, bars))
        }
        None if ran_away => {
            Block::Text("The run diverged: it has no figure to compare.".to_owned())
        }
        None => return None,
    };
    Some(Section::new(
        "non-private",
        "Comparison with the non-private model",
        vec![block],
    ))
}

fn data_handling(run: &ReportedRun<'_>) -> Section {
    let mut blocks = Vec::new();
    let table = |title: &str, data: &[(String, u64)]| {
        let rows = data
            .iter()
            .map(|(name, count)| vec![name.clone(), count.to_string()]);
        Block::Table(Table::new(title, ["what", "how many"], rows))
    };
    if let Some(internal) = &run.internal {
        blocks.push(table("Read by the run", &internal.data));
        let of = internal.seconds;
        blocks.push(Block::Note(format!(
            "Seconds: {:.2} to load, {:.2} to train, {:.2} to evaluate.",
            of.load, of.train, of.evaluate
        )));
    }
    blocks.extend(
        run.evaluation
            .as_ref()
            .map(|found| table("Read by dp evaluate", &found.data)),
    );
    Section::new("data", "Records read and left out", blocks)
}
