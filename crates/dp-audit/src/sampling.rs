//! Compares who takes part in a step with the sampling that is accounted for.

use std::fmt;

use dp_core::{DpEvent, ParamError, params};
use dp_mechanism::{FixedSizeSampling, NoiseSource, PoissonSampling};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::frequencies::audit_frequencies;
use crate::report::{Check, Verdict, verdict_of, write_failures};

/// 2^64.
const WORD_VALUES: f64 = 18_446_744_073_709_551_616.0;
/// Number of clients among which one with a random word below 2^52 is searched: there is none with
/// probability e^-48.
const N_EDGE_CLIENTS: usize = 200_000;

/// Outcome of [`audit_poisson`] or [`audit_fixed_size`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingAudit {
    /// What was audited.
    pub label: String,
    /// Number of samples drawn.
    pub n_samples: u64,
    /// The checks.
    pub checks: Vec<Check>,
    /// Outcome.
    pub verdict: Verdict,
}

impl SamplingAudit {
    fn new(label: String, n_samples: u64, checks: Vec<Check>) -> Self {
        Self {
            label,
            n_samples,
            verdict: verdict_of(&checks),
            checks,
        }
    }
}

/// Audits Poisson sampling by comparison with the probability in its event.
///
/// * Over all clients and samples together, the number of participants is binomial with that
///   probability.
/// * Exact to the last of 64 bits: a client's random word `u` is found by bisection over
///   probabilities `T/2^64` with repeatable noise. At the probability `(u + 1/2)/2^64` the client
///   must then take part (because of rounding up), and the accounted probability must be `(u +
///   1)/2^64`.
///
/// # Errors
/// [`crate::Error::Mechanism`] for an invalid probability; [`crate::Error::Param`] if there are no
/// clients or samples.
pub fn audit_poisson(
    probability: f64,
    n_clients: usize,
    n_samples: u64,
    level: f64,
    noise: &mut NoiseSource,
) -> Result<SamplingAudit> {
    let sampling = PoissonSampling::new(probability)?;
    let mut joined = 0;
    for _ in 0..n_samples {
        joined += sampling.sample(n_clients, noise)?.indices().len() as u64;
    }
    let n = n_samples.saturating_mul(n_clients as u64);
    let label = format!("Poisson sampling with probability {probability}");
    let share = audit_frequencies(&label, n, &[joined], &[accounted(&sampling)], level)?.check;
    let (taken, exact) = edge()?;
    let fact =
        |what: &str, fine: bool| Check::new(what, if fine { 1.0 } else { 0.0 }, f64::MIN_POSITIVE);
    let checks = vec![
        share,
        fact("probability below the one asked for", taken),
        fact("accounted probability is not the one sampled with", exact),
    ];
    Ok(SamplingAudit::new(label, n_samples, checks))
}

/// The probability in the event of a sampling scheme.
fn accounted(sampling: &PoissonSampling) -> f64 {
    match sampling.event(DpEvent::gaussian(1.0)) {
        DpEvent::PoissonSampled {
            sampling_probability,
            ..
        } => sampling_probability,
        _ => f64::NAN,
    }
}

/// Whether a client just above its word takes part, and whether the accounted probability is
/// exactly that.
#[allow(clippy::float_cmp, reason = "whole numbers below 2^53")]
fn edge() -> Result<(bool, bool)> {
    const SEED: u64 = 9;
    let sample = |threshold: f64| -> Result<_> {
        let sampling = PoissonSampling::new(threshold / WORD_VALUES)?;
        let drawn = sampling.sample(N_EDGE_CLIENTS, &mut NoiseSource::insecure_seeded(SEED))?;
        Ok((drawn.indices().to_vec(), accounted(&sampling)))
    };
    let (mut out, mut into) = (0_u64, 1_u64 << 52);
    let first = sample(into as f64)?.0.first().copied();
    let client = first.ok_or(ParamError {
        name: "sample",
        value: 0.0,
        expected: "a client who takes part",
    })?;
    while into - out > 1 {
        let middle = u64::midpoint(out, into);
        if sample(middle as f64)?.0.binary_search(&client).is_ok() {
            into = middle;
        } else {
            out = middle;
        }
    }
    let (indices, accounted) = sample(out as f64 + 0.5)?;
    let taken = indices.binary_search(&client).is_ok();
    Ok((taken, accounted * WORD_VALUES == into as f64))
}

/// Audits fixed-size sampling without replacement.
///
/// Every sample must have `sample_size` distinct clients, and each client and each pair of them
/// must be in as many samples as under a uniform choice of subsets.
///
/// ```text
/// P(i) = m/n,    P(i and j) = m (m - 1)/(n (n - 1))
/// ```
///
/// # Errors
/// [`crate::Error::Mechanism`] for invalid sizes; [`crate::Error::Param`] if there are no samples.
pub fn audit_fixed_size(
    sample_size: usize,
    population_size: usize,
    n_samples: u64,
    level: f64,
    noise: &mut NoiseSource,
) -> Result<SamplingAudit> {
    let sampling = FixedSizeSampling::new(sample_size, population_size)?;
    params::in_range(
        "population_size",
        population_size,
        1,
        1000,
        "up to 1,000 clients",
    )?;
    let (m, n) = (sample_size as f64, population_size as f64);
    let mut singles = vec![0; population_size];
    let mut pairs = vec![0; population_size * population_size];
    let mut whole = true;
    for _ in 0..n_samples {
        let sample = sampling.sample(noise)?;
        let indices = sample.indices();
        whole &= indices.len() == sample_size && indices.is_sorted_by(|a, b| a < b);
        for (at, &i) in indices.iter().enumerate() {
            singles[i] += 1;
            for &j in &indices[at + 1..] {
                pairs[i * population_size + j] += 1;
            }
        }
    }
    let label = format!("{sample_size} of {population_size} clients");
    let mut checks = vec![Check::new(
        "a sample with too few different clients",
        if whole { 1.0 } else { 0.0 },
        f64::MIN_POSITIVE,
    )];
    let alone = vec![m / n; population_size];
    checks.push(audit_frequencies("clients", n_samples, &singles, &alone, level)?.check);
    if population_size > 1 {
        let (i, p) = (population_size, m * (m - 1.0) / (n * (n - 1.0)));
        let upper = (0..i).flat_map(|a| (a + 1..i).map(move |b| a * i + b));
        let counts: Vec<u64> = upper.map(|at| pairs[at]).collect();
        let expected = vec![p; counts.len()];
        checks.push(audit_frequencies("pairs", n_samples, &counts, &expected, level)?.check);
    }
    Ok(SamplingAudit::new(label, n_samples, checks))
}

impl fmt::Display for SamplingAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; {} samples",
            self.label, self.verdict, self.n_samples
        )?;
        write_failures(f, &self.checks)
    }
}
