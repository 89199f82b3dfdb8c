//! The files of `dp federate` at one epsilon, and its summary on the screen.

mod internal;
mod run;

use std::path::Path;

use dp_accounting::Certificate;
use dp_fedsgd::SharedModel;
use serde_json::{Value, json};

use self::internal::Measured;
use super::bars::bars;
use super::shared_file::{SHARED, shared_bytes};
use super::statement::{guarantee_lines, put, released};
use super::{CERTIFICATE, OutputFolder, Seconds, privacy_statement};
use crate::error::{Error, Result};
use crate::federated::{
    Convergence, DescribedItems, RunSettings, UserFigures, alpha_name, alpha_value,
};
use crate::personal::Inputs;

/// What a run releases.
pub(crate) struct FederatedRelease<'a> {
    pub(crate) certificate: Certificate,
    pub(crate) model: &'a SharedModel,
    pub(crate) alphas: &'a [f64],
    /// Which of them.
    pub(crate) chosen: usize,
    pub(crate) inputs: &'a Inputs,
    /// Of ratings: what users need to describe their own.
    pub(crate) items: Option<&'a DescribedItems>,
    pub(crate) settings: &'a RunSettings,
    /// Everything public that shaped the run.
    pub(crate) run: &'a Value,
}

/// Everything a run has to say, released and internal apart.
pub(crate) struct FederatedReport<'a> {
    pub(crate) release: &'a FederatedRelease<'a>,
    /// Errors of the private runs, of the same without noise, and of the users' own choices.
    pub(crate) users: &'a [UserFigures],
    /// The same of users whom nothing was trained on.
    pub(crate) held_out: &'a [UserFigures],
    /// The error after rounds of the private runs.
    pub(crate) convergence: Option<&'a Convergence>,
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

/// The rated items with their features, as the model was trained on them.
pub(crate) const ITEM_FEATURES: &str = "item-features.csv";
/// Heads everything that is computed from private data.
const INTERNAL: &str = "not covered by the guarantee";

impl FederatedRelease<'_> {
    /// Model, certificate, released report with its plot.
    pub(crate) fn write(&self, folder: &OutputFolder, publish_releases: bool) -> Result<()> {
        let shared = shared_bytes(self.model, self.alpha(), self.settings, self.inputs)?;
        folder.write(SHARED, &shared)?;
        let mut certificate = self.certificate.clone();
        certificate = certificate.with_artifact(SHARED, &shared);
        if let Some(items) = self.items {
            let items = items
                .csv()
                .map_err(|e| Error::model(Path::new(ITEM_FEATURES), e))?;
            folder.write(ITEM_FEATURES, &items)?;
            certificate = certificate.with_artifact(ITEM_FEATURES, &items);
        }
        let certificate = self.released_run().write(folder, certificate)?;
        let certificate = folder.settle_releases(publish_releases, certificate)?;
        folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
        folder.write("report.md", self.released_report()?.as_bytes())?;
        folder.write("coefficients.svg", self.released_plot().as_bytes())
    }

    pub(in super::super) fn settings_json(&self) -> Value {
        let alphas: Vec<Value> = self.alphas.iter().copied().map(alpha_value).collect();
        json!({
            "alphas": alphas,
            "alpha": alpha_value(self.alpha()),
            "rounds": self.settings,
            "inputs": self.inputs,
        })
    }

    fn alpha(&self) -> f64 {
        self.alphas[self.chosen]
    }

    pub(super) fn describe_model(&self) -> String {
        let (n, rounds) = (self.inputs.features.len(), self.settings.n_rounds);
        let grid = match self.alphas.len() {
            1 => "the only one".to_owned(),
            n => format!("of {n}, chosen within the budget"),
        };
        let alpha = alpha_name(self.alpha());
        format!("{n} features, alpha {alpha}, {grid}; {rounds} rounds each")
    }

    fn released_report(&self) -> Result<String> {
        let title = match self.certificate.guarantee {
            Some(_) => "Private shared model",
            None => "Shared model, NOT PRIVATE",
        };
        let mut text = format!(
            "# {title}\n\nTarget `{}`: {}.\n\n",
            self.inputs.target.name,
            self.describe_model()
        );
        put(&mut text, "## Guarantee\n");
        text.push_str(&privacy_statement(&self.certificate)?);
        put(
            &mut text,
            "\n## Coefficients\n\nThe shared part of every user's coefficients, of features as models see them. Each user \
             adds an own part, which stays with the user.\n\n![Coefficients](coefficients.svg)\n\n| feature | shared |\n|---|---:|",
        );
        for (name, w) in self.coefficients() {
            let name = name.replace('|', "\\|");
            put(&mut text, &format!("| {name} | {w:.4} |"));
        }
        put(&mut text, "\n## Settings\n\n```json");
        let settings = self.settings_json();
        put(&mut text, &serde_json::to_string_pretty(&settings)?);
        put(&mut text, "```");
        Ok(text)
    }

    pub(super) fn coefficients(&self) -> impl Iterator<Item = (String, f64)> {
        self.inputs.names().zip(self.model.last().iter().copied())
    }

    fn released_plot(&self) -> String {
        let rows: Vec<_> = self
            .coefficients()
            .map(|(name, w)| (name, Some(w.abs())))
            .collect();
        bars("Shared coefficients", "absolute values, as released", &rows)
    }
}

