//! The inversion for a few runs of sampled Gaussian mechanisms, whose loss is nearly discrete.
//!
//! With u = ln dN(s, σ²)/dN(0, σ²) at the output, κ = s/σ and y = u/κ + κ/2, the loss with the unit is L = ln M(u),
//! M(u) = 1 - q + q e^u, and its characteristic function under the tilt e^{cL} is
//!
//! ```text
//! ψ(t) = e^-K(c) ∫ M(u)^(c + 1 + it) e^(-y²/2) / (κ √(2π)) du
//! ```
//!
//! **Nodes.** The integrand is analytic where M has no zero, so the line may be raised to Im u = β,
//! where 0 < arg M < β and |M^it| = e^(-t arg M) decreases with t. In the strip from 0 to 2β < π
//! its modulus is at most e^(2β²/κ²) times its value on the real line, for every t >= 0, so the
//! error of the trapezoidal rule on the raised line is at most
//!
//! ```text
//! 2 e^(2β²/κ²) / (e^(2πβ/h) - 1)
//! ```
//!
//! for all t at once (Trefethen, Weideman, The exponentially convergent trapezoidal rule, 2014, Theorem 5.1).
//! Without the unit, P = N and L = -ln M: the line is lowered instead, |M|^-c adds the factor cos(β)^-c. Under replacement L = ln M(u) - ln M(-u - κ²), where both
//! arguments of M turn the same way, and the same factor is added.
//!
//! **What cannot reach ε.** Most of a loss at a small rate lies close to ln(1 - q), like an atom,
//! and its characteristic function does not decrease. A weight w that increases from 0 to 1 around
//! some u₀ splits the tilted loss into A = (1 - w) μ and B = w μ. The sum over all runs within A
//! stays below ε except for a bounded part, so the transform of the rest,
//!
//! ```text
//! D(t) = Π ψ_i^(n_i) - Π α_i^(n_i),        |D| <= Σ_i n_i |B_i|,
//! ```
//!
//! gives I(ε) up to that bound, and decreases as fast as that of B, which has no atom. It is the
//! transform of a measure that is nowhere negative and at most the whole, so the bounds on the
//! aliases hold for it too.
//!
//! With a cap ℓ on the loss of every run and u₁ the point where it is reached, A beyond u₁ is at
//! most ρ = 1 - w(u₁) of μ, hence all of it at most `Σ n_i ρ_i` of I(ε). Up to u₁, e^(sL) - 1 <= R
//! (e^L - 1) for L > 0 and s >= 1 with R = (e^(sℓ) - 1) / (e^ℓ - 1), so
//!
//! ```text
//! E[e^(sL); u <= u₁] <= 1 + R E[(e^L - 1)+; u <= u₁]
//! ```
//!
//! whose right side has a closed form, to which Chernoff's bound is applied. If ε is above the sum
//! of all caps, nothing is left.

use num_complex::Complex64;

use super::contour::{Losses, TiltedComposition};
use super::nodes::{Demand, range};
use super::tilted::{Cumulants, ln_1p};
use crate::engines::loss::{Loss, MixtureLoss, Side};
use crate::engines::quadrature::whole;
use crate::engines::rounding::CompensatedSum;

/// Exponents of the allowed errors.
pub(super) struct Effort {
    /// Error of quadratures, relative to D at t = 0.
    quadrature: f64,
    /// D beyond the last t.
    tail: f64,
    /// Aliases, relative to δ.
    pub(super) safety: f64,
    /// Size of the integrand at t = 0, times the number of runs, relative to δ: rounding errors are
    /// relative to that.
    pub(super) excess: f64,
    /// The part that D omits, relative to δ.
    rest: f64,
    /// The share of the transform that may be omitted per node.
    nothing: f64,
}

impl Effort {
    pub(super) const FULL: Self = Self {
        quadrature: 33.0,
        tail: 21.0,
        safety: 27.0,
        excess: 14.6,
        rest: 24.0,
        nothing: 1e-18,
    };

    /// Used if nothing is omitted, or if higher accuracy costs little.
    pub(super) const CLOSE: Self = Self {
        quadrature: 38.0,
        tail: 36.0,
        safety: 36.0,
        excess: 6.0,
        rest: 36.0,
        nothing: 1e-19,
    };

    /// For an estimate.
    pub(super) const ROUGH: Self = Self {
        quadrature: 18.0,
        tail: 12.0,
        safety: 16.0,
        excess: 20.0,
        rest: 14.0,
        nothing: 1e-11,
    };
}

/// The weight is the regularised incomplete beta function of order [`ORDER`], applied to a logistic
/// curve.
const ORDER: u32 = 8;

