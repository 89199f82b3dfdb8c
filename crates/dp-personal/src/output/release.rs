//! Output of every training run: released files, internal files, and its summary on the screen.

use std::borrow::Cow;
use std::path::Path;

use dp_accounting::{Certificate, Making, ReleasedMetric, Status};
use dp_page::{Block, Table, figure, terminal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::run_files::{
    Aside, ChartData, INTERNAL, INTERNAL_PAGE, INTERNAL_SCHEMA_VERSION, InternalRun, NUMERICS,
    RELEASED, ReleasedRun, SCHEMA_VERSION, pretty, read_certificate,
};
use super::statement::{INTERNAL_HEAD, fact, guarantee_facts, released};
use super::{
    CERTIFICATE, ITEMS_COMMAND, MANIFEST, Manifest, OutputFolder, RELEASES, internal_folder_of,
};
use crate::error::{Error, Result};
use crate::quality::{Quality, Verdict};
use crate::report::{Model, ReportedRun, internal_page, pages_of};
use crate::settings::OutputSettings;
use crate::workflows::private_run::GIVEN;

/// Wall-clock time of the parts of a run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seconds {
    pub(crate) load: f64,
    pub(crate) train: f64,
    pub(crate) evaluate: f64,
}

impl Seconds {
    /// Formats the times for the terminal.
    fn words(self) -> String {
        format!(
            "{:.2} load, {:.2} train, {:.2} evaluate",
            self.load, self.train, self.evaluate
        )
    }
}

/// Model, certificate and released values, complete before anything is measured on held-out
/// records.
pub(crate) trait Release {
    /// The certificate of the run, without the hashes of files.
    fn certificate(&self) -> &Certificate;

    /// Names and bytes of the model.
    fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>>;

    /// The command that trained it: `train`, `tune`, `personalize`, `federate` or `items`.
    fn command(&self) -> &'static str;

    /// Description of the model in one line.
    fn model_line(&self) -> String;

    /// Its settings.
    fn settings(&self) -> Value;

    /// All public inputs that determined the run, if it stored its release list.
    fn public(&self) -> Option<&Value>;

    /// Item factors and their items, for the pages.
    fn factors(&self) -> Option<Model<'_>> {
        None
    }

    /// Charts of released values.
    fn charts(&self) -> Vec<ChartData> {
        Vec::new()
    }

    /// Released values, for programs.
    fn run(&self) -> ReleasedRun {
        released_of(self)
    }

    /// Writes all files that may be published.
    fn write(
        &self,
        folder: &OutputFolder,
        publish_releases: bool,
        warnings: &[String],
    ) -> Result<()> {
        folder.hide_torn()?;
        let certificate = self.certificate().clone();
        // the hash of its last release covers an internal list, and hashing large lists again takes
        // long
        let list_sha256 = publish_releases
            .then(|| folder.release_list_sha256())
            .transpose()?;
        let made = Making {
            // seeded noise is used to reproduce the same bytes
            time: (certificate.status == Status::Private).then(Making::now),
            instructions: dp_linalg::vector_instructions().to_owned(),
            release_list_sha256: list_sha256.clone(),
        };
        let mut certificate = certificate.with_making(made);
        let mut files = Vec::new();
        for (name, bytes) in self.files()? {
            certificate = certificate.with_artifact(name, &bytes);
            files.push((name, bytes));
        }
        if let Some(sha256) = &list_sha256 {
            certificate = certificate.with_hashed_artifact(RELEASES, sha256);
        } else {
            folder.hide_releases()?;
        }
        let mut released = self.run();
        let of_counts = released
            .counts
            .as_ref()
            .and_then(crate::warnings::of_counts);
        released.warnings = warnings.iter().cloned().chain(of_counts).collect();
        let bytes = pretty(&released)?;
        let certificate = certificate.with_artifact(RELEASED, &bytes);
        files.push((RELEASED, bytes));
        files.push((CERTIFICATE, certificate.to_json().into_bytes()));
        let mut manifest = Manifest::of(&certificate);
        if let Some(sha256) = list_sha256 {
            manifest.add_hashed(RELEASES, sha256);
        }
        let run = ReportedRun::ending(folder, certificate, released, self.factors())?;
        let files = files.into_iter();
        let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
        for (name, bytes) in files.chain(pages_of(run)?) {
            folder.write(&name, &bytes)?;
            manifest.add(&name, &bytes);
        }
        folder.write(MANIFEST, &manifest.to_bytes()?)
    }
}

/// All results of a run, with released and internal parts kept separate.
pub(crate) trait RunReport {
    /// The released part.
    fn release(&self) -> &impl Release;

