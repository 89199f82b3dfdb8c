//! What a training run leaves behind: released files, internal files, and its summary on the screen.

use std::borrow::Cow;
use std::path::Path;

use dp_data::Ratings;
use dp_multitask::{FactorModel, FactorizationParams, Fitted, ScoreModel};
use dp_page::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::statement::{fact, released, summary};
use super::{
    ByRound, Comparison, HeldOutBy, INTERNAL_SCHEMA_VERSION, InternalRun, OutputFolder,
    ReleasedRun, SCHEMA_VERSION, model_files,
};
use crate::error::Result;
use crate::evaluate::Evaluation;
use crate::report::{Model, write_internal, write_released};
use crate::settings::Method;

/// Why the rule learns item biases alone.
pub(crate) const NO_TASTES: &str =
    "tastes would add more noise than they tell at this epsilon and amount of data";

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
}

/// Settings of a run, for its report.
pub(crate) trait TrainSettings: Serialize {
    fn n_rounds(&self) -> usize;

    /// Whether a rule, not the operator, chose the length of the factors.
    fn dim_by_rule(&self) -> bool;

    /// How many of `n_items` items are learnt, where that is not all of them.
    fn n_head(&self, _n_items: usize) -> Option<usize> {
        None
    }

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

    fn n_head(&self, n_items: usize) -> Option<usize> {
        Self::n_head(self, n_items)
    }
}

/// Model, certificate and released values of `dp train` or `dp tune`.
pub(crate) struct TrainRelease<'a, S = FactorizationParams> {
    pub(crate) fitted: &'a Fitted<FactorModel>,
    pub(crate) method: Method,
    pub(crate) params: &'a S,
    pub(crate) ratings: &'a Ratings,
    pub(crate) held_out: HeldOutBy,
    /// Where settings were chosen within the budget.
    pub(crate) comparison: Option<Comparison>,
    /// Everything public that shaped the run, where it kept its list of releases.
    pub(crate) run: Option<&'a Value>,
}

impl<S: TrainSettings> TrainRelease<'_, S> {
    /// All files that may be published.
    pub(crate) fn write(&self, folder: &OutputFolder, publish_releases: bool) -> Result<()> {
        let mut certificate = self.fitted.certificate.clone();
        let files = model_files(&self.fitted.model, self.ratings.catalogue())?;
        for (name, bytes) in files.into_iter().chain(self.params.more_files()) {
            folder.write(name, &bytes)?;
            certificate = certificate.with_artifact(name, &bytes);
        }
        let certificate = folder.settle_releases(publish_releases, certificate)?;
        write_released(folder, certificate, self.released_run(), self.model())
    }

    fn model(&self) -> Option<Model<'_>> {
        let items = self.ratings.catalogue();
        Some((Cow::Borrowed(&self.fitted.model), Cow::Borrowed(items)))
    }

    fn command(&self) -> String {
        let tuned = self.comparison.is_some();
        (if tuned { "tune" } else { "train" }).to_owned()
    }

    fn released_run(&self) -> ReleasedRun {
        let mut settings = json!(self.params);
        self.held_out.put(&mut settings);
        ReleasedRun {
            schema_version: SCHEMA_VERSION,
            command: self.command(),
            model: self.describe_model(),
            counts: self.fitted.model.counts().cloned(),
            comparison: self.comparison.clone(),
            charts: Vec::new(),
            settings,
            run: self.run.cloned(),
        }
    }

    fn describe_model(&self) -> String {
        let model = &self.fitted.model;
        let plain = model.scoring().score_model == ScoreModel::Plain;
        let length = match model.dim() {
            2 if plain => "1 taste".to_owned(),
            dim if plain => format!("{} tastes", dim - 1),
            1 => "item bias only".to_owned(),
            2 => "item bias and 1 taste".to_owned(),
            dim => format!("item bias and {} tastes", dim - 1),
        };
        let (n_items, n_rounds) = (model.n_items(), self.params.n_rounds());
        let head = match self.params.n_head(n_items) {
            Some(n_head) => format!(" for the {n_head} with the largest noisy counts"),
            None => String::new(),
        };
        format!(
            "{n_items} items, factors of length {} ({length}){head}, {n_rounds} rounds of {}",
            model.dim(),
            self.method.name()
        )
    }

    /// Said where the rule, not the operator, chose factors without tastes.
    fn why_no_tastes(&self) -> Option<&'static str> {
        (self.params.dim_by_rule() && self.fitted.model.dim() == 1).then_some(NO_TASTES)
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
        let release = self.release;
        write_internal(
            folder,
            self.internal_run(),
            release.released_run(),
            release.model(),
        )
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
        let mut model = vec![fact("model", release.describe_model())];
        let reason = release.why_no_tastes();
        model.extend(reason.map(|reason| fact("", format!("{reason}; --dim 3 insists on two"))));
        let comparison = release.comparison.as_ref();
        model.extend(comparison.into_iter().flat_map(Comparison::facts));
        let rows = self.metrics.rows().into_iter();
        let table = Table::new("", ["", ""], rows.map(|(name, value)| vec![name, value]));
        let certificate = &release.fitted.certificate;
        summary(
            certificate,
            model,
            (out, balance),
            table.with_text([1]),
            self.seconds,
        )
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
}