/// The upper half of the binomial coefficients of 2 ORDER - 1.
const BINOMIALS: [f64; ORDER as usize] = [6435.0, 5005.0, 3003.0, 1365.0, 455.0, 105.0, 15.0, 1.0];

/// Width of the strip in units of the weight's scale.
const STRIP: f64 = 0.8;

/// Below this many runs, or below [`MAX_RUNS`] runs with fewer than [`FEW_TAKEN`] expected runs
/// that sample the unit, the characteristic function of all losses decreases too slowly.
const FEW_RUNS: f64 = 40.0;
const FEW_TAKEN: f64 = 8.0;
const MAX_RUNS: f64 = 2_000.0;

/// The largest height of the line, and where the loss is split: a lower one needs more nodes, and
/// the weight increases more steeply.
const LINE: f64 = 0.5;
const CUT_LINE: f64 = 0.2;

/// Maximum number of nodes times steps, and an additional amount per loss.
const MAX_WORK: (f64, f64) = (2e8, 4e6);

/// Maximum number of steps.
const MAX_STEPS: f64 = 40_000.0;

/// Steps of a rotation before its start is recomputed, and steps of those before it is computed
/// directly. The error of the angles is no larger than that of t times the loss.
const RESTART: usize = 16;

/// The transform D at t = 0, h, 2h, ..., ready to be inverted.
pub(super) struct Transform {
    h: f64,
    /// h/π D(t) / (z (z + 1)), half of that at t = 0.
    terms: Vec<Complex64>,
    /// Sums of h/π / |z (z + 1)| and of t times that.
    sizes: (f64, f64),
    /// A bound on the sum of h |D(t)| / t² beyond the last t.
    tail: f64,
    /// Bound on the error of D by quadrature.
    quadrature: f64,
    /// Coefficients of the rounding error of D in units of rounding: constant and per t.
    rounding: (f64, f64),
    rest: Rest,
}

/// Bound on the part that D omits.
#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    /// Fraction of I(ε).
    share: f64,
    /// Sum of all caps.
    caps: f64,
    /// s and Σ n ln E[e^(sL)] of Chernoff's bound.
    chernoff: Option<(f64, f64)>,
}

impl Rest {
    /// An upper bound on I(epsilon), given an upper bound on the part covered by D.
    fn added(&self, below: f64, epsilon: f64) -> f64 {
        let reached = match self.chernoff {
            _ if self.caps <= epsilon => 0.0,
            Some((s, log_mgf)) => libm::exp(log_mgf - s * epsilon + log_peak(s) + 1e-9),
            None => 1.0,
        };
        (below + reached) / (1.0 - self.share)
    }
}

/// ln of the largest (1 - e^-y) e^(-s y).
fn log_peak(s: f64) -> f64 {
    -libm::log1p(s) - s * libm::log1p(1.0 / s)
}

/// One mechanism on a sample.
#[derive(Clone, Copy)]
struct Sampled<'a> {
    mixture: &'a MixtureLoss,
    count: f64,
    mean: f64,
    log_mgf: f64,
    q: f64,
    kappa: f64,
}

impl<'a> Sampled<'a> {
    fn of(loss: &'a Loss, count: u64, cumulants: Cumulants) -> Option<Self> {
        let Loss::Mixture(mixture) = loss else {
            return None;
        };
        let ([zero, shift], &[_, q]) = (&mixture.shifts[..], &mixture.weights[..]) else {
            return None;
        };
        (*zero == 0.0 && q <= MOST_RATE).then_some(Self {
            mixture,
            count: count as f64,
            mean: cumulants.mean,
            log_mgf: cumulants.log_mgf,
            q,
            kappa: shift / mixture.sigma,
        })
    }

    /// Whether the atom-like part lies below everything else, so that it may stay below ε.
    const fn is_cut(&self) -> bool {
        matches!(self.mixture.side, Side::Remove)
    }

    /// u at which ln M(u) is `loss`.
    fn place(&self, loss: f64) -> f64 {
        libm::log1p(libm::expm1(loss) / self.q)
    }

    /// An upper bound on E[(e^L - 1)+; u <= `to`] with the unit: `E_N`[r^k; u <= to] is
    /// e^(k (k - 1) κ²/2) times the probability of y - kκ.
    fn excess_up_to(&self, to: f64) -> f64 {
        let y = to / self.kappa + 0.5 * self.kappa;
        let moment = |k: f64| {
            let below = 0.5 * libm::erfc((k * self.kappa - y) * std::f64::consts::FRAC_1_SQRT_2);
            libm::exp(0.5 * k * (k - 1.0) * self.kappa * self.kappa) * below
        };
        self.q * ((1.0 - self.q) * moment(1.0) + self.q * moment(2.0)) * (1.0 + 1e-9)
    }
}

