//! The privacy loss of one mechanism, in the form that the exact accountants use.
//!
//! For an ordered pair of neighbours with output distributions P and Q the privacy loss is L =
//! ln(dP/dQ) with the output drawn from P. A mechanism's *dominating pair* has, at every epsilon,
//! at least the hockey-stick divergence of any pair of neighbours, and dominating pairs compose
//! (Zhu, Dong, Wang, arXiv 2106.08567, Theorem 10). Composition adds independent losses.

mod mgf;
mod tails;

pub(crate) use mgf::{LogMoment, bounded_range_renyi, phi};
pub(crate) use tails::{Edge, Mass, Tail, ULP, mass_between};

/// Which of the two neighbours the outputs are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// P is the data set with the unit. Also the only direction under replacement, where every
    /// pair here is symmetric.
    Remove,
    /// P is the data set without the unit.
    Add,
}

/// The distribution of one mechanism's privacy loss.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Loss {
    /// N(mu^2/2, mu^2): the pair N(0, 1), N(mu, 1).
    Gaussian {
        /// mu^2, rounded up.
        mu_squared: f64,
    },
    /// Pair Laplace(0, 1/epsilon), Laplace(1, 1/epsilon).
    Laplace {
        /// Sensitivity divided by scale: the largest loss.
        epsilon: f64,
    },
    /// Truncated exponential density e^((epsilon + l)/2) / (2 (e^epsilon - 1)) on
    /// [-epsilon, epsilon]: the profile (e^(epsilon/2) - e^(l/2))^2 / (e^epsilon - 1) that is the
    /// supremum over all mechanisms of bounded range epsilon.
    BoundedRange {
        /// The range.
        epsilon: f64,
    },
    /// Pair of discrete Gaussians at 0 and `sensitivity`.
    DiscreteGaussian {
        /// Parameter of the noise.
        sigma: f64,
        /// Distance, in integers.
        sensitivity: u64,
    },
    /// Finitely many values, and infinity with some probability.
    Finite(FiniteLoss),
    /// A mixture of normals against a normal or its mirror image: Poisson sampling and more.
    Mixture(MixtureLoss),
    /// Laplace mechanism (scale 1/epsilon at distance 1) on a Poisson sample.
    SampledLaplace {
        /// Sensitivity under add/remove divided by scale.
        epsilon: f64,
        /// Sampling probability.
        q: f64,
        /// Which pair is compared.
        side: Side,
    },
    /// The Gaussian pair at distance `mu`, on a subset of fixed size: for losses above 0 the pair
    /// ((1-q) Q + q P, Q), for losses below 0 the pair (P, (1-q) P + q Q), and the remaining mass
    /// at 0 (Zhu, Dong, Wang, arXiv 2106.08567, Theorem 11).
    WithoutReplacement {
        /// Distance divided by the standard deviation, including the replacement factor.
        mu: f64,
        /// Sampled fraction.
        q: f64,
    },
}

impl Loss {
    /// Probability under P of an infinite loss.
    pub(crate) const fn infinite_mass(&self) -> f64 {
        match self {
            Self::Finite(finite) => finite.infinite_mass,
            _ => 0.0,
        }
    }
}

/// A loss with finitely many values under P, and infinity with probability `infinite_mass`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FiniteLoss {
    /// Values in ascending order with their probabilities under P. Under Q each has e^-loss times
    /// the probability; the rest of Q's mass lies where P has none.
    pub(crate) atoms: Vec<(f64, f64)>,
    /// Probability under P of an outcome that is impossible under Q.
    pub(crate) infinite_mass: f64,
    /// A number of which every loss is an integer multiple, up to rounding; `None` if there is
    /// none, 0 if every loss is 0.
    pub(crate) step: Option<f64>,
}

