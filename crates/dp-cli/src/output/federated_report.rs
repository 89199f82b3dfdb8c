//! The files of `dp federate` at one epsilon, and its summary on the screen.

use std::path::Path;

use dp_accounting::Certificate;
use dp_fedsgd::SharedModel;
use serde_json::{Value, json};

use super::bars::bars;
use super::shared_file::{SHARED, shared_bytes};
use super::statement::{guarantee_lines, put, released};
use super::{CERTIFICATE, OutputFolder, Seconds, privacy_statement};
use crate::error::{Error, Result};
use crate::evaluate::shown;
use crate::federated::{Figures, RunSettings, UserFigures, alpha_name, alpha_value};
use crate::personal::{Inputs, Task};

/// Everything a run has to say, released and internal apart.
pub(crate) struct FederatedReport<'a> {
    pub(crate) certificate: Certificate,
    pub(crate) model: &'a SharedModel,
    pub(crate) alphas: &'a [f64],
    /// Which of them.
    pub(crate) chosen: usize,
    pub(crate) inputs: &'a Inputs,
    pub(crate) settings: &'a RunSettings,
    /// Errors of the private runs, of the same without noise, and of the users' own choices.
    pub(crate) users: &'a [UserFigures],
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

/// Heads everything that is computed from private data.
const INTERNAL: &str = "not covered by the guarantee";