/// Where the weight increases.
#[derive(Clone, Copy)]
struct Cut {
    middle: f64,
    scale: f64,
}

/// w and 1 - w at z = e^(-(u - u₀)/S). The smaller one is summed and the other one is computed as 1
/// minus it, so that their errors cancel in the sum.
fn weights(z: Complex64) -> (Complex64, Complex64) {
    let below = z.norm_sqr() <= 1.0;
    let z = if below { z } else { z.inv() };
    let upper = BINOMIALS.iter().rev();
    let sum = upper.fold(Complex64::ZERO, |sum, c| sum * z + c);
    let far = z.powu(ORDER) * sum * (z + 1.0).powu(2 * ORDER - 1).inv();
    let near = Complex64::ONE - far;
    if below { (near, far) } else { (far, near) }
}

/// Error of either of [`weights`] in units of rounding, at z of modulus e^`away` and an angle of at
/// most [`STRIP`]; `smaller` is the modulus of the smaller one.
///
/// Relative to that modulus: 16 for z^8, 7 for the sum, 46 for the power of 1 + z, 9 for its
/// inverse and the products, and 8 times the error of z, which is 10 plus twice `away`.
fn weights_doubt(smaller: f64, away: f64) -> f64 {
    2.0 + smaller * (160.0 + 24.0 * away.abs())
}

/// Nodes of one part of a loss: weights and centred losses.
#[derive(Default)]
struct Part {
    weight: Vec<Complex64>,
    loss: Vec<Complex64>,
}

impl Part {
    fn push(&mut self, weight: Complex64, loss: Complex64) {
        self.weight.push(weight);
        self.loss.push(loss);
    }

    /// A bound on the modulus of the transform at every t from here on, except for the error of the
    /// rule.
    fn envelope(&self, t: f64) -> f64 {
        let terms = self.weight.iter().zip(&self.loss);
        terms.map(|(w, l)| size(*w) * libm::exp(-t * l.im)).sum()
    }

    /// Adds the transform at 0, h, 2h, ...
    fn add(&self, (h, nothing): (f64, f64), out: &mut [Complex64]) {
        let last = h * out.len() as f64;
        let first = self.loss.first().copied().unwrap_or_default();
        let is_near = |loss: Complex64| size(loss - first) * last <= CLOSE;
        let near = self.loss.iter().take_while(|loss| is_near(**loss)).count();
        let near = if near > FEW_NODES { near } else { 0 };
        let (weights, rest) = self.weight.split_at(near);
        let (losses, others) = self.loss.split_at(near);
        for (weights, losses) in rest.chunks(LANES).zip(others.chunks(LANES)) {
            add_lanes((weights, losses), (h, nothing), out);
        }
        if near > 0 {
            add_close(weights, losses, h, out);
        }
    }
}

/// Nodes within a distance of this divided by the last t are summed by the powers of their
/// distances.
const CLOSE: f64 = 1.5;

/// Up to this many nodes, that is not worthwhile.
const FEW_NODES: usize = 64;

/// Number of powers that are summed: the rest is below 1.5^24 / 24! = 3e-20.
const N_POWERS: usize = 24;

/// Adds `Σ w e^(itl) = e^(it l₀) Σ_k (it)^k m_k` for nodes close to the first one, l₀, with `m_k =
/// Σ w (l - l₀)^k / k!`.
fn add_close(weights: &[Complex64], losses: &[Complex64], h: f64, out: &mut [Complex64]) {
    let first = losses[0];
    let mut moments = [Sum::default(); N_POWERS];
    for (w, l) in weights.iter().zip(losses) {
        let mut term = *w;
        for (k, moment) in moments.iter_mut().enumerate() {
            moment.add(term);
            term *= (l - first) / (k + 1) as f64;
        }
    }
    let moments = moments.map(Sum::total);
    for (k, place) in out.iter_mut().enumerate() {
        let it = Complex64::new(0.0, h * k as f64);
        let start = Complex64::ZERO;
        let sum = moments.iter().rev().fold(start, |sum, m| sum * it + m);
        *place += sum * exp(it * first);
    }
}

/// Compensated sums of real and imaginary parts.
#[derive(Clone, Copy, Default)]
struct Sum {
    re: CompensatedSum,
    im: CompensatedSum,
}

impl Sum {
    fn add(&mut self, term: Complex64) {
        self.re.add(term.re);
        self.im.add(term.im);
    }

