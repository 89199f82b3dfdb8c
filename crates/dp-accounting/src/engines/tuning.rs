//! Repeat and select: the best of a random number of runs.
//!
//! Source: Papernot, Steinke, arXiv 2110.03620 v2, Theorems 2 and 6. With f the generating function of
//! the number of runs T, the probability that the best output is y is Q(y) times an average of
//! f'(x) over x between Q(outputs below y) and Q(outputs up to y). By joint convexity of
//! u^a v^{1-a} the moment of the selected output is at most that of one run times the largest
//! f'(x)^a f'(x')^{1-a}, where 1-x and 1-x' are the probabilities of one event under the two neighbours,
//! plus P(T = 0) where nothing is published.
//!
//! Truncated negative binomial: f'(x) = E\[T\] γ^{1+η} (1 - (1-γ) x)^{-1-η}, so Renyi divergences r(a) and
//! r(b) of one run, b >= 1, give
//!
//! ```text
//! r'(a) = r(a) + (1+η) ((1 - 1/b) r(b) + ln(1/γ) / b) + ln E[T] / (a-1)
//! ```
//!
//! Poisson of mean m: f'(x) = m e^{m(x-1)}. If one run is (e, d)-DP with e^e <= 1 + 1/(a-1), the
//! factor is at most m e^{(a-1) m d}, hence
//!
//! ```text
//! e^{(a-1) r'(a)} <= e^{-m} + m e^{(a-1) (r(a) + m d)}
//! ```
//!
//! The paper states the second term alone, which cannot hold for m < 1, where it would be negative for
//! a mechanism that ignores its input; the term e^{-m} for zero runs is kept here for every m.

use dp_core::Stopping;

use crate::engines::gdp;
use crate::engines::loss::LogMoment;
use crate::engines::rdp::conversion::log_tail;
use crate::engines::rdp::{Curve, minimum, minimum_on};

/// Golden-section steps for the inner optimisation over orders.
const REFINEMENTS: u32 = 20;
/// Range of order - 1 in inner optimisations.
const RANGE: (f64, f64) = (1e-6, 1e8);
/// Points of the coarse search per inner optimisation.
const N_POINTS: usize = 160;
/// The grid of a run's curve that failure probabilities are read from.
const GRID: (f64, f64) = (1e-3, 1e5);
const N_GRID: usize = 400;

/// The best of a random number of runs of one composition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    run: Curve,
    stopping: Prepared,
}

#[derive(Debug, Clone, PartialEq)]
enum Prepared {
    /// What is added to the divergence of one run, and ln E\[T\].
    NegativeBinomial { added: f64, log_mean: f64 },
    /// The failure probability of one run needs its curve, which is kept on a grid: t with
    /// K(t) + ln tail(t).
    Poisson { mean: f64, grid: Vec<(f64, f64)> },
}

impl Selection {
    pub(crate) fn new(run: Curve, stopping: Stopping) -> Self {
        let binomial = |shape: f64, gamma: f64| Prepared::NegativeBinomial {
            added: added(&run, shape, gamma),
            log_mean: log_mean(shape, gamma),
        };
        let prepared = match stopping {
            Stopping::TruncatedNegativeBinomial {
                shape,
                success_probability,
            } => binomial(shape, success_probability),
            Stopping::Logarithmic {
                success_probability,
            } => binomial(0.0, success_probability),
            Stopping::Poisson { mean } => {
                let at = |t: f64| (t, run.worst(t).upper() + log_tail(t));
                let grid = points(&run, GRID, N_GRID).into_iter().map(at).collect();
                Prepared::Poisson { mean, grid }
            }
        };
        Self {
            run,
            stopping: prepared,
        }
    }

    /// (a-1) r'(a) at s = a - 1, and a bound on its error.
    pub(crate) fn moment(&self, s: f64) -> (LogMoment, f64) {
        let one = self.run.worst(s).upper();
        let log = match &self.stopping {
            Prepared::NegativeBinomial { added, log_mean } => one + s * added + log_mean,
            Prepared::Poisson { mean, grid } => {
                let failure = failure(&self.run, grid, s);
                let second = libm::log(*mean) + one + s * mean * failure;
                log_add(-mean, second)
            }
        };
        (LogMoment::at_most(log), 4e-15 * log.abs())
    }

