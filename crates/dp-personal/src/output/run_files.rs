//! Machine-readable records of a run: `report.json` contains released values only, `internal.json`
//! the rest. `dp report` creates its pages from them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use dp_accounting::Certificate;
use dp_multitask::{NoisyCounts, RatingScale, TasteVotes};
use dp_page::{BarRow, Bars, Chart, Unit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{CERTIFICATE, Comparison, Seconds};
use crate::error::{Error, Result};
use crate::metric_release::MetricRelease;
use crate::quality::{QualityTables, Verdict};
use crate::workflows::private_run::GIVEN;

/// Released values of a run, in addition to its certificate.
pub(crate) const RELEASED: &str = "report.json";
/// Values computed from private data.
pub(crate) const INTERNAL: &str = "internal.json";
/// The page created from them.
pub(crate) const INTERNAL_PAGE: &str = "internal.md";
/// Values saved by `dp evaluate --save`.
pub(crate) const EVALUATION: &str = "internal-evaluation.json";
/// Schema version of released values, and of what `dp evaluate` saves.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// Version of the arithmetic that turns releases into a model, raised when the same releases give
/// other last digits: a model of another version cannot be recomputed bit for bit.
/// Version 2 has another rule for the number of taste factors, version 3 standard errors of likes
/// and of nights of ratings, version 4 shrinks steps of a shared subspace along each direction, version 5 counts sampling noise
/// and has standard errors of likes with features and of items with their own matrices, version 6 has
/// a typical user of likes, version 7 multiplies large matrices in another order where it finds eigenvectors, version 8
/// has votes on learned taste factors and the constant of users' factors from the trace of their matrix, version 9 votes on
/// parts of a subspace and few taste factors for few items, and version 10 co-occurrences of likes.
pub(crate) const NUMERICS: u32 = 10;
/// Schema version of [`INTERNAL`]. Readers of version 1 assume that errors by round are of every
/// round from the first, whatever `rounds` says.
pub(crate) const INTERNAL_SCHEMA_VERSION: u32 = 2;

/// What a run released in addition to its model, and its settings.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReleasedRun {
    pub(crate) schema_version: u32,
    /// [`NUMERICS`] of the program. Earlier versions wrote none.
    #[serde(default)]
    pub(crate) numerics: u32,
    /// `train`, `tune`, `personalize`, `federate`.
    pub(crate) command: String,
    /// Description of the model in one line.
    pub(crate) model: String,
    /// Noisy counts of the items, in the order of the catalogue.
    pub(crate) counts: Option<NoisyCounts>,
    /// The comparison, if settings were chosen within the budget.
    pub(crate) comparison: Option<Comparison>,
    /// The scale of ratings, if it was learned. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rating_scale: Option<RatingScale>,
    /// The outcome of the users' votes on the taste factors of a prior. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prior_votes: Option<TasteVotes>,
    /// Their votes on newly learned taste factors. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taste_votes: Option<TasteVotes>,
    pub(crate) charts: Vec<ChartData>,
    pub(crate) settings: Value,
    /// Warnings that follow from settings alone. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// All public inputs that determined the run: their hash names the run in the release list.
    /// Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Value>,
}

/// What a run measured on private data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InternalRun {
    pub(crate) schema_version: u32,
    /// Digest of the run's certificate, filled in when the file is written; none in files of
    /// earlier versions.
    #[serde(default)]
    pub(crate) certificate: Option<String>,
    pub(crate) command: String,
    /// The metric by which runs are compared.
    pub(crate) headline: Option<Headline>,
    /// Names and values; none if nothing was held out.
    pub(crate) metrics: Vec<(String, Option<f64>)>,
    pub(crate) by_round: Option<ByRound>,
    /// Recall against list length, in place of rounds. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recall_curve: Option<ByRound>,
    pub(crate) charts: Vec<ChartData>,
    /// The verdict against the best baseline. Earlier versions wrote none.
    #[serde(default)]
    pub(crate) verdict: Option<Verdict>,
    /// Metrics with their intervals, for all users and for groups. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quality: Option<QualityTables>,
    /// Counts of what was read and what was left out.
    pub(crate) data: Vec<(String, u64)>,
    /// Additional entries.
    #[serde(flatten)]
    pub(crate) aside: Aside,
    pub(crate) seconds: Seconds,
}

/// Entries of internal files in addition to the measurements. Earlier versions wrote none of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Aside {
    /// Warnings about the records, for their owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// The ledger of the run, which must record who looks at its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ledger: Option<PathBuf>,
}

/// The metric of a run that others are compared with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Headline {
    pub(crate) metric: String,
    /// NaN for a run that diverged; JSON has null in that case.
    #[serde(deserialize_with = "number_or_null")]
    pub(crate) value: f64,
    /// Ends of its 95 % interval over users. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<[f64; 2]>,
    /// The same without privacy, if it was measured.
    pub(crate) non_private: Option<f64>,
}