    fn total(self) -> Complex64 {
        Complex64::new(self.re.total(), self.im.total())
    }
}

/// Number of nodes advanced in parallel.
const LANES: usize = 8;

/// e^(i t l) of several nodes, advanced by a fixed time.
struct Turning {
    re: [f64; LANES],
    im: [f64; LANES],
}

impl Turning {
    fn new(t: f64, losses: &[Complex64]) -> Self {
        let (mut re, mut im) = ([0.0; LANES], [0.0; LANES]);
        for (i, l) in losses.iter().enumerate() {
            let turned = exp(Complex64::new(-t * l.im, t * l.re));
            (re[i], im[i]) = (turned.re, turned.im);
        }
        Self { re, im }
    }

    fn times(&mut self, other: &Self) {
        for i in 0..LANES {
            let re = self.re[i] * other.re[i] - self.im[i] * other.im[i];
            self.im[i] = self.re[i] * other.im[i] + self.im[i] * other.re[i];
            self.re[i] = re;
        }
    }

    fn sum(&self) -> Complex64 {
        let sum =
            |x: &[f64; LANES]| ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        Complex64::new(sum(&self.re), sum(&self.im))
    }

    fn is_below(&self, nothing: f64) -> bool {
        let sizes = self
            .re
            .iter()
            .zip(&self.im)
            .map(|(re, im)| re * re + im * im);
        sizes.fold(0.0, f64::max) < nothing * nothing
    }
}

fn add_lanes(
    (weights, losses): (&[Complex64], &[Complex64]),
    (h, nothing): (f64, f64),
    out: &mut [Complex64],
) {
    let mut start = Turning::new(0.0, &[]);
    for (i, w) in weights.iter().enumerate() {
        (start.re[i], start.im[i]) = (w.re, w.im);
    }
    let step = Turning::new(h, losses);
    let stride = Turning::new(h * RESTART as f64, losses);
    for (k, blocks) in out.chunks_mut(RESTART * RESTART).enumerate() {
        let mut first = Turning::new(h * (k * RESTART * RESTART) as f64, losses);
        first.times(&start);
        for places in blocks.chunks_mut(RESTART) {
            if first.is_below(nothing) {
                return; // and smaller from then on
            }
            let mut now = Turning {
                re: first.re,
                im: first.im,
            };
            for place in places {
                *place += now.sum();
                now.times(&step);
            }
            first.times(&stride);
        }
    }
}

/// How far K(c) on the raised line may differ from that on the real line; the difference is added
/// to the error.
const SAME: f64 = 1e-6;

/// Error of a sum over nodes in units of rounding, excluding its additions, relative to the sum of
/// moduli.
///
/// In lanes: 33 products at 2.3; steps and strides, which have an error of 5 and are used 16 times
/// each; the start; 3 additions in a group. By powers: (9 k + 2) 1.5^k / k! for the k-th, 70 in
/// total, and 22 for the rotation. In both cases 12 for the division by the total weight and the
/// share that is cut off.
const SUMMED: f64 = 280.0;

/// One loss, prepared for the transform.
struct Nodes {
    count: f64,
    below: Part,
    above: Part,
    rounding: (f64, f64),
    /// Number of nodes examined, for both parts.
    candidates: usize,
}

/// M(u) - 1.
fn mixed(q: f64, u: f64, beta: f64) -> Complex64 {
    let (sin, cos) = libm::sincos(beta);
    let half = libm::sin(0.5 * beta);
    Complex64::new(
        q * (libm::expm1(u) * cos - 2.0 * half * half),
        q * libm::exp(u) * sin,
    )
}

/// Largest sampling probability. Above it, the allowance for the rounding of ln M, which is `q /
/// (1 - q)` far below 0, is no longer small compared with it.
const MOST_RATE: f64 = 0.5;

/// Error of ln(1 + m) in units of rounding: m has a relative error of 11, and [`ln_1p`] adds 8 |m|
/// / |1 + m| and 6 relative to its value.
fn ratio_doubt(m: Complex64, ratio: Complex64) -> f64 {
    20.0 * size(m) / size(m + 1.0) + 6.0 * size(ratio)
}