impl FiniteLoss {
    /// The worst (epsilon, delta)-DP mechanism: it fails with probability delta, and is otherwise
    /// binary randomised response (Kairouz, Oh, Viswanath, arXiv 1311.0776).
    pub(crate) fn approx_dp(epsilon: f64, delta: f64) -> Self {
        let low = (1.0 - delta) / (1.0 + libm::exp(epsilon));
        let high = (1.0 - delta) / (1.0 + libm::exp(-epsilon));
        Self {
            atoms: merged(vec![(-epsilon, low), (epsilon, high)]),
            infinite_mass: delta,
            step: Some(epsilon),
        }
    }

    /// k-ary randomised response for two true values a and b: the loss is ln(p/q) if the answer is
    /// a, its negative for b, and 0 for all others, where p is the probability of the true answer
    /// and q that of a particular false one.
    pub(crate) fn randomized_response(noise_probability: f64, buckets: f64) -> Self {
        let lie = noise_probability / buckets;
        let truth = 1.0 - noise_probability + lie;
        let epsilon = libm::log1p((1.0 - noise_probability) / lie);
        Self {
            atoms: merged(vec![
                (-epsilon, lie),
                (0.0, (buckets - 2.0) * lie),
                (epsilon, truth),
            ]),
            infinite_mass: 0.0,
            step: Some(epsilon),
        }
    }

    /// Two-sided geometric noise centred at 0 against the same at s: loss rate (|y - s| - |y|).
    pub(crate) fn discrete_laplace(rate: f64, s: u64) -> Self {
        let epsilon = rate * s as f64;
        let tail = 1.0 / (1.0 + libm::exp(-rate));
        let mut atoms = vec![(-epsilon, tail * libm::exp(-epsilon))];
        for y in (1..s).rev() {
            let density = libm::tanh(0.5 * rate) * libm::exp(-rate * y as f64);
            atoms.push((rate * (s as f64 - 2.0 * y as f64), density));
        }
        atoms.push((epsilon, tail));
        Self {
            atoms: merged(atoms),
            infinite_mass: 0.0,
            step: Some(if s.is_multiple_of(2) {
                2.0 * rate
            } else {
                rate
            }),
        }
    }

    /// [`approx_dp`](Self::approx_dp) on a Poisson sample, q below 1: with N the worst mechanism
    /// without the unit and M with it, the pair (1-q) N + q M against N, or the reverse.
    pub(crate) fn sampled_approx_dp(epsilon: f64, delta: f64, q: f64, side: Side) -> Self {
        let mixed = |loss: f64| libm::log1p(q * libm::expm1(loss));
        let (low, high, none) = (mixed(-epsilon), mixed(epsilon), libm::log1p(-q));
        let without = |sign: f64| (1.0 - delta) / (1.0 + libm::exp(sign * epsilon));
        let (n_high, n_low) = (without(1.0), without(-1.0));
        let (atoms, infinite_mass) = match side {
            Side::Add => (vec![(-high, n_high), (-low, n_low), (-none, delta)], 0.0),
            Side::Remove | Side::Replace => (
                vec![
                    (none, (1.0 - q) * delta),
                    (low, n_low * libm::exp(low)),
                    (high, n_high * libm::exp(high)),
                ],
                q * delta,
            ),
        };
        Self {
            atoms: merged(atoms),
            infinite_mass,
            step: None,
        }
    }
}

/// Removes atoms without probability and joins equal losses; `atoms` are in ascending order.
fn merged(atoms: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(atoms.len());
    for (loss, p) in atoms.into_iter().filter(|(_, p)| *p > 0.0) {
        match out.last_mut() {
            Some(last) if last.0 >= loss => last.1 += p,
            _ => out.push((loss, p)),
        }
    }
    out
}

/// Which pair of distributions a sampled mechanism compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// P the mixture, Q the noise alone.
    Remove,
    /// P the noise alone, Q the mixture.
    Add,
    /// P the mixture, Q its mirror image at 0.
    Replace,
}

