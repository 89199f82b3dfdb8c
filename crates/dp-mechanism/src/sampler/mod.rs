//! Exact samples of floor(sigma N(0, 1)) and of the discrete Gaussian `N_Z(0, sigma^2)` for integer
//! sigma, using integer arithmetic only.
//!
//! The half line |N| >= 0 is divided into bins of width 1/16. A candidate is a bin j, drawn with
//! probability proportional to exp(-j^2/512) (`alias`), and a uniform position v within it; it is
//! accepted with probability exp(-(2 j v + v^2)/512) (`floored`), so that 16 |N| = j + v has
//! density proportional to exp(-(j + v)^2/512), (K12) in `docs/kernel-proof.md`. A random sign and
//! an exact floor complete the draw. One candidate takes 96 random bits; 97.6 % are accepted,
//! otherwise a new candidate is drawn.
//!
//! The discrete Gaussian uses the same method except for the floor: its positions v are the
//! integers of a bin, and they are compared as rational numbers (`discrete`).

mod alias;
mod discrete;
mod floored;
mod uniform;
mod weights;
mod words;

#[cfg(test)]
mod script;
#[cfg(test)]
mod weights_test;

use chacha20::rand_core::Rng;
use dp_core::ParamError;

use words::Words;

/// Base-2 logarithm of a bound on the total variation distance between one draw and floor(sigma N).
///
/// ```text
/// contribution                                             bound on the distance
/// bin weights rounded to 128 bits, bins from 211 on cut    2^-123.5
/// uniform numbers held equal after 180 equal bits          2^-183
/// column, rejection step 1/n, floor: bits drawn on demand  0 (exact)
/// integers hit exactly by (j + v) sigma / 16               0 (probability zero)
/// ```
///
/// First line: the distance between the distribution of the accepted bin and that of the bin
/// of |N|, computed by `scripts/gaussian_weights.py` with 400 bits. Given the bin, position and
/// sign have the correct distribution, so this is the distance of the draw. It includes P(|N| >=
/// 211/16) = 2^-127. A test bounds it by 2^-122 without the script: weights `w_j` at distance tau
/// from the correct ones give, after acceptance at rate p = 0.9757, a distance of at most 3 tau/(2
/// p), (K13). Second line: a candidate needs fewer than 0.1 comparisons on average. That ChaCha20
/// is only computationally indistinguishable from random is not part of the bound.
///
/// A release of `n` draws that is (epsilon, delta)-DP with exact noise is (epsilon, delta + n (1 +
/// e^epsilon) 2^TV)-DP with this sampler.
pub const TV_LOG2_PER_DRAW: i32 = -122;

/// Base-2 logarithm of a bound on the total variation distance between one draw of
/// [`DiscreteGaussian`] and `N_Z(0, sigma^2)`.
///
/// Only the bin weights are rounded; every other decision is an exact comparison of rational
/// numbers. Weights `w_j` at total variation distance tau from the ideal ones, kept at rate A >=
/// 0.61, give
///
/// ```text
/// TV <= 3 tau / (2 A),   tau <= 2^-123
/// ```
///
/// Derivation: with acceptance probabilities `a_j <= 1` the distribution is `w_j a_j / A`, `A = sum
/// w_j a_j`. Exchanging `w` for the ideal weights changes the numerators by `2 tau` in total and
/// `A` by `tau`. A is at least 2/3 (at least `floor(sigma/16)` of `ceil(sigma/16)` integers of a
/// bin, sigma >= 32) times 0.94 (worst position in each bin) times 0.98 (minus zero). A test checks
/// tau.
pub const TV_LOG2_PER_DISCRETE_DRAW: i32 = -121;

// what accounting reserves for a draw must cover the error of a draw: the reserve is 2^-118
const _: () = assert!(
    TV_LOG2_PER_DRAW <= -118
        && TV_LOG2_PER_DISCRETE_DRAW <= -118
        && dp_accounting::SAMPLER_TOTAL_VARIATION.to_bits()
            == (1.0 / (1_u128 << 118) as f64).to_bits()
);

