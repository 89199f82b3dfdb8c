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
        lead: lead(all),
        caution: caution(all),
        sections,
        footer: footer(run),
    })
}

/// Names of the runs that promise nothing.
fn not_private(all: &[RunFolder]) -> Vec<&str> {
    let those = all.iter().filter(|run| !run.is_private());
    those.map(|run| run.name.as_str()).collect()
}

fn lead(all: &[RunFolder]) -> String {
    if not_private(all).is_empty() {
        return "Everything on this page is computed from released values: it may be shown to anyone, and costs \
                nothing beyond the budget below."
            .to_owned();
    }
    "This page is no release: it shows values of runs that protect nobody. Treat it as private data.".to_owned()
}

fn caution(all: &[RunFolder]) -> Option<String> {
    let names = not_private(all);
    match (names.len(), all.len()) {
        (0, _) => None,
        (some, every) if some == every => {
            Some("NOT PRIVATE: nothing on this page carries a guarantee.".to_owned())
        }
        _ => Some(format!(
            "NOT PRIVATE: {}. What this page shows of them carries no guarantee.",
            names.join(", ")
        )),
    }
}

fn title(run: &RunFolder) -> String {
    let kind = match run
        .released
        .as_ref()
        .map(|released| released.command.as_str())
    {
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

/// Rows that are shown; of more, the largest.
const MOST_ROWS: usize = 60;

/// Rows of numbers as bars.
pub(super) fn bars(chart: &Chart) -> Bars {
    let mut note = chart.note.clone();
    let mut shown: Vec<usize> = (0..chart.rows.len()).collect();
    if shown.len() > MOST_ROWS {
        let size = |row: &usize| {
            chart.rows[*row]
                .1
                .first()
                .copied()
                .flatten()
                .map_or(0.0, f64::abs)
        };
        shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
        shown.truncate(MOST_ROWS);
        note = format!("{note}; the {MOST_ROWS} largest of {}", chart.rows.len());
    }
    let rows = shown.into_iter().map(|row| {
        let (label, values) = &chart.rows[row];
        BarRow {
            label: label.clone(),
            detail: String::new(),
            values: values.clone(),
        }
    });
    Bars {
        title: chart.title.clone(),
        note,
        series: chart.series.clone(),
        unit: Unit::Plain,
        rows: rows.collect(),
    }
}

/// What `dp tune` released about its candidates.
fn candidates(comparison: &Comparison) -> Section {
    let scored = comparison.candidates.iter().zip(&comparison.scores);
    let rows = scored.enumerate().map(|(at, (name, score))| {
        let mark = if at == comparison.chosen {
            "chosen"
        } else {
            ""
        };
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
        Block::Text("All settings are public. That none of them was chosen by looking at the data stands among the assumptions.".to_owned()),
        Block::Details("All settings as JSON", text),
    ];
    Some(section("settings", "Settings", blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_the_largest_are_shown() {
        let row = |n: i32| {
            (
                n.to_string(),
                vec![Some(f64::from(if n % 2 == 0 { n } else { -n }))],
            )
        };
        let chart = |n| Chart {
            title: String::new(),
            note: "coefficients".to_owned(),
            series: vec!["w".to_owned()],
            rows: (0..n).map(row).collect(),
        };
        assert_eq!(bars(&chart(60)).rows[0].label, "0");
        let many = bars(&chart(200));
        assert_eq!((many.rows.len(), many.rows[0].label.as_str()), (60, "199"));
        assert_eq!(many.note, "coefficients; the 60 largest of 200");
    }
}
