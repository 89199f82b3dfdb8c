//! The guarantee in words: as Markdown for files, as aligned text for the terminal.

use std::fmt::Write;

use dp_accounting::{Certificate, Guarantee, ReleaseRecord, Status};
use dp_core::DpEvent;

use super::rounded_up;

/// Stands where epsilon is so large that the error bound of the noise sampler exceeds delta.
pub(super) const NOT_CERTIFIED: &str = "too large to certify at this delta";

/// Epsilon under both adjacencies, where the budget went, and what is assumed; Markdown.
pub(crate) fn privacy_statement(certificate: &Certificate) -> String {
    let mut text = String::new();
    match (&certificate.status, &certificate.guarantee) {
        (Status::Private, Some(guarantee)) => {
            put(&mut text, &format!("{}\n", guarantee.statement));
            put(
                &mut text,
                &format!("| neighbours | epsilon at delta {:e} |", guarantee.delta),
            );
            put(&mut text, "|---|---|");
            for (neighbours, epsilon) in epsilons(certificate, guarantee) {
                put(&mut text, &format!("| {neighbours} | {epsilon} |"));
            }
            put(
                &mut text,
                &format!("\n{}.", gaussian_figures(certificate, guarantee)),
            );
        }
        (Status::NotPrivate { reason }, _) => put(
            &mut text,
            &format!("**Not private: {reason}.** Nothing here carries a guarantee."),
        ),
        (Status::Private, None) => put(&mut text, "The certificate states no guarantee."),
    }
    put(
        &mut text,
        "\n| release | noise multiplier | budget | |\n|---|---:|---:|---|",
    );
    for Share {
        label,
        noise,
        share,
        bar,
    } in shares(&certificate.releases)
    {
        put(
            &mut text,
            &format!(
                "| {label} | {noise:.2} | {:.1} % | `{bar}` |",
                100.0 * share
            ),
        );
    }
    for (title, entries) in lists(certificate) {
        put(&mut text, &format!("\n{title}:\n"));
        for entry in entries {
            put(&mut text, &format!("* {entry}"));
        }
    }
    text
}

/// The same for a terminal, from a certificate that holds.
pub(crate) fn privacy_overview(certificate: &Certificate) -> String {
    let mut text = String::new();
    put(
        &mut text,
        &format!("  data set  {}", certificate.data_set_id),
    );
    put(&mut text, &format!("  unit      {}", certificate.unit));
    if let Some(guarantee) = &certificate.guarantee {
        put(&mut text, &format!("  delta     {:e}", guarantee.delta));
        for (neighbours, epsilon) in epsilons(certificate, guarantee) {
            put(
                &mut text,
                &format!("  epsilon   {epsilon:<8}  {neighbours}"),
            );
        }
        put(
            &mut text,
            &format!("            {}", gaussian_figures(certificate, guarantee)),
        );
    }
    put(
        &mut text,
        &format!("\n  {:<32} {:>8} {:>8}", "release", "noise", "budget"),
    );
    for Share {
        label,
        noise,
        share,
        bar,
    } in shares(&certificate.releases)
    {
        let row = format!("  {label:<32} {noise:>8.2} {:>6.1} %  {bar}", 100.0 * share);
        put(&mut text, row.trim_end());
    }
    for (title, entries) in lists(certificate) {
        put(&mut text, &format!("\n  {}", title.to_lowercase()));
        for entry in entries {
            put(&mut text, &format!("    {entry}"));
        }
    }
    text
}

/// Both ways of making neighbours, with epsilon under each.
fn epsilons(certificate: &Certificate, guarantee: &Guarantee) -> [(String, String); 2] {
    let unit = &certificate.unit;
    let show = |epsilon: Option<f64>| epsilon.map_or_else(|| NOT_CERTIFIED.to_owned(), rounded_up);
    [
        (
            format!("add or remove one {unit}"),
            show(guarantee.epsilon_add_remove),
        ),
        (
            format!("replace one {unit}"),
            show(guarantee.epsilon_replace),
        ),
    ]
}

fn gaussian_figures(certificate: &Certificate, guarantee: &Guarantee) -> String {
    format!(
        "Gaussian-DP mu {}, zCDP rho {} ({})",
        rounded_up(guarantee.gdp_mu),
        rounded_up(guarantee.rho),
        certificate.adjacency
    )
}

/// A release and its part of the budget.
struct Share<'a> {
    label: &'a str,
    noise: f64,
    share: f64,
    bar: String,
}

/// Where the budget went: each release's share of mu^2, with a bar.
fn shares(releases: &[ReleaseRecord]) -> Vec<Share<'_>> {
    let noise = |release: &ReleaseRecord| match release.event {
        DpEvent::Gaussian {
            noise_multiplier, ..
        } => noise_multiplier,
        _ => f64::NAN,
    };
    let total: f64 = releases.iter().map(|release| noise(release).powi(-2)).sum();
    releases
        .iter()
        .map(|release| {
            let noise = noise(release);
            let share = noise.powi(-2) / total;
            let length = (0..30).take_while(|&n| f64::from(n) < share * 30.0).count();
            Share {
                label: &release.label,
                noise,
                share,
                bar: "#".repeat(length),
            }
        })
        .collect()
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
    // writing to a String cannot fail
    let _ = writeln!(text, "{line}");
}