/// The distribution of floor(sigma N(0, 1)) for an integer sigma, sampled exactly.
///
/// ```text
/// P(Y = y) = Phi((y + 1)/sigma) - Phi(y/sigma),   y any integer
/// ```
///
/// `Phi` is the standard normal distribution function. For an integer `S` the sum `S + Y` is
/// `floor(S + sigma N)`, hence post-processing of the continuous Gaussian mechanism. No floating
/// point is used, and the distance to the stated distribution is at most 2^[`TV_LOG2_PER_DRAW`] per
/// draw.
///
/// Source: bins with exact rejection after Karney, *Sampling exactly from the normal distribution*
/// (ACM TOMS 42, 2016, algorithm N), with 128-bit bin weights in an alias table (Walker 1977)
/// instead of unary choices; the rejection test is the alternating series of von Neumann (1951) and
/// Forsythe (1972).
///
/// # Numerics
/// 12 bytes of randomness per candidate and one rejection in 41 on average. The work of a draw
/// depends on the result only through the rejection walk, whose length is almost independent of it.
///
/// # Examples
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use dp_mechanism::FlooredGaussian;
///
/// let noise = FlooredGaussian::new(1 << 20)?;
/// let mut draws = [0_i64; 1000];
/// noise.fill(&mut ChaCha20Rng::from_seed([7; 32]), &mut draws); // a fixed key: not private
/// let square: f64 = draws.iter().map(|&y| (y as f64 + 0.5).powi(2)).sum();
/// let stddev = (square / 1000.0).sqrt();
/// assert!((stddev / f64::from(1 << 20) - 1.0).abs() < 0.1);
/// # Ok::<(), dp_core::ParamError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlooredGaussian {
    sigma: u64,
}

impl FlooredGaussian {
    /// The distribution with standard deviation `sigma`, in integer units (before the floor).
    ///
    /// # Errors
    /// [`ParamError`] if `sigma` is below 2^5 or above 2^40.
    pub const fn new(sigma: u64) -> Result<Self, ParamError> {
        if sigma < 1 << 5 || sigma > 1 << 40 {
            return Err(ParamError {
                name: "sigma",
                value: sigma as f64,
                expected: "a whole number from 2^5 to 2^40",
            });
        }
        Ok(Self { sigma })
    }

    /// The standard deviation, in integer units.
    #[must_use]
    pub const fn sigma(&self) -> u64 {
        self.sigma
    }

    /// Overwrites `out` with independent draws.
    ///
    /// Random bits are prefetched, so the generator's position afterwards is unspecified. The
    /// quality of the draws is that of the generator: noise of releases comes from a
    /// [`NoiseSource`](crate::NoiseSource).
    pub fn fill<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [i64]) {
        out.fill(0);
        self.add_noise(rng, out);
    }

    /// Adds an independent draw to each of `sums`, modulo 2^64.
    ///
    /// Random bits are prefetched, so the generator's position afterwards is unspecified.
    pub fn add_noise<R: Rng + ?Sized>(&self, rng: &mut R, sums: &mut [i64]) {
        let mut words = Words::new(rng, sums.len());
        for y in sums {
            #[cfg(privacy_mutants)]
            let before = *y;
            *y = y.wrapping_add(floored::draw(self.sigma, &mut words));
            #[cfg(privacy_mutants)]
            crate::mutants::redraw(self.sigma, before, y);
        }
    }

    /// Adds to each of `sums` a draw of the distribution at the same index in `scales`.
    ///
    /// `scales` must be at least as long as `sums`.
    pub(crate) fn add_noise_each<'a, R: Rng + ?Sized>(
        scales: impl Iterator<Item = &'a Self>,
        rng: &mut R,
        sums: &mut [i64],
    ) {
        let mut words = Words::new(rng, sums.len());
        for (y, noise) in sums.iter_mut().zip(scales) {
            *y = y.wrapping_add(floored::draw(noise.sigma, &mut words));
        }
    }
}