    /// Values measured on private data, for programs.
    fn internal(&self) -> InternalRun;

    /// A row for each user; none if users are not measured individually.
    fn user_table(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Released facts below the model line.
    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The measurements, for a terminal.
    fn table(&self) -> Table;

    /// Users' metrics on held-out records, and those of baselines; none if a command measures none.
    fn quality(&self) -> Option<Cow<'_, Quality>> {
        None
    }

    /// Ends of the 95 % interval of the model's first metric over users.
    fn interval(&self) -> Option<[f64; 2]> {
        self.quality()?.interval()
    }

    /// The verdict that a caller may see: from released metrics if the run paid for some, otherwise
    /// from private ones if they are revealed.
    fn verdict(&self, output: &OutputSettings) -> Option<Verdict> {
        let run = self.release().run();
        if let Some(release) = run.metric_release() {
            return release.verdict(&self.release().certificate().metrics);
        }
        if !output.reveals_internal() {
            return None;
        }
        self.quality()?.verdict()
    }

    /// The last line of a summary: the verdict, or where to find it.
    fn verdict_line(&self, output: &OutputSettings) -> (String, String) {
        let is_paid = output.metrics.release_metrics.is_some();
        let words = match self.verdict(output) {
            Some(verdict) if verdict.is_released => format!("{verdict}, by released metrics"),
            Some(verdict) if output.show_internal => {
                format!("{verdict}: internal, do not publish")
            }
            None if holds_nothing_out(self.release()) => {
                "none: nothing was held out (--no-split)".to_owned()
            }
            None if is_paid || output.show_internal => {
                "none: no baseline, or too few held-out records".to_owned()
            }
            _ => format!(
                "in {}: whether the model beats the best baseline",
                internal_folder_of(&output.out)
                    .join(INTERNAL_PAGE)
                    .display()
            ),
        };
        fact("verdict", words)
    }

    /// What `--json` prints in addition to the guarantee: released values, and internal ones.
    fn objects(&self) -> (Value, Value);

