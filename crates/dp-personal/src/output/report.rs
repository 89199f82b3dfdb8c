//! What a training run measured, and its summary on the screen.

use std::path::Path;

use dp_multitask::FactorizationParams;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::statement::{guarantee_lines, put, released};
use super::{
    ByRound, INTERNAL_SCHEMA_VERSION, InternalRun, OutputFolder, TrainRelease, TrainSettings,
};
use crate::error::Result;
use crate::evaluate::Evaluation;

/// Wall-clock time of the parts of a run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seconds {
    pub(crate) load: f64,
    pub(crate) train: f64,
    pub(crate) evaluate: f64,
}

impl Seconds {
    /// For the terminal.
    pub(super) fn words(self) -> String {
        format!(
            "{:.2} load, {:.2} train, {:.2} evaluate",
            self.load, self.train, self.evaluate
        )
    }

    /// For a table of two columns.
    pub(super) fn row(self) -> String {
        format!(
            "| seconds: load, train, evaluate | {:.2}, {:.2}, {:.2} |",
            self.load, self.train, self.evaluate
        )
    }
}

/// Everything a run has to say, released and internal apart.
pub(crate) struct TrainReport<'a, S = FactorizationParams> {
    pub(crate) release: &'a TrainRelease<'a, S>,
    pub(crate) metrics: Evaluation,
    pub(crate) by_round: Option<ByRound>,
    pub(crate) seconds: Seconds,
}

impl<S: TrainSettings> TrainReport<'_, S> {
    /// What is not covered by the guarantee.
    pub(crate) fn write_internal(&self, folder: &OutputFolder) -> Result<()> {
        folder.write_internal("internal.md", self.internal_report().as_bytes())?;
        self.internal_run().write(folder)
    }

    fn internal_run(&self) -> InternalRun {
        InternalRun {
            schema_version: INTERNAL_SCHEMA_VERSION,
            certificate: None,
            command: self.release.command(),
            headline: self.metrics.headline(),
            metrics: self.metrics.figures(),
            by_round: self.by_round.clone(),
            charts: self.metrics.charts(),
            data: self.data_handling(),
            seconds: self.seconds,
        }
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Value {
        let release = self.release;
        let certificate = &release.fitted.certificate;
        let mut object = json!({
            "method": release.method.name(),
            "dim": release.fitted.model.dim(),
            "steps": release.params.n_rounds(),
            "n_items": release.fitted.model.n_items(),
            "released": released(certificate),
            "internal": {
                "metrics": self.metrics,
                "seconds": self.seconds,
                "n_users": self.release.ratings.interactions().expose().n_users(),
                "n_ratings": self.release.ratings.interactions().expose().n_records(),
            },
        });
        if let Some(comparison) = &release.comparison {
            object["released"]["comparison"] = json!(comparison);
        }
        object
    }

    /// What the terminal shows.
    pub(crate) fn summary(&self, out: &Path, balance: Option<&str>) -> String {
        let release = self.release;
        let mut text = guarantee_lines(&release.fitted.certificate);
        put(
            &mut text,
            &format!("model       {}", release.describe_model()),
        );
        if let Some(reason) = release.why_no_tastes() {
            let line = format!("            {reason}; --dim 3 insists on two");
            put(&mut text, &line);
        }
        if let Some(comparison) = &release.comparison {
            text.push_str(&comparison.lines());
        }
        put(&mut text, &format!("written to  {}", out.display()));
        if let Some(balance) = balance {
            put(&mut text, &format!("ledger      {balance}"));
        }
        text + &self.internal_lines()
    }

    fn internal_lines(&self) -> String {
        let mut text = "\ninternal, not covered by the guarantee: do not publish\n".to_owned();
        for (name, value) in self.metric_rows() {
            put(&mut text, &format!("  {name:<36} {value}"));
        }
        put(
            &mut text,
            &format!("  {:<36} {}", "seconds", self.seconds.words()),
        );
        text
    }

    fn metric_rows(&self) -> Vec<(String, String)> {
        self.metrics.rows()
    }

    /// What was read and what was left out: private counts.
    fn data_handling(&self) -> Vec<(String, u64)> {
        let table = self.release.ratings.interactions().expose();
        let summary = self.release.ratings.summary().expose();
        [
            ("users", table.n_users()),
            ("ratings kept", table.n_records()),
            ("ratings read", summary.n_read),
            ("outside the catalogue", summary.n_outside_catalogue),
            ("NaN or infinite, left out", summary.dropped.not_finite),
            (
                "repeated pairs, replaced by the later",
                summary.dropped.repeated,
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value as u64))
        .into()
    }

    fn internal_report(&self) -> String {
        let mut text = String::from(
            "# Internal: not covered by the guarantee\n\nComputed from private data. Do not publish, and \
             do not choose settings by it: charging the runs does not pay for that. `dp tune` chooses within the budget.\n\n| | |\n|---|---|\n",
        );
        for (name, value) in self.metric_rows() {
            put(&mut text, &format!("| {name} | {value} |"));
        }
        for (name, value) in self.data_handling() {
            put(&mut text, &format!("| {name} | {value} |"));
        }
        put(&mut text, &self.seconds.row());
        text
    }
}