/// The discrete Gaussian `N_Z(0, sigma^2)` for an integer sigma, sampled exactly.
///
/// ```text
/// P(Y = y) = exp(-y^2 / (2 sigma^2)) / sum_i exp(-i^2 / (2 sigma^2)),   y any integer
/// ```
///
/// Its mean is 0; its variance is `sigma^2` up to a relative error below 10^-8000 (sigma >= 32). No
/// floating point is used, and the distance to the stated distribution is at most
/// 2^[`TV_LOG2_PER_DISCRETE_DRAW`] per draw.
///
/// # Privacy
/// Independent draws added to an integer vector whose L2 sensitivity is `D` (with the unit and
/// neighbours for which that sensitivity was derived) are `rho`-zCDP with `rho = D^2 / (2
/// sigma^2)`: the event `DpEvent::Zcdp`. For one integer query `DpEvent::DiscreteGaussian` is
/// tighter.
///
/// **Distributed noise.** If each of `n` parties adds a draw to its own share of a sum modulo 2^64,
/// the total is *nearly* `N_Z(0, n sigma^2)`. Its max divergence from that distribution is at most
///
/// ```text
/// 10 sum_{k=1}^{n-1} exp(-2 pi^2 sigma^2 k / (k + 1))  <=  10 n exp(-pi^2 sigma^2)
/// ```
///
/// per coordinate, which for sigma >= 32 is below `n` 10^-4388. Floored draws have no such
/// property. Parties that do not add their draw, or reveal it, must not be counted in `n`.
///
/// Source: Canonne, Kamath, Steinke, *The discrete Gaussian for differential privacy* (arXiv
/// 2004.00010, Theorem 4 and its extension to vectors); Kairouz, Liu, Steinke, *The distributed
/// discrete Gaussian mechanism* (arXiv 2102.06387, section 3) for sums. The sampler is that of
/// [`FlooredGaussian`], with rational positions.
///
/// # Numerics
/// One candidate takes 36 bytes of randomness, some of it only to prevent the work from revealing
/// the size of the result. If sigma is a multiple of 16, about 96 of 100 candidates are accepted;
/// for other scales a bin contains fewer integers than are tried, at worst 2.06 of 3 (sigma = 33).
///
/// # Examples
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use dp_mechanism::DiscreteGaussian;
///
/// let noise = DiscreteGaussian::new(64)?;
/// let mut shares = [[10_i64; 1000], [20; 1000]]; // two parties, each with its own generator
/// for (party, share) in (0..).zip(&mut shares) {
///     // fixed keys: not private
///     noise.add_noise(&mut ChaCha20Rng::from_seed([party; 32]), share);
/// }
/// let mean: f64 = (0..1000).map(|i| (shares[0][i] + shares[1][i]) as f64).sum::<f64>() / 1000.0;
/// assert!((mean - 30.0).abs() < 6.0 * (2.0 * 64.0_f64.powi(2) / 1000.0).sqrt());
/// # Ok::<(), dp_core::ParamError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteGaussian {
    scale: discrete::Scale,
}

impl DiscreteGaussian {
    /// The distribution with parameter `sigma`, in integer units.
    ///
    /// # Errors
    /// [`ParamError`] if `sigma` is below 2^5 or above 2^40.
    pub const fn new(sigma: u64) -> Result<Self, ParamError> {
        match FlooredGaussian::new(sigma) {
            Ok(_) => Ok(Self {
                scale: discrete::Scale::new(sigma),
            }),
            Err(error) => Err(error),
        }
    }

    /// The parameter sigma, in integer units.
    #[must_use]
    pub const fn sigma(&self) -> u64 {
        self.scale.sigma()
    }

    /// Overwrites `out` with independent draws, like [`FlooredGaussian::fill`].
    pub fn fill<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [i64]) {
        out.fill(0);
        self.add_noise(rng, out);
    }

    /// Adds an independent draw to each of `sums`, modulo 2^64, like
    /// [`FlooredGaussian::add_noise`].
    pub fn add_noise<R: Rng + ?Sized>(&self, rng: &mut R, sums: &mut [i64]) {
        let mut words = Words::new(rng, sums.len().saturating_mul(3));
        for y in sums {
            #[cfg(privacy_mutants)]
            if dp_core::mutants::active("discrete-floored") {
                *y = y.wrapping_add(floored::draw(self.sigma(), &mut words));
                continue;
            }
            *y = y.wrapping_add(self.scale.draw(&mut words));
        }
    }
}