/// A number, or NaN for null, which represents a number that was not finite.
fn number_or_null<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// A metric after rounds, for the released model and for others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ByRound {
    pub(crate) metric: String,
    /// Name of the model that `values` belong to.
    #[serde(default = "private")]
    pub(crate) name: String,
    /// The rounds: 0 is the state before the first. Files of earlier versions have none, and one
    /// value for each round from the first.
    #[serde(default)]
    pub(crate) rounds: Vec<usize>,
    /// One value for each round.
    pub(crate) values: Vec<Option<f64>>,
    /// Values of other models after the same rounds.
    #[serde(default)]
    pub(crate) others: Vec<RoundLine>,
}

/// A metric after rounds that are listed elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RoundLine {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// Name of the only line of a chart.
fn private() -> String {
    "private".to_owned()
}

/// Rows of numbers in one or several series, drawn as bars.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChartData {
    pub(crate) title: String,
    pub(crate) note: String,
    /// Names of the series.
    pub(crate) series: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<Option<f64>>)>,
    /// Standard errors of the first series, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) standard_errors: Vec<f64>,
}

/// What `dp train` held out, and which records counted: public, and needed to test on the same
/// records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HeldOutBy {
    pub(crate) no_split: bool,
    pub(crate) split_seed: u64,
    /// For implicit feedback.
    pub(crate) min_rating: Option<f64>,
}

/// Its name among the settings.
const HELD_OUT: &str = "held_out";

impl HeldOutBy {
    /// Adds it to the other settings.
    pub(crate) fn put(self, settings: &mut Value) {
        settings[HELD_OUT] = json!(self);
    }
}

/// Maximum number of rows shown; if there are more, the largest are shown.
const MOST_ROWS: usize = 60;

impl ChartData {
    /// Its rows as bars, for pages and terminals; `file` is the file name if a run writes the chart
    /// to one.
    pub(crate) fn chart(&self, file: Option<String>) -> Chart {
        let mut note = self.note.clone();
        let mut shown: Vec<usize> = (0..self.rows.len()).collect();
        if shown.len() > MOST_ROWS {
            let size = |row: &usize| {
                let first = self.rows[*row].1.first().copied().flatten();
                first.map_or(0.0, f64::abs)
            };
            shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
            shown.truncate(MOST_ROWS);
            note = format!("{note}; the {MOST_ROWS} largest of {}", self.rows.len());
        }
        let rows = shown.into_iter().map(|row| {
            let (label, values) = &self.rows[row];
            BarRow {
                label: label.clone(),
                detail: match self.standard_errors.get(row) {
                    Some(error) => format!("\u{b1} {}", Unit::Plain.shown(Some(*error))),
                    None => String::new(),
                },
                values: values.clone(),
            }
        });
        let bars = Bars {
            series: self.series.clone(),
            unit: Unit::Plain,
            rows: rows.collect(),
        };
        let mut chart = Chart::bars(&self.title, note, bars);
        chart.file = file;
        chart
    }
}

impl Headline {
    /// The value, unless the run diverged.
    pub(crate) fn finite(&self) -> Option<f64> {
        Some(self.value).filter(|value| value.is_finite())
    }

    /// The interval of such a value.
    pub(crate) fn finite_interval(&self) -> Option<[f64; 2]> {
        self.finite().and(self.interval)
    }
}

impl RoundLine {
    /// Whether there is anything to draw.
    pub(crate) fn has_figures(&self) -> bool {
        let mut figures = self.values.iter().flatten();
        figures.any(|value| value.is_finite())
    }
}

impl ByRound {
    /// The metric of the released model only.
    pub(crate) fn one_line(metric: &str, rounds: Vec<usize>, values: Vec<Option<f64>>) -> Self {
        Self {
            metric: metric.to_owned(),
            name: private(),
            rounds,
            values,
            others: Vec::new(),
        }
    }
}

impl ReleasedRun {
    /// The settings of the run's release of held-out metrics.
    pub(crate) fn metric_release(&self) -> Option<MetricRelease> {
        MetricRelease::of_public(self.run.as_ref()?)
    }

    /// The range of ratings, if the operator declared it.
    pub(crate) fn declared_range(&self) -> Option<[f64; 2]> {
        let range = |of: &Value| {
            let ends = [of.get(0)?.as_f64()?, of.get(1)?.as_f64()?];
            Some(ends)
        };
        let of_run = || range(&self.run.as_ref()?[GIVEN]["rating_range"]);
        // nights of ratings, and the chosen candidate of `dp tune`, have it among their settings
        let chosen = (self.comparison.as_ref()).and_then(|of| of.candidates.get(of.chosen));
        let is_set =
            self.command == "nightly" || chosen.is_some_and(|of| of.contains("rating-range"));
        let settings = self.settings.get("base").unwrap_or(&self.settings);
        let of_settings = || {
            let [center, bound] =
                ["label_center", "label_bound"].map(|name| settings[name].as_f64());
            let (center, half) = (center?, 2.0 * bound?);
            let is_rated = settings["feedback"] == "explicit";
            (is_set && is_rated).then_some([center - half, center + half])
        };
        let found = of_settings().or_else(of_run);
        found.filter(|[low, high]| low <= high)
    }

