//! The guarantee of a run, in a form that can be checked without repeating the run.

mod build;
mod verify;

use dp_core::{Adjacency, ApproxDp, DpEvent};
use serde::{Deserialize, Serialize};

use crate::books::allowance::{DELTA_RESERVE, check_draws, usable_delta};
use crate::books::schedule::{counterpart_epsilon, ideal_guarantee, ideal_lower, total_mu_squared};
use crate::engines::gdp::from_mu_squared;
use crate::{Error, Method, ReleaseRecord, Result};

pub use build::CertificateBuilder;
pub use verify::Verified;

/// Version of the certificate layout that this crate writes. Older versions are read and verified
/// as well: version 1, which supports Gaussian mechanisms only and has neither `method` nor
/// `epsilon_lower`, and version 2, whose assumptions are plain texts and which does not record how
/// it was made.
pub const CERTIFICATE_SCHEMA: u32 = 3;
/// First version that records how a run was made, and for which adjacency an assumption is needed.
const RECORDED_SCHEMA: u32 = 3;

/// The statement of a run's guarantee, written as `certificate.json`.
///
/// Everything that [`guarantee`](Self::guarantee) claims follows from `releases`, `adjacency` and
/// `target.delta`, and [`verify`](Self::verify) recomputes it from those. What a reader must take
/// on trust is listed in `assumptions`. `docs/certificate.md` describes the format, and
/// `docs/certificate.schema.json` is its JSON schema.
///
/// `digest` is the SHA-256 hash of the certificate's compact JSON without the digest. It protects
/// against accidents such as a mistyped or truncated copy, not against forgery: anyone who edits a
/// certificate can recompute the hash.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Certificate, Ledger, Plan, ReleaseRequest, Spend};
/// use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 100)];
/// let plan = Plan::calibrate(target, Adjacency::AddRemoveUser, &requests)?;
/// let mut ledger = Ledger::in_memory("ratings", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let spends = ledger.reserve(&plan)?;
///
/// let certificate = Certificate::builder(&plan, "ratings")
///     .releases(spends.iter().map(Spend::record).collect())
///     .released_output("item factors", "everyone")
///     .assumption("item ids of the input are public")
///     .build()?;
/// let read_back = Certificate::from_json(&certificate.to_json())?;
/// assert!(read_back.verify()?.is_private());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Certificate {
    /// Layout version: [`CERTIFICATE_SCHEMA`], or an older one read from a file.
    pub schema_version: u32,
    /// The software that wrote the certificate.
    pub project: Project,
    /// When and on what the run was made; absent if this was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Making>,
    /// Whether there is a guarantee at all.
    pub status: Status,
    /// Name of the data set, as in its ledger.
    pub data_set_id: String,
    /// What is protected: `user` (all of a user's data) or `record`.
    pub unit: String,
    /// Which data sets count as neighbours.
    pub adjacency: Adjacency,
    /// The guarantee that the run was calibrated to.
    pub target: ApproxDp,
    /// The guarantee of the outputs; absent if the run is not private.
    pub guarantee: Option<Guarantee>,
    /// Every use of the private data, in the plan's order.
    pub releases: Vec<ReleaseRecord>,
    /// Releases of the plan that were not made because the run ended early. The guarantee counts
    /// them: when a run ends may depend on what it released, and a running total is not a guarantee
    /// at a moment that depends on outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_made: Vec<NotMade>,
    /// The outputs that leave the run, and who receives them.
    pub released: Vec<ReleasedOutput>,
    /// Held-out metrics that the run released, with their privacy cost in the guarantee; empty if
    /// it released none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ReleasedMetric>,
    /// Files that the run wrote. Their hashes prevent the certificate from being used for another
    /// run's files.
    pub artifacts: Vec<Artifact>,
    /// Whether the choice of hyper-parameters on this data is part of the guarantee.
    pub tuning_included: bool,
    /// The assumptions of the guarantee.
    pub assumptions: Vec<Assumption>,
    /// Outputs of the same run that the guarantee does not cover.
    pub not_covered: Vec<String>,
    /// SHA-256 of the certificate without this field, 64 lowercase hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// The software that wrote a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// `dp-personal`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision of its source, if the environment variable `DP_REVISION` was set at build time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// When and on what a run was made. None of this is needed to verify the guarantee, and none of it
