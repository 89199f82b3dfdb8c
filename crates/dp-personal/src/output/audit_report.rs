//! Result of an audit: claimed and measured values.

use dp_accounting::gdp;
use dp_audit::{Check, EpsilonAudit, RunAudit, Verdict};
use dp_data::TableSource;
use dp_page::{Block, Table, terminal};
use serde_json::{Value, json};

use super::{rounded_down, rounded_up};
use crate::error::Result;

const INTERNAL: &str = "internal: measured with access to the exact sums of the data, not covered by the guarantee. \
                        No model was kept and no ledger was charged.";

/// An audit and the run that it examined.
pub(crate) struct AuditReport<'a> {
    pub(crate) audit: &'a RunAudit,
    /// The input file; none for generated ratings.
    pub(crate) data: Option<&'a TableSource>,
    pub(crate) n_canaries: usize,
    /// Length of factors, dimension of the subspace or number of features.
    pub(crate) dim: Option<usize>,
    /// Description of the run in one line.
    pub(crate) run: String,
}

/// Lower bounds on epsilon at several deltas, from outputs alone: the only evidence if users are
/// sampled.
pub(crate) struct SampledAuditReport<'a> {
    pub(crate) audits: &'a [EpsilonAudit],
    pub(crate) data: &'a TableSource,
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
            "data": self.data.to_string(),
            "dim": self.dim,
            "n_canaries": self.n_canaries,
            "n_runs": self.n_runs,
            "verdict": serde_json::to_value(verdict)?,
        }))
    }

    /// The text for the terminal.
    pub(crate) fn text(&self, verdict: Verdict) -> String {
        let rows = self.audits.iter().map(|audit| {
            vec![
                format!("{:e}", audit.claimed.delta),
                rounded_up(audit.claimed.epsilon),
                rounded_down(audit.lower_bound_epsilon),
            ]
        });
        terminal(&[
            Block::Text(format!(
                "{}: {} training runs on {} with {} planted users",
                found(verdict),
                self.n_runs,
                self.data,
                self.n_canaries
            )),
            Block::Table(Table::new("", ["delta", "claimed", "at least"], rows)),
            Block::Text(
                "Users are sampled, so an audit cannot see the exact sums either and cannot measure the noise: the audit bounds \
                 the epsilon of the rounds from below by the outputs alone. At a small delta, this few outputs show nothing."
                    .to_owned(),
            ),
            Block::Text(self.run.clone()),
            Block::Note("An audit can refute a claim and never prove one.".to_owned()),
            Block::Warning(INTERNAL.to_owned()),
        ])
    }
}

const fn found(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "no violation found",
        Verdict::Violated => "the claim is REFUTED",
        Verdict::Inconclusive => "INCONCLUSIVE, the audit had too little power",
    }
}

