//! The promise of a certificate, in words for the people whose data was used.

#[cfg(test)]
mod tests;

use std::fmt;

use dp_core::Adjacency;
use serde::Serialize;

use crate::books::allowance::usable_delta;
use crate::books::certificate::{Certificate, Guarantee, ReleasedOutput, Status};
use crate::books::figures::{rounded_down, rounded_up};
use crate::books::schedule::tightest;
use crate::{Accountant, Method, Result, TightestAccountant};

/// The privacy statement of a run: short, in plain words, and as fields for programs.
///
/// `Display` prints it for a terminal. It is created from a certificate after its values were
/// recomputed, so it never repeats a claim that does not hold.
///
/// The two interpretations of (ε, δ):
///
/// ```text
/// conclusions  P(S) <= e^ε Q(S) + δ for every set S of outputs: the definition itself. It does not say
///              that the likelihood ratio of the output exceeds e^ε with probability at most δ.
/// attacker  TPR <= min over ε of  e^ε FPR + δ(ε)  and  1 - e^-ε (1 - δ(ε) - FPR)
///           = Φ(Φ^-1(FPR) + μ) for Gaussian releases     (Dong, Roth, Su, arXiv 1905.02383, eq. 6)
/// ```
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Certificate, Ledger, Plan, PrivacyStatement, ReleaseRequest, Spend};
/// use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 100)];
/// let plan = Plan::calibrate(target, Adjacency::AddRemoveUser, &requests)?;
/// let mut ledger = Ledger::in_memory("ratings", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let certificate = Certificate::builder(&plan, "ratings")
///     .releases(ledger.reserve(&plan)?.iter().map(Spend::record).collect())
///     .released_output("item factors", "everyone")
///     .build()?;
/// let statement = PrivacyStatement::of(&certificate)?;
/// assert!((statement.likelihood_factor.unwrap() - std::f64::consts::E).abs() < 1e-3);
/// assert!(statement.to_string().contains("at most 8.5 %"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivacyStatement {
    /// Whether anything is guaranteed.
    pub status: Status,
    /// Name of the data set.
    pub data_set_id: String,
    /// What is protected: `user` or `record`.
    pub unit: String,
    /// Which data sets count as neighbours.
    pub adjacency: Adjacency,
    /// The recomputed guarantee; absent if nothing is guaranteed.
    pub guarantee: Option<Guarantee>,
    /// How epsilon was computed.
    pub method: Option<Method>,
    /// e^epsilon: anything that can be concluded from the outputs is at most this many times as
    /// likely with a given unit taking part as without, or the reverse, plus delta.
    pub likelihood_factor: Option<f64>,
    /// The success rate of the best attacker.
    pub attacker: Option<Attacker>,
    /// The outputs that leave the run, and who receives them.
    pub released: Vec<ReleasedOutput>,
    /// The assumptions of the guarantee.
    pub assumptions: Vec<String>,
    /// Outputs of the run that the guarantee does not cover.
    pub not_covered: Vec<String>,
    /// Whether the choice of settings on this data is part of the guarantee.
    pub tuning_included: bool,
}

impl PrivacyStatement {
    /// Shown in place of an epsilon that does not exist: the mechanisms have none under this
    /// adjacency, or it is so large that the error bound of the noise sampler exceeds delta.
    pub const NOT_CERTIFIED: &str = "none certified at this delta";

    /// The statement for `certificate`.
    ///
    /// # Errors
    /// The errors of [`Certificate::verify`].
    pub fn of(certificate: &Certificate) -> Result<Self> {
        let verified = certificate.verify()?;
        let guarantee = verified.guarantee;
        Ok(Self {
            status: verified.status,
            data_set_id: certificate.data_set_id.clone(),
            unit: certificate.unit.clone(),
            adjacency: certificate.adjacency,
            method: guarantee
                .as_ref()
                .map(|found| found.method.unwrap_or(Method::Gdp)),
            likelihood_factor: guarantee
                .as_ref()
                .map(|found| libm::exp(found.epsilon).next_up()),
            attacker: guarantee
                .as_ref()
                .map(|found| Attacker::against(found, certificate)),
            guarantee,
            released: certificate.released.clone(),
            assumptions: certificate
                .assumptions
                .iter()
                .map(ToString::to_string)
                .collect(),
            not_covered: certificate.not_covered.clone(),
            tuning_included: certificate.tuning_included,
        })
    }