/// depends on the data except through released values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Making {
    /// When the certificate was issued, in UTC, as `2026-01-31T12:00:00Z`. Absent if the noise was
    /// seeded, so that repeating the run writes the same bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Vector instructions that were used for the sums. With different ones the last digits may
    /// differ.
    pub instructions: String,
    /// SHA-256 of the file that lists the releases, if it is published. The hash of the last
    /// release ([`entry_hash`](crate::ReleaseRecord::entry_hash)) covers the whole list in any
    /// case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_list_sha256: Option<String>,
}

impl Making {
    /// The current time in UTC.
    #[must_use]
    pub fn now() -> String {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        utc(since.map_or(0, |since| since.as_secs()))
    }
}

/// Formats seconds since 1970 as an ISO 8601 date and time in UTC: `2026-11-23T08:42:16Z`.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // years begin in March, so that the leap day is the last day; an era has 400 years
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, march) = (day - (153 * month + 2) / 5 + 1, month < 10);
    let month = if march { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(!march);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// An assumption of a guarantee.
///
/// # Examples
/// ```
/// use dp_accounting::Assumption;
/// use dp_core::Adjacency;
/// let trusted = Assumption::new("one person has one user id", Adjacency::AddRemoveUser);
/// assert!(trusted.contains("one user id"));
/// assert_eq!(trusted.to_string(), "one person has one user id");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    from = "WrittenAssumption",
    into = "WrittenAssumption",
    deny_unknown_fields
)]
pub struct Assumption {
    text: String,
    adjacency: Option<Adjacency>,
}

impl Assumption {
    /// An assumption that the guarantee needs under this adjacency.
    #[must_use]
    pub fn new(text: impl Into<String>, adjacency: Adjacency) -> Self {
        Self {
            text: text.into(),
            adjacency: Some(adjacency),
        }
    }

    /// The adjacency under which the guarantee needs the assumption; `None` in certificates before
    /// version 3.
    #[must_use]
    pub const fn adjacency(&self) -> Option<Adjacency> {
        self.adjacency
    }
}

impl std::ops::Deref for Assumption {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for Assumption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq<str> for Assumption {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

/// An assumption as it is written in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum WrittenAssumption {
    Text(String),
    Under { text: String, adjacency: Adjacency },
}

impl From<WrittenAssumption> for Assumption {
    fn from(written: WrittenAssumption) -> Self {
        let (text, adjacency) = match written {
            WrittenAssumption::Text(text) => (text, None),
            WrittenAssumption::Under { text, adjacency } => (text, Some(adjacency)),
        };
        Self { text, adjacency }
    }
}

impl From<Assumption> for WrittenAssumption {
    fn from(Assumption { text, adjacency }: Assumption) -> Self {
        match adjacency {
            None => Self::Text(text),
            Some(adjacency) => Self::Under { text, adjacency },
        }
    }
}

/// Whether a run has a guarantee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Status {
    /// The guarantee holds under the certificate's assumptions.
    Private,
    /// There is no guarantee.
    NotPrivate {
        /// The reason, for example `seeded noise`.
        reason: String,
    },
}

/// The kind of statement that epsilon and delta belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuaranteeKind {
    /// Differential privacy of everything in [`Certificate::released`] together.
    Dp,
}