impl FederatedReport<'_> {
    /// Model, certificate, released report with its plot; internal report, table and plot.
    pub(crate) fn write(&self, folder: &OutputFolder) -> Result<()> {
        let shared = shared_bytes(self.model, self.alpha(), self.inputs)?;
        folder.write(SHARED, &shared)?;
        let certificate = self.certificate.clone();
        let certificate = certificate.with_artifact(SHARED, &shared);
        let certificate = self.released_run().write(folder, certificate)?;
        folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
        folder.write("report.md", self.released_report()?.as_bytes())?;
        folder.write("coefficients.svg", self.released_plot().as_bytes())?;
        folder.write_internal("internal.md", self.internal_report().as_bytes())?;
        folder.write_internal("internal-users.csv", &self.user_table()?)?;
        folder.write_internal("internal.svg", self.internal_plot().as_bytes())?;
        self.internal_run().write(folder)
    }

    pub(super) fn settings_json(&self) -> Value {
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

    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Value {
        let by_alpha: Vec<Value> = (self.alphas.iter().enumerate())
            .map(|(at, &alpha)| {
                json!({
                    "alpha": alpha_value(alpha),
                    "private": self.figures(at),
                    "no_noise": self.figures(self.alphas.len() + at),
                })
            })
            .collect();
        let alphas: Vec<Value> = self.alphas.iter().copied().map(alpha_value).collect();
        json!({
            "alphas": alphas,
            "alpha": alpha_value(self.alpha()),
            "rounds": self.settings.n_rounds,
            "n_features": self.inputs.features.len(),
            "released": released(&self.certificate),
            "internal": {
                "metric": self.inputs.metric(),
                "by_alpha": by_alpha,
                "own_choice": self.own(0),
                "own_ridge": self.own(1),
                "seconds": self.seconds,
                "n_users": self.users.len(),
                "n_rows": self.n_rows(),
            },
        })
    }

    /// What the terminal shows.
    pub(crate) fn summary(&self, out: &Path, balance: Option<&str>) -> String {
        let mut text = guarantee_lines(&self.certificate);
        put(&mut text, &format!("model       {}", self.describe_model()));
        put(&mut text, &format!("written to  {}", out.display()));
        if let Some(balance) = balance {
            put(&mut text, &format!("ledger      {balance}"));
        }
        let metric = self.inputs.metric();
        let head = format!("\ninternal, {INTERNAL}: do not publish\n  {metric}");
        put(
            &mut text,
            &format!("{head:<80} {:>12} {:>12}", "private", "no noise"),
        );
        for (name, [private, without]) in self.table() {
            put(
                &mut text,
                &format!("  {name:<32} {private:>12} {without:>12}"),
            );
        }
        let seconds = self.seconds.words();
        put(&mut text, &format!("  {:<32} {seconds}", "seconds"));
        text
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

    pub(super) fn figures(&self, at: usize) -> Figures {
        let name = self.alphas.get(at % self.alphas.len()).copied();
        let name = name.map_or_else(String::new, alpha_name);
        Figures::over(self.inputs, self.users, at, name)
    }

    /// The users' own choice, or their own ridge; of regression.
    pub(super) fn own(&self, which: usize) -> Option<Figures> {
        let (at, name) = (
            2 * self.alphas.len() + which,
            ["own choice", "own ridge"][which],
        );
        (self.inputs.task == Task::Regression)
            .then(|| Figures::over(self.inputs, self.users, at, name.to_owned()))
    }

    /// Name, and the figure with noise and without.
    fn table(&self) -> Vec<(String, [String; 2])> {
        let n = self.alphas.len();
        let mut rows: Vec<_> = (0..n)
            .map(|at| {
                let mark = if at == self.chosen { ", chosen" } else { "" };
                let name = format!("alpha {}{mark}", alpha_name(self.alphas[at]));
                (
                    name,
                    [at, n + at].map(|at| shown(self.figures(at).over_rows)),
                )
            })
            .collect();
        for (which, name) in ["users' own choice (free)", "own ridge (free, local)"]
            .into_iter()
            .enumerate()
        {
            if let Some(figures) = self.own(which) {
                rows.push((name.to_owned(), [shown(figures.over_rows), String::new()]));
            }
        }
        rows
    }

    pub(super) fn n_rows(&self) -> usize {
        self.users.iter().map(|u| u.n_history + u.n_test).sum()
    }

    fn internal_report(&self) -> String {
        let metric = self.inputs.metric();
        let mut text = format!(
            "# Internal: {INTERNAL}\n\nComputed from private data. Do not publish, and do not choose settings by it: \
             charging the runs does not pay for that; the choice of alpha was charged apart. `internal-users.csv` has the same for every user.\n\n\
             ![Errors by alpha](internal.svg)\n\n| {metric} on held-out rows | private | no noise |\n|---|---:|---:|\n"
        );
        for (name, [private, without]) in self.table() {
            put(&mut text, &format!("| {name} | {private} | {without} |"));
        }
        put(&mut text, "\n| | |\n|---|---|");
        for (name, value) in self.data_handling() {
            put(&mut text, &format!("| {name} | {value} |"));
        }
        put(&mut text, &self.seconds.row());
        text
    }

    fn internal_plot(&self) -> String {
        let rows = (0..2 * self.alphas.len()).map(|at| {
            let figures = self.figures(at);
            let noise = if at < self.alphas.len() {
                ""
            } else {
                ", no noise"
            };
            (format!("{}{noise}", figures.model), figures.over_rows)
        });
        let rows: Vec<_> = rows.collect();
        let title = format!("{} on held-out rows by alpha", self.inputs.metric());
        bars(&title, &format!("internal: {INTERNAL}"), &rows)
    }

    /// One line a user: errors in the metric of the report.
    fn user_table(&self) -> Result<Vec<u8>> {
        let metric = self.inputs.metric().to_lowercase();
        let alphas = self.alphas.iter().copied().map(alpha_value);
        let names: Vec<String> = alphas.map(|a| a.to_string().replace('"', "")).collect();
        let private = names.iter().map(|name| format!("{metric} alpha {name}"));
        let without = names
            .iter()
            .map(|name| format!("{metric} alpha {name} no noise"));
        let own = ["own choice", "own ridge"].map(|name| format!("{metric} {name}"));
        let fixed = ["user", "history_rows", "test_rows"].map(str::to_owned);
        let n_models = self.users.first().map_or(0, |user| user.errors.len());
        let heads = private.chain(without).chain(own).take(n_models);
        let write = || {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(fixed.into_iter().chain(heads))?;
            for user in self.users {
                let fixed = [
                    user.id.clone(),
                    user.n_history.to_string(),
                    user.n_test.to_string(),
                ];
                let figure = |error: f64| format!("{:.6}", self.inputs.figure(error));
                let errors = user.errors.iter();
                let errors = errors.map(|error| error.map(figure).unwrap_or_default());
                writer.write_record(fixed.into_iter().chain(errors))?;
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        write().map_err(|e: csv::Error| Error::model(Path::new("internal-users.csv"), e))
    }
}