    /// Number of nights that the model was made of; none for a run of another command.
    pub(crate) fn n_nights(&self) -> Option<usize> {
        let settings = &self.settings;
        let found = settings.get("n_nights");
        let found = found.or_else(|| settings.pointer("/method/n_nights"))?;
        usize::try_from(found.as_u64()?).ok()
    }

    /// What was held out, if the run recorded it.
    pub(crate) fn held_out(&self) -> Option<HeldOutBy> {
        serde_json::from_value(self.settings.get(HELD_OUT)?.clone()).ok()
    }
}

/// A JSON object as a file: indented, with a final newline.
pub(crate) fn pretty(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The newest schema version of a file that can be read.
fn newest_schema(name: &str) -> u32 {
    if name == INTERNAL {
        INTERNAL_SCHEMA_VERSION
    } else {
        SCHEMA_VERSION
    }
}

/// Reads a file of a run; none if the file does not exist. A newer version is refused.
pub(crate) fn read_run_file<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let path = folder.join(name);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::read(&path, error)),
    };
    let damaged = |e: serde_json::Error| Error::model(&path, format!("damaged: {e}"));
    let Version { schema_version } = serde_json::from_slice(&bytes).map_err(damaged)?;
    let newest = newest_schema(name);
    if schema_version > newest {
        let reason = format!(
            "schema {schema_version} is newer than this program, which reads {newest}; use a newer dp"
        );
        return Err(Error::model(&path, reason));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// Reads a certificate and checks its digest.
///
/// # Errors
/// For a folder without a certificate, the error names what is there instead.
pub(crate) fn read_certificate(path: &Path) -> Result<Certificate> {
    let bytes = match fs::read(path) {
        Err(_) if path.file_name() == Some(OsStr::new(CERTIFICATE)) && !path.exists() => {
            let folder = path.parent().unwrap_or(path);
            let what = match (folder.is_dir(), folder.exists()) {
                (true, _) => "contains no run: certificate.json is missing",
                (false, true) => "is a file",
                (false, false) => "there is no such folder",
            };
            return Err(Error::model(
                folder,
                format!("{what}; {}", expected_run(folder)),
            ));
        }
        read => read.map_err(|e| Error::read(path, e))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    Certificate::from_json(&text).map_err(|source| match source {
        // a damaged certificate is invalid, another file is a mistake in the command
        dp_accounting::Error::CertificateSyntax(_)
            if !text.contains(CERTIFICATE_KEY) && !path.ends_with(CERTIFICATE) =>
        {
            let folder = path.parent().unwrap_or(path);
            Error::model(
                path,
                format!("is not a certificate; {}", expected_run(folder)),
            )
        }
        source => Error::Certificate {
            path: path.to_owned(),
            source,
        },
    })
}

/// An entry of every certificate, and of no other file of a run.
const CERTIFICATE_KEY: &str = "\"data_set_id\"";

/// What to name instead of a folder without a certificate: a folder next to it or in it, if exactly
/// one such folder has a certificate.
pub(crate) fn expected_run(folder: &Path) -> String {
    let released = folder
        .to_str()
        .and_then(|path| path.strip_suffix("-internal"));
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    let near = released.map(PathBuf::from).into_iter();
    let near = near.chain(inside.map(|entry| entry.path()));
    let near = near.chain([folder.to_owned()]);
    let runs: Vec<PathBuf> = near
        .filter(|path| path.join(CERTIFICATE).is_file())
        .collect();
    let mut text = "name the output folder of a run".to_owned();
    if let [run] = runs.as_slice() {
        text += &format!(" (did you mean {}?)", run.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_the_largest_are_shown() {
        let row = |n: i32| {
            (
                n.to_string(),
                vec![Some(f64::from(if n % 2 == 0 { n } else { -n }))],
            )
        };
        let data = |n| ChartData {
            title: String::new(),
            note: "coefficients".to_owned(),
            series: vec!["w".to_owned()],
            rows: (0..n).map(row).collect(),
            standard_errors: Vec::new(),
        };
        let labels = |n| -> Vec<String> {
            let rows = data(n).chart(None).numbers().unwrap().rows;
            rows.into_iter().map(|row| row[0].clone()).collect()
        };
        assert_eq!(labels(60)[0], "0");
        let many = labels(200);
        assert_eq!((many.len(), many[0].as_str()), (60, "199"));
        assert_eq!(
            data(200).chart(None).note,
            "coefficients; the 60 largest of 200"
        );
    }
}