impl FederatedReport<'_> {
    /// Internal report, table and plot.
    pub(crate) fn write_internal(&self, folder: &OutputFolder) -> Result<()> {
        let measured = self.measured();
        folder.write_internal("internal.md", self.internal_report().as_bytes())?;
        folder.write_internal("internal-users.csv", &measured.user_table()?)?;
        folder.write_internal("internal.svg", measured.plot().as_bytes())?;
        self.internal_run().write(folder)
    }

    const fn measured(&self) -> Measured<'_> {
        Measured {
            inputs: self.release.inputs,
            alphas: self.release.alphas,
            chosen: self.release.chosen,
            users: self.users,
            held_out: self.held_out,
            convergence: self.convergence,
        }
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Value {
        let alphas: Vec<Value> = self
            .release
            .alphas
            .iter()
            .copied()
            .map(alpha_value)
            .collect();
        json!({
            "alphas": alphas,
            "alpha": alpha_value(self.release.alpha()),
            "rounds": self.release.settings.n_rounds,
            "n_features": self.release.inputs.features.len(),
            "released": released(&self.release.certificate),
            "internal": self.measured().json(&self.seconds),
        })
    }

    /// What the terminal shows.
    pub(crate) fn summary(&self, out: &Path, balance: Option<&str>) -> String {
        let mut text = guarantee_lines(&self.release.certificate);
        put(
            &mut text,
            &format!("model       {}", self.release.describe_model()),
        );
        put(&mut text, &format!("written to  {}", out.display()));
        if let Some(balance) = balance {
            put(&mut text, &format!("ledger      {balance}"));
        }
        put(
            &mut text,
            &format!("\ninternal, {INTERNAL}: do not publish"),
        );
        for (metric, lines) in self.measured().tables() {
            let heads = ["private", "no noise"].map(str::to_owned);
            for (name, [private, without]) in [(metric, heads)].into_iter().chain(lines) {
                let line = format!("  {name:<32} {private:>12} {without:>12}");
                put(&mut text, line.trim_end());
            }
        }
        let seconds = self.seconds.words();
        put(&mut text, &format!("  {:<32} {seconds}", "seconds"));
        text
    }

    fn internal_report(&self) -> String {
        let mut text = format!(
            "# Internal: {INTERNAL}\n\nComputed from private data. Do not publish, and do not choose settings by it: \
             charging the runs does not pay for that; the choice of alpha was charged apart. `internal-users.csv` has the same for every user.\n\n\
             ![Errors by alpha](internal.svg)\n"
        );
        for (metric, lines) in self.measured().tables() {
            let head = format!("\n| {metric} on held-out rows | private | no noise |");
            put(&mut text, &format!("{head}\n|---|---:|---:|"));
            for (name, [private, without]) in lines {
                put(&mut text, &format!("| {name} | {private} | {without} |"));
            }
        }
        put(&mut text, "\n| | |\n|---|---|");
        for (name, value) in self.data_handling() {
            put(&mut text, &format!("| {name} | {value} |"));
        }
        put(&mut text, &self.seconds.row());
        text
    }
}
