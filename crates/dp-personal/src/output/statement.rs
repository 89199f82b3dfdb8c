//! The guarantee and the budget for the terminal.

use std::borrow::Cow;

use dp_accounting::{Certificate, Plan, PrivacyStatement, gdp};
use dp_core::{Adjacency, DpEvent};
use dp_page::{Block, Table, terminal};
use serde_json::{Value, json};

use crate::output::{releases_in_words, rounded_up};

/// Heading of everything on the screen that is computed from private data.
pub(crate) const INTERNAL_HEAD: &str = "internal, not covered by the guarantee: do not publish";

/// The guarantee in words and the use of the budget, for a terminal, from the statement of a
/// verified certificate.
pub(crate) fn privacy_overview(certificate: &Certificate, statement: &PrivacyStatement) -> String {
    let table = terminal(&[Block::Table(budget_table(budget_shares(certificate)))]);
    let table: String = table.lines().map(|line| format!("    {line}\n")).collect();
    format!("{statement}\n  where the budget went\n{table}")
}

/// Releases with their noise and share of the budget, and a bar for each.
fn budget_table(shares: Vec<BudgetShare<'_>>) -> Table {
    let length = |share| (0..30).take_while(|&n| f64::from(n) < share * 30.0).count();
    let rows = shares.into_iter().map(|of| {
        let noise = of.noise_multiplier;
        let share = of.share.map(|share| format!("{:.1} %", 100.0 * share));
        vec![
            of.label.into_owned(),
            noise.map_or_else(|| "-".to_owned(), |z| format!("{z:.2}")),
            share.unwrap_or_else(|| "-".to_owned()),
            "#".repeat(of.share.map_or(0, length)),
        ]
    });
    let heads = ["release", "noise", "budget", ""];
    Table::new("", heads, rows).with_text([3])
}

/// The releases of a run and their cost: public, and the same for all data.
#[derive(Debug, Clone)]
pub struct PlanOverview {
    /// JSON with a documented schema.
    pub json: Value,
    /// Text for a terminal.
    pub text: String,
}

impl PlanOverview {
    /// Overview of a plan as returned by [`train::plan`](crate::workflows::train::plan) and the
    /// corresponding functions of other workflows.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let all = plan.releases();
        let listed = all.iter().map(|of| (of.label(), of.event()));
        let shares = shares_of(&listed.collect::<Vec<_>>(), plan.adjacency());
        let (guarantee, n) = (plan.guarantee(), all.len());
        let facts = [
            fact(
                "will cost",
                format!(
                    "epsilon {}, delta {:e}, add or remove one user",
                    rounded_up(guarantee.epsilon),
                    guarantee.delta
                ),
            ),
            fact(
                "for",
                format!(
                    "{}, the same for any data; no data was read",
                    releases_in_words(n as u64)
                ),
            ),
        ];
        let blocks = [
            Block::Facts(facts.into()),
            Block::Table(budget_table(shares)),
        ];
        let releases = all.iter().map(|release| {
            json!({
                "label": release.label(),
                "mechanism": release.event(),
                "noise_multiplier": release.noise_multiplier().ok(),
            })
        });
        Self {
            json: json!({"plan": {
                "target": plan.target(),
                "guarantee": guarantee,
                "adjacency": plan.adjacency(),
                "releases": releases.collect::<Vec<_>>(),
            }}),
            text: terminal(&blocks),
        }
    }
}

/// Epsilon under both adjacencies in two lines, for the top of a summary.
pub(super) fn guarantee_facts(certificate: &Certificate) -> Vec<(String, String)> {
    let Some(g) = &certificate.guarantee else {
        let words = "the noise is seeded: anyone who knows the seed can subtract it";
        return vec![fact("NOT PRIVATE", words)];
    };
    let delta = g.delta;
    let replace = g.epsilon_replace.map_or_else(
        || PrivacyStatement::NOT_CERTIFIED.to_owned(),
        |epsilon| format!("epsilon {}, delta {delta:e}", rounded_up(epsilon)),
    );
    let epsilon = rounded_up(g.epsilon);
    vec![
        fact(
            "private",
            format!("epsilon {epsilon}, delta {delta:e}, add or remove one user"),
        ),
        fact("", format!("{replace}, replace one user")),
    ]
}