impl Nodes {
    /// The nodes of one loss tilted by e^{cL} on the line at `beta`.
    fn new(
        one: &Sampled<'_>,
        c: f64,
        (beta, cut): (f64, Option<Cut>),
        effort: &Effort,
    ) -> Option<Self> {
        let &Sampled {
            mixture, q, kappa, ..
        } = one;
        let side = mixture.side;
        let mut growth = 2.0 * beta * beta / (kappa * kappa) + libm::log(2.0);
        if cut.is_some() {
            growth -= f64::from(2 * ORDER - 1) * libm::log(libm::cos(STRIP));
        }
        if !matches!(side, Side::Remove) {
            growth -= c * libm::log(libm::cos(beta));
        }
        let exponent = effort.quadrature + libm::log(one.count) + growth;
        let step = 2.0 * std::f64::consts::PI * beta / (exponent + 0.01);
        let demand = Demand {
            c,
            t: 0.0,
            exponent: exponent + 1.0,
        };
        let (low, high) = range(mixture, demand);
        let place = |x: f64| kappa * (x / mixture.sigma - 0.5 * kappa);
        let (first, last) = ((place(low) / step).floor(), (place(high) / step).ceil());
        if !(last - first < 20_000.0 && place(high) < 300.0 && place(low) > -300.0) {
            return None;
        }
        let mut nodes = Vec::with_capacity(whole(last - first));
        let mut k = first;
        while k <= last {
            let u = k * step;
            let y = u / kappa + 0.5 * kappa;
            let m = mixed(q, u, beta);
            let ratio = ln_1p(m);
            let noise = Complex64::new(
                0.5 * (beta / kappa) * (beta / kappa) - 0.5 * y * y,
                -y * beta / kappa,
            );
            let mut doubt = ratio_doubt(m, ratio);
            // how much of a relative error of e^u affects a loss
            let mut slope = q * libm::exp(u) / size(m + 1.0);
            let (loss, log_weight) = match side {
                Side::Remove => (ratio, noise + ratio * (c + 1.0)),
                Side::Add => {
                    let loss = -ratio.conj();
                    (loss, noise.conj() + loss * c)
                }
                Side::Replace => {
                    let mirrored = mixed(q, -u - kappa * kappa, -beta);
                    slope += q * libm::exp(-u - kappa * kappa) / size(mirrored + 1.0);
                    let mirrored_ratio = ln_1p(mirrored);
                    doubt += ratio_doubt(mirrored, mirrored_ratio);
                    let loss = ratio - mirrored_ratio;
                    (loss, noise + ratio + loss * c)
                }
            };
            // u has a relative error of one unit, and so have κ and the argument of the mirror
            // image
            doubt += size(loss) + 3.0 * (u.abs() + kappa * kappa) * slope;
            let (height, distance) = (beta / kappa, y.abs());
            // relative error of a weight: its exponent, which is summed from noise and losses, and
            // exp
            let exponents =
                size(noise) + (c + 1.0) * (doubt + 4.0 * size(ratio) + 4.0 * size(loss));
            let weight_doubt = 16.0
                + 6.0 * y * y
                + kappa * distance
                + height * (3.0 * height + 7.0 * distance + 2.0 * kappa)
                + 2.0 * size(log_weight)
                + exponents;
            nodes.push((u, loss, log_weight, doubt, weight_doubt));
            k += 1.0;
        }
        let top = nodes
            .iter()
            .fold(f64::NEG_INFINITY, |top, n| top.max(n.2.re));
        let weigh = |log: Complex64| exp(Complex64::new(log.re - top, log.im));
        let mut total = Sum::default();
        nodes.iter().for_each(|n| total.add(weigh(n.2)));
        let total = total.total();
        // the same integral on the real line; if c is so large that one of the two omits a far
        // outcome, neither can be trusted
        let scale = libm::log(step / (kappa * (2.0 * std::f64::consts::PI).sqrt()));
        let log_mgf = top + libm::log(size(total)) + scale;
        let difference = (log_mgf - one.log_mgf).abs();
        if difference > SAME {
            return None;
        }
        let (mut below, mut above) = (Part::default(), Part::default());
        let (mut total_size, mut doubts, mut moment) = (0.0, 0.0, 0.0);
        for &(u, loss, log_weight, doubt, weight_doubt) in &nodes {
            let (weight, loss) = (weigh(log_weight) / total, loss - one.mean);
            let (w, rest, cut_doubt) = match cut {
                Some(cut) => {
                    let away = ((cut.middle - u) / cut.scale).clamp(-600.0, 600.0);
                    let (w, rest) = weights(exp(Complex64::new(away, -beta / cut.scale)));
                    (w, rest, weights_doubt(size(w).min(size(rest)), away))
                }
                None => (Complex64::ONE, Complex64::ZERO, 0.0),
            };
            for (part, share) in [(&mut above, w), (&mut below, rest)] {
                let weight = weight * share;
                if size(weight) > effort.nothing {
                    part.push(weight, loss);
                }
            }
            let norm = size(weight) * (size(w) + size(rest));
            total_size += norm;
            // the divisor of the weights has the same error on average
            doubts += 2.0 * norm * (weight_doubt + top.abs()) + size(weight) * cut_doubt;
            moment += norm * (doubt + 4.0 * size(loss));
        }
        let n_nodes = (below.loss.len() + above.loss.len()) as f64;
        let constant = total_size * (SUMMED + n_nodes / LANES as f64)
            + doubts
            + 4.0 * difference / f64::EPSILON;
        Some(Self {
            count: one.count,
            below,
            above,
            candidates: 2 * nodes.len(),
            rounding: (
                2.0 * one.count * constant,
                2.0 * one.count * (moment + 3.0 * one.mean.abs() * total_size),
            ),
        })
    }