    /// For a run of largest loss e: (2 + η) e, as orders grow; unknown for Poisson.
    pub(crate) fn max_loss(&self) -> f64 {
        match &self.stopping {
            Prepared::NegativeBinomial { added, .. } => largest(&self.run) + added,
            Prepared::Poisson { .. } => f64::INFINITY,
        }
    }

    /// See [`Curve::pieces`].
    pub(crate) fn pieces(&self) -> Option<Vec<f64>> {
        match self.stopping {
            Prepared::NegativeBinomial { .. } => self.run.pieces(),
            Prepared::Poisson { .. } => None,
        }
    }

    pub(crate) fn corners(&self) -> Vec<f64> {
        self.run.corners()
    }
}

/// The largest loss of a run in either direction, infinite if a run can fail.
fn largest(run: &Curve) -> f64 {
    let each = run.directions().iter().map(|&d| {
        if run.infinite_mass(d) > 0.0 {
            f64::INFINITY
        } else {
            run.max_loss(d)
        }
    });
    each.fold(0.0, f64::max)
}

/// The smallest (1+η) ((1 - 1/b) r(b) + ln(1/γ)/b) over b >= 1, infinity included, rounded up.
fn added(run: &Curve, shape: f64, gamma: f64) -> f64 {
    let log_inverse = -libm::log(gamma);
    let at = |s: f64| (run.worst(s).upper() + log_inverse) / (s + 1.0);
    let best = search(run, at).min(log_inverse).min(largest(run));
    (1.0 + shape) * best * (1.0 + 4e-15)
}

/// Points t = order - 1 of inner optimisations.
fn points(run: &Curve, range: (f64, f64), n: usize) -> Vec<f64> {
    let step = libm::log(range.1 / range.0) / n as f64;
    let mut points: Vec<f64> = (0..=n)
        .map(|i| range.0 * libm::exp(step * i as f64))
        .collect();
    points.extend(run.corners().iter().map(|order| order - 1.0));
    points.sort_by(f64::total_cmp);
    points
}

/// The smallest of `f` over the points and around the best.
fn search(run: &Curve, f: impl Fn(f64) -> f64) -> f64 {
    let points = points(run, RANGE, N_POINTS);
    let (i, best) = minimum_on(&points, run.pieces().as_deref(), &f);
    if best == f64::INFINITY {
        return best;
    }
    let low = points[i.saturating_sub(1)];
    let high = points[(i + 1).min(points.len() - 1)];
    minimum(low, high, REFINEMENTS, f).1.min(best)
}

/// ln E\[T\] of the truncated negative binomial: E\[T\] = η (1-γ) / (γ (1 - γ^η)), for η = 0 the
/// logarithmic (1/γ - 1) / ln(1/γ).
fn log_mean(shape: f64, gamma: f64) -> f64 {
    let x = shape * libm::log(gamma);
    // η / (1 - γ^η) = (x / (e^x - 1)) / ln(1/γ)
    let ratio = if x == 0.0 { 1.0 } else { x / libm::expm1(x) };
    let mean = (1.0 - gamma) / gamma * ratio / -libm::log(gamma);
    libm::log(mean)
}

/// The smallest known d for which one run is (ln(1 + 1/s), d)-DP, rounded up.
fn failure(run: &Curve, grid: &[(f64, f64)], s: f64) -> f64 {
    let epsilon = libm::log1p(1.0 / s) * (1.0 - 1e-15);
    if let Some(mu_squared) = run.only_gaussian() {
        let mu = gdp::from_mu_squared(mu_squared).mu;
        return (gdp::delta(mu, epsilon) * (1.0 + 1e-11)).min(1.0);
    }
    if largest(run) <= epsilon {
        return 0.0;
    }
    let logs = grid.iter().map(|&(t, sum)| {
        let rounding = 2e-15 * (t * epsilon + sum.abs());
        sum - t * epsilon + rounding
    });
    libm::exp(logs.fold(0.0, f64::min))
}

/// ln(e^a + e^b).
fn log_add(a: f64, b: f64) -> f64 {
    if b == f64::INFINITY {
        return b;
    }
    a.max(b) + libm::log1p(libm::exp(-(a - b).abs()))
}
