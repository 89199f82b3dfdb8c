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
/// The shifts are not negative, so ℓ rises with x. That these pairs dominate in every dimension
/// follows from Neyman and Pearson: among the events of a given probability under N(0, σ²), the
/// half-space of all x whose first coordinate is above some t has at once the largest probability
/// under a normal shifted by a given length in any direction and the smallest under one shifted by
/// as much in any other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MixtureLoss {
    /// Standard deviation of the noise.
    pub(crate) sigma: f64,
    /// Shifts, ascending, not negative; the first may be 0.
    pub(crate) shifts: Vec<f64>,
    /// Weights, positive, with sum 1.
    pub(crate) weights: Vec<f64>,
    /// Which pair.
    pub(crate) side: Side,
}

/// Largest exponent that is summed without scaling.
const PLAIN_EXPONENT: f64 = 600.0;

impl MixtureLoss {
    /// The largest shift.
    pub(crate) fn largest_shift(&self) -> f64 {
        self.shifts.last().copied().unwrap_or(0.0)
    }

    /// ℓ(x); accurate relative to itself where it is small.
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

    /// dℓ/dx, the posterior mean shift over σ²; rises with x from 0 or more to the largest shift over σ².
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
