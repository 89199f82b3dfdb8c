//! The files of `dp personalize`, and its summary on the screen.

use std::path::Path;

use serde_json::{Value, json};

use super::bars::bars;
use super::statement::{guarantee_lines, put, released};
use super::{ByRound, OutputFolder, PersonalRelease, Seconds};
use crate::error::{Error, Result};
use crate::personal::{Errors, MethodName, UserErrors};

/// Everything a run has to say, released and internal apart.
pub(crate) struct PersonalReport<'a> {
    pub(crate) release: &'a PersonalRelease<'a>,
    pub(crate) users: Vec<UserErrors>,
    /// Of own fits in the subspaces on the way.
    pub(crate) by_round: Option<ByRound>,
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

/// Heads everything that is computed from private data.
const INTERNAL: &str = "not covered by the guarantee";

impl PersonalReport<'_> {
    /// Internal report, table and plot.
    pub(crate) fn write_internal(&self, folder: &OutputFolder) -> Result<()> {
        folder.write_internal("internal.md", self.internal_report().as_bytes())?;
        folder.write_internal("internal-users.csv", &self.user_table()?)?;
        folder.write_internal("internal.svg", self.internal_plot().as_bytes())?;
        self.internal_run().write(folder)
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Value {
        json!({
            "method": self.release.settings.method,
            "rank": self.release.settings.rank,
            "steps": self.release.settings.n_steps(),
            "n_features": self.release.inputs.features.len(),
            "released": released(&self.release.fitted.certificate),
            "internal": {
                "metric": self.release.inputs.metric(),
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
        let mut text = guarantee_lines(&self.release.fitted.certificate);
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
        for (name, value) in self.metric_rows() {
            put(&mut text, &format!("  {name:<50} {value}"));
        }
        put(
            &mut text,
            &format!("  {:<50} {}", "seconds", self.seconds.words()),
        );
        text
    }

    fn errors(&self, held_out: bool) -> [Errors; 7] {
        Errors::of(self.release.inputs, &self.users, held_out)
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
        let metric = self.release.inputs.metric();
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
        let metric = self.release.inputs.metric();
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
        let title = format!("{} on held-out rows", self.release.inputs.metric());
        bars(&title, &format!("internal: {INTERNAL}"), &rows)
    }

    /// One line a user: errors in the metric of the report.
    fn user_table(&self) -> Result<Vec<u8>> {
        let metric = self.release.inputs.metric().to_lowercase();
        let write = || {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let heads = MethodName::ALL.map(|method| format!("{metric} {}", method.name()));
            let fixed = ["user", "held_out", "history_rows", "test_rows"].map(str::to_owned);
            writer.write_record(fixed.iter().chain(&heads))?;
            for user in &self.users {
                let fixed = [
                    user.id.clone(),
                    u8::from(user.held_out).to_string(),
                    user.n_history.to_string(),
                    user.n_test.to_string(),
                ];
                let figure = |error: f64| format!("{:.6}", self.release.inputs.figure(error));
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
