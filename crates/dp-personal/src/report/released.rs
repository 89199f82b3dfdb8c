//! The page that may be published: released values only.

use dp_page::{Block, Kind, Page, Section, Table, Unit, short};

use super::nearest::{Wanted, nearest};
use super::privacy::{budget, guarantee, scope};
use super::run::ReportedRun;
use super::{items, runs};
use crate::error::Result;
use crate::output::Comparison;

/// The page of the first run, compared with the others.
pub(crate) fn released_page(all: &[ReportedRun<'_>], wanted: &Wanted) -> Result<Page> {
    let run = &all[0];
    let mut sections = vec![guarantee(run), budget(run)];
    sections.extend(runs::together(all));
    sections.extend(items::noise(run));
    sections.extend(nearest(run, wanted)?);
    sections.extend(accuracy(run));
    if let Some(released) = &run.released {
        sections.extend(released.comparison.as_ref().map(candidates));
        if !released.charts.is_empty() {
            let charts = released.charts.iter().enumerate();
            let charts = charts.map(|(at, data)| Block::Chart(data.chart(run.figure(at, false))));
            sections.push(Section::new("model", "The model", charts.collect()));
        }
    }
    sections.push(scope(run));
    sections.extend(settings(run));
    let is_private = not_private(all).is_empty();
    Ok(Page {
        kind: if is_private {
            Kind::Released
        } else {
            Kind::NotPrivate
        },
        title: title(run),
        facts: facts(run),
        lead: lead(all),
        caution: caution(all),
        sections,
        footer: footer(run),
    })
}

/// Names of the runs that promise no privacy.
fn not_private<'a>(all: &'a [ReportedRun<'_>]) -> Vec<&'a str> {
    let those = all.iter().filter(|run| !run.is_private());
    those.map(|run| run.name.as_str()).collect()
}

fn lead(all: &[ReportedRun<'_>]) -> String {
    if not_private(all).is_empty() {
        return "Everything on this page is computed from released values: it may be shown to anyone and costs \
                no privacy budget beyond that below."
            .to_owned();
    }
    "Do not publish this page: it shows values of runs without privacy protection. Treat it as private data.".to_owned()
}

fn caution(all: &[ReportedRun<'_>]) -> Option<String> {
    let names = not_private(all);
    match (names.len(), all.len()) {
        (0, _) => None,
        (some, every) if some == every => {
            Some("NOT PRIVATE: nothing on this page carries a guarantee.".to_owned())
        }
        _ => Some(format!(
            "NOT PRIVATE: {}. The values of these runs on this page carry no guarantee.",
            names.join(", ")
        )),
    }
}

pub(super) fn title(run: &ReportedRun<'_>) -> String {
    let command = run.released.as_ref().map(|of| of.command.as_str());
    let [private, other] = match command {
        Some("personalize") => ["Private shared subspace", "Shared subspace"],
        Some("federate") => ["Private shared model", "Shared model"],
        _ if run.model.is_some() => ["Private item factors", "Item factors"],
        _ => ["Private model", "Model"],
    };
    if run.is_private() {
        private.to_owned()
    } else {
        format!("{other}, NOT PRIVATE")
    }
}

pub(super) fn facts(run: &ReportedRun<'_>) -> Vec<(String, String)> {
    let target = run
        .setting("/inputs/target/name")
        .and_then(|name| name.as_str());
    let target = target.map(|name| ("target", name.to_owned()));
    let facts = [
        ("run", run.name.clone()),
        ("data set", run.certificate.data_set_id.clone()),
        ("model", run.model_line()),
    ];
    let date = run.date().map(|date| ("date", date));
    let facts = facts.into_iter().chain(target).chain(date);
    facts
        .map(|(name, value)| (name.to_owned(), value))
        .chain(run.votes())
        .collect()
}

pub(super) fn footer(run: &ReportedRun<'_>) -> String {
    let project = &run.certificate.project;
    format!(
        "Generated from a certificate of {} {} with digest {}. dp verify recomputes it.",
        project.name, project.version, run.certificate.digest
    )
}

/// Held-out metrics that were paid for, and the verdict that follows from them.
fn accuracy(run: &ReportedRun<'_>) -> Option<Section> {
    let metrics = &run.certificate.metrics;
    let confidence = metrics.first()?.confidence;
    let rows = metrics.iter().map(|of| {
        let [low, high] = of.clipped_to;
        vec![
            of.metric.clone(),
            of.method.clone(),
            Unit::Plain.shown(Some(of.value)),
            format!(
                "{} to {}",
                Unit::Plain.shown(Some(of.lower)),
                Unit::Plain.shown(Some(of.upper))
            ),
            format!("{} to {}", short(low), short(high)),
        ]
    });
    let interval = format!("{:.0} % interval", 100.0 * confidence);
    let heads = ["metric", "of", "value", &interval, "range per user"];
    let table = Table::new("On held-out records", heads, rows).with_text([1]);
    let text = "Means over users, released with noise paid for by the budget. Each user has the same weight, with values clipped to the stated \
                range; the intervals cover the noise and the sampling of users.";
    let mut blocks = vec![Block::Text(text.to_owned()), Block::Table(table)];
    let release = run.released.as_ref().and_then(|of| of.metric_release());
    if let Some(verdict) = release.and_then(|release| release.verdict(metrics)) {
        let words = format!("Verdict: {verdict}.");
        blocks.push(if verdict.is_worse() {
            Block::Warning(words)
        } else {
            Block::Text(words)
        });
    }
    Some(Section::new("accuracy", "Accuracy", blocks))
}

/// The values that `dp tune` released about its candidates.
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
        "Each candidate was trained and paid for. A score is the loss minus the mean loss of all candidates, on ratings held out for \
         the comparison, released with noise of standard deviation {:.1}; the guarantee covers the choice too.",
        comparison.noise_stddev
    );
    let title = "Candidates and their released scores";
    let table = Table::new(title, ["candidate", "score", ""], rows).with_text([2]);
    let blocks = vec![Block::Text(text), Block::Table(table)];
    Section::new("candidates", "Candidates", blocks)
}

fn settings(run: &ReportedRun<'_>) -> Option<Section> {
    let settings = &run.released.as_ref()?.settings;
    let assumed = run.statement.assumptions.iter();
    let mut words = "All settings are public.".to_owned();
    if assumed
        .into_iter()
        .any(|said| said.contains("not chosen by looking"))
    {
        words += " The guarantee assumes that none of them was chosen by looking at the data.";
    }
    let text = serde_json::to_string_pretty(settings).ok()?;
    let blocks = vec![
        Block::Text(words),
        Block::Code("All settings as JSON", text),
    ];
    Some(Section::new("settings", "Settings", blocks))
}
