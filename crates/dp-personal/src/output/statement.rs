//! The guarantee in words: as Markdown for files, as aligned text for the terminal.

use std::borrow::Cow;

use dp_accounting::{Certificate, PrivacyStatement, ReleaseRecord, Status, gdp};
use dp_core::{Adjacency, DpEvent};
use serde_json::{Value, json};

use crate::error::Result;
use crate::output::rounded_up;

/// What the columns of the releases mean.
const COLUMNS: &str = "Noise multiplier: standard deviation of the noise over the most that one user \
                       adds. Budget: share of the release in mu^2.";

/// Epsilon under both adjacencies, what it means, where the budget went, and what is assumed;
/// Markdown.
pub(crate) fn privacy_statement(certificate: &Certificate) -> Result<String> {
    let statement = PrivacyStatement::of(certificate)?;
    let mut text = String::new();
    if let Status::NotPrivate { reason } = &statement.status {
        put(
            &mut text,
            &format!("**Not private: {reason}.** Nothing here carries a guarantee."),
        );
    }
    if let Some(guarantee) = &statement.guarantee {
        put(&mut text, &format!("{}\n", guarantee.statement));
        put(
            &mut text,
            &format!("| neighbours | epsilon at delta {:e} |", guarantee.delta),
        );
        put(&mut text, "|---|---|");
        for (neighbours, epsilon) in statement.epsilons() {
            put(&mut text, &format!("| {neighbours} | {epsilon} |"));
        }
        if let Some(line) = statement.method_line() {
            put(&mut text, &format!("\nEpsilon: {line}."));
        }
        put(&mut text, &format!("\n{}", statement.meaning().join(" ")));
    }
    put(
        &mut text,
        "\n| release | noise multiplier | budget | |\n|---|---:|---:|---|",
    );
    for row in rows(certificate) {
        let Row {
            label,
            noise,
            share,
            bar,
        } = row;
        put(
            &mut text,
            &format!("| {label} | {noise} | {share} | `{bar}` |"),
        );
    }
    put(&mut text, &format!("\n{COLUMNS}"));
    for (title, entries) in lists(certificate) {
        put(&mut text, &format!("\n{title}:\n"));
        for entry in entries {
            put(&mut text, &format!("* {entry}"));
        }
    }
    Ok(text)
}

/// The same for a terminal, from the statement of a certificate that holds.
pub(crate) fn privacy_overview(certificate: &Certificate, statement: &PrivacyStatement) -> String {
    let mut text = statement.to_string();
    put(
        &mut text,
        &format!("\n  {:<32} {:>8} {:>8}", "release", "noise", "budget"),
    );
    for row in rows(certificate) {
        let Row {
            label,
            noise,
            share,
            bar,
        } = row;
        let line = format!("  {label:<32} {noise:>8} {share:>8}  {bar}");
        put(&mut text, line.trim_end());
    }
    text
}

/// Epsilon under both adjacencies in two lines, for the head of a summary.
pub(super) fn guarantee_lines(certificate: &Certificate) -> String {
    let Some(g) = &certificate.guarantee else {
        return "NOT PRIVATE the noise is seeded: whoever has the seed can take it off\n".into();
    };
    let delta = g.delta;
    let replace = g.epsilon_replace.map_or_else(
        || PrivacyStatement::NOT_CERTIFIED.to_owned(),
        |epsilon| format!("epsilon {}, delta {delta:e}", rounded_up(epsilon)),
    );
    let epsilon = rounded_up(g.epsilon);
    format!(
        "private     epsilon {epsilon}, delta {delta:e}, add or remove one user\n\
         \u{20}           {replace}, replace one user\n"
    )
}

/// What `--json` says of a run that may be published.
pub(crate) fn released(certificate: &Certificate) -> Value {
    let guarantee = certificate.guarantee.as_ref();
    json!({
        "private": guarantee.is_some(),
        "epsilon": guarantee.map(|g| g.epsilon),
        "delta": certificate.target.delta,
        "gdp_mu": guarantee.and_then(|g| g.gdp_mu),
        "rho": guarantee.and_then(|g| g.rho),
        "adjacency": certificate.adjacency,
        "epsilon_replace": guarantee.and_then(|g| g.epsilon_replace),
        "assumptions": certificate.assumptions,
        "tuning_included": certificate.tuning_included,
    })
}

