//! The files of a training run, and its summary on the screen.

use std::path::Path;

use dp_data::Ratings;
use dp_multitask::{FactorizationParams, FittedModel};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::statement::{guarantee_lines, put, released};
use super::{
    ByRound, CERTIFICATE, Comparison, InternalRun, OutputFolder, ReleasedRun, SCHEMA_VERSION,
    model_files, privacy_statement,
};
use crate::args::Method;
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

/// Settings of a run, for its report.
pub(crate) trait TrainSettings: Serialize {
    fn n_rounds(&self) -> usize;

    /// Whether a rule, not the operator, chose the length of the factors.
    fn dim_by_rule(&self) -> bool;

    /// What the model has besides factors and catalogue: names and bytes.
    fn more_files(&self) -> Vec<(&'static str, Vec<u8>)> {
        Vec::new()
    }
}

impl TrainSettings for FactorizationParams {
    fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    fn dim_by_rule(&self) -> bool {
        self.dim.is_none()
    }
}

/// Everything a run has to say, released and internal apart.
pub(crate) struct TrainReport<'a, S = FactorizationParams> {
    pub(crate) fitted: &'a FittedModel,
    pub(crate) method: Method,
    pub(crate) params: &'a S,
    pub(crate) ratings: &'a Ratings,
    /// Where settings were chosen within the budget.
    pub(crate) comparison: Option<Comparison>,
    pub(crate) metrics: Evaluation,
    pub(crate) by_round: Option<ByRound>,
    pub(crate) seconds: Seconds,
}

impl<S: TrainSettings> TrainReport<'_, S> {
    /// Model, certificate, released report and internal report.
    pub(crate) fn write(&self, folder: &OutputFolder) -> Result<()> {
        let mut certificate = self.fitted.certificate.clone();
        let files = model_files(&self.fitted.model, self.ratings.catalogue())?;
        for (name, bytes) in files.into_iter().chain(self.params.more_files()) {
            folder.write(name, &bytes)?;
            certificate = certificate.with_artifact(name, &bytes);
        }
        folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
        folder.write("report.md", self.released_report()?.as_bytes())?;
        self.released_run().write(folder)?;
        folder.write_internal("internal.md", self.internal_report().as_bytes())?;
        self.internal_run().write(folder)
    }

    fn command(&self) -> String {
        let tuned = self.comparison.is_some();
        (if tuned { "tune" } else { "train" }).to_owned()
    }

    fn released_run(&self) -> ReleasedRun {
        ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: self.command(),
            model: self.describe_model(),
            counts: self.fitted.counts.clone(),
            comparison: self.comparison.clone(),
            charts: Vec::new(),
            settings: json!(self.params),
        }
    }

    fn internal_run(&self) -> InternalRun {
        InternalRun {
            schema_version: SCHEMA_VERSION,
            command: self.command(),
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
        let certificate = &self.fitted.certificate;
        let mut object = json!({
            "method": self.method.name(),
            "dim": self.fitted.model.dim(),
            "steps": self.params.n_rounds(),
            "n_items": self.fitted.model.n_items(),
            "released": released(certificate),
            "internal": {
                "metrics": self.metrics,
                "seconds": self.seconds,
                "n_users": self.ratings.interactions().expose().n_users(),
                "n_ratings": self.ratings.interactions().expose().n_records(),
            },
        });
        if let Some(comparison) = &self.comparison {
            object["released"]["comparison"] = json!(comparison);
        }
        object
    }

    /// What the terminal shows.
    pub(crate) fn summary(&self, out: &Path, balance: Option<&str>) -> String {
        let mut text = guarantee_lines(&self.fitted.certificate);
        put(&mut text, &format!("model       {}", self.describe_model()));
        if let Some(reason) = self.why_no_tastes() {
            let line = format!("            {reason}; --dim 3 insists on two");
            put(&mut text, &line);
        }
        if let Some(comparison) = &self.comparison {
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

    fn describe_model(&self) -> String {
        let model = &self.fitted.model;
        let length = match model.dim() {
            1 => "item bias only".to_owned(),
            2 => "item bias and 1 taste".to_owned(),
            dim => format!("item bias and {} tastes", dim - 1),
        };
        let (n_items, n_rounds) = (model.n_items(), self.params.n_rounds());
        format!(
            "{n_items} items, factors of length {} ({length}), {n_rounds} rounds of {}",
            model.dim(),
            self.method.name()
        )
    }

    /// Said where the rule, not the operator, chose factors without tastes.
    fn why_no_tastes(&self) -> Option<&'static str> {
        (self.params.dim_by_rule() && self.fitted.model.dim() == 1).then_some(
            "tastes would add more noise than they tell at this epsilon and amount of data",
        )
    }

    fn metric_rows(&self) -> Vec<(String, String)> {
        self.metrics.rows()
    }

    fn released_report(&self) -> Result<String> {
        let title = match self.fitted.certificate.guarantee {
            Some(_) => "Private item factors",
            None => "Item factors, NOT PRIVATE",
        };
        let mut text = format!("# {title}\n\n{}", self.describe_model());
        if let Some(reason) = self.why_no_tastes() {
            text.push_str(&format!(": {reason}"));
        }
        put(&mut text, ".\n\n## Guarantee\n");
        text.push_str(&privacy_statement(&self.fitted.certificate)?);
        if let Some(counts) = &self.fitted.counts {
            put(
                &mut text,
                &format!(
                    "\n## Released counts\n\nMean noisy count of an item {:.1}, noise {:.1} on each; {:.0} % of \
                 the items stand more than two noise deviations above zero.",
                    counts.mean(),
                    counts.noise_stddev(),
                    100.0 * share_above_noise(counts)
                ),
            );
        }
        if let Some(comparison) = &self.comparison {
            text.push_str(&comparison.section());
        }
        put(&mut text, "\n## Settings\n\n```json");
        put(
            &mut text,
            &serde_json::to_string_pretty(self.params).unwrap_or_default(),
        );
        put(&mut text, "```");
        Ok(text)
    }

    /// What was read and what was left out: private counts.
    fn data_handling(&self) -> Vec<(String, u64)> {
        let table = self.ratings.interactions().expose();
        let summary = self.ratings.summary().expose();
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

fn share_above_noise(counts: &dp_multitask::NoisyCounts) -> f64 {
    let above = counts
        .values()
        .iter()
        .filter(|&&c| c > 2.0 * counts.noise_stddev())
        .count();
    above as f64 / counts.values().len() as f64
}