/// Normals of standard deviation `sigma` at `shifts[i]` with weights `weights[i]`:
///
/// ```text
/// M = Σ_i w_i N(s_i, σ²)      ℓ(x) = ln dM/dN(0, σ²) = ln Σ_i w_i exp((s_i x - s_i²/2) / σ²)
/// Remove: P = M, Q = N(0, σ²), L = ℓ(x)        Add: P = N(0, σ²), Q = M, L = -ℓ(x)
/// Replace: P = M, Q = M mirrored, L = ℓ(x) - ℓ(-x)
/// ```
///
/// The shifts are not negative, so ℓ increases with x. That these pairs dominate in every dimension
/// follows from the Neyman-Pearson lemma: among the events of a given probability under N(0, σ²),
/// the half-space of all x whose first coordinate is above some t has at once the largest
/// probability under a normal shifted by a given length in any direction and the smallest under one
/// shifted by the same length in any other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MixtureLoss {
    /// Standard deviation of the noise.
    pub(crate) sigma: f64,
    /// Shifts, ascending, not negative; the first may be 0.
    pub(crate) shifts: Vec<f64>,
    /// Weights, positive, with sum 1.
    pub(crate) weights: Vec<f64>,
    /// Which pair is compared.
    pub(crate) side: Side,
}

/// Largest exponent that is summed without scaling.
const PLAIN_EXPONENT: f64 = 600.0;

impl MixtureLoss {
    /// The largest shift.
    pub(crate) fn largest_shift(&self) -> f64 {
        self.shifts.last().copied().unwrap_or(0.0)
    }

    /// ℓ(x), with relative accuracy even if it is small.
    pub(crate) fn log_ratio(&self, x: f64) -> f64 {
        let variance = self.sigma * self.sigma;
        let largest = self.largest_shift();
        if x * largest < PLAIN_EXPONENT * variance {
            let excess: f64 = (self.shifts.iter().zip(&self.weights))
                .filter(|(s, _)| **s > 0.0)
                .map(|(s, w)| w * libm::expm1(s * (x - 0.5 * s) / variance))
                .sum();
            return libm::log1p(excess);
        }
        let top = largest * (x - 0.5 * largest) / variance;
        let scaled: f64 = (self.shifts.iter().zip(&self.weights))
            .map(|(s, w)| w * libm::exp(s * (x - 0.5 * s) / variance - top))
            .sum();
        top + libm::log(scaled)
    }

    /// dℓ/dx, the posterior mean shift divided by σ². It increases with x from 0 or more to the
    /// largest shift divided by σ².
    pub(crate) fn log_ratio_slope(&self, x: f64) -> f64 {
        let variance = self.sigma * self.sigma;
        let exponent = |s: f64| s * (x - 0.5 * s) / variance;
        let top = self.shifts.iter().map(|s| exponent(*s)).fold(0.0, f64::max);
        let (mut mass, mut moment) = (0.0, 0.0);
        for (s, w) in self.shifts.iter().zip(&self.weights) {
            let likelihood = w * libm::exp(exponent(*s) - top);
            mass += likelihood;
            moment += s * likelihood;
        }
        moment / (mass * variance)
    }

    /// The privacy loss at the output x.
    pub(crate) fn loss_at(&self, x: f64) -> f64 {
        match self.side {
            Side::Remove => self.log_ratio(x),
            Side::Add => -self.log_ratio(x),
            Side::Replace => self.log_ratio(x) - self.log_ratio(-x),
        }
    }

    /// ln of the density of N(0, σ²) times σ at x.
    pub(crate) fn log_noise(&self, x: f64) -> f64 {
        let y = x / self.sigma;
        -0.5 * y * y - 0.918_938_533_204_672_8
    }

    /// ln of P's density times σ at x.
    pub(crate) fn log_density(&self, x: f64) -> f64 {
        match self.side {
            Side::Add => self.log_noise(x),
            Side::Remove | Side::Replace => self.log_noise(x) + self.log_ratio(x),
        }
    }
}
