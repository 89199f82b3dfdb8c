//! What a run of `dp personalize` leaves behind: released files, internal files, and its summary on the screen.

use std::path::Path;

use dp_page::Table;
use dp_personalize::{Fitted, Subspace};
use serde_json::{Value, json};

use super::statement::{fact, released, summary};
use super::subspace_file::{SUBSPACE, subspace_bytes};
use super::{
    ByRound, ChartData, Headline, INTERNAL_SCHEMA_VERSION, InternalRun, OutputFolder, ReleasedRun,
    SCHEMA_VERSION, Seconds,
};
use crate::error::{Error, Result};
use crate::evaluate::shown;
use crate::personal::{Errors, Inputs, Intercept, MethodName, MethodSettings, UserErrors};
use crate::report::{write_internal, write_released};

/// The released part of a run: whole before anything is measured on held-out rows.
pub(crate) struct PersonalRelease<'a> {
    pub(crate) fitted: &'a Fitted<Subspace>,
    pub(crate) inputs: &'a Inputs,
    pub(crate) settings: &'a MethodSettings,
    /// Everything public that shaped the run.
    pub(crate) run: &'a Value,
}

impl PersonalRelease<'_> {
    /// Subspace, certificate, released report with its chart.
    pub(crate) fn write(&self, folder: &OutputFolder, publish_releases: bool) -> Result<()> {
        let subspace = subspace_bytes(&self.fitted.model, self.inputs)?;
        folder.write(SUBSPACE, &subspace)?;
        let certificate = self.fitted.certificate.clone();
        let certificate = certificate.with_artifact(SUBSPACE, &subspace);
        let certificate = folder.settle_releases(publish_releases, certificate)?;
        write_released(folder, certificate, self.released_run(), None)
    }

    fn describe_model(&self) -> String {
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

    /// For programs: released values only.
    fn released_run(&self) -> ReleasedRun {
        let shares = self.feature_shares().into_iter();
        ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: "personalize".to_owned(),
            model: self.describe_model(),
            counts: None,
            comparison: None,
            charts: vec![ChartData {
                title: "Features in the subspace".to_owned(),
                note: "how much of each feature's direction lies in the released subspace, from 0 to 1: the diagonal of U U^T".to_owned(),
                series: vec!["share".to_owned()],
                rows: shares.map(|(name, share)| (name, vec![Some(share)])).collect(),
            }],
            settings: json!({"method": self.settings, "inputs": self.inputs}),
            run: Some(self.run.clone()),
        }
    }

    /// Largest first.
    fn feature_shares(&self) -> Vec<(String, f64)> {
        let mut shares = feature_shares(&self.fitted.model, self.inputs);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
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

/// Everything a run has to say, released and internal apart.
pub(crate) struct PersonalReport<'a> {
    pub(crate) release: &'a PersonalRelease<'a>,
    pub(crate) users: Vec<UserErrors>,
    /// Of own fits in the subspaces on the way.
    pub(crate) by_round: Option<ByRound>,
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

impl PersonalReport<'_> {
    /// Internal report with its chart, and the table of users.
    pub(crate) fn write_internal(&self, folder: &OutputFolder) -> Result<()> {
        folder.write_internal("internal-users.csv", &self.user_table()?)?;
        write_internal(
            folder,
            self.internal_run(),
            self.release.released_run(),
            None,
        )
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
        let model = fact("model", self.release.describe_model());
        let metric = self.release.inputs.metric();
        let kinds = self.kinds().into_iter();
        let rows = kinds.flat_map(|(users, errors)| {
            errors.map(|error| {
                let name = format!("{metric} {}{users}", error.method.words());
                vec![name, shown(error.over_rows)]
            })
        });
        let table = Table::new("", ["", ""], rows).with_text([1]);
        let certificate = &self.release.fitted.certificate;
        summary(certificate, [model], (out, balance), table, self.seconds)
    }

    fn errors(&self, held_out: bool) -> [Errors; 7] {
        Errors::of(self.release.inputs, &self.users, held_out)
    }

    /// Users trained on, and those held out where there are some.
    fn kinds(&self) -> Vec<(&'static str, [Errors; 7])> {
        let mut kinds = vec![("", self.errors(false))];
        if self.users.iter().any(|user| user.held_out) {
            kinds.push((", held-out users", self.errors(true)));
        }
        kinds
    }

    fn n_rows(&self) -> usize {
        let rows = self.users.iter().map(|user| user.n_history + user.n_test);
        rows.sum()
    }

    /// For programs: what was measured on private data.
    fn internal_run(&self) -> InternalRun {
        let metric = self.release.inputs.metric();
        let kinds = self.kinds();
        let of = |method: MethodName| method.over_rows(&kinds.first()?.1);
        let series = ["users trained on", "users held out"].map(str::to_owned);
        let series: Vec<String> = series.into_iter().take(kinds.len()).collect();
        let chart = |title: String, note: &str, of: fn(&Errors) -> Option<f64>| {
            let rows = MethodName::ALL.iter().enumerate();
            let rows = rows.map(|(at, method)| {
                let figures = kinds.iter().map(|(_, errors)| of(&errors[at]));
                (method.words().to_owned(), figures.collect())
            });
            ChartData {
                title,
                note: note.to_owned(),
                series: series.clone(),
                rows: rows.collect(),
            }
        };
        InternalRun {
            schema_version: INTERNAL_SCHEMA_VERSION,
            certificate: None,
            command: "personalize".to_owned(),
            headline: of(MethodName::Private).map(|value| Headline {
                metric: format!("{metric} on held-out rows"),
                value,
                non_private: of(MethodName::NonPrivate),
            }),
            metrics: Vec::new(),
            by_round: self.by_round.clone(),
            charts: vec![
                chart(
                    format!("{metric} on held-out rows, by method"),
                    "own methods use a user's rows alone; the random subspace is what a private one is worth that is nothing but noise",
                    |errors| errors.over_rows,
                ),
                chart(
                    format!("{metric} of the median user, by method"),
                    "on the held-out rows of each user",
                    |errors| errors.median_user,
                ),
            ],
            data: self.data_handling(),
            seconds: self.seconds,
        }
    }

    /// What was read and what was left out: private counts.
    fn data_handling(&self) -> Vec<(String, u64)> {
        let n_held_out = self.users.iter().filter(|user| user.held_out).count();
        [
            ("users", self.users.len()),
            ("users held out", n_held_out),
            ("rows kept", self.n_rows()),
            ("rows left out: NaN or infinite", self.n_left_out),
        ]
        .map(|(name, value)| (name.to_owned(), value as u64))
        .into()
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