impl AuditReport<'_> {
    /// The object that `--json` prints.
    pub(crate) fn json(&self) -> Result<Value> {
        let [low, high] = self.interval();
        let mut object = serde_json::to_value(self.audit)?;
        object["data"] = match self.data {
            Some(source) => source.to_string().into(),
            None => "generated".into(),
        };
        object["dim"] = self.dim.into();
        object["n_canaries"] = self.n_canaries.into();
        object["white_box_interval"] = json!({
            "mu": [low, high],
            "epsilon": [self.epsilon(low), self.epsilon(high)],
            "confidence": self.audit.white_box_confidence,
        });
        Ok(object)
    }

    /// The text for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut blocks = vec![
            Block::Text(self.headline()),
            Block::Table(self.figures()),
            Block::Text(self.worth()),
            Block::Text(self.run.clone()),
            Block::Table(self.releases()),
        ];
        let failed = self.failures();
        let mut failed: Vec<String> = failed
            .map(|check| format!("{} (p = {:.1e})", check.what, check.p_value))
            .collect();
        if self.audit.black_box.verdict.is_violated() {
            failed.push("the lower bound from the outputs alone is above the claim".to_owned());
        }
        let failed = failed.into_iter().map(|of| format!("failed: {of}"));
        let weak = self.audit.inconclusive.iter();
        let weak = weak.map(|reason| format!("too little power: {reason}"));
        blocks.extend(failed.chain(weak).map(Block::Warning));
        let limit = "An audit can refute a claim and never prove one.";
        blocks.push(Block::Note(limit.to_owned()));
        if self.data.is_some() {
            blocks.push(Block::Warning(INTERNAL.to_owned()));
        }
        terminal(&blocks)
    }

    fn headline(&self) -> String {
        let verdict = found(self.audit.verdict);
        let data = self
            .data
            .map_or_else(|| "generated ratings".into(), ToString::to_string);
        format!(
            "{verdict}: {} training runs on {data} with {} planted users",
            self.audit.n_runs, self.n_canaries
        )
    }

    /// Claimed and measured epsilon and mu, each rounded in the conservative direction.
    fn figures(&self) -> Table {
        let (audit, outputs) = (self.audit, &self.audit.black_box);
        let [low, high] = self.interval();
        let sure = match audit.white_box_confidence {
            Some(confidence) => format!("with confidence 1 - {:.0e}", 1.0 - confidence),
            None => format!(
                "assuming the {:.2} % of mu^2 with too few numbers to measure is as claimed",
                100.0 * audit.trusted_share
            ),
        };
        let row = |name: &str, [epsilon, mu]: [String; 2], meaning: String| {
            vec![name.to_owned(), epsilon, mu, meaning]
        };
        let (claimed, mu) = (audit.claimed, audit.white_box_mu);
        let rows = [
            row(
                "claimed",
                [claimed.epsilon, audit.claimed_mu].map(rounded_up),
                format!("add or remove one user, delta {:e}", claimed.delta),
            ),
            row(
                "measured",
                [audit.white_box_epsilon, mu].map(|x| format!("{x:.4}")),
                "from the noise that was drawn".to_owned(),
            ),
            row("  from", [self.epsilon(low), low].map(rounded_down), sure),
            row(
                "  to",
                [self.epsilon(high), high].map(rounded_up),
                String::new(),
            ),
            row(
                "at least",
                [audit.lower_bound_epsilon, outputs.lower_bound_mu].map(rounded_down),
                format!(
                    "from the outputs alone, with confidence {}",
                    outputs.confidence
                ),
            ),
        ];
        Table::new("", ["", "epsilon", "mu", ""], rows).with_text([3])
    }

    /// The expected effect of the planted users.
    fn worth(&self) -> String {
        let (audit, outputs) = (self.audit, &self.audit.black_box);
        format!(
            "planted users reach {:.2} % of the claimed mu; {} outputs without them, {} with",
            100.0 * audit.canary_mu / audit.claimed_mu,
            outputs.n_without,
            outputs.n_with
        )
    }

    /// The noise of each release.
    fn releases(&self) -> Table {
        let rows = self.audit.releases.iter().map(|release| {
            let mark = if release.verdict.is_violated() {
                "VIOLATED"
            } else {
                ""
            };
            vec![
                release.label.clone(),
                format!("{:.4}", release.claimed_noise_multiplier),
                format!("{:.4}", release.measured_noise_multiplier),
                format!("{:.2} %", 100.0 * release.relative_error),
                release.n_draws.to_string(),
                mark.to_owned(),
            ]
        });
        let heads = [
            "noise multiplier of a release",
            "claimed",
            "measured",
            "within",
            "draws",
            "",
        ];
        Table::new("", heads, rows).with_text([5])
    }

    fn failures(&self) -> impl Iterator<Item = &Check> {
        let releases = self.audit.releases.iter().flat_map(|r| &r.checks);
        let all = releases.chain(&self.audit.checks);
        all.filter(|check| !check.passed())
    }

    /// The white-box estimate with its error interval.
    fn interval(&self) -> [f64; 2] {
        let (mu, error) = (self.audit.white_box_mu, self.audit.white_box_error);
        [(mu * (1.0 - error)).max(0.0), mu * (1.0 + error)]
    }

    /// Epsilon at the claimed delta; 0 for mu 0.
    fn epsilon(&self, mu: f64) -> f64 {
        if mu > 0.0 {
            gdp::epsilon(mu, self.audit.claimed.delta)
        } else {
            0.0
        }
    }
}