/// A release, or several alike, and its part of the budget.
pub(crate) struct BudgetShare<'a> {
    pub(crate) label: Cow<'a, str>,
    /// Of a Gaussian release.
    pub(crate) noise_multiplier: Option<f64>,
    /// Of mu^2; none beside mechanisms that are not Gaussian.
    pub(crate) share: Option<f64>,
}

/// The same as text.
struct Row<'a> {
    label: Cow<'a, str>,
    noise: String,
    share: String,
    bar: String,
}

/// Where the budget went: each release's share of mu^2. Mechanisms that are not Gaussian have no such
/// share, and beside them nobody has.
pub(crate) fn budget_shares(certificate: &Certificate) -> Vec<BudgetShare<'_>> {
    let cost = |release: &ReleaseRecord| cost(release, certificate.adjacency);
    let total: Option<f64> = certificate.releases.iter().map(cost).sum();
    groups(&certificate.releases)
        .map(|group| {
            let (first, last) = (&group[0], &group[group.len() - 1]);
            let mine: Option<f64> = group.iter().map(cost).sum();
            BudgetShare {
                label: match rank(&last.label) {
                    Some((_, last)) if group.len() > 1 => {
                        Cow::Owned(format!("{} to {last}", first.label))
                    }
                    _ => Cow::Borrowed(&first.label),
                },
                noise_multiplier: match first.event {
                    DpEvent::Gaussian {
                        noise_multiplier, ..
                    } => Some(noise_multiplier),
                    _ => None,
                },
                share: mine.zip(total).map(|(cost, total)| cost / total),
            }
        })
        .collect()
}

/// The shares as text, with a bar.
fn rows(certificate: &Certificate) -> Vec<Row<'_>> {
    let length = |share| (0..30).take_while(|&n| f64::from(n) < share * 30.0).count();
    let shares = budget_shares(certificate).into_iter();
    shares
        .map(|of| Row {
            label: of.label,
            noise: of
                .noise_multiplier
                .map_or_else(|| "-".to_owned(), |z| format!("{z:.2}")),
            share: of
                .share
                .map_or_else(|| "-".to_owned(), |s| format!("{:.1} %", 100.0 * s)),
            bar: "#".repeat(of.share.map_or(0, length)),
        })
        .collect()
}

/// Releases that are shown apart; more of a kind in a row are one line.
const SHOWN_APART: usize = 20;

/// Releases one by one, and long stretches of the same event with labels that count up together.
fn groups(releases: &[ReleaseRecord]) -> impl Iterator<Item = &[ReleaseRecord]> {
    let counts_up = |a: &ReleaseRecord, b: &ReleaseRecord| match (rank(&a.label), rank(&b.label)) {
        (Some((name, i)), Some((other, j))) => {
            a.event == b.event && name == other && i.checked_add(1) == Some(j)
        }
        _ => false,
    };
    releases.chunk_by(counts_up).flat_map(|stretch| {
        let size = if stretch.len() > SHOWN_APART {
            stretch.len()
        } else {
            1
        };
        stretch.chunks(size)
    })
}

/// `round 7` as its name and its number.
fn rank(label: &str) -> Option<(&str, u64)> {
    let (name, number) = label.rsplit_once(' ')?;
    Some((name, number.parse().ok()?))
}

fn cost(release: &ReleaseRecord, adjacency: Adjacency) -> Option<f64> {
    gdp::mu_squared(&release.event, adjacency).ok()
}

/// The lists that are not empty, under their titles.
fn lists(certificate: &Certificate) -> impl Iterator<Item = (&'static str, &[String])> {
    [
        ("Assumed", certificate.assumptions.as_slice()),
        ("Not covered", certificate.not_covered.as_slice()),
    ]
    .into_iter()
    .filter(|(_, entries)| !entries.is_empty())
}

/// Appends one line.
pub(super) fn put(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