    /// Epsilon under both neighbouring relations, in words.
    #[must_use]
    pub fn epsilons(&self) -> Vec<(String, String)> {
        let Some(guarantee) = &self.guarantee else {
            return Vec::new();
        };
        let unit = &self.unit;
        let show = |epsilon: Option<f64>| {
            epsilon.map_or_else(|| Self::NOT_CERTIFIED.to_owned(), rounded_up)
        };
        vec![
            (
                format!("add or remove one {unit}"),
                show(guarantee.epsilon_add_remove),
            ),
            (
                format!("replace one {unit}"),
                show(guarantee.epsilon_replace),
            ),
        ]
    }

    /// How epsilon was computed, and the Gaussian values if there are any.
    #[must_use]
    pub fn method_line(&self) -> Option<String> {
        let guarantee = self.guarantee.as_ref()?;
        let figures = match (guarantee.gdp_mu, guarantee.rho) {
            (Some(mu), Some(rho)) => format!(
                "exact: Gaussian-DP mu {}, zCDP rho {}",
                rounded_up(mu),
                rounded_up(rho)
            ),
            _ => format!(
                "found by {}, true value at least {}",
                self.method.map_or("an unknown method", Method::name),
                rounded_down(guarantee.epsilon_lower.unwrap_or(0.0))
            ),
        };
        Some(format!("{figures} ({})", self.adjacency))
    }

    /// The meaning of the values: two or three sentences.
    #[must_use]
    pub fn meaning(&self) -> Vec<String> {
        let (Some(guarantee), Some(factor), Some(attacker)) =
            (&self.guarantee, self.likelihood_factor, self.attacker)
        else {
            return Vec::new();
        };
        let unit = &self.unit;
        let caught = attacker.found_of_100();
        let (compared, test) = if self.adjacency.is_replace() {
            (
                format!("if a given {unit}'s data is one thing as if it is another"),
                format!(
                    "At a 5 % false-positive rate, an attacker who tests for one against the other has a \
                     true-positive rate of at most {caught} %"
                ),
            )
        } else {
            (
                format!("with a given {unit} in the data as without, or without as with"),
                format!(
                    "At a 5 % false-positive rate, an attacker who tests whether a given {unit} is in the data has \
                     a true-positive rate of at most {caught} %"
                ),
            )
        };
        vec![
            format!(
                "Any conclusion is at most {} times as likely to be drawn from everything released \
                 {compared}, plus a probability of {:e}.",
                short(factor),
                guarantee.delta
            ),
            format!("{test}; random guessing has 5 %."),
        ]
    }

    /// A sentence about the choice of settings.
    #[must_use]
    pub const fn tuning_line(&self) -> &'static str {
        if self.tuning_included {
            "The choice among the candidates that were trained is part of the guarantee; other settings are not."
        } else {
            "Settings chosen by looking at this data would be outside the guarantee."
        }
    }
}

/// The best possible test of whether a given unit took part, under a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Attacker {
    /// The fraction of non-participants that the test wrongly accuses.
    pub false_positive_rate: f64,
    /// An upper bound on the fraction of participants that the test then detects.
    pub true_positive_rate: f64,
}

/// The attacker in the statement wrongly accuses 5 in 100 of those who did not take part.
const FALSE_POSITIVE_RATE: f64 = 0.05;

/// The quantile of the standard normal at that probability.
pub(super) const QUANTILE: f64 = -1.644_853_626_951_472_7;

impl Attacker {
    /// The number of participants out of 100 that the test detects at most, rounded up to a tenth,
    /// as shown in the statement.
    #[must_use]
    pub fn found_of_100(&self) -> f64 {
        percent(self.true_positive_rate)
    }

    /// The best attacker that the events allow, with the sampler's part of delta added.
    fn against(guarantee: &Guarantee, certificate: &Certificate) -> Self {
        // n TV is at most half the reserve, and no bound rises faster than 20 TPR per FPR here
        let sampler = 11.0 * (guarantee.delta - usable_delta(guarantee.delta));
        let ideal = match guarantee.gdp_mu {
            Some(mu) => 0.5 * libm::erfc(-(QUANTILE + mu) * std::f64::consts::FRAC_1_SQRT_2),
            None => {
                let events = certificate.releases.iter().map(|release| &release.event);
                let accountant = tightest(events, certificate.adjacency);
                accountant.map_or(1.0, |accountant| profile_rate(&accountant, N_ASKED))
            }
        };
        let at_target = rate(guarantee.epsilon, guarantee.delta);
        Self {
            false_positive_rate: FALSE_POSITIVE_RATE,
            true_positive_rate: (ideal + sampler).min(at_target).min(1.0),
        }
    }
}

