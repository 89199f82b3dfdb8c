//! What an audit found: claimed beside measured.

use std::path::Path;

use dp_accounting::gdp;
use dp_audit::{Check, EpsilonAudit, RunAudit, Verdict};
use serde_json::{Value, json};

use super::statement::put;
use super::{rounded_down, rounded_up};
use crate::error::Result;

const INTERNAL: &str = "internal: measured beside the exact sums of the data, not covered by the guarantee. \
                        No model was\nkept and no ledger charged.";

/// An audit and what it was made on.
pub(crate) struct AuditReport<'a> {
    pub(crate) audit: &'a RunAudit,
    /// The file; generated ratings without.
    pub(crate) data: Option<&'a Path>,
    pub(crate) n_canaries: usize,
    /// Length of factors, dimension of the subspace or number of features.
    pub(crate) dim: Option<usize>,
    /// What was run, in a line.
    pub(crate) run: String,
}

/// Lower bounds on epsilon at several deltas, from outputs alone: all there is where users are sampled.
pub(crate) struct SampledAuditReport<'a> {
    pub(crate) audits: &'a [EpsilonAudit],
    pub(crate) data: &'a Path,
    pub(crate) n_canaries: usize,
    pub(crate) n_runs: usize,
    pub(crate) dim: usize,
    pub(crate) run: String,
}

impl SampledAuditReport<'_> {
    /// The object that `--json` prints.
    pub(crate) fn json(&self, verdict: Verdict) -> Result<Value> {
        Ok(json!({
            "audits": serde_json::to_value(self.audits)?,
            "data": self.data.display().to_string(),
            "dim": self.dim,
            "n_canaries": self.n_canaries,
            "n_runs": self.n_runs,
            "verdict": serde_json::to_value(verdict)?,
        }))
    }

    /// What the terminal shows.
    pub(crate) fn text(&self, verdict: Verdict) -> String {
        let mut text = format!(
            "{}: {} training runs on {} with {} planted users\n\n{:<12} {:>9} {:>9}\n",
            found(verdict),
            self.n_runs,
            self.data.display(),
            self.n_canaries,
            "delta",
            "claimed",
            "at least"
        );
        for audit in self.audits {
            let (claimed, bound) = (audit.claimed, rounded_down(audit.lower_bound_epsilon));
            let line = format!(
                "{:<12} {:>9} {bound:>9}",
                format!("{:e}", claimed.delta),
                rounded_up(claimed.epsilon)
            );
            put(&mut text, line.trim_end());
        }
        put(
            &mut text,
            &format!(
                "\nUsers are sampled, so the exact sums are secret to an audit as well and the noise cannot be measured:\n\
                 epsilon of the rounds is bounded from below by the outputs alone. At a small delta so few outputs show nothing.\n{}\n\n\
                 An audit can refute a claim and never prove one.\n{INTERNAL}",
                self.run
            ),
        );
        text
    }
}

const fn found(verdict: Verdict) -> &'static str {
    if verdict.holds() {
        "no violation found"
    } else {
        "the claim is REFUTED"
    }
}

/// Where mu lies according to the noise that came out.
struct Interval {
    low: f64,
    high: f64,
    /// Probability that it does not.
    miss: f64,
}

