//! The files of `dp personalize`, and its summary on the screen.

use std::path::Path;

use dp_personalize::{FittedSubspace, Subspace};
use serde_json::{Value, json};

use super::bars::bars;
use super::statement::{guarantee_lines, put, released};
use super::subspace_file::{SUBSPACE, subspace_bytes};
use super::{CERTIFICATE, OutputFolder, Seconds, privacy_statement};
use crate::error::{Error, Result};
use crate::personal::{Errors, Inputs, Intercept, MethodName, MethodSettings, UserErrors};

/// Everything a run has to say, released and internal apart.
pub(crate) struct PersonalReport<'a> {
    pub(crate) fitted: &'a FittedSubspace,
    pub(crate) inputs: &'a Inputs,
    pub(crate) settings: &'a MethodSettings,
    pub(crate) users: &'a [UserErrors],
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

/// Heads everything that is computed from private data.
const INTERNAL: &str = "not covered by the guarantee";

impl PersonalReport<'_> {
    /// Subspace, certificate, released report with its plot; internal report, table and plot.
    pub(crate) fn write(&self, folder: &OutputFolder) -> Result<()> {
        let subspace = subspace_bytes(&self.fitted.model, self.inputs)?;
        folder.write(SUBSPACE, &subspace)?;
        let certificate = self.fitted.certificate.clone();
        let certificate = certificate.with_artifact(SUBSPACE, &subspace);
        let certificate = self.released_run()?.write(folder, certificate)?;
        folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
        folder.write("report.md", self.released_report()?.as_bytes())?;
        folder.write("features.svg", self.released_plot().as_bytes())?;
        folder.write_internal("internal.md", self.internal_report().as_bytes())?;
        folder.write_internal("internal-users.csv", &self.user_table()?)?;
        folder.write_internal("internal.svg", self.internal_plot().as_bytes())?;
        self.internal_run().write(folder)
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Value {
        json!({
            "method": self.settings.method,
            "rank": self.settings.rank,
            "steps": self.settings.n_steps(),
            "n_features": self.inputs.features.len(),
            "released": released(&self.fitted.certificate),
            "internal": {
                "metric": self.inputs.metric(),
                "trained_on": self.errors(false),
                "held_out": self.errors(true),
                "seconds": self.seconds,
                "n_users": self.users.len(),
                "n_rows": self.n_rows(),
            },
        })
    }

    /// What the terminal shows.
    pub(crate) fn summary(&self, out: &Path, balance: Option<&str>) -> String {
        let mut text = guarantee_lines(&self.fitted.certificate);
        put(&mut text, &format!("model       {}", self.describe_model()));
        put(&mut text, &format!("written to  {}", out.display()));
        if let Some(balance) = balance {
            put(&mut text, &format!("ledger      {balance}"));
        }
        put(
            &mut text,
            &format!("\ninternal, {INTERNAL}: do not publish"),
        );
        for (name, value) in self.metric_rows() {
            put(&mut text, &format!("  {name:<50} {value}"));
        }
        put(
            &mut text,
            &format!("  {:<50} {}", "seconds", self.seconds.words()),
        );
        text
    }

    pub(super) fn describe_model(&self) -> String {
        let (settings, n) = (self.settings, self.inputs.features.len());
        let level = match self.inputs.intercept {
            Intercept::Own => "users' own levels",
            Intercept::Shared => "a constant feature",
            Intercept::None => "no intercept",
        };
        let steps = match settings.n_steps() {
            0 => String::new(),
            1 => ", 1 step".to_owned(),
            n => format!(", {n} steps"),
        };
        let method = serde_json::to_value(settings.method).unwrap_or_default();
        let method = method.as_str().unwrap_or_default().to_owned();
        let sparse = match self.inputs.sparse {
            0 => String::new(),
            most => format!(" and up to {most} coefficients of the user's own"),
        };
        format!(
            "{n} features and {level}, subspace of dimension {}{sparse}, {method}{steps}",
            settings.rank
        )
    }

    fn released_report(&self) -> Result<String> {
        let title = match self.fitted.certificate.guarantee {
            Some(_) => "Private shared subspace",
            None => "Shared subspace, NOT PRIVATE",
        };
        let mut text = format!(
            "# {title}\n\nTarget `{}`: {}.\n\n",
            self.inputs.target.name,
            self.describe_model()
        );
        put(&mut text, "## Guarantee\n");
        text.push_str(&privacy_statement(&self.fitted.certificate)?);
        put(
            &mut text,
            "\n## Features in the subspace\n\nHow much of each feature's direction lies in the subspace, from 0 to 1: \
             the diagonal of `U U^T`. It adds up to the rank, and is computed from the released subspace.\n\n\
             ![Features in the subspace](features.svg)\n\n| feature | share |\n|---|---:|",
        );
        for (name, share) in self.feature_shares() {
            let name = name.replace('|', "\\|");
            put(&mut text, &format!("| {name} | {share:.4} |"));
        }
        put(&mut text, "\n## Settings\n\n```json");
        let settings = json!({"method": self.settings, "inputs": self.inputs});
        put(&mut text, &serde_json::to_string_pretty(&settings)?);
        put(&mut text, "```");
        Ok(text)
    }

    fn released_plot(&self) -> String {
        let rows = self.feature_shares().into_iter();
        let rows: Vec<_> = rows.map(|(name, share)| (name, Some(share))).collect();
        bars(
            "Features in the subspace",
            "diagonal of U U^T, from the released subspace",
            &rows,
        )
    }

    /// Largest first.
    pub(super) fn feature_shares(&self) -> Vec<(String, f64)> {
        let mut shares = feature_shares(&self.fitted.model, self.inputs);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }

    fn errors(&self, held_out: bool) -> [Errors; 7] {
        Errors::of(self.inputs, self.users, held_out)
    }

    /// Users trained on, and those held out where there are some.
    pub(super) fn kinds(&self) -> Vec<(&'static str, [Errors; 7])> {
        let mut kinds = vec![("", self.errors(false))];
        if self.users.iter().any(|user| user.held_out) {
            kinds.push((", held-out users", self.errors(true)));
        }
        kinds
    }

    fn metric_rows(&self) -> Vec<(String, String)> {
        let metric = self.inputs.metric();
        let mut rows = Vec::new();
        for (users, errors) in self.kinds() {
            for error in errors {
                let name = format!("{metric} {}{users}", error.method.words());
                rows.push((name, crate::evaluate::shown(error.over_rows)));
            }
        }
        rows
    }

    pub(super) fn n_rows(&self) -> usize {
        let rows = self.users.iter().map(|user| user.n_history + user.n_test);
        rows.sum()
    }

    fn internal_report(&self) -> String {
        let metric = self.inputs.metric();
        let mut text = format!(
            "# Internal: {INTERNAL}\n\nComputed from private data. Do not publish, and do not choose settings by it: \
             charging the runs does not pay for that. `internal-users.csv` has the same for every user.\n\n\
             ![Errors by method](internal.svg)\n"
        );
        for (users, errors) in self.kinds() {
            put(
                &mut text,
                &format!(
                    "\n| {metric} on held-out rows{users} | all rows | median user |\n|---|---:|---:|"
                ),
            );
            for error in errors {
                let [rows, median] =
                    [error.over_rows, error.median_user].map(crate::evaluate::shown);
                put(
                    &mut text,
                    &format!("| {} | {rows} | {median} |", error.method.words()),
                );
            }
        }
        put(&mut text, "\n| | |\n|---|---|");
        for (name, value) in self.data_handling() {
            put(&mut text, &format!("| {name} | {value} |"));
        }
        put(&mut text, &self.seconds.row());
        text
    }

    fn internal_plot(&self) -> String {
        let rows = self.kinds().into_iter().flat_map(|(users, errors)| {
            let users = if users.is_empty() { "" } else { " (held out)" };
            errors.map(|error| (format!("{}{users}", error.method.name()), error.over_rows))
        });
        let rows: Vec<_> = rows.collect();
        let title = format!("{} on held-out rows", self.inputs.metric());
        bars(&title, &format!("internal: {INTERNAL}"), &rows)
    }

    /// One line a user: errors in the metric of the report.
    fn user_table(&self) -> Result<Vec<u8>> {
        let metric = self.inputs.metric().to_lowercase();
        let write = || {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let heads = MethodName::ALL.map(|method| format!("{metric} {}", method.name()));
            let fixed = ["user", "held_out", "history_rows", "test_rows"].map(str::to_owned);
            writer.write_record(fixed.iter().chain(&heads))?;
            for user in self.users {
                let fixed = [
                    user.id.clone(),
                    u8::from(user.held_out).to_string(),
                    user.n_history.to_string(),
                    user.n_test.to_string(),
                ];
                let figure = |error: f64| format!("{:.6}", self.inputs.figure(error));
                let errors = user
                    .errors
                    .map(|error| error.map(figure).unwrap_or_default());
                writer.write_record(fixed.iter().chain(&errors))?;
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        write().map_err(|e: csv::Error| Error::model(Path::new("internal-users.csv"), e))
    }
}

/// `(U U^T)_cc` of each coordinate.
fn feature_shares(subspace: &Subspace, inputs: &Inputs) -> Vec<(String, f64)> {
    let rows = subspace.basis().chunks_exact(subspace.rank());
    inputs
        .names()
        .zip(rows.map(|row| row.iter().map(|u| u * u).sum()))
        .collect()
}