/// A name and its value.
pub(super) fn fact(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// The part of the `--json` output that may be published.
pub(crate) fn released(certificate: &Certificate) -> Value {
    let guarantee = certificate.guarantee.as_ref();
    let mut released = json!({
        "private": guarantee.is_some(),
        "epsilon": guarantee.map(|g| g.epsilon),
        "delta": certificate.target.delta,
        "gdp_mu": guarantee.and_then(|g| g.gdp_mu),
        "rho": guarantee.and_then(|g| g.rho),
        "adjacency": certificate.adjacency,
        "epsilon_replace": guarantee.and_then(|g| g.epsilon_replace),
        "assumptions": certificate.assumptions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "tuning_included": certificate.tuning_included,
    });
    if !certificate.metrics.is_empty() {
        released["metrics"] = json!(certificate.metrics);
    }
    released
}

/// A release, or several equal ones, and its share of the budget.
pub(crate) struct BudgetShare<'a> {
    pub(crate) label: Cow<'a, str>,
    /// For a Gaussian release.
    pub(crate) noise_multiplier: Option<f64>,
    /// Share of mu^2; none if there are mechanisms that are not Gaussian.
    pub(crate) share: Option<f64>,
}

/// The use of the budget: each release's share of mu^2. Mechanisms that are not Gaussian have no
/// such share, and if there are any, no release has one.
pub(crate) fn budget_shares(certificate: &Certificate) -> Vec<BudgetShare<'_>> {
    let releases = certificate.releases.iter();
    let listed = releases.map(|of| (of.label.as_str(), &of.event));
    shares_of(&listed.collect::<Vec<_>>(), certificate.adjacency)
}

/// A release with its label.
type Listed<'a> = (&'a str, &'a DpEvent);

fn shares_of<'a>(releases: &[Listed<'a>], adjacency: Adjacency) -> Vec<BudgetShare<'a>> {
    let cost = |(_, event): &Listed<'_>| gdp::mu_squared(event, adjacency).ok();
    let total: Option<f64> = releases.iter().map(cost).sum();
    groups(releases)
        .map(|group| {
            let ((first, event), (last, _)) = (group[0], group[group.len() - 1]);
            let mine: Option<f64> = group.iter().map(cost).sum();
            BudgetShare {
                label: match rank(last) {
                    Some((_, last)) if group.len() > 1 => Cow::Owned(format!("{first} to {last}")),
                    _ => Cow::Borrowed(first),
                },
                noise_multiplier: match event {
                    DpEvent::Gaussian {
                        noise_multiplier, ..
                    } => Some(*noise_multiplier),
                    _ => None,
                },
                share: mine.zip(total).map(|(cost, total)| cost / total),
            }
        })
        .collect()
}

/// Number of releases that are listed separately; longer sequences of one kind are one line.
const SHOWN_APART: usize = 20;

/// Releases one by one, except that long sequences of the same event with consecutively numbered
/// labels are grouped.
fn groups<'l, 'a>(releases: &'l [Listed<'a>]) -> impl Iterator<Item = &'l [Listed<'a>]> {
    let counts_up = |a: &Listed<'a>, b: &Listed<'a>| match (rank(a.0), rank(b.0)) {
        (Some((name, i)), Some((other, j))) => {
            a.1 == b.1 && name == other && i.checked_add(1) == Some(j)
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

/// Splits `round 7` into its name and its number.
fn rank(label: &str) -> Option<(&str, u64)> {
    let (name, number) = label.rsplit_once(' ')?;
    Some((name, number.parse().ok()?))
}