    /// A bound on |ψ| and |α| from t on, and one on |B|.
    fn envelope(&self, t: f64) -> (f64, f64) {
        let above = self.above.envelope(t);
        ((self.below.envelope(t) + above).min(1.0), above)
    }

    fn len(&self) -> usize {
        self.below.loss.len() + self.above.loss.len()
    }
}

/// A bound on |D| from t on.
fn bound(all: &[Nodes], t: f64) -> f64 {
    let (mut log, mut sum) = (0.0, 0.0);
    for one in all {
        let (whole, above) = one.envelope(t);
        log += one.count * libm::log(whole.max(1e-300));
        sum += one.count * above / whole.max(1e-300);
    }
    sum * libm::exp(log)
}

/// The cap on losses for which the omitted part stays negligible compared with e^`log_delta`, with
/// the bound; the largest one found.
fn cap(
    all: &[Sampled<'_>],
    (epsilon, log_delta): (f64, f64),
    effort: &Effort,
) -> Option<(f64, Rest)> {
    if !all.iter().all(Sampled::is_cut) {
        return None;
    }
    let runs: f64 = all.iter().map(|one| one.count).sum();
    let mut cap = 0.95 * epsilon;
    for _ in 0..60 {
        let caps = cap * runs * (1.0 + 1e-12);
        let mut rest = Rest {
            share: 0.0,
            caps,
            chernoff: None,
        };
        if caps <= 0.95 * epsilon {
            return Some((cap, rest));
        }
        let scale = libm::expm1(cap);
        let excess = |one: &Sampled<'_>| one.excess_up_to(one.place(cap)) / scale;
        let rates: Vec<(f64, f64)> = all.iter().map(|one| (one.count, excess(one))).collect();
        let rate: f64 = rates.iter().map(|(n, rate)| n * rate).sum();
        let s = (libm::log(epsilon / (rate * cap)) / cap).max(1.0);
        let grown = libm::expm1(s * cap);
        let log_mgf: f64 = rates
            .iter()
            .map(|(n, rate)| n * libm::log1p(grown * rate))
            .sum();
        if log_mgf - 0.98 * s * epsilon + log_peak(s) < log_delta - effort.rest {
            rest.chernoff = Some((s, log_mgf));
            return Some((cap, rest));
        }
        cap *= 0.9;
    }
    None
}

/// The two parts of every loss, and what their product omits.
fn parts(
    all: &[Sampled<'_>],
    c: f64,
    aim: (f64, f64),
    effort: &Effort,
) -> Option<(Vec<Nodes>, Rest)> {
    let found = cap(all, aim, effort);
    let mut rest = found.map_or_else(Rest::default, |(_, rest)| rest);
    let mut nodes = Vec::with_capacity(all.len());
    for one in all {
        let highest = if found.is_some() { CUT_LINE } else { LINE };
        let beta = (1.5 * one.kappa).min(highest);
        let cut = found.map(|(cap, _)| {
            let scale = beta / STRIP;
            let share = one.count * all.len() as f64 * BINOMIALS[0];
            let places = (effort.rest + libm::log(share)) / f64::from(ORDER);
            let z = Complex64::new(libm::exp(-places), 0.0);
            rest.share += one.count * weights(z).1.re * (1.0 + 1e-9);
            Cut {
                middle: one.place(cap) - places * scale,
                scale,
            }
        });
        nodes.push(Nodes::new(one, c, (beta, cut), effort)?);
    }
    Some((nodes, rest))
}

/// Steps of h after which |D| stays below `small`.
fn n_steps(nodes: &[Nodes], h: f64, small: f64) -> Option<f64> {
    let n_nodes: usize = nodes.iter().map(Nodes::len).sum();
    let most = MAX_STEPS.min((MAX_WORK.0 + MAX_WORK.1 * nodes.len() as f64) / n_nodes as f64);
    let is_end = |steps: f64| bound(nodes, steps * h) <= small;
    let (mut low, mut high) = (8.0, 16.0);
    while !is_end(high) {
        if high > most {
            return None;
        }
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 0.05 * high {
        let middle = 0.5 * (low + high);
        if is_end(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high.ceil()).filter(|steps| *steps <= most)
}

/// D at 0, h, 2h, ..., with the share of a node that may be omitted.
fn transform(nodes: &[Nodes], step: (f64, f64), len: usize) -> Vec<Complex64> {
    let mut logs = vec![(Complex64::ZERO, Complex64::ZERO); len];
    for one in nodes {
        let (mut below, mut above) = (vec![Complex64::ZERO; len], vec![Complex64::ZERO; len]);
        one.below.add(step, &mut below);
        one.above.add(step, &mut above);
        for ((logs, below), above) in logs.iter_mut().zip(below).zip(above) {
            logs.0 += ln(above + below) * one.count;
            logs.1 += ln(below) * one.count;
        }
    }
    let whole = |(all, below): (Complex64, Complex64)| exp(all) - exp(below);
    logs.into_iter().map(whole).collect()
}

impl Transform {
    /// Whether all losses are those of mechanisms on a sample, and not so many that the
    /// characteristic function decreases without this method.
    pub(super) fn suits(losses: &Losses<'_>) -> bool {
        let (mut runs, mut taken) = (0.0, 0.0);
        for (loss, count) in losses.all() {
            let Some(one) = Sampled::of(loss, *count, Cumulants::default()) else {
                return false;
            };
            runs += one.count;
            taken += one.count * one.q;
        }
        runs < FEW_RUNS || taken < FEW_TAKEN && runs < MAX_RUNS
    }

    /// The effort for a certified answer.
    pub(super) fn effort(losses: &Losses<'_>) -> &'static Effort {
        let sampled = |(loss, count): &(Loss, u64)| {
            Sampled::of(loss, *count, Cumulants::default()).is_some_and(|one| one.is_cut())
        };
        if losses.all().iter().all(sampled) {
            &Effort::FULL
        } else {
            &Effort::CLOSE
        }
    }

    /// The largest loss of all runs together.
    pub(super) fn largest(losses: &Losses<'_>) -> f64 {
        let one = |(loss, count): &(Loss, u64)| match loss {
            Loss::Mixture(MixtureLoss {
                side: Side::Add,
                weights,
                ..
            }) => {
                // not the logarithm of 1 - q, which is rounded
                let sampled: f64 = weights[1..].iter().sum();
                -(*count as f64) * libm::log1p(-sampled)
            }
            _ => f64::INFINITY,
        };
        losses.all().iter().map(one).sum()
    }

    /// The transform for epsilons near that of `aim`, whose other component is ln δ there; `None`
    /// if this method is not worthwhile.
    pub(super) fn new(
        at: &TiltedComposition,
        h: f64,
        aim: (f64, f64),
        effort: &Effort,
    ) -> Option<Self> {
        let all: Option<Vec<Sampled<'_>>> = (at.losses.iter())
            .map(|(loss, count, tilted)| Sampled::of(loss, *count, tilted.cumulants))
            .collect();
        let (nodes, rest) = parts(&all?, at.c, aim, effort)?;
        let small = libm::exp(-effort.tail);
        let steps = n_steps(&nodes, h, small)?;
        // the rule, the ends of its range and their norm, for ψ and for α; then omitted nodes
        let few = 8.0 * libm::exp(-effort.quadrature) * nodes.len() as f64;
        let left_out = |one: &Nodes| 4.0 * effort.nothing * one.count * one.candidates as f64;
        let quadrature = few + nodes.iter().map(left_out).sum::<f64>();
        let last = h * steps;
        let transform = transform(&nodes, (h, effort.nothing), whole(steps) + 1);
        let (mut terms, mut sizes) = (Vec::with_capacity(transform.len()), (0.0, 0.0));
        for (k, d) in transform.into_iter().enumerate() {
            let t = h * k as f64;
            let z = Complex64::new(at.c, t);
            let scale = if k == 0 { 0.5 } else { 1.0 } * h / std::f64::consts::PI;
            let kernel = (z * (z + 1.0)).inv() * scale;
            terms.push(d * kernel);
            sizes.0 += size(kernel);
            sizes.1 += t * size(kernel);
        }
        let sum = |f: &dyn Fn(&Nodes) -> f64| nodes.iter().map(f).sum::<f64>();
        // ln of every transform, times its count, and their sum over the losses
        let logarithms = 24.0 + 8.0 * nodes.len() as f64;
        Some(Self {
            h,
            terms,
            sizes,
            tail: (small + quadrature) * (1.0 / last + h / (last * last)) * (1.0 + 1e-9),
            quadrature,
            rounding: (
                sum(&|one| one.rounding.0 + logarithms * one.count),
                sum(&|one| one.rounding.1),
            ),
            rest,
        })
    }

    /// Σ Re[terms e^(i t x)].
    pub(super) fn at(&self, x: f64) -> f64 {
        let turn = exp(Complex64::new(0.0, self.h * x));
        let mut sum = 0.0;
        for (block, terms) in self.terms.chunks(RESTART).enumerate() {
            let mut now = exp(Complex64::new(0.0, self.h * (block * RESTART) as f64 * x));
            let mut of_block = 0.0;
            for term in terms {
                of_block += term.re * now.re - term.im * now.im;
                now *= turn;
            }
            sum += of_block;
        }
        sum
    }

    /// Bound on the error of [`at`](Self::at), if every term has an additional error of `constant`
    /// units of rounding.
    pub(super) fn error(&self, constant: f64, epsilon: f64) -> f64 {
        let unit = 0.5 * f64::EPSILON;
        // 16 turns at 4, sums of 16, kernels and D itself; then the sum over blocks
        let turns = 120.0 + (self.terms.len() / RESTART) as f64;
        let constant = (constant + self.rounding.0 + turns) * unit + self.quadrature;
        constant * self.sizes.0 + (self.rounding.1 + 4.0 * epsilon.abs()) * unit * self.sizes.1
    }

    pub(super) const fn tail(&self) -> f64 {
        self.tail
    }

    /// An upper bound on I(epsilon), given an upper bound on the part covered by D.
    pub(super) fn with_rest(&self, below: f64, epsilon: f64) -> f64 {
        self.rest.added(below, epsilon)
    }
}

/// |z| for values far from the limits of f64.
fn size(z: Complex64) -> f64 {
    z.norm_sqr().sqrt()
}

fn exp(z: Complex64) -> Complex64 {
    let (sin, cos) = libm::sincos(z.im);
    Complex64::new(cos, sin) * libm::exp(z.re)
}

/// ln z for values below 1 or around it.
fn ln(z: Complex64) -> Complex64 {
    Complex64::new(0.5 * libm::log(z.norm_sqr()), libm::atan2(z.im, z.re))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums that begin with 1 and continue with terms below half of its last digit: adding them one
    /// at a time loses all of them.
    #[test]
    fn sums_over_nodes_are_off_by_no_more_than_is_charged() {
        const N: usize = 4_000;
        let unit = 0.5 * f64::EPSILON;
        let tiny = 0.98 * unit;
        let nodes = |spread: f64| {
            let mut part = Part::default();
            part.push(Complex64::ONE, Complex64::ZERO);
            for i in 1..N {
                let loss = spread * i as f64 / N as f64;
                part.push(Complex64::new(tiny, 0.0), Complex64::new(loss, 0.0));
            }
            part
        };
        // by powers of their distances, and in lanes
        for (spread, charged) in [(1e-3, SUMMED), (1e3, SUMMED + (N / LANES) as f64)] {
            let mut out = vec![Complex64::ZERO; 8];
            nodes(spread).add((0.01, 0.0), &mut out);
            let lost = 1.0 - out[0].re + (N - 1) as f64 * tiny;
            assert!(lost.abs() <= charged * unit, "{spread}: {}", lost / unit);
        }
    }

    /// w + (1 - w) = 1, also if one of them is tiny, and each agrees with a 50-digit value.
    #[test]
    fn weights_are_off_by_no_more_than_is_charged() {
        // x, and w at e^(-x - 0.8 i) from the sum of the eight other terms, computed with mpmath
        let table = [
            (-4.0, 6.781_009_335_821_025e-11, -4.584_113_600_023_673e-12),
            (
                -1.5,
                -0.001_071_712_496_391_718_1,
                -0.004_296_239_856_516_794,
            ),
            (-0.25, -0.120_981_743_064_008_43, 0.781_467_945_790_942),
            (0.0, 0.5, 1.052_262_813_366_043),
            (0.4, 1.281_220_435_397_662_6, 0.482_960_475_557_267_1),
            (2.0, 0.999_919_202_131_868_5, -0.000_172_145_125_722_236_9),
        ];
        for (x, re, im) in table {
            let (w, rest) = weights(exp(Complex64::new(-x, -STRIP)));
            let charged = weights_doubt(size(w).min(size(rest)), x) * 0.5 * f64::EPSILON;
            assert!(size(w - Complex64::new(re, im)) <= charged, "{x}");
            assert!(size(w + rest - 1.0) <= 2.0 * f64::EPSILON, "{x}");
        }
    }
}