    /// Writes what the guarantee does not cover, for the owner of the folder.
    fn write_internal(&self, folder: &OutputFolder, aside: &Aside) -> Result<()> {
        if let Some(users) = self.user_table()? {
            folder.write_internal("internal-users.csv", &users)?;
        }
        let (release, mut internal) = (self.release(), self.internal());
        let certificate = read_certificate(&folder.path(CERTIFICATE))?;
        internal.certificate = Some(certificate.digest.clone());
        internal.aside = aside.clone();
        if let Some(quality) = self.quality() {
            internal.verdict = quality.verdict();
            internal.quality = Some(quality.tables());
        }
        folder.write_internal(INTERNAL, &pretty(&internal)?)?;
        let mut run = ReportedRun::ending(folder, certificate, release.run(), release.factors())?;
        run.internal = Some(internal);
        if let Some(page) = internal_page(&[run]) {
            folder.write_internal(INTERNAL_PAGE, page.markdown().as_bytes())?;
            for (name, svg) in page.figures() {
                folder.write_internal(name, svg.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The object that `--json` prints; internal values only if requested.
    fn json(&self, output: &OutputSettings) -> Value {
        let (mut object, internal) = self.objects();
        let more = object["released"].take();
        object["released"] = released(self.release().certificate());
        for (name, value) in more.as_object().into_iter().flatten() {
            object["released"][name] = value.clone();
        }
        let folder = internal_folder_of(&output.out);
        object["internal_folder"] = folder.display().to_string().into();
        if output.show_internal {
            object["internal"] = internal;
            if let Some(quality) = self.quality() {
                object["internal"]["quality"] = json!(quality.tables());
            }
        }
        match self.verdict(output) {
            Some(verdict) if verdict.is_released => object["verdict"] = json!(verdict),
            Some(verdict) if output.show_internal => object["internal"]["verdict"] = json!(verdict),
            _ => {}
        }
        object
    }

    /// The summary on the screen: released values, and, if requested, internal values under a
    /// heading that says so.
    fn summary(&self, output: &OutputSettings, balance: Option<&str>) -> String {
        let certificate = self.release().certificate();
        let mut facts = guarantee_facts(certificate);
        // seeded noise has no epsilon that could be added up
        let balance = balance.filter(|_| certificate.guarantee.is_some());
        facts.extend(balance.map(|balance| fact("ledger", balance)));
        facts.push(fact("model", self.release().model_line()));
        facts.extend(self.facts());
        facts.push(fact("written to", output.out.display().to_string()));
        facts.push(internal_fact(&output.out));
        let metrics = &certificate.metrics;
        if !metrics.is_empty() {
            facts.extend(metric_facts(metrics));
        }
        let verdict = self.verdict_line(output);
        if !output.show_internal {
            facts.push(verdict);
            return terminal(&[Block::Facts(facts)]);
        }
        let mut table = self.table();
        INTERNAL_HEAD.clone_into(&mut table.title);
        let seconds = self.internal().seconds.words();
        table.rows.push(vec!["seconds".to_owned(), seconds]);
        // groups are on the internal page
        let quality = self.quality().map(|of| of.tables().overall());
        let tables = [table].into_iter().chain(quality);
        let blocks = [Block::Facts(facts)].into_iter();
        let blocks = blocks.chain(tables.map(Block::Table));
        let blocks: Vec<_> = blocks.chain([Block::Facts(vec![verdict])]).collect();
        terminal(&blocks)
    }
}

/// Released metrics for the terminal, one per line.
fn metric_facts(metrics: &[ReleasedMetric]) -> impl Iterator<Item = (String, String)> {
    metrics.iter().enumerate().map(|(at, of)| {
        let head = if at == 0 { "metrics" } else { "" };
        let percent = 100.0 * of.confidence;
        let [value, lower, upper] =
            [of.value, of.lower, of.upper].map(|number| figure(number, of.value));
        let words = format!(
            "{}, {}: {value}, {percent:.0} % interval {lower} to {upper}",
            of.metric, of.method
        );
        fact(head, words)
    })
}

/// The path of the internal page. Only the help mentions that internal values can be printed as
/// well: screen output is easily passed on.
pub(super) fn internal_fact(out: &Path) -> (String, String) {
    let page = internal_folder_of(out).join(INTERNAL_PAGE);
    let text = format!(
        "{}: measured on private data, not to be published",
        page.display()
    );
    fact("internal", text)
}

/// Whether the run has no held-out data, according to its public settings.
fn holds_nothing_out(release: &impl Release) -> bool {
    release.public().is_some_and(no_split)
}

/// Whether these public inputs hold no data out.
pub(crate) fn no_split(public: &Value) -> bool {
    public[GIVEN]["no_split"] == true || public["command"] == ITEMS_COMMAND
}

/// Released values that every run has.
pub(super) fn released_of<R: Release + ?Sized>(of: &R) -> ReleasedRun {
    ReleasedRun {
        schema_version: SCHEMA_VERSION,
        numerics: NUMERICS,
        command: of.command().to_owned(),
        model: of.model_line(),
        counts: None,
        comparison: None,
        rating_scale: None,
        prior_votes: None,
        taste_votes: None,
        charts: of.charts(),
        settings: of.settings(),
        warnings: Vec::new(),
        run: of.public().cloned(),
    }
}

/// An internal record without results, to be filled in.
pub(super) fn internal_of(release: &impl Release, seconds: Seconds) -> InternalRun {
    InternalRun {
        schema_version: INTERNAL_SCHEMA_VERSION,
        certificate: None,
        command: release.command().to_owned(),
        headline: None,
        metrics: Vec::new(),
        by_round: None,
        recall_curve: None,
        charts: Vec::new(),
        verdict: None,
        quality: None,
        data: Vec::new(),
        aside: Aside::default(),
        seconds,
    }
}

/// Private counts by name: what was read and what was left out.
pub(super) fn counted<const N: usize>(counts: [(&str, usize); N]) -> Vec<(String, u64)> {
    counts.map(|(name, n)| (name.to_owned(), n as u64)).into()
}

/// A row for each user: id, whether held out, numbers of rows, and errors under these names.
pub(super) fn user_csv<'a>(
    names: impl IntoIterator<Item = String>,
    users: impl IntoIterator<Item = (&'a str, bool, [usize; 2], &'a [Option<f64>])>,
    figure: impl Fn(f64) -> f64,
) -> Result<Vec<u8>> {
    let write = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let fixed = ["user", "held_out", "history_rows", "test_rows"].map(str::to_owned);
        writer.write_record(fixed.into_iter().chain(names))?;
        for (id, held_out, rows, errors) in users {
            let fixed = [id.to_owned(), u8::from(held_out).to_string()].into_iter();
            let rows = rows.iter().map(usize::to_string);
            let shown = |error: f64| format!("{:.6}", figure(error));
            let errors = errors.iter();
            let errors = errors.map(|error| error.map(shown).unwrap_or_default());
            writer.write_record(fixed.chain(rows).chain(errors))?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    write().map_err(|e: csv::Error| Error::model(Path::new("internal-users.csv"), e))
}
