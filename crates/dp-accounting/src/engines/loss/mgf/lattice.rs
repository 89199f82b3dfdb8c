//! Discrete Gaussian noise.

use std::f64::consts::PI;

/// From this sigma on the Fourier series of the normaliser is used, below it the sum itself.
const FOURIER_FROM: f64 = 0.4;

/// K(s) for discrete Gaussians at distance Δ.
///
/// ```text
/// K(s) = s (s+1) Δ²/(2σ²) + ln θ(sΔ) - ln θ(0),    θ(μ) = Σ_x e^{-(x+μ)²/(2σ²)}
/// ```
///
/// by completing the square; θ has period 1 and its maximum at the integers, so K is at most the
/// Gaussian one (Canonne, Kamath, Steinke, arXiv 2004.00010, Proposition 5).
pub(super) fn discrete_gaussian(sigma: f64, sensitivity: u64, s: f64) -> f64 {
    let distance = sensitivity as f64;
    let ratio = distance / sigma;
    let shift = s * distance;
    0.5 * ratio * ratio * s * (s + 1.0) + log_theta_ratio(sigma, shift - shift.round())
}

/// ln θ(μ) / θ(0) for |μ| <= 1/2.
fn log_theta_ratio(sigma: f64, mu: f64) -> f64 {
    if sigma < FOURIER_FROM {
        return summed(sigma, mu);
    }
    // Poisson summation: θ(μ) = σ √(2π) Σ_k e^{-2π²σ²k²} cos(2πkμ). The fifth term is below
    // e^{-2π² 0.16 25} = 5e-35.
    let (mut difference, mut total) = (0.0, 1.0);
    for k in 1..=4 {
        let k = f64::from(k);
        let weight = 2.0 * libm::exp(-2.0 * (PI * sigma * k) * (PI * sigma * k));
        let sine = libm::sin(PI * k * mu);
        difference -= 2.0 * weight * sine * sine;
        total += weight;
    }
    libm::log1p(difference / total)
}

/// The same by summing |x| <= 8: at sigma 0.4 what is left out is below e^{-(8²)/0.32} = 1e-87.
fn summed(sigma: f64, mu: f64) -> f64 {
    let precision = 0.5 / (sigma * sigma);
    let sum = |mu: f64| -> f64 {
        let pair = |x: f64| {
            libm::exp(-x * (x + 2.0 * mu) * precision) + libm::exp(-x * (x - 2.0 * mu) * precision)
        };
        (1..=8).map(|x| pair(f64::from(x))).sum()
    };
    -mu * mu * precision + libm::log1p(sum(mu)) - libm::log1p(sum(0.0))
}