/// The guarantee of all released outputs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The notion of privacy.
    pub kind: GuaranteeKind,
    /// How epsilon was computed; absent in version 1, where it is always `gdp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Epsilon in nats at `delta`, under the certificate's adjacency: the guaranteed value, never
    /// below the true value.
    pub epsilon: f64,
    /// A lower bound on the true epsilon; 0 if none is known. Absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon_lower: Option<f64>,
    /// Delta, including the error of the noise sampler.
    pub delta: f64,
    /// mu of all ideal mechanisms together; absent unless all are Gaussian.
    pub gdp_mu: Option<f64>,
    /// rho of zero-concentrated DP, mu^2 / 2; absent unless all are Gaussian.
    pub rho: Option<f64>,
    /// Epsilon at `delta` if neighbours differ by adding or removing one unit; absent if undefined.
    pub epsilon_add_remove: Option<f64>,
    /// Epsilon at `delta` if neighbours differ by replacing one unit; absent if undefined.
    pub epsilon_replace: Option<f64>,
    /// The guarantee as a sentence, including personal models.
    pub statement: String,
}

/// An output that leaves the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedOutput {
    /// What it is, for example `item factors`.
    pub what: String,
    /// Who receives it, for example `everyone`.
    pub to: String,
}

/// The mean over users of a held-out metric, computed from the noisy sums of one of the
/// certificate's releases. It may be published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedMetric {
    /// Label of the release that it was computed from.
    pub release: String,
    /// What is measured, such as `RMSE` or `Recall@20`.
    pub metric: String,
    /// What was evaluated: `model`, a baseline, or the gain of the model over a baseline.
    pub method: String,
    /// The estimate.
    pub value: f64,
    /// Lower end of the confidence interval.
    pub lower: f64,
    /// Upper end of the confidence interval. The interval covers the noise and the sampling of users.
    pub upper: f64,
    /// Coverage probability of the interval, such as 0.95.
    pub confidence: f64,
    /// The public range that each user's own value was clipped to.
    pub clipped_to: [f64; 2],
}

/// A file that belongs to the certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Name within the folder of the certificate.
    pub name: String,
    /// SHA-256 of its bytes, 64 lowercase hexadecimal digits.
    pub sha256: String,
}

/// A release of the plan that a run did not make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotMade {
    /// The label that the plan gave the release.
    pub label: String,
    /// The mechanism.
    pub event: DpEvent,
    /// Number of noise draws.
    pub n_draws: u64,
}

impl Certificate {
    /// All releases that the guarantee counts: those that were made and those that were planned but
    /// not made.
    fn counted(&self) -> Vec<ReleaseRecord> {
        let rest = self.not_made.iter().map(|release| ReleaseRecord {
            label: release.label.clone(),
            event: release.event.clone(),
            n_draws: release.n_draws,
            release_id: String::new(),
            entry_hash: None,
        });
        self.releases.iter().cloned().chain(rest).collect()
    }
}

/// The guarantee that follows from the releases alone, in the form that the given version of the
/// certificate uses.
fn guarantee_of(
    schema_version: u32,
    releases: &[ReleaseRecord],
    adjacency: Adjacency,
    delta: f64,
) -> Result<Guarantee> {
    let ideal = ideal_guarantee(events(releases), adjacency, usable_delta(delta))?;
    let epsilon = ideal.upper;
    check_draws(ApproxDp { epsilon, delta }, n_draws(releases))?;
    let other = counterpart_epsilon(events(releases), n_draws(releases), adjacency, delta);
    let (epsilon_add_remove, epsilon_replace) = if adjacency.is_replace() {
        (other, Some(epsilon))
    } else {
        (Some(epsilon), other)
    };
    let mu_squared = total_mu_squared(events(releases), adjacency)?;
    let newer = schema_version > 1;
    Ok(Guarantee {
        kind: GuaranteeKind::Dp,
        method: newer.then_some(ideal.method),
        epsilon,
        epsilon_lower: newer.then(|| lower(releases, adjacency, delta).min(epsilon)),
        delta,
        gdp_mu: mu_squared.map(|cost| from_mu_squared(cost).mu),
        rho: mu_squared.map(|cost| 0.5 * cost),
        epsilon_add_remove,
        epsilon_replace,
        statement: statement(adjacency),
    })
}

fn events(releases: &[ReleaseRecord]) -> impl Iterator<Item = &DpEvent> + Clone {
    releases.iter().map(|release| &release.event)
}

