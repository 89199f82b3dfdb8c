//! The guarantee in words.

use std::fmt::Write;

use dp_accounting::{Certificate, ReleaseRecord, Status};
use dp_core::DpEvent;

/// Epsilon under both adjacencies, where the budget went, and what is assumed; Markdown.
pub(crate) fn privacy_statement(certificate: &Certificate) -> String {
    let mut text = String::new();
    match (&certificate.status, &certificate.guarantee) {
        (Status::Private, Some(guarantee)) => {
            let unit = &certificate.unit;
            let row = |name: &str, epsilon: Option<f64>| {
                epsilon.map_or_else(
                    || format!("| {name} one {unit} | not defined |\n"),
                    |e| format!("| {name} one {unit} | {e:.4} |\n"),
                )
            };
            add(&mut text, &format!("{}\n\n", guarantee.statement));
            add(&mut text, &format!("| neighbours | epsilon at delta {:e} |\n|---|---|\n", guarantee.delta));
            add(&mut text, &row("add or remove", guarantee.epsilon_add_remove));
            add(&mut text, &row("replace", guarantee.epsilon_replace));
            add(&mut text, &format!(
                "\nGaussian-DP mu {:.6}, zCDP rho {:.6} ({}).\n",
                guarantee.gdp_mu, guarantee.rho, certificate.adjacency
            ));
        }
        (Status::NotPrivate { reason }, _) => {
            add(&mut text, &format!("**Not private: {reason}.** Nothing here carries a guarantee.\n"));
        }
        (Status::Private, None) => add(&mut text, "The certificate states no guarantee.\n"),
    }
    text.push_str(&budget_table(&certificate.releases));
    text.push_str(&list("Assumed", &certificate.assumptions));
    text.push_str(&list("Not covered", &certificate.not_covered));
    text
}

/// Writing to a String cannot fail.
fn add(text: &mut String, more: &str) {
    text.push_str(more);
}

/// Where the budget went: each release's share of mu^2, with a bar.
fn budget_table(releases: &[ReleaseRecord]) -> String {
    let cost = |release: &ReleaseRecord| match release.event {
        DpEvent::Gaussian {
            noise_multiplier, ..
        } => noise_multiplier.powi(-2),
        DpEvent::Composed { .. } | DpEvent::Repeated { .. } | DpEvent::NonPrivate => f64::NAN,
    };
    let total: f64 = releases.iter().map(cost).sum();
    let mut text = String::from("\n| release | noise multiplier | budget | |\n|---|---:|---:|---|\n");
    for release in releases {
        let share = cost(release) / total;
        let bar: String = (0..30).take_while(|&n| f64::from(n) < share * 30.0).map(|_| '#').collect();
        let z = cost(release).powf(-0.5);
        // writing to a String cannot fail
        let _ = writeln!(text, "| {} | {z:.2} | {:.1} % | `{bar}` |", release.label, 100.0 * share);
    }
    text
}

fn list(title: &str, entries: &[String]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let entries: String = entries.iter().map(|entry| format!("* {entry}\n")).collect();
    format!("\n{title}:\n\n{entries}")
}