/// Name of a line, epsilon and mu, and what they are.
type Figure = (&'static str, [String; 2], String);

impl AuditReport<'_> {
    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Result<Value> {
        let interval = self.interval();
        let mut object = serde_json::to_value(self.audit)?;
        object["data"] = match self.data {
            Some(path) => path.display().to_string().into(),
            None => "generated".into(),
        };
        object["dim"] = self.dim.into();
        object["n_canaries"] = self.n_canaries.into();
        object["white_box_interval"] = json!({
            "mu": [interval.low, interval.high],
            "epsilon": [self.epsilon(interval.low), self.epsilon(interval.high)],
            "confidence": 1.0 - interval.miss,
        });
        Ok(object)
    }

    /// What the terminal shows.
    pub(crate) fn text(&self) -> String {
        let mut text = self.headline() + &self.figures() + &self.how() + &self.releases();
        for check in self.failures() {
            let line = format!("failed: {} (p = {:.1e})", check.what, check.p_value);
            put(&mut text, &line);
        }
        if !self.audit.black_box.verdict.holds() {
            put(
                &mut text,
                "failed: the bound by outputs alone lies above the claim",
            );
        }
        put(
            &mut text,
            "\nAn audit can refute a claim and never prove one.",
        );
        if self.data.is_some() {
            put(&mut text, INTERNAL);
        }
        text
    }

    fn headline(&self) -> String {
        let verdict = found(self.audit.verdict);
        let data = self
            .data
            .map_or_else(|| "generated ratings".into(), |path| path.to_string_lossy());
        format!(
            "{verdict}: {} training runs on {data} with {} planted users\n\n",
            self.audit.n_runs, self.n_canaries
        )
    }

    /// Epsilon and mu as claimed and as measured, each rounded to the side that promises less.
    fn figures(&self) -> String {
        let mut text = format!("{:<12} {:>9} {:>8}\n", "", "epsilon", "mu");
        for (name, [epsilon, mu], meaning) in [self.claimed(), self.measured(), self.at_least()]
            .into_iter()
            .flatten()
        {
            let line = format!("{name:<12} {epsilon:>9} {mu:>8}  {meaning}");
            put(&mut text, line.trim_end());
        }
        text
    }

    fn claimed(&self) -> Vec<Figure> {
        let claimed = self.audit.claimed;
        let figures = [claimed.epsilon, self.audit.claimed_mu].map(rounded_up);
        let meaning = format!("add or remove one user, delta {:e}", claimed.delta);
        vec![("claimed", figures, meaning)]
    }

    fn measured(&self) -> Vec<Figure> {
        let (audit, Interval { low, high, miss }) = (self.audit, self.interval());
        let estimate = [audit.white_box_epsilon, audit.white_box_mu].map(|x| format!("{x:.4}"));
        let confidence = format!("with confidence 1 - {miss:.0e}");
        vec![
            (
                "measured",
                estimate,
                "by the noise that came out".to_owned(),
            ),
            (
                "  from",
                [self.epsilon(low), low].map(rounded_down),
                confidence,
            ),
            (
                "  to",
                [self.epsilon(high), high].map(rounded_up),
                String::new(),
            ),
        ]
    }

    fn at_least(&self) -> Vec<Figure> {
        let outputs = &self.audit.black_box;
        let figures = [self.audit.lower_bound_epsilon, outputs.lower_bound_mu].map(rounded_down);
        let meaning = format!(
            "by the outputs alone, with confidence {}",
            outputs.confidence
        );
        vec![("at least", figures, meaning)]
    }

    /// How the figures came about.
    fn how(&self) -> String {
        let (audit, outputs) = (self.audit, &self.audit.black_box);
        format!(
            "\nplanted users are worth {:.2} % of the claim; {} outputs without them, {} with\n{}\n",
            100.0 * audit.canary_mu / audit.claimed_mu,
            outputs.n_without,
            outputs.n_with,
            self.run
        )
    }

    /// The noise of each release.
    fn releases(&self) -> String {
        let mut text = format!(
            "\n{:<32} {:>8} {:>9} {:>8} {:>10}\n",
            "noise multiplier of a release", "claimed", "measured", "within", "draws"
        );
        for release in &self.audit.releases {
            let within = format!("{:.2} %", 100.0 * release.relative_error);
            let mark = if release.verdict.holds() {
                ""
            } else {
                "  VIOLATED"
            };
            put(
                &mut text,
                &format!(
                    "{:<32} {:>8.4} {:>9.4} {within:>8} {:>10}{mark}",
                    release.label,
                    release.claimed_noise_multiplier,
                    release.measured_noise_multiplier,
                    release.n_draws
                ),
            );
        }
        text
    }

    fn failures(&self) -> impl Iterator<Item = &Check> {
        let releases = self.audit.releases.iter().flat_map(|r| &r.checks);
        let all = releases.chain(&self.audit.checks);
        all.filter(|check| !check.passed())
    }

    /// The white-box estimate within its error. The noise of one release misses its error with
    /// probability 2 `level`, that of any with at most the sum.
    fn interval(&self) -> Interval {
        let (mu, error) = (self.audit.white_box_mu, self.audit.white_box_error);
        let misses = self.audit.releases.iter().map(|r| 2.0 * r.level);
        Interval {
            low: (mu * (1.0 - error)).max(0.0),
            high: mu * (1.0 + error),
            miss: misses.sum(),
        }
    }

    /// Epsilon at the claimed delta; 0 for nothing.
    fn epsilon(&self, mu: f64) -> f64 {
        if mu > 0.0 {
            gdp::epsilon(mu, self.audit.claimed.delta)
        } else {
            0.0
        }
    }
}