fn n_draws(releases: &[ReleaseRecord]) -> u64 {
    releases
        .iter()
        .fold(0, |sum, release| sum.saturating_add(release.n_draws))
}

/// Never above the epsilon of the mechanisms that really ran: the sampler changes delta by at most
/// its reserve in this direction, too.
fn lower(releases: &[ReleaseRecord], adjacency: Adjacency, delta: f64) -> f64 {
    let widened = (delta * (1.0 + DELTA_RESERVE)).next_up();
    ideal_lower(events(releases), adjacency, widened)
}

fn statement(adjacency: Adjacency) -> String {
    let unit = adjacency.unit();
    let released = format!(
        "Everything listed as released by this run is, taken together, differentially private for each {unit} \
         with the epsilon and delta given here."
    );
    if unit == "record" {
        return released;
    }
    format!(
        "{released} Personal models that users compute locally, each from the released outputs \
         and the user's own data, make the whole jointly differentially private with the same \
         figures (billboard model)."
    )
}

/// The only field that every version has.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

impl Certificate {
    /// Reads a certificate. Spaces and line breaks between members do not matter. Everything else
    /// must be exactly as [`to_json`](Self::to_json) writes it, including the digits of each
    /// number, so that even an edit too small to change any f64 is detected. The contents are not
    /// verified yet: see [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`Error::CertificateSyntax`] if the text is not a certificate, [`Error::CertificateSchema`]
    /// for an unknown layout version, and [`Error::CertificateEdited`] for a text that this crate
    /// would have written differently (unknown or repeated members, another order, other digits).
    pub fn from_json(text: &str) -> Result<Self> {
        let version: Versioned = serde_json::from_str(text).map_err(Error::CertificateSyntax)?;
        if !(1..=CERTIFICATE_SCHEMA).contains(&version.schema_version) {
            return Err(Error::CertificateSchema {
                found: version.schema_version,
                supported: CERTIFICATE_SCHEMA,
            });
        }
        let certificate: Self = serde_json::from_str(text).map_err(Error::CertificateSyntax)?;
        if squeeze(text) == certificate.compact() {
            Ok(certificate)
        } else {
            Err(Error::CertificateEdited)
        }
    }

    /// The certificate as indented JSON, ending in a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        indented(&self.compact()) + "\n"
    }

    /// The certificate as JSON without any space between members; this is the text that is hashed.
    pub(super) fn compact(&self) -> String {
        serde_json::to_string(self).expect("certificates are plain JSON")
    }
}

/// JSON without white space as `serde_json::to_string_pretty` writes it, which would be a second
/// copy of the code that writes certificates.
fn indented(text: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    let mut before = ' ';
    for c in text.chars() {
        let is_mark = !in_string;
        let opened = is_mark && matches!(before, '{' | '[');
        let closes = is_mark && matches!(c, '}' | ']');
        if closes {
            depth -= 1;
        }
        if opened != closes || (is_mark && before == ',') {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
        out.push(c);
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            '{' | '[' if is_mark => depth += 1,
            ':' if is_mark => out.push(' '),
            _ => {}
        }
        before = if is_mark { c } else { '"' };
    }
    out
}

/// `text` without the white space outside strings.
fn squeeze(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    text.chars()
        .filter(|&c| {
            let keep = in_string || !c.is_ascii_whitespace();
            if c == '"' && !escaped {
                in_string = !in_string;
            }
            escaped = in_string && c == '\\' && !escaped;
            keep
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_as_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn indentation_is_that_of_serde_json() {
        let text =
            r#"{"":[],"a{,:":{"b\\":"}\"[","c":[{},[[]],-1.5,null]},"d":["\\\"",{"e":true}]}"#;
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value.to_string(), text);
        let expected = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(indented(text), expected);
    }

    #[test]
    fn only_space_outside_strings_is_dropped() {
        let text = "{ \"a b\\\" c\\\\\" :\t[1, \"\\\\\" ] }\n";
        assert_eq!(squeeze(text), "{\"a b\\\" c\\\\\":[1,\"\\\\\"]}");
    }
}
