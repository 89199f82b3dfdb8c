//! The guarantee, its assumptions, and the use of the budget.

use dp_accounting::{PrivacyStatement, Status};
use dp_page::{BarRow, Bars, Block, Chart, Hundred, Number, Section, Table, Unit};

use super::run::ReportedRun;
use crate::output::{BudgetShare, budget_shares};

/// The statement under both neighbouring relations, as in certificate and terminal.
pub(super) fn guarantee(run: &ReportedRun<'_>) -> Section {
    let statement = &run.statement;
    let mut blocks = Vec::new();
    if let Status::NotPrivate { reason } = &statement.status {
        blocks.push(Block::Warning(format!("Not private: {reason}.")));
        let words = "There is no guarantee: the figures below describe the run and protect nobody.";
        blocks.push(Block::Text(words.to_owned()));
    }
    let warnings = run.released.iter().flat_map(|released| &released.warnings);
    blocks.extend(warnings.map(|text| Block::Warning(sentence(text))));
    let Some(guarantee) = &statement.guarantee else {
        return Section::new("guarantee", "Guarantee", blocks);
    };
    let numbers = statement.epsilons().into_iter();
    let numbers = numbers.map(|(neighbours, epsilon)| Number {
        value: epsilon,
        label: "epsilon".to_owned(),
        note: neighbours,
    });
    let delta = Number {
        value: format!("{:e}", guarantee.delta),
        label: "delta".to_owned(),
        note: format!("for each {}", statement.unit),
    };
    blocks.push(Block::Numbers(numbers.chain([delta]).collect()));
    blocks.push(Block::Text(statement.meaning().join(" ")));
    if let Some(attacker) = statement.attacker {
        blocks.push(Block::Hundred(Hundred {
            blind: 100.0 * attacker.false_positive_rate,
            found: attacker.found_of_100(),
            subject: format!(
                "{}s who took part, the best attacker described above finds",
                statement.unit
            ),
        }));
    }
    blocks.push(Block::Text(guarantee.statement.clone()));
    if let Some(line) = statement.method_line() {
        blocks.push(Block::Note(format!("Epsilon: {line}.")));
    }
    Section::new("guarantee", "Guarantee", blocks)
}

/// A warning as a sentence with capital letter and full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// A bar for every release, or a table where a release has no share of the budget.
pub(super) fn budget(run: &ReportedRun<'_>) -> Section {
    let releases = budget_shares(&run.certificate);
    let blocks = if releases.iter().all(|release| release.share.is_some()) {
        vec![Block::Chart(budget_chart(releases))]
    } else {
        let note = format!(
            "{NOISE_MULTIPLIER} Not every release is Gaussian, so the budget has no shares in mu^2."
        );
        vec![Block::Table(noise_table(releases)), Block::Note(note)]
    };
    Section::new("budget", "Where the budget went", blocks)
}

const NOISE_MULTIPLIER: &str = "Noise multiplier: the standard deviation of the noise divided by the most that one user can change the released sum.";

fn budget_chart(releases: Vec<BudgetShare<'_>>) -> Chart {
    let rows = releases.into_iter().map(|release| BarRow {
        label: release.label.into_owned(),
        detail: release
            .noise_multiplier
            .map_or_else(String::new, |z| format!("noise multiplier {z:.2}")),
        values: vec![release.share],
    });
    let bars = Bars {
        series: vec!["share of the budget".to_owned()],
        unit: Unit::Share,
        rows: rows.collect(),
    };
    let note = format!("Full bars are the whole budget, measured in mu^2. {NOISE_MULTIPLIER}");
    Chart::bars("Share of the budget by release", note, bars)
}

fn noise_table(releases: Vec<BudgetShare<'_>>) -> Table {
    let rows = releases.into_iter().map(|release| {
        let noise = release.noise_multiplier;
        vec![
            release.label.into_owned(),
            noise.map_or_else(|| "-".to_owned(), |z| format!("{z:.2}")),
        ]
    });
    Table::new("Releases", ["release", "noise multiplier"], rows)
}

/// What is covered, what is not, and the assumptions.
pub(super) fn scope(run: &ReportedRun<'_>) -> Section {
    let statement = &run.statement;
    let mut blocks = scope_lists(statement);
    blocks.push(Block::Note(statement.tuning_line().to_owned()));
    Section::new("scope", "Scope and assumptions", blocks)
}

/// The same as lists, without empty ones.
pub(super) fn scope_lists(statement: &PrivacyStatement) -> Vec<Block> {
    let released = statement.released.iter();
    let released = released.map(|output| format!("{}, seen by {}", output.what, output.to));
    let mut blocks = vec![
        Block::List("Covered", released.collect()),
        Block::List("Not covered", statement.not_covered.clone()),
        Block::List("Assumed", statement.assumptions.clone()),
    ];
    blocks.retain(|block| !matches!(block, Block::List(_, entries) if entries.is_empty()));
    blocks
}
