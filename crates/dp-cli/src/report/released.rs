//! The page that may be published: released values only.

use super::nearest::{Wanted, nearest};
use super::page::{BarRow, Bars, Block, Page, Section, Table, Unit};
use super::privacy::{budget, guarantee, scope, section};
use super::run::RunFolder;
use super::{items, runs};
use crate::error::Result;
use crate::output::{Chart, Comparison};

/// The page of the first run, with the others beside it.
pub(crate) fn released_page(all: &[RunFolder], wanted: &Wanted) -> Result<Page> {
    let run = &all[0];
    let mut sections = vec![guarantee(run), budget(run)];
    sections.extend(runs::together(all));
    if run.model.is_some() {
        sections.push(items::noise(run));
    }
    sections.extend(nearest(run, wanted)?);
    if let Some(released) = &run.released {
        sections.extend(released.comparison.as_ref().map(candidates));
        if !released.charts.is_empty() {
            let charts = released.charts.iter().map(|chart| Block::Bars(bars(chart)));
            sections.push(section("model", "The model", charts.collect()));
        }
    }
    sections.push(scope(run));
    sections.extend(settings(run));
    Ok(Page {
        internal: false,
        title: title(run),
        facts: facts(run),
        lead: "Everything on this page is computed from released values: it may be shown to anyone, and costs \
               nothing beyond the budget below."
            .to_owned(),
        caution: (!run.is_private())
            .then(|| "NOT PRIVATE: nothing on this page carries a guarantee.".to_owned()),
        sections,
        footer: footer(run),
    })
}

fn title(run: &RunFolder) -> String {
    let kind = match run.released.as_ref().map(|released| released.command.as_str()) {
        Some("personalize") => "Private shared subspace",
        Some("federate") => "Private shared model",
        _ if run.model.is_some() => "Private item factors",
        _ => "Private model",
    };
    if run.is_private() {
        kind.to_owned()
    } else {
        format!("{}, not private", kind.trim_start_matches("Private "))
    }
}

pub(super) fn facts(run: &RunFolder) -> Vec<(&'static str, String)> {
    vec![
        ("run", run.name.clone()),
        ("data set", run.certificate.data_set_id.clone()),
        ("model", run.model_line()),
    ]
}

pub(super) fn footer(run: &RunFolder) -> String {
    let project = &run.certificate.project;
    format!(
        "Written by dp report from a certificate of {} {} with digest {}. dp verify recomputes it.",
        project.name, project.version, run.certificate.digest
    )
}

/// Rows of numbers as bars.
pub(super) fn bars(chart: &Chart) -> Bars {
    let rows = chart.rows.iter().map(|(label, values)| BarRow {
        label: label.clone(),
        detail: String::new(),
        values: values.clone(),
    });
    Bars {
        title: chart.title.clone(),
        note: chart.note.clone(),
        series: chart.series.clone(),
        unit: Unit::Plain,
        rows: rows.collect(),
    }
}

/// What `dp tune` released about its candidates.
fn candidates(comparison: &Comparison) -> Section {
    let scored = comparison.candidates.iter().zip(&comparison.scores);
    let rows = scored.enumerate().map(|(at, (name, score))| {
        let mark = if at == comparison.chosen { "chosen" } else { "" };
        vec![name.clone(), format!("{score:+.1}"), mark.to_owned()]
    });
    let text = format!(
        "Each was trained and paid for. Scores are losses above the mean of all, on ratings held out by each user, \
         released with noise of {:.1}; the choice is covered as well.",
        comparison.noise_stddev
    );
    let table = Table {
        title: "Candidates and their released scores".to_owned(),
        heads: ["candidate", "score", ""].map(str::to_owned).into(),
        rows: rows.collect(),
    };
    let blocks = vec![Block::Text(text), Block::Table(table)];
    section("candidates", "Candidates", blocks)
}

fn settings(run: &RunFolder) -> Option<Section> {
    let settings = &run.released.as_ref()?.settings;
    let text = serde_json::to_string_pretty(settings).ok()?;
    let blocks = vec![
        Block::Text("All settings are public, and none was chosen by looking at the data outside the guarantee.".to_owned()),
        Block::Details("All settings as JSON", text),
    ];
    Some(section("settings", "Settings", blocks))
}