/// Epsilons at which a privacy profile may be asked for.
const PROFILE: [f64; 10] = [0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0];

/// At how many of them it is: a bracket of delta can take a tenth of a second.
const N_ASKED: usize = 3;

/// Below this rate, bounds by Renyi divergences say where the smallest lies.
const RANKED: f64 = 0.5;

/// The smallest bound over the points of the releases' privacy profile at which bounds by Renyi divergences are smallest, or over all
/// points if that is a high rate; 1 where the accountant gives no answer.
fn profile_rate(accountant: &TightestAccountant, n_asked: usize) -> f64 {
    let renyi = |epsilon| Some(rate(epsilon, accountant.renyi_delta(epsilon).ok()?.upper));
    let mut points = PROFILE.map(|epsilon| (renyi(epsilon).unwrap_or(1.0), epsilon));
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = |points: &[(f64, f64)]| {
        let rates = (points.iter())
            .filter_map(|&(_, epsilon)| Some(rate(epsilon, accountant.delta(epsilon).ok()?.upper)));
        rates.fold(1.0, f64::min)
    };
    let (first, rest) = points.split_at(n_asked);
    let found = least(first);
    if found < RANKED {
        return found;
    }
    found.min(least(rest))
}

/// The largest true-positive rate that (epsilon, delta) allows.
fn rate(epsilon: f64, delta: f64) -> f64 {
    let direct = libm::exp(epsilon) * FALSE_POSITIVE_RATE + delta;
    let reverse = 1.0 - libm::exp(-epsilon) * (1.0 - delta - FALSE_POSITIVE_RATE);
    direct.min(reverse).min(1.0)
}

/// The statement for a terminal, indented by two spaces.
impl fmt::Display for PrivacyStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  data set  {}", self.data_set_id)?;
        writeln!(f, "  unit      {}", self.unit)?;
        if let Status::NotPrivate { reason } = &self.status {
            writeln!(f, "\n  NOT PRIVATE: {reason}. Nothing is guaranteed.")?;
        }
        if let Some(guarantee) = &self.guarantee {
            writeln!(f, "  delta     {:e}", guarantee.delta)?;
        }
        for (neighbours, epsilon) in self.epsilons() {
            writeln!(f, "  epsilon   {epsilon:<8}  {neighbours}")?;
        }
        if let Some(method) = self.method_line() {
            writeln!(f, "            {method}")?;
        }
        if self.guarantee.is_some() {
            writeln!(f, "\n  what it means")?;
        }
        for sentence in self.meaning() {
            wrapped(f, &sentence)?;
        }
        let released =
            |output: &ReleasedOutput| format!("{} (seen by: {})", output.what, output.to);
        let covered: Vec<String> = self.released.iter().map(released).collect();
        let title = if self.guarantee.is_some() {
            "covered"
        } else {
            "released"
        };
        list(f, title, &covered)?;
        list(f, "not covered", &self.not_covered)?;
        list(f, "assumed", &self.assumptions)?;
        if self.guarantee.is_some() {
            list(f, "tuning", &[self.tuning_line().to_owned()])?;
        }
        Ok(())
    }
}

/// Wraps lines at about 90 characters, indented by four spaces.
fn wrapped(f: &mut fmt::Formatter<'_>, sentence: &str) -> fmt::Result {
    let mut length = 0;
    for word in sentence.split(' ') {
        let fits = length > 0 && length + word.len() < 90;
        match (length, fits) {
            (0, _) => write!(f, "    {word}")?,
            (_, true) => write!(f, " {word}")?,
            (_, false) => write!(f, "\n    {word}")?,
        }
        length = word.len() + if fits { length + 1 } else { 0 };
    }
    writeln!(f)
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, entries: &[String]) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n  {title}")?;
    entries
        .iter()
        .try_for_each(|entry| writeln!(f, "    {entry}"))
}

/// Formats a number that is at least `value`, with three digits.
fn short(value: f64) -> String {
    if !value.is_finite() || value >= 1e6 {
        return rounded_up(value);
    }
    let scale = if value < 10.0 { 100.0 } else { 1.0 };
    format!("{}", (value * scale * (1.0 - 1e-12)).ceil() / scale)
}

/// A number that is at least the given probability, in per cent with one decimal.
fn percent(probability: f64) -> f64 {
    let tenths = (probability * 1000.0 * (1.0 - 1e-12)).ceil();
    (tenths / 10.0).min(100.0)
}
